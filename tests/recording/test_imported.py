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
BITS = (1000 * 6.0 + 2000 * 3.0) / math.log(2.0)


def state(folder: Path, lines: list[dict[str, object]]) -> Path:
    (folder / "trainer_state.json").write_text(json.dumps({"log_history": lines, "global_step": 20}))
    return folder / "trainer_state.json"


def table(folder: Path, text: str) -> Path:
    (folder / "log.csv").write_text(text)
    return folder / "log.csv"


def test_the_state_of_a_trainer_becomes_a_run(tmp_path: Path) -> None:
    run = prequential.import_log(state(tmp_path, LINES), tmp_path / "runs", **OPTIONS)
    record = prequential.read_run(run.path).record
    assert record["code_bits"] == pytest.approx(BITS) and record["n_tokens"] == 3000
    assert record["bits_per_byte"] == pytest.approx(BITS / 12_000)
    assert record["coding"] == "imported from a log: order and repeats unknown"
    curve = prequential.read_run(run.path).curves["model"]
    assert curve.n_bytes.tolist() == [4000, 12_000] and curve.bits[0] == pytest.approx(6000 / math.log(2.0))


def test_a_table_becomes_the_same_run(tmp_path: Path) -> None:
    path = table(tmp_path, "Step,train/loss,tokens\n10,8.0,1000\n15,,\n20,4.0,3000\n")
    run = prequential.import_log(
        path, tmp_path, tokens="tokens", loss="train/loss", bytes_per_token=4.0, unit="bits/token"
    )
    assert run.record["code_bits"] == pytest.approx(8.0 * 1000 + 4.0 * 2000)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("loss,seen\n1.0,10\n", r"no column 'num_input_tokens_seen'; it has 'loss', 'seen'"),
        ("loss,num_input_tokens_seen\n,10\n", "no line with numbers"),
        ("loss,num_input_tokens_seen\n1,5\nnan,10\n", "line 3: 'loss' is nan"),
        ("loss,num_input_tokens_seen\n1,5\n\ninf,10\n", "line 4: 'loss' is inf"),
        ("loss,num_input_tokens_seen\n1e308,10\n", r"line 2: 'loss' is 1e\+308"),
        ("loss,num_input_tokens_seen\nlow,10\n", "line 2: 'low' is no number"),
        ("loss,num_input_tokens_seen\n1,0\n", "no line after its start"),
        ("loss,num_input_tokens_seen\n1,10\n1,10.1\n", "less than a byte apart"),
        ("loss,num_input_tokens_seen\n-1,10\n", "line 2: 'loss' is -1"),
        ("loss,num_input_tokens_seen\n1,1e40\n", r"line 2: 'num_input_tokens_seen' is 1e\+40"),
        ("loss,num_input_tokens_seen,loss\n1,10,2\n", "two columns 'loss': rename one"),
        ('{"loss": 1, "num_input_tokens_seen": 5}\n{"loss": NaN, "num_input_tokens_seen": 9}', "line 2: 'loss' is nan"),
        (
            '{"log_history": [{}, {"loss": -Infinity, "num_input_tokens_seen": 9}]}',
            "entry 2 of log_history: 'loss' is -inf",
        ),
        ('{"loss": 1' + "0" * 400 + ', "num_input_tokens_seen": 5}', "line 1: '10{39}' is no number"),
        ('{"loss": true, "num_input_tokens_seen": 5}', "line 1: 'True' is no number"),
        ('{"loss": 1, "num_input_tokens_seen": 5}\n[]', "neither a table"),
        ("epoch,loss,num_input_tokens_seen\n1.5,1,1000\n1.6,1,1010\n1.7,1,1020", "no line of the first epoch"),
        ("{", "neither a table"),
        ('{"log_history": 1}', "neither a table"),
        ("", "no column 'num_input_tokens_seen'; it has none"),
    ],
)
def test_a_log_that_cannot_be_used_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(CorpusError, match=message):
        prequential.import_log(table(tmp_path, text), tmp_path / "runs", **OPTIONS)
    assert not (tmp_path / "runs").exists()


def test_a_run_that_was_resumed_counts_each_token_once(tmp_path: Path) -> None:
    text = "num_input_tokens_seen,loss\n0,9\n1000,8\n2000,6\n3000,5\n2000,6.5\n3000,4\n3000,4\n"
    run = prequential.import_log(table(tmp_path, text), tmp_path / "runs", **OPTIONS)
    assert run.record["code_bits"] == pytest.approx(1000 * (8 + 6.5 + 4) / math.log(2.0))


