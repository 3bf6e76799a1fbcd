"""The ledger accounts for every bit, and a second run agrees in every bit."""

from dataclasses import replace

import numpy as np
import pytest
from own_learners import Counts
from prequential_corpora.sources import sample_path

import prequential
from prequential.evaluation.curves import crossing_byte
from prequential.evaluation.summary import format_report

FUSED = prequential.Runtime(kernels="fused")


def test_every_bit_is_accounted_for(run):
    _, result, found = run
    archive = found.archive.read_bytes()
    assert 8 * len(archive) == result.archive_bits == found.record["archive_bits"]
    assert len(prequential.decompress(archive, runtime=FUSED)) == 3000
    bits = {row["entry"]: row["bits"] for row in found.record["ledger"]}
    assert sum(bits.values()) == found.record["total_bits"] == result.total_bits
    assert sum(list(bits.values())[:4]) == 8 * len(archive)
    assert found.curves["model"].bits[-1] == result.code_bits == found.record["parts"]["model"]
    for part in ("model", "gpt", "mixer"):
        assert np.diff(found.curves[part].bits, prepend=0).sum() == found.record["parts"][part]
        assert result.trace.bits(part).sum() == found.record["parts"][part]


def test_a_record_says_how_many_threads_mixed(run):
    record = run[2].record
    found = record["environment"]["mixing"]
    assert 1 <= found["used_threads"] <= found["most_threads"] and 0 <= found["together"] < 1
    mixing = {"most_threads": 4, "used_threads": 2, "together": 0.9}
    assert "(2 mixed)" in format_report(record | {"environment": record["environment"] | {"mixing": mixing}})


def test_the_parts_are_the_costs_of_a_learner_with_the_mixer_or_the_gpt_alone(run):
    """Alone a GPT codes a byte with eight decisions of 16 bits, which round its frequencies."""
    result, both = run[1], prequential.Config.from_dict(run[1].config)
    options = {"limit": 3000, "runtime": FUSED, "baselines": ()}
    for part, config, tolerance in (
        ("mixer", replace(both, gpt=None), 0),
        ("gpt", replace(both, mixer=None), 1e-3),
    ):
        alone = prequential.evaluate("sample:christmas_carol", config=config, **options)
        assert alone.code_bits == pytest.approx(result.trace.total_bits(part), rel=tolerance, abs=0)


def test_a_second_run_agrees_in_every_bit(run, again):
    _, _, found = run
    assert again.archive.read_bytes() == found.archive.read_bytes()
    for name, curve in found.curves.items():
        assert again.curves[name].bits.tolist() == curve.bits.tolist()
    measured = ("ledger", "parts", "crossings", "tables", "archive_bits", "code_bits", "total_bits")
    assert {n: again.record[n] for n in measured} == {n: found.record[n] for n in measured}


def test_a_saved_result_is_the_run_folder_that_runs_leaves(tmp_path):
    data, options = sample_path("christmas_carol").read_bytes()[:1024], {"runtime": FUSED, "baselines": ()}
    result = prequential.evaluate("sample:christmas_carol", level="-1", limit="1K", runs=tmp_path / "a/b", **options)
    whole = prequential.evaluate(data, config=prequential.preset(1), **options)
    (left,) = prequential.read_runs(tmp_path / "a/b")
    saved, choice = result.declaring(n_configs=4).save(tmp_path), {"n_configs": 1, "ledger": 0, "total_bits": 0}
    assert len(prequential.compare([result, saved, left], groups="ABC").differences) == 2
    assert prequential.read_run(saved.path).record == saved.record
    for run in (left, saved):
        assert {path.name for path in run.path.iterdir()} == {"archive.pq", "curve.parquet", "record.jsonl"}
        assert prequential.decompress(run.archive, runtime=FUSED) == data
        assert run.record | choice == result.record | choice
        for name in ("n_bytes", "seconds", "bits_per_byte", "code_bits_per_byte", "archive_bytes"):
            assert getattr(run, name) == getattr(result, name)
    assert (result.n_bytes, result.code_bits, result.config) == (1024, whole.code_bits, whole.config)
    with pytest.raises(prequential.ConfigError, match="level=, config= and learner="):
        prequential.evaluate(data, level=1, config=prequential.preset(1))


def test_a_device_is_not_for_a_learner_of_ones_own(caplog):
    runtime = prequential.Runtime(device="cuda")
    assert prequential.evaluate(b"abc", learner=Counts(), baselines=(), runtime=runtime).n_bytes == 3
    assert 'device="cuda" has no effect' in caplog.text


def test_a_crossing_compares_an_archive_with_files():
    """Not an ideal code length, which would be below them from the first byte on."""
    data = sample_path("christmas_carol").read_bytes()[:8000]
    small = prequential.Config(gpt=None, mixer=prequential.MixerConfig(contexts=("2", "3", "word"), table_bits=10))
    result = prequential.evaluate(data, config=small, runtime=FUSED, baselines=("gzip", "bzip2"))
    crossings = result.crossings
    beyond = result.archive_bits - result.code_bits
    for name, byte in crossings.items():
        assert crossing_byte(result.curve, result.curves[name]) == result.curves[name].n_bytes[0] < byte < len(data)
        lead = result.curves[name].at(byte) - result.curve.at(byte)
        assert lead == pytest.approx(beyond, rel=0.1)  # curves are straight between their points
