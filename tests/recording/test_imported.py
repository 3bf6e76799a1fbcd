import json
import math
from pathlib import Path
from typing import Any

import pytest

import prequential
from prequential.errors import ConfigError, CorpusError
from prequential.evaluation.runs import Run

OPTIONS = {"tokens": "num_input_tokens_seen", "loss": "loss", "bytes_per_token": 4.0}
LINES = [
    {"step": 10, "loss": 6.0, "num_input_tokens_seen": 1000},
    {"step": 10, "eval_loss": 5.9},
    {"step": 20, "loss": 3.0, "num_input_tokens_seen": 3000},
]


def imported(folder: Path, text: str, **options: Any) -> Run:
    (folder / "log.csv").write_text(text)
    return prequential.import_log(folder / "log.csv", folder / "runs", **(OPTIONS | options))


def nats(run: Run) -> float:
    return float(run.record["code_bits"]) * math.log(2.0)


@pytest.mark.parametrize("form", ["state", "lines", "table"])
def test_every_form_of_a_log_becomes_the_same_run(tmp_path: Path, form: str) -> None:
    text = {
        "state": json.dumps({"log_history": LINES, "global_step": 20}, indent=1),
        "lines": "\n".join(map(json.dumps, LINES)) + '\n{"loss": 2.0, "num_inp',  # a crash cut it off
        "table": "\ufeffstep,loss,num_input_tokens_seen\n10,6.0,1000\n15,,\n20,3.0,3000\n",
    }[form]
    run = prequential.read_run(imported(tmp_path, text).path)
    record, curve = run.record, run.curves["model"]
    assert record["n_tokens"] == 3000 and nats(run) == pytest.approx(1000 * 6.0 + 2000 * 3.0)
    assert record["bits_per_byte"] == pytest.approx(record["code_bits"] / 12_000)
    assert record["coding"] == "imported from a log: order and repeats unknown"
    assert curve.n_bytes.tolist() == [4000, 12_000] and curve.bits[0] == pytest.approx(6000 / math.log(2.0))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("loss,seen\n1.0,10\n", "it has 'loss', 'seen'"),
        ("loss,num_input_tokens_seen\n,10\n", "no line with numbers"),
        ("loss,num_input_tokens_seen\n1,5\n\ninf,10\n", "row 2: 'loss' is inf: no number"),
        ("loss,num_input_tokens_seen\n1,0\n", "no line of the first epoch after its start"),
        ("loss,num_input_tokens_seen\n1,10\n1,10.1\n", "less than a byte apart"),
        ("loss,num_input_tokens_seen\n1,1e40\n", "row 1: 'num_input_tokens_seen' is 1e40"),
        ('{"loss": 1, "num_input_tokens_seen": 5}\n{"loss": NaN, "num_input_tokens_seen": 9}', "row 2: 'loss' is NaN"),
        ("epoch,loss,num_input_tokens_seen\n1.5,1,1000\n1.6,1,1010\n1.7,1,1020", "no line of the first epoch"),
        ("loss,num_input_tokens_seen\n" + "2.5,100\n" * 20, "20 lines, but 1 numbers of tokens, or steps, so far"),
        ("{", "is not a log of a known kind"),
        ("", "is not a log of a known kind"),
    ],
)
def test_a_log_that_cannot_be_used_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(CorpusError, match=message):
        imported(tmp_path, text)
    assert not (tmp_path / "runs").exists()


def test_wrong_options_are_refused(tmp_path: Path) -> None:
    for options, message in (
        ({"bytes_per_token": 0}, "bytes_per_token= is 0"),
        ({"tokens": "Step"}, "counts steps: give tokens_per_step"),
    ):
        with pytest.raises(ConfigError, match=message):
            imported(tmp_path, "Step,loss\n10,8.0\n", **options)


def test_a_run_that_was_resumed_counts_each_token_once(tmp_path: Path) -> None:
    run = imported(tmp_path, "num_input_tokens_seen,loss\n0,9\n1000,8\n2000,6\n3000,5\n2000,6.5\n3000,4\n3000,4\n")
    assert nats(run) == pytest.approx(1000 * (8 + 6.5 + 4))
    assert "3 lines that it made again are not counted" in run.record["notes"][0]


def test_a_log_that_begins_late_begins_with_its_first_line(tmp_path: Path) -> None:
    for start in (0, 1_000_000):
        lines = "".join(f"{start + 1000 * i},{3 - i}\n" for i in range(3))
        run = imported(tmp_path, f"num_input_tokens_seen,loss\n{lines}")
        assert run.record["n_tokens"] == 2000 and nats(run) == pytest.approx(3000)
        assert f"begins at {start:,} tokens: its first line is the start" in run.record["notes"][0]