def test_a_log_that_begins_late_begins_with_its_first_line(tmp_path: Path) -> None:
    text = 'num_input_tokens_seen,loss\n"1,000,000",3\n"1,001,000",2\n"1,002,000",1\n'
    run = prequential.import_log(table(tmp_path, text), tmp_path / "runs", **OPTIONS)
    assert run.record["n_tokens"] == 2000 and run.record["code_bits"] == pytest.approx(3000 / math.log(2.0))
    assert "begins at 1,000,000 tokens" in run.record["notes"][0]


def test_a_log_of_steps_needs_the_tokens_of_a_step(tmp_path: Path) -> None:
    path = table(tmp_path, "Wall time,Step,Value\n1.5,10,8.0\n2.5,20,4.0\n")
    options = {"tokens": "Step", "loss": "Value", "bytes_per_token": 4.0}
    with pytest.raises(ConfigError, match="counts steps: give tokens_per_step"):
        prequential.import_log(path, tmp_path / "runs", **options)
    run = prequential.import_log(path, tmp_path / "runs", **options, tokens_per_step=512)
    assert run.record["n_tokens"] == 20 * 512


def test_the_loss_of_an_evaluation_is_no_training_loss(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="loss of an evaluation"):
        prequential.import_log(state(tmp_path, LINES), tmp_path, **(OPTIONS | {"loss": "eval_loss"}))


# as transformers 5 writes it, for 2 epochs of 4 steps of 100 tokens; a line for each 3 steps; NaN is a word there
HISTORY = """{"epoch": %(epoch)s, "global_step": %(step)s, "logging_steps": 3, "num_input_tokens_seen": %(tokens)s,
 "log_history": [
 {"epoch": 0.75, "grad_norm": NaN, "learning_rate": 5e-05, "loss": 6.0, "num_input_tokens_seen": 300, "step": 3},
 {"epoch": 1.0, "eval_loss": 5.0, "eval_runtime": 0.1, "step": 4, "num_input_tokens_seen": 400},
 {"epoch": 1.5, "grad_norm": Infinity, "learning_rate": 2e-05, "loss": 4.0, "num_input_tokens_seen": 600, "step": 6}%(end)s]}"""
SUMMARY = """, {"epoch": 2.0, "num_input_tokens_seen": 800, "step": 8, "total_flos": 1e9, "train_loss": 4.5}"""


def imported(folder: Path, text: str, **options: Any) -> Run:
    return prequential.import_log(table(folder, text), folder / "runs", **(OPTIONS | options))


def nats(run: Run) -> float:
    return float(run.record["code_bits"]) * math.log(2.0)


def test_only_the_first_epoch_of_a_trainer_counts_and_what_is_not_finite_elsewhere_does_not_matter(
    tmp_path: Path,
) -> None:
    run = imported(tmp_path, HISTORY % {"epoch": 1.5, "step": 6, "tokens": 600, "end": ""})
    assert run.record["n_tokens"] == 400 and nats(run) == pytest.approx(
        300 * 6.0 + 100 * 4.0
    )  # a part of the second line
    assert run.record["notes"] == ["only the first epoch counts, 400 tokens: later ones read its data again"]


def test_the_steps_after_the_last_line_of_a_trainer_are_counted_with_their_mean(tmp_path: Path) -> None:
    run = imported(tmp_path, HISTORY % {"epoch": 2.0, "step": 8, "tokens": 800, "end": SUMMARY}, epochs=1)
    assert run.record["n_tokens"] == 800 and nats(run) == pytest.approx(800 * 4.5) and not run.record["notes"]
    resumed = SUMMARY.replace("4.5", "0.2")  # of a part of the run
    for end in ("", resumed):
        run = imported(tmp_path, HISTORY % {"epoch": 2.0, "step": 8, "tokens": 800, "end": end}, epochs=1)
        assert run.record["n_tokens"] == 600
        assert run.record["notes"] == ["200 tokens after the last line with a loss are not counted"]


def test_steps_that_begin_with_0_are_counted_from_0(tmp_path: Path) -> None:
    # as Weights & Biases exports it: the step at which something was logged, and the loss of that step
    text = '"Step","train/loss","val/loss","_runtime"\n"0","11.0","",""\n"1","10.0","","2"\n"2","9.0","","3"\n"3","","8.5","4"\n'
    run = imported(tmp_path, text, tokens="Step", loss="train/loss", tokens_per_step=100)
    assert (
        run.record["n_tokens"] == 300
        and nats(run) == pytest.approx(100 * (11.0 + 10.0 + 9.0))
        and not run.record["notes"]
    )


