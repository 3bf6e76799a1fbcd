"""compare: a report and a JSON object that agree; refusals are one line and exit code 1, wrong options exit code 2."""

import json
from pathlib import Path

import numpy as np
import pytest
from prequential_codecs.bit_coder import UNIT_BITS
from prequential_corpora.bundled import sample_path

from prequential.comparison.compare import compare
from prequential.comparison.intervals import Bootstrap
from prequential.evaluation.curves import Curve, write_curves
from prequential.evaluation.runs import CURVE, RECORD
from prequential.records.record import append_record

N_SEGMENTS, SEGMENT = 80, 100


def write_run(folder: Path, drawn: int, *, seed: int, model: str, blake2b: str = "ab" * 32) -> None:
    """A run of N_SEGMENTS segments with random costs; `model` b costs a little more."""
    folder.mkdir()
    units = np.random.default_rng(drawn).integers(200 << 22, 300 << 22, N_SEGMENTS) + (
        (20 << 22) if model == "b" else 0
    )
    curve = Curve(n_bytes=SEGMENT * np.arange(1, N_SEGMENTS + 1), bits=np.cumsum(units) * UNIT_BITS)
    record = {
        "kind": "evaluation",
        "schema": 1,
        "corpus": {"name": "synthetic", "n_bytes": N_SEGMENTS * SEGMENT, "blake2b": blake2b},
        "config": {"seed": seed, "model": model},
        "archive_bits": 8 * int(np.ceil(curve.bits[-1] / 8)),
    }
    append_record(folder / RECORD, record)
    write_curves(folder / CURVE, {"model": curve})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("compared")
    write_run(root / "a0", 1, seed=0, model="a")
    write_run(root / "b0", 2, seed=0, model="b")
    write_run(root / "b1", 3, seed=1, model="b")
    write_run(root / "other", 1, seed=0, model="b", blake2b="cd" * 32)
    return root


def test_the_json_is_what_the_library_returns(run, folder):
    options = ["--confidence", "0.9", "--resamples", "99", "--seed", "3", "--block", "400"]
    done = run(folder, "compare", "--json", *options, "a0", "b0", "b1")
    how = Bootstrap(confidence=0.9, n_resamples=99, seed=3, block_bytes=400)
    expected = compare([folder / name for name in ("a0", "b0", "b1")], bootstrap=how).to_dict()
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout) == expected


def test_the_report_has_the_difference_its_interval_and_its_evidence(run, folder):
    report = run(folder, "compare", "a0", "b0", "b1").stdout.decode()
    difference = compare([folder / name for name in ("a0", "b0", "b1")]).differences[0]
    interval, found = difference.interval, difference.long_memory
    assert "\nB (a learner) on synthetic: b0, b1\n" in report
    assert f"\nB - A  {difference.bits:+,.1f}" in report
    assert (
        f"95 % confidence     [{found.mean_low_bits:+,.1f}, {found.mean_high_bits:+,.1f}] bits: the expected " in report
    )
    assert (
        f"95 % prediction     [{found.text_low_bits:+,.1f}, {found.text_high_bits:+,.1f}] bits: the difference"
        in report
    )
    assert f"if memory is short  [{interval.low_bits:+,.1f}, {interval.high_bits:+,.1f}] bits" in report
    assert "the expected difference on text of this length and kind, over all seeds of B" in report
    assert "on another text of this length from the same source, with as many other seeds of B" in report
    assert f"2^{difference.log2_e:,.1f} (below 10^-100) against 'the data follow A': no evidence" in report
    assert "B (a learner) is not below A (a learner) at the end" in report
    assert "log2 3 = 1.58 bits" in report


def test_labels_name_the_groups(run, folder):
    report = run(folder, "compare", "--group", "mixer,gpt,mixer", "b0", "a0", "b1").stdout.decode()
    assert "\ngpt - mixer " in report
    assert "\nmixer (a learner) on synthetic: b0, b1\n" in report


def test_records_of_held_out_losses_are_compared_by_file_and_number(run, tmp_path):
    text = sample_path("christmas_carol").read_bytes()
    (tmp_path / "train").write_bytes(text[:2000])
    (tmp_path / "tests").mkdir()
    for i in range(11):
        (tmp_path / "tests" / f"{i:02}.txt").write_bytes(text[3000 + 300 * i : 3200 + 300 * i])
    for level in ("-1", "-2"):
        options = ("--train", "train", "--test", "tests", "--dynamic-only", "--no-overlap")
        assert run(tmp_path, "heldout", *options, level).returncode == 0
    done = run(tmp_path, "compare", "--json", "--confidence", "0.9", "runs/heldout.jsonl:1", "runs/heldout.jsonl")
    first, second = map(json.loads, (tmp_path / "runs" / "heldout.jsonl").read_text().splitlines())
    found = json.loads(done.stdout)
    assert [each["where"] for each in found["records"]] == ["runs/heldout.jsonl:1", "runs/heldout.jsonl:2"]
    assert [each["loss"] for each in found["differences"]] == ["dynamic", "untrained"]
    for each in found["differences"]:
        difference = second[each["loss"]]["bits_per_byte"] - first[each["loss"]]["bits_per_byte"]
        assert each["bits_per_byte"] == pytest.approx(difference, abs=1e-12)
        assert each["interval"]["low_bits_per_byte"] < difference < each["interval"]["high_bits_per_byte"]
        assert (each["n_documents"], each["interval"]["confidence"]) == (11, 0.9)
    report = run(tmp_path, "compare", "runs/heldout.jsonl:1", "runs/heldout.jsonl:2").stdout.decode()
    assert f"{found['differences'][0]['bits_per_byte']:+.4f}" in report
    assert "95 % confidence" in report
    for args, code, part in (
        (["--block", "100", "runs/heldout.jsonl", "runs/heldout.jsonl"], 2, "--group and --block are for run folders"),
        (["runs/heldout.jsonl", "runs/heldout.jsonl:3"], 1, "there is no record 3"),
        (["runs/heldout.jsonl", "train"], 1, "names no record"),
        (["runs/heldout.jsonl"], 2, "two runs or more"),
    ):
        refused = run(tmp_path, "compare", *args)
        assert (refused.returncode, refused.stdout, len(refused.stderr.splitlines())) == (code, b"", 1)
        assert part in refused.stderr.decode()


@pytest.mark.parametrize(
    ("args", "part"),
    [
        (["a0", "other"], "not comparable: corpus (BLAKE2b)"),
        (["b0", "b1"], "the 2 runs form one group"),
        (["a0", "missing"], "missing"),
        (["--block", "1M", "a0", "b0"], "longer than half"),
    ],
)
def test_an_impossible_comparison_is_one_line_and_exit_code_1(run, folder, args, part):
    done = run(folder, "compare", *args)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (1, b"", 1)
    assert part in done.stderr.decode()


@pytest.mark.parametrize(
    ("args", "part"),
    [
        (["a0"], "two runs or more"),
        (["--group", "x", "a0", "b0"], "2 labels"),
        (["--confidence", "2", "a0", "b0"], "confidence 2.0"),
        (["--resamples", "9", "a0", "b0"], "9 resamples are too few"),
    ],
)
def test_a_wrong_option_is_one_line_and_exit_code_2(run, folder, args, part):
    done = run(folder, "compare", *args)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, b"", 1)
    assert part in done.stderr.decode()
