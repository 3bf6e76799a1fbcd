"""Operations per byte: the counts from shapes equal the products that a real run computes."""

import time
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch

from prequential import Config, CorpusError, GPTConfig, MixerConfig, Runtime, ScheduleConfig, compress, preset
from prequential.exact.matmul import Matmul
from prequential.model.mixer.mixer import Mixer, n_inputs
from prequential.online.flops import _segment_counts, _segments, flops_per_byte, replay_factor, total_flops

SCHEDULE = ScheduleConfig(
    first_segment_symbols=48, segment_symbols=160, row_symbols=32, n_rows=6, history_bits=14, block_symbols=700
)
SMALL = Config(gpt=GPTConfig(n_layers=2, width=16, n_heads=1, mlp_factor=2, window=24), mixer=None, schedule=SCHEDULE)
PLAIN = Runtime(kernels="plain", threads=1)


def products_of_a_run(config: Config, n_bytes: int, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Operations that `Matmul` computed while n_bytes were coded: with weights, and batched, of attention."""
    compress(b"warm up", config=config, runtime=PLAIN)  # the self-test multiplies, too, but only once in a process
    counted: Counter[str] = Counter()
    single, batched = Matmul.__call__, Matmul.batched

    def count_single(self: Matmul, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        counted["weights"] += 2 * a.shape[0] * a.shape[1] * b.shape[1]
        return single(self, a, b)

    def count_batched(self: Matmul, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        result = batched(self, a, b)
        counted["attention"] += 2 * result.numel() * a.shape[-1]
        return result

    monkeypatch.setattr(Matmul, "__call__", count_single)
    monkeypatch.setattr(Matmul, "batched", count_batched)
    compress(np.arange(n_bytes, dtype=np.uint8), config=config, runtime=PLAIN)
    return counted


@pytest.mark.parametrize(
    ("config", "n_bytes"),
    [
        pytest.param(SMALL, 1500, id="blocks and segments that end early"),
        pytest.param(SMALL, 48, id="one segment, no step"),
        pytest.param(
            replace(SMALL, schedule=replace(SCHEDULE, first_segment_symbols=1)), 60, id="rows shorter than usual"
        ),
        pytest.param(replace(SMALL, gpt=GPTConfig(n_layers=1, width=32, n_heads=2, window=2)), 400, id="another shape"),
    ],
)
def test_counts_equal_the_products_of_a_run(config: Config, n_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = products_of_a_run(config, n_bytes, monkeypatch)
    flops = total_flops(config, n_bytes)
    assert flops.reading + flops.learning + flops.optimiser == counted["weights"]
    assert flops.attention == counted["attention"]
    assert flops.mixer == 0


def test_parts_add_up_to_the_total() -> None:
    flops = total_flops(preset(5), 100_000)
    assert flops_per_byte(preset(5), 100_000) == flops.per_byte(100_000)


def test_a_full_segment_reads_each_symbol_once_and_learns_from_replay_factor_times_as_many() -> None:
    per_byte = flops_per_byte(SMALL)
    d, v = 16, 256
    hidden, head = 2 * (4 * d * d + 2 * d * 2 * d), d * v
    assert replay_factor(SMALL) == 6 * 32 / 160
    assert per_byte.reading == 2 * (hidden + head)
    assert per_byte.learning == pytest.approx(2 * (3 * hidden + 4 * head) * replay_factor(SMALL), rel=1e-15)


def test_early_segments_take_more_steps_and_a_long_corpus_approaches_the_full_segment() -> None:
    config = preset(5)
    assert flops_per_byte(config, 16_384).optimiser > 1.9 * flops_per_byte(config).optimiser
    assert flops_per_byte(config, 1 << 23).total == pytest.approx(flops_per_byte(config).total, rel=0.03)


def test_the_mixer_has_a_weight_for_each_input() -> None:
    for contexts in (("1",), ("1", "2", "4"), MixerConfig().contexts):
        config = MixerConfig(contexts=contexts, table_bits=4, match_bits=4)
        assert Mixer(config, np.zeros(16, np.uint8)).arrays.weights.shape[1] == n_inputs(config)


@pytest.mark.parametrize("block_symbols", [1, 100, 128, 2048, 1 << 16])
def test_blocks_after_the_segments_have_grown_are_counted_at_once(block_symbols: int) -> None:
    schedule = replace(
        SCHEDULE, first_segment_symbols=32, segment_symbols=128, row_symbols=32, block_symbols=block_symbols
    )
    for n_bytes in (1, 8192, 8193, 9000, 65536 * 2, 65536 * 3 + 129):
        assert _segment_counts(n_bytes, schedule) == Counter(_segments(n_bytes, schedule))


def test_the_longest_corpus_is_counted_in_a_moment() -> None:
    shortest = replace(SCHEDULE, first_segment_symbols=1, segment_symbols=1, block_symbols=1 << 25)
    smallest = replace(SMALL, schedule=shortest)
    start = time.perf_counter()
    flops = total_flops(smallest, 2**63 - 1)
    assert time.perf_counter() - start < 5
    assert flops.reading == int(flops_per_byte(smallest).reading) * (2**63 - 1)


def test_no_bytes_have_no_operations_per_byte() -> None:
    with pytest.raises(CorpusError, match="1 byte or more"):
        total_flops(SMALL, 0)
