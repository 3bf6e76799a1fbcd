import json
import math
from pathlib import Path

import pytest

import prequential
from prequential.errors import ConfigError, CorpusError

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
        ("loss,num_input_tokens_seen\nnan,10\n", "no line with numbers"),
        ("loss,num_input_tokens_seen\ninf,10\n", "negative or not finite"),
        ("loss,num_input_tokens_seen\nlow,10\n", "could not convert"),
        ("loss,num_input_tokens_seen\n1,0\n", "no line after its start"),
        ("loss,num_input_tokens_seen\n1,10\n1,10.1\n", "less than a byte apart"),
        ("loss,num_input_tokens_seen\n-1,10\n", "negative or not finite"),
        ("loss,num_input_tokens_seen\n1,1e40\n", "negative or not finite"),
        ("{", "neither a table"),
        ('{"log_history": 1}', "neither a table"),
        ("", "no column"),
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


def test_wrong_options_are_refused(tmp_path: Path) -> None:
    path = state(tmp_path, LINES)
    with pytest.raises(ConfigError, match="bytes_per_token is 0"):
        prequential.import_log(path, tmp_path, **(OPTIONS | {"bytes_per_token": 0}))
    with pytest.raises(ConfigError, match="unit is 'nats'"):
        prequential.import_log(path, tmp_path, **OPTIONS, unit="nats")
    with pytest.raises(CorpusError, match=r"does not exist|No such file"):
        prequential.import_log(tmp_path / "none.csv", tmp_path, **OPTIONS)
