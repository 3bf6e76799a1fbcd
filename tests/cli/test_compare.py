"""compare: a report and a JSON object that agree; refusals are one line and exit code 1, wrong options exit code 2."""

import json
from pathlib import Path

import numpy as np
import pytest
from prequential_corpora.sources import sample_path
from series import write_run

from prequential.comparison.compare import compare
from prequential.comparison.differences import sentence


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of 80 segments with random costs; `model` b costs a little more."""
    root = tmp_path_factory.mktemp("compared")
    for name, drawn, blake2b in (("a0", 1, "ab"), ("b0", 2, "ab"), ("b1", 3, "ab"), ("other", 1, "cd")):
        units = np.random.default_rng(drawn).integers(200 << 22, 300 << 22, 80) + (20 << 22) * (name[0] == "b")
        write_run(root / name, units, seed=int(name == "b1"), model=name[0], blake2b=blake2b * 32)
    return root


def test_the_json_is_what_the_library_returns(run, folder):
    done = run(folder, "compare", "--json", "a0", "b0", "b1")
    expected = compare([folder / name for name in ("a0", "b0", "b1")]).to_dict()
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout) == expected


def test_the_report_has_the_difference_its_interval_and_its_evidence(run, folder):
    report = run(folder, "compare", "a0", "b0", "b1").stdout.decode()
    difference = compare([folder / name for name in ("a0", "b0", "b1")]).differences[0]
    assert "\nB (a learner) on synthetic: b0, b1\n" in report
    assert f"\nB - A  {difference.bits:+,.1f}" in report
    assert "B (a learner) is not below A (a learner) at the end" in report
    assert report.endswith(f"\n\n{sentence(difference)}\n")
    named = run(folder, "compare", "--group", "mixer,gpt,mixer", "b0", "a0", "b1").stdout.decode()
    assert "\ngpt - mixer " in named and "\nmixer (a learner) on synthetic: b0, b1\n" in named


def test_records_of_held_out_losses_are_compared_by_file_and_number(run, tmp_path):
    text = sample_path("christmas_carol").read_bytes()
    (tmp_path / "train").write_bytes(text[:2000])
    (tmp_path / "tests").mkdir()
    for i in range(11):
        (tmp_path / "tests" / f"{i:02}.txt").write_bytes(text[3000 + 300 * i : 3200 + 300 * i])
    for level in ("-1", "-2"):
        options = ("--train", "train", "--test", "tests", "--no-overlap")
        assert run(tmp_path, "heldout", *options, level).returncode == 0
    done = run(tmp_path, "compare", "--json", "runs/heldout.jsonl:1", "runs/heldout.jsonl")
    first, second = map(json.loads, (tmp_path / "runs" / "heldout.jsonl").read_text().splitlines())
    compared = json.loads(done.stdout)
    assert [each["where"] for each in compared["records"]] == ["runs/heldout.jsonl:1", "runs/heldout.jsonl:2"]
    assert [each["loss"] for each in compared["differences"]] == ["frozen", "dynamic", "untrained"]
    for each in compared["differences"]:
        difference = second[each["loss"]]["bits_per_byte"] - first[each["loss"]]["bits_per_byte"]
        assert each["bits_per_byte"] == pytest.approx(difference, abs=1e-12)
        assert (each["n_documents"], each["n_clusters"]) == (11, 11)
        assert each["equal"]["low_bits_per_byte"] < each["equal"]["bits_per_byte"]
    report = run(tmp_path, "compare", "runs/heldout.jsonl:1", "runs/heldout.jsonl:2").stdout.decode()
    assert (rate := f"{compared['differences'][0]['bits_per_byte']:+.4f}") in report
    assert run(tmp_path, "compare", "-q", "runs/heldout.jsonl:1", "runs/heldout.jsonl").stdout.decode() == f"{rate}\n"
    quiet = run(tmp_path, "heldout", *options, "-2", "-q", "--no-run").stdout.decode()
    assert quiet == f"{second['dynamic']['bits_per_byte']:.4f}\n"
    assert "95 %" in report and ". Take B for documents like these: a document " in report
    one = "runs/heldout.jsonl"
    for args, code, part in (
        (["--group", "a,b", one, f"{one}:1"], 2, b"leave out --group"),
        ([one, f"{one}:3"], 1, b"there is no record 3"),
        ([one, one], 2, b"is given twice"),
        ([one, "train"], 1, b"is not a record of a held-out loss"),
    ):
        refused = run(tmp_path, "compare", *args)
        assert refused.returncode == code and part in refused.stderr