def test_steps_that_begin_with_0_are_counted_from_0(tmp_path: Path) -> None:
    # as Weights & Biases exports it: the step at which something was logged, and the loss of that step
    text = (
        '"Step","loss","val/loss","_runtime"\n"0","11.0","",""\n"1","10.0","","2"\n"2","9.0","","3"\n"3","","8.5","4"\n'
    )
    run = imported(tmp_path, text, tokens="Step", tokens_per_step=100)
    assert run.record["n_tokens"] == 300 and nats(run) == pytest.approx(100 * (11.0 + 10.0 + 9.0))
    assert run.record["notes"] == ["taken as a table: 'Step' and 'loss'"]


# as transformers 5 writes it, for 1.5 epochs of 4 steps of 100 tokens; a line for each 3 steps; NaN is a word there
HISTORY = """{"epoch": 1.5, "global_step": 6, "logging_steps": 3, "num_input_tokens_seen": 600, "log_history": [
 {"epoch": 0.75, "grad_norm": NaN, "learning_rate": 5e-05, "loss": 6.0, "num_input_tokens_seen": 300, "step": 3},
 {"epoch": 1.0, "eval_loss": 5.0, "eval_runtime": 0.1, "step": 4, "num_input_tokens_seen": 400},
 {"epoch": 1.5, "grad_norm": Infinity, "learning_rate": 2e-05, "loss": 4.0, "num_input_tokens_seen": 600, "step": 6}]}"""


def test_only_the_first_epoch_counts_and_what_is_not_finite_elsewhere_does_not_matter(tmp_path: Path) -> None:
    run = imported(tmp_path, HISTORY)
    assert run.record["n_tokens"] == 400 and nats(run) == pytest.approx(300 * 6.0 + 100 * 4.0)
    assert run.record["notes"][0] == "only the first epoch counts, 400 tokens: later ones read its data again"
    named = HISTORY.replace('"epoch"', '"r - train/epoch"')  # as Weights & Biases does it
    assert imported(tmp_path, named).record["n_tokens"] == 400


@pytest.mark.parametrize("first", [0, 1])
def test_of_epochs_with_numbers_the_first_counts_also_if_steps_begin_again(tmp_path: Path, first: int) -> None:
    lines = [{"epoch": first + e, "iter": i, "loss": 6 - 2 * e - i} for e in range(2) for i in range(2)]
    run = imported(tmp_path, "\n".join(map(json.dumps, lines)), tokens="iter", tokens_per_step=100)
    assert run.record["n_tokens"] == 200 and nats(run) == pytest.approx(100 * (6.0 + 5.0))
    assert "only the first epoch counts, 200 tokens" in run.record["notes"][0]


@pytest.mark.parametrize("steps", [(1, 2, 3, 1, 2, 3), (4, 3, 2, 1)])
def test_steps_that_begin_again_are_refused(tmp_path: Path, steps: tuple[int, ...]) -> None:
    """Without a column of epochs the loss of the last epoch would count as that of new data."""
    lines = "".join(f"{1000 * step},{9 - i}\n" for i, step in enumerate(steps))
    with pytest.raises(CorpusError, match="begin again"):
        imported(tmp_path, f"num_input_tokens_seen,loss\n{lines}")


# ---- logs as programs write them: steps 1, 2, 3 (or 0, 1, 2) with losses 6, 5, 4, and held-out losses in between

STDOUT = {
    "modded-nanogpt": (
        'print(f"step:{step}/{args.n}")\nstep:0/3 val_loss:7.0000 train_time:0ms\nstep:1/3 train_loss:6.0000 train_time:9ms\n'
        "step:2/3 train_loss:5.0000 train_time:18ms\nstep:3/3 train_loss:4.0000 train_time:27ms\nstep:3/3 val_loss:3.9\n"
    ),
    "llm.c": "s:0 tel:7.0\ns:0 trl:6.0 lr:0.000001 norm:15.37\ns:1 trl:5.0 lr:0.000002 norm:9\ns:2 trl:4.0 lr:0\ns:3 tel:3.9\n",
    "nanoGPT": (
        "number of parameters: 10.65M\nstep 0: train loss 7.0, val loss 7.0\niter 0: loss 6.0, time 57ms, mfu -100.00%\n"
        "iter 1: loss 5.0, time 57ms, mfu 1.00%\niter 2: loss 4.0, time 57ms\nstep 3: train loss 3.9, val loss 3.9\n"
    ),
    "nanochat": (
        "Step 00000 | Validation bpb: 2.1\nstep 00000/00003 (0.00%) | loss: 6.000000 | grad norm: 1.0 | lrm: 1.00\n"
        "step 00001/00003 (33.33%) | loss: 5.000000 | grad norm\nstep 00002/00003 (66.67%) | loss: 4.000000 | dt: 1ms\n"
    ),
    "torchtitan": "".join(
        f"[rank0]:[titan] 2025-01-0{i} 12:00:00,000 - root - INFO - \x1b[31mstep:  {i}  \x1b[32mloss: {7 - i}.0000  \x1b[0m\n"
        for i in (1, 2, 3)
    ),
}


