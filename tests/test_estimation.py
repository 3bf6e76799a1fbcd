"""Estimates: the segments that the probe codes, and the time and memory that follow from it."""

from dataclasses import replace

import numpy as np
import pytest
from prequential_corpora.bundled import sample_path

from prequential import Config, CorpusError, GPTConfig, MixerConfig, ReplicaConfig, Runtime, ScheduleConfig
from prequential import estimation as module
from prequential.estimation import (
    Estimate,
    Probe,
    ProbePass,
    coding_time_s,
    probe_blocks,
    run_probe,
)
from prequential.model.schedule import blocks, segments
from prequential.online.source import open_source

SCHEDULE = ScheduleConfig(
    first_segment_symbols=48, segment_symbols=160, row_symbols=32, n_rows=6, history_bits=14, block_symbols=6000
)
MIXER = Config(gpt=None, mixer=MixerConfig(contexts=("1", "2", "4"), table_bits=10, match_bits=8), schedule=SCHEDULE)
TINY = Config(
    gpt=GPTConfig(n_layers=1, width=16, n_heads=1, mlp_factor=1, window=8),
    mixer=None,
    schedule=ScheduleConfig(first_segment_symbols=16, segment_symbols=32, row_symbols=16, n_rows=2, history_bits=14),
)
REPLICAS = replace(TINY, mixer=MIXER.mixer, replicas=ReplicaConfig(n_replicas=2, sync_every=3))
FUSED = Runtime(kernels="fused", threads=1)


def text(n: int) -> np.ndarray:
    return np.fromfile(sample_path("christmas_carol"), np.uint8, n)


def estimate(data: np.ndarray, config: Config, probe_bytes: int = 4000) -> Estimate:
    with open_source(data) as source:
        return module.estimate(source, config, FUSED, probe_bytes=probe_bytes)


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The probe runs in this process without a warm-up: only its memory and its start-up time mean nothing then."""
    monkeypatch.setattr(module, "probe_in_new_process", run_probe)
    monkeypatch.setattr("prequential.estimation.warm_up", lambda *_: None)


# ---- the probe


def test_a_probe_begins_with_the_schedules_segments_and_ends_with_full_size_ones() -> None:
    parts, n_full_bytes = probe_blocks(100_000, 3000, SCHEDULE)
    sizes = [s.stop - s.start for part in parts for s in segments(part, SCHEDULE)]
    n_full = n_full_bytes // 160
    assert sizes[-n_full:] == [160] * n_full
    assert sizes[:-n_full] == [48] * 42  # 42 * 48 is the first end of a segment at or after two thirds of 3000
    # a corpus that is not longer is coded completely
    assert probe_blocks(2500, 3000, SCHEDULE) == (list(blocks(2500, SCHEDULE)), 0)
    assert probe_blocks(1, 3000, SCHEDULE) == ([slice(0, 1)], 0)


@pytest.mark.parametrize(("config", "n_bytes"), [(TINY, 200), (MIXER, 9000), (REPLICAS, 200)])
def test_a_probe_of_the_complete_corpus_counts_all_of_it(config: Config, n_bytes: int, in_this_process: None) -> None:
    source = text(n_bytes)
    found = estimate(source, config, 20_000)
    assert found.probe_bytes == n_bytes
    assert found.compress_s > 0 and found.decompress_s > 0


def test_a_probe_ends_with_its_budget_but_has_both_kinds_of_segments() -> None:
    whole = run_probe(text(9000), 100_000, 3000, MIXER, FUSED)
    short = run_probe(text(9000), 100_000, 3000, MIXER, FUSED, budget_s=0.0)
    assert short.sizes == (160, 160) and short.n_full == 2
    assert whole.n_bytes > 2900
    unplaced = run_probe(text(2500), 2500, 3000, MIXER, FUSED, budget_s=1e-9)
    assert unplaced.sizes == (48,) and unplaced.n_full == 0
    assert coding_time_s(unplaced, unplaced.encoded, 2500, SCHEDULE) > unplaced.encoded.wall_s[0]


# ---- time: from made-up probes, so that the sums are known


def made_up_probe(n_bytes: int, probe_bytes: int, segment_s: float, symbol_s: float) -> Probe:
    """A probe in which a segment of n symbols takes segment_s + n * symbol_s seconds."""
    parts, n_full_bytes = probe_blocks(n_bytes, probe_bytes, SCHEDULE)
    sizes = tuple(s.stop - s.start for part in parts for s in segments(part, SCHEDULE))
    passed = ProbePass(sizes, tuple(segment_s + n * symbol_s for n in sizes))
    return Probe(
        n_full=n_full_bytes // 160, encoded=passed, decoded=passed,
        startup_s=1.0, learner_s=0.5, block_s=0.25, peak_memory_bytes=10**8,
    )  # fmt: skip


@pytest.mark.parametrize("n_bytes", [40_000, 2500, 6001])
def test_the_time_is_the_sum_over_the_schedule_if_it_is_linear_in_the_size(n_bytes: int) -> None:
    probe = made_up_probe(n_bytes, 3000, 0.01, 0.0001)
    sizes = [s.stop - s.start for b in blocks(n_bytes, SCHEDULE) for s in segments(b, SCHEDULE)]
    expected = 0.5 + 0.25 * len(list(blocks(n_bytes, SCHEDULE))) + sum(0.01 + 0.0001 * n for n in sizes)
    assert coding_time_s(probe, probe.encoded, n_bytes, SCHEDULE) == pytest.approx(expected, rel=1e-9)


# ---- memory


def test_memory_grows_by_the_mapped_corpus_and_by_the_history_up_to_its_size() -> None:
    ring = 1 << SCHEDULE.history_bits
    assert module._growth_bytes(1000, 5000, SCHEDULE) == 5000 + 4000
    assert module._growth_bytes(1000, 10 * ring, SCHEDULE) == 10 * ring + ring - 1000


def test_an_empty_corpus_is_refused() -> None:
    with pytest.raises(CorpusError, match="nothing to estimate"):
        estimate(np.zeros(0, np.uint8), TINY)
