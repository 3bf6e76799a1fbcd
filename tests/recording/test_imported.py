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
        "lines": "\n".join(map(json.dumps, LINES)),
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
        ("{", "neither a table"),
        ("", "neither a table"),
    ],
)
def test_a_log_that_cannot_be_used_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(CorpusError, match=message):
        imported(tmp_path, text)
    assert not (tmp_path / "runs").exists()


def test_wrong_options_are_refused(tmp_path: Path) -> None:
    for options, message in (
        ({"bytes_per_token": 0}, "bytes_per_token is 0"),
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
    assert not run.record["notes"]


# as transformers 5 writes it, for 1.5 epochs of 4 steps of 100 tokens; a line for each 3 steps; NaN is a word there
HISTORY = """{"epoch": 1.5, "global_step": 6, "logging_steps": 3, "num_input_tokens_seen": 600, "log_history": [
 {"epoch": 0.75, "grad_norm": NaN, "learning_rate": 5e-05, "loss": 6.0, "num_input_tokens_seen": 300, "step": 3},
 {"epoch": 1.0, "eval_loss": 5.0, "eval_runtime": 0.1, "step": 4, "num_input_tokens_seen": 400},
 {"epoch": 1.5, "grad_norm": Infinity, "learning_rate": 2e-05, "loss": 4.0, "num_input_tokens_seen": 600, "step": 6}]}"""


def test_only_the_first_epoch_counts_and_what_is_not_finite_elsewhere_does_not_matter(tmp_path: Path) -> None:
    run = imported(tmp_path, HISTORY)
    assert run.record["n_tokens"] == 400 and nats(run) == pytest.approx(300 * 6.0 + 100 * 4.0)
    assert run.record["notes"] == ["only the first epoch counts, 400 tokens: later ones read its data again"]
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