def test_a_loss_at_0_tokens_is_named(tmp_path: Path) -> None:
    run = imported(tmp_path, "num_input_tokens_seen,loss\n0,11\n1000,8\n")
    assert run.record["n_tokens"] == 1000
    assert run.record["notes"] == [
        "the log begins at 0 tokens: its first line is the start, and its loss is not counted"
    ]


def test_tokens_after_the_last_loss_are_named(tmp_path: Path) -> None:
    run = imported(tmp_path, "num_input_tokens_seen,loss\n1000,8\n2000,7\n2500,\n")
    assert run.record["notes"] == ["500 tokens after the last line with a loss are not counted"]


@pytest.mark.parametrize("first", [0, 1])
def test_of_epochs_with_numbers_the_first_counts_also_if_steps_begin_again(tmp_path: Path, first: int) -> None:
    lines = [{"epoch": first + e, "iter": i, "loss": 6 - 2 * e - i} for e in range(2) for i in range(2)]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    run = imported(tmp_path, text, tokens="iter", tokens_per_step=100)
    assert run.record["n_tokens"] == 200 and nats(run) == pytest.approx(100 * (6.0 + 5.0))
    assert "only the first epoch counts, 200 tokens" in run.record["notes"][0]


def test_the_number_of_epochs_can_be_given(tmp_path: Path) -> None:
    text = "num_input_tokens_seen,loss\n1000,8\n2000,7\n3000,3\n"
    run = imported(tmp_path, text, epochs=2)
    assert run.record["n_tokens"] == 1500 and nats(run) == pytest.approx(1000 * 8 + 500 * 7)
    with pytest.raises(ConfigError, match="epochs is 0"):
        imported(tmp_path, text, epochs=0)


def test_a_sum_over_accumulation_steps_and_a_mean_of_0_are_doubted(tmp_path: Path) -> None:
    run = imported(tmp_path, "num_input_tokens_seen,loss\n1000,32\n2000,14\n3000,13\n4000,0.0\n")
    high, zero = run.record["notes"]
    assert "warning: more than 20 bits a token in 2 of 4 lines, at most 46.2" in high
    assert "warning: a loss of exactly 0 in 1 of 4 lines" in zero


def test_wrong_options_are_refused(tmp_path: Path) -> None:
    path = state(tmp_path, LINES)
    with pytest.raises(ConfigError, match="bytes_per_token is 0"):
        prequential.import_log(path, tmp_path, **(OPTIONS | {"bytes_per_token": 0}))
    with pytest.raises(ConfigError, match="unit is 'nats'"):
        prequential.import_log(path, tmp_path, **OPTIONS, unit="nats")
    with pytest.raises(CorpusError, match=r"does not exist|No such file"):
        prequential.import_log(tmp_path / "none.csv", tmp_path, **OPTIONS)


@pytest.mark.parametrize("steps", [(1, 2, 1, 2), (1, 2, 3, 1, 2, 3), (4, 3, 2, 1), (3, 1, 2)])
def test_steps_that_begin_again_are_refused(tmp_path: Path, steps: tuple[int, ...]) -> None:
    """Without a column of epochs the loss of the last epoch would count as that of new data."""
    text = "".join(f"{1000 * step},{9 - i}\n" for i, step in enumerate(steps))
    with pytest.raises(CorpusError, match="begin again"):
        prequential.import_log(
            table(tmp_path, f"seen,loss\n{text}"), tmp_path / "runs", **(OPTIONS | {"tokens": "seen"})
        )


def test_a_resumed_run_says_how_many_lines_it_made_again(tmp_path: Path) -> None:
    run = prequential.import_log(
        table(tmp_path, "seen,loss\n1000,5\n2000,4\n3000,3\n2000,4\n3000,3\n"),
        tmp_path,
        **(OPTIONS | {"tokens": "seen"}),
    )
    assert "2 lines that it made again are not counted" in " ".join(run.record["notes"])


def test_the_epochs_of_weights_and_biases_have_the_name_of_the_run_before_them(tmp_path: Path) -> None:
    text = "seen,loss,r - train/epoch\n1000,5,0.5\n2000,4,1.0\n3000,3,1.5\n4000,2,2.0\n"
    run = prequential.import_log(table(tmp_path, text), tmp_path / "runs", **(OPTIONS | {"tokens": "seen"}))
    assert run.record["n_tokens"] == 2000
