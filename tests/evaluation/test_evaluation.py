"""The ledger accounts for every bit, and a second run agrees in every bit."""

from dataclasses import replace

import numpy as np
import pytest
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
    mixing = {"most_threads": 4, "used_threads": 2, "together": 0.9, "exchange_ns": 118}
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


def test_a_crossing_compares_an_archive_with_files():
    """Not an ideal code length, which would be below them from the first byte on."""
    data = sample_path("christmas_carol").read_bytes()[:8000]
    small = prequential.Config(gpt=None, mixer=prequential.MixerConfig(contexts=("2", "3", "word"), table_bits=10))
    result = prequential.evaluate(data, config=small, runtime=FUSED, baselines=("gzip", "bzip2"))
    crossings = result.crossings
    beyond = result.archive_bits - result.code_bits
    for name, byte in crossings.items():
        assert crossing_byte(result.curve, result.curves[name]) == 0 < byte < len(data)
        lead = result.curves[name].at(byte) - result.curve.at(byte)
        assert lead == pytest.approx(beyond, rel=0.1)  # curves are straight between their points