@pytest.mark.parametrize("program", STDOUT)
def test_standard_output_of_a_known_program_needs_only_the_size_of_its_steps(tmp_path: Path, program: str) -> None:
    log = tmp_path / "2024-10-10_Muon" / "eb5659d0-fb6a-49e5-a311-f1f89412f726.txt"
    log.parent.mkdir()
    log.write_text(STDOUT[program])
    run = prequential.import_log(log, tmp_path / "runs", bytes_per_token=4.0, tokens_per_step=100)
    assert run.record["n_tokens"] == 300 and nats(run) == pytest.approx(100 * (6 + 5 + 4))
    assert f"standard output of {program}" in run.record["notes"][-1]
    assert run.record["config"]["learner"]["name"] == "2024-10-10_Muon"  # of the record's folder, not of its digest


@pytest.mark.parametrize("seen", ["trainer_state.json", "JSON lines", "splits", "W&B's export"])
def test_tables_are_known_by_the_names_of_their_columns(tmp_path: Path, seen: str) -> None:
    text = {
        "trainer_state.json": json.dumps({"log_history": LINES, "global_step": 20}),
        "JSON lines": '{"step": 1, "n_tokens_seen": 1000, "loss_metrics/global_avg_loss": 6.0}\n'
        '{"step": 2, "n_tokens_seen": 3000, "loss_metrics/global_avg_loss": 3.0}',
        "splits": '{"split": "train", "step": 1, "tokens": 1000, "loss": 6.0}\n{"split": "val", "step": 1, "loss": 9.0}\n'
        '{"split": "train", "step": 2, "tokens": 3000, "loss": 3.0}',
        "W&B's export": '"Step","run-a - train/loss","run-a - train/tokens"\n"1","6.0","1000"\n"2","3.0","3000"\n',
    }[seen]
    (tmp_path / "log.txt").write_text(text)
    given = {"loss": "loss"} if seen == "splits" else {}
    run = prequential.import_log(tmp_path / "log.txt", tmp_path / "runs", bytes_per_token=4.0, **given)
    assert run.record["n_tokens"] == 3000 and nats(run) == pytest.approx(12_000)


@pytest.mark.thorough
def test_files_of_tensorboard_and_wandb_are_read_by_their_libraries(tmp_path: Path) -> None:
    tensorboard = pytest.importorskip("torch.utils.tensorboard")
    with tensorboard.SummaryWriter(str(tmp_path / "muon")) as writer:
        for step in range(6):
            writer.add_scalar("train/loss", 6.0 - step, step)
            writer.add_scalar("train/epoch", (step + 1) / 3, step)  # the second one does not count
    (events,) = (tmp_path / "muon").iterdir()
    run = prequential.import_log(events, tmp_path / "runs", bytes_per_token=4.0, tokens_per_step=100)
    assert nats(run) == pytest.approx(1500) and run.record["config"]["learner"]["name"] == "muon"
    with tensorboard.SummaryWriter(str(tmp_path / "nan")) as writer:
        writer.add_scalar("train/loss", math.nan, 1)
    with pytest.raises(CorpusError, match="'train/loss' is nan"):
        prequential.import_log(next((tmp_path / "nan").iterdir()), tmp_path, bytes_per_token=4.0, tokens_per_step=100)
    proto = pytest.importorskip("wandb.proto.wandb_internal_pb2")
    parts, records = [], [proto.Record(run=proto.RunRecord(run_id="r1", display_name="adam"))]
    for step in range(2000):  # several blocks of the file, so that records are cut in pieces
        record = proto.Record()
        for name, value in (("train/loss", 2.0), ("tokens", 100 * (step + 1))):
            record.history.item.add(nested_key=[name], value_json=json.dumps(value))
        records.append(record)
    place = 7
    for record in records:
        data, kind = record.SerializeToString(), 1
        while kind:
            room = 32768 - place % 32768
            if room < 7:
                parts.append(bytes(room))
                place, room = place + room, 32768
            piece, data = data[: room - 7], data[room - 7 :]
            kind = {1: 2, 2: 3}.get(kind, kind) if data else {1: 1}.get(kind, 4)
            parts.append(bytes(4) + len(piece).to_bytes(2, "little") + bytes([kind]) + piece)
            place, kind = place + 7 + len(piece), (kind if data else 0)
    (tmp_path / "run-r1.wandb").write_bytes(b":W&B\xbe\xe1\x00" + b"".join(parts))
    run = prequential.import_log(tmp_path / "run-r1.wandb", tmp_path / "runs", bytes_per_token=4.0)
    assert run.record["n_tokens"] == 200_000 and nats(run) == pytest.approx(400_000)
    assert run.record["config"]["learner"]["name"] == "adam"


