"""forecast: a ladder of real runs is fitted; the forecast is frozen before the target is run, and then scored."""

import json

import pytest
from studies import TINY

import prequential
from prequential import ConfigError, CorpusError
from prequential.cli.main import build_parser
from prequential.forecasting.registered import read_registered

TARGET = ("--target-width", "48", "--target-layers", "1", "--target-bytes", "6000")


def ran(*args):
    parsed = build_parser().parse_args([str(arg) for arg in args])
    return parsed.run(parsed)


pytestmark = pytest.mark.usefixtures("no_warm_up")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A ladder of five sizes over the first 3,000 bytes of a text."""
    folder = tmp_path_factory.mktemp("forecast")
    text = prequential.sample_path("christmas_carol").read_bytes()[2000:10000]
    (folder / "book.txt").write_bytes(text)
    (folder / "gpt.json").write_text(json.dumps(TINY.to_dict()))
    sizes = "16x1,20x1,24x1,28x1,32x1"
    ran("sweep", "--ladder", folder / "book.txt", "--config", folder / "gpt.json", "--kernels", "fused", "--limit", "3000",
        "--sizes", sizes, "--seeds", "0", "--runs", folder / "runs", "-q")  # fmt: skip
    return folder


@pytest.fixture(scope="module")
def frozen(folder):
    path = folder / "forecast.json"
    assert ran("forecast", folder / "runs", *TARGET, "-o", path, "--corpus", folder / "book.txt", "-q") == 0
    return path


def test_a_forecast_is_frozen_with_target_and_digests(frozen, folder):
    record = read_registered(frozen)
    gpt = record["target"]["config"]["gpt"]
    assert (gpt["width"], gpt["n_layers"], record["target"]["n_bytes"]) == (48, 1, 6000)
    assert len(record["fitted"]) == 5
    assert not record["after_the_fact"]
    for made in record["forecasts"].values():
        assert 0 < made["low"] < made["point"] < made["high"]
    with pytest.raises(prequential.errors.OutputError, match="exists"):  # it is never overwritten
        ran("forecast", folder / "runs", *TARGET, "-o", frozen)
    assert read_registered(frozen) == record


@pytest.mark.thorough
def test_the_target_is_run_once_and_scored_at_each_call(frozen, folder, capsys):
    runs = folder / "runs"
    score = ("forecast", runs, "--score", frozen)
    assert ran(*score, "--corpus", folder / "book.txt", "--kernels", "fused", "--json") == 0
    line = json.loads(capsys.readouterr().out)
    run = prequential.read_runs(runs)[-1]
    assert line["actual"] == pytest.approx(run.record["code_bits"])
    n_runs = len(prequential.read_runs(runs))
    assert ran(*score) == 0
    assert "forecast" in capsys.readouterr().out
    assert len((runs / "scores.jsonl").read_text().splitlines()) == 2
    assert len(prequential.read_runs(runs)) == n_runs
    # after the run, the target can be forecast only with --after-the-fact
    with pytest.raises(ConfigError, match="the target has been run already"):
        ran("forecast", runs, *TARGET, "-o", folder / "late.json")
    assert ran("forecast", runs, *TARGET, "-o", folder / "late.json", "--after-the-fact", "-q") == 0
    assert read_registered(folder / "late.json")["after_the_fact"]


def test_another_corpus_and_one_that_ends_before_the_target_are_refused_before_the_run(frozen, folder, tmp_path):
    (tmp_path / "other.txt").write_bytes(b"something else " * 500)
    with pytest.raises(CorpusError, match="does not begin with the bytes that the ladder read"):
        ran("forecast", tmp_path / "runs", "--score", frozen, "--corpus", tmp_path / "other.txt")
    assert not (tmp_path / "runs").exists()
    target = ("--target-width", "48", "--target-bytes", "9000")
    with pytest.raises(CorpusError, match="has 8000 bytes, fewer than the target's 9000"):
        ran("forecast", folder / "runs", *target, "-o", tmp_path / "f.json", "--corpus", folder / "book.txt")
