"""references: tables, JSON, and one line for each refusal."""

import json
import re

import pytest

import prequential

PURE = prequential.Config(
    gpt=prequential.GPTConfig(n_layers=1, width=32, n_heads=2, window=16),
    mixer=None,
    schedule=prequential.ScheduleConfig(
        first_segment_symbols=128, segment_symbols=256, row_symbols=64, n_rows=6, history_bits=14
    ),
)
ROWS = ["online", "hindsight", "frozen", "blocks"]


@pytest.fixture
def folder(tmp_path, text):
    (tmp_path / "a").write_bytes(text[:1200])
    (tmp_path / "b").write_bytes(text[1200:3000])
    (tmp_path / "pure.json").write_text(json.dumps(PURE.to_dict()))
    return tmp_path


def referred(run, folder, *args):
    return run(folder, "references", "--config", "pure.json", "--kernels", "fused", *args)


def test_the_table_has_every_code_and_the_split_adds_up(run, folder):
    done = referred(run, folder, "--limit", "800", "--first-block", "512", "--train", "b", "a")
    assert (done.returncode, done.stderr) == (0, b"")
    lines = [line.split() for line in done.stdout.decode().splitlines()]
    assert [line[0] for line in lines if line and line[0] in ROWS] == ROWS
    explained = [line[0].rstrip(":") for line in lines if line and line[0].endswith(":")]
    assert set(ROWS) <= set(explained)
    text = done.stdout.decode()
    whole, data, learning = (
        float(re.search(rf"^{name} +([\d,]+)  ", text, re.MULTILINE)[1].replace(",", ""))
        for name in ("code length", "= data, at the expected final rate", r"\+ learning")
    )
    assert re.search(r"^no intervals: \d cells, 64 are needed$", text, re.MULTILINE)
    assert abs(whole - data - learning) <= 1  # each is rounded


def test_json_has_the_corpora_the_configuration_and_the_versions(run, folder):
    done = referred(run, folder, "--limit", "600", "--epsilon", "8", "--epsilon", "0.5", "--json", "a", "missing")
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    record = json.loads(done.stdout)
    assert record["corpus"]["n_bytes"] == 600
    assert record["train"] is None
    assert record["config"] == json.loads(json.dumps(PURE.to_dict()))
    assert record["split"]["data_bits"] + record["split"]["learning_bits"] == record["split"]["code_bits"]
    assert [t["epsilon"] for t in record["thresholds"]] == [8.0, 0.5]
    assert record["thresholds"][1]["sample_bytes"] is None
    for code in record["references"]:
        assert code["counted_bits"] == 8 * (code["payload_bytes"] + code["model_bytes"])
    assert "torch" in record["environment"]["versions"]


def test_a_window_longer_than_the_corpus_is_one_line(run, folder):
    done = referred(run, folder, "--limit", "600", "--window", "601", "a")
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (1, b"", 1)
    assert b"longer than the corpus" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("-1", "a"), "no GPT"),
        (("--first-block", "0", "a"), "at least 1"),
        (("--epochs", "0", "a"), "1 or more"),
        (("--limit", "x", "a"), "'x'"),
    ],
)
def test_wrong_options_are_usage_errors(run, folder, arguments, part):
    done = run(folder, "references", *arguments)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert part in done.stderr.decode()


def test_a_configuration_with_a_mixer_is_a_usage_error(run, folder, small_config):
    done = run(folder, "references", "--config", str(small_config), "a")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert b"GPT alone" in done.stderr


@pytest.mark.parametrize("args", [["-", "--train", "-"], ["a", "b", "--train", "-"]])
def test_standard_input_that_would_be_read_twice_is_a_usage_error(run, folder, text, args):
    done = run(folder, "references", "--config", "pure.json", *args, stdin=text[:300])
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, b"", 1)
    assert b"standard input cannot be read twice" in done.stderr