def test_a_pattern_reads_any_other_log(tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text("begin\nupdate 1 nll=6.0\nupdate 2 nll=5.0\n")
    options = {"bytes_per_token": 4.0, "tokens_per_step": 100}
    pattern = r"^update (?P<step>\d+) nll=(?P<loss>\S+)"
    run = prequential.import_log(tmp_path / "log.txt", tmp_path / "runs", pattern=pattern, **options)
    assert nats(run) == pytest.approx(1100)
    for wrong in ("(", "update (?P<step>.*)"):
        with pytest.raises(ConfigError, match="pattern"):
            prequential.import_log(tmp_path / "log.txt", tmp_path / "runs", pattern=wrong, **options)


def test_a_heldout_loss_is_integrated_and_only_first_steps_count(tmp_path: Path) -> None:
    """Of losses on the curve that is assumed, the integral is exact. Both ways end at the wanted step."""
    loss = [9.0 - math.log(step + 3) for step in range(1001)]
    (tmp_path / "log.csv").write_text(
        "step,val_loss\n" + "".join(f"{s},{loss[s]}\n" for s in (0, 1, 10, 100, 400, 1000))
    )
    options = {"bytes_per_token": 4.0, "tokens_per_step": 100, "data": "d"}
    run = prequential.import_log(tmp_path / "log.csv", tmp_path / "runs", heldout_curve=True, steps=700, **options)
    exact = 100 * (9.0 * 700 - (703 * math.log(703) - 703 - 3 * math.log(3) + 3))
    assert run.record["n_tokens"] == 70_000 and nats(run) == pytest.approx(exact, rel=1e-9)
    assert "integrated" in run.record["notes"][0]
    with pytest.raises(CorpusError, match="give heldout_curve=True"):
        prequential.import_log(tmp_path / "log.csv", tmp_path / "runs", **options)
    (tmp_path / "all.csv").write_text("step,loss\n" + "".join(f"{s},2.0\n" for s in range(1, 1001)))
    whole = prequential.import_log(tmp_path / "all.csv", tmp_path / "runs", limit=280_000, **options)
    assert prequential.compare([run, whole]).corpus["n_bytes"] == 280_000


def test_a_log_that_begins_late_is_other_data_and_lines_printed_twice_count_once(tmp_path: Path) -> None:
    lines = [f"step:{i}/9 train_loss:{9 - i}.0\n" for i in range(1, 10)]
    options = {"bytes_per_token": 4.0, "tokens_per_step": 100, "data": "d"}
    runs = []
    for text in ("".join(lines[:6]), "".join(2 * line for line in lines[:6]), "".join(lines[2:])):
        (tmp_path / "log.txt").write_text(text)
        runs.append(prequential.import_log(tmp_path / "log.txt", tmp_path / "runs", **options))
    once, twice, late = (run.record for run in runs)
    assert once["corpus"] == twice["corpus"] and once["code_bits"] == twice["code_bits"]
    assert late["n_tokens"] == 600 and late["corpus"]["blake2b"] != once["corpus"]["blake2b"]
    (tmp_path / "log.txt").write_text("s:0 trl:4.0\ns:1 trl:-nan\ns:2 trl:2.0\n")
    with pytest.raises(CorpusError, match="row 2: 'loss' is -nan"):
        prequential.import_log(tmp_path / "log.txt", tmp_path / "runs", **options)
    (tmp_path / "log.txt").write_text("s:100 tel:4.0\ns:200 tel:3.0\n")
    with pytest.raises(CorpusError, match="no line of the first epoch"):
        prequential.import_log(tmp_path / "log.txt", tmp_path / "runs", heldout_curve=True, steps=50, **options)


def test_lines_far_apart_are_noted(tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text("".join(f"iter {i}: loss 3.0, time\n" for i in range(0, 100, 10)))
    run = prequential.import_log(tmp_path / "log.txt", tmp_path / "runs", bytes_per_token=4.0, tokens_per_step=100)
    assert "lines are 10 steps apart" in run.record["notes"][0]
