"""What a learner costs: counted operations are those of a run, the memory is at least what it holds, and both have limits."""

import time
from collections import Counter
from dataclasses import replace
from random import Random

import numpy as np
import pytest
import torch

from prequential.compression import compress
from prequential.errors import ConfigError
from prequential.exact.matmul import Matmul
from prequential.model.config import GPT_CONTEXTS, Config, GPTConfig, MixerConfig, ScheduleConfig
from prequential.model.mixer.mixer import Mixer, n_inputs
from prequential.model.presets import PRESETS
from prequential.online import costs
from prequential.online.costs import (
    _segment_counts,
    _segments,
    memory_bytes,
    operations_per_byte,
    total_flops,
)
from prequential.online.runtime import Runtime

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
    assert total_flops(config, n_bytes) == counted["weights"] + counted["attention"]


def test_the_mixer_has_a_weight_for_each_input() -> None:
    for contexts in (("1",), ("1", "2", "4"), MixerConfig().contexts):
        config = MixerConfig(contexts=contexts, table_bits=6, match_bits=4)
        assert Mixer(config, np.zeros(16, np.uint8)).state()["weights"].shape[1] == n_inputs(config)


@pytest.mark.parametrize("block_symbols", [1, 100, 2048])
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
    assert flops > 2 * (2 * (4 * 16 * 16 + 2 * 16 * 32) + 16 * 256) * (2**63 - 1)


# ---- memory, and the limits


SHAPES = [
    Config(gpt=GPTConfig(n_layers=1, width=32, n_heads=2, window=16), mixer=None),
    Config(gpt=GPTConfig(n_layers=3, width=128, n_heads=2), mixer=MixerConfig(table_bits=10)),
    Config(gpt=None, mixer=MixerConfig(contexts=("1", "2"), table_bits=12)),
]


@pytest.mark.parametrize("config", SHAPES)
def test_the_estimate_covers_the_learners_state(config: Config) -> None:
    learner = Runtime(kernels="plain").learner(config)
    learner.begin(config.schedule.segment_symbols)
    learner.end(config.schedule.segment_symbols)
    assert sum(tensor.nbytes for tensor in learner.state().values()) <= memory_bytes(config)


def test_the_runtime_makes_no_learner_beyond_the_limits() -> None:
    small = Runtime(kernels="plain", threads=1, max_memory_bytes=1 << 20)
    with pytest.raises(ConfigError, match="memory"):
        small.learner(PRESETS[5])
    slow = replace(
        PRESETS[5],
        gpt=GPTConfig(n_layers=8, width=1024, n_heads=8),
        schedule=ScheduleConfig(segment_symbols=1, first_segment_symbols=1, row_symbols=512, n_rows=16),
    )
    with pytest.raises(ConfigError, match="operations a byte"):
        Runtime(kernels="plain", threads=1, max_memory_bytes=1 << 40).learner(slow)


def test_an_audited_run_is_counted_twice_and_every_thread_orthogonalises() -> None:
    config = replace(PRESETS[5], gpt=replace(PRESETS[5].gpt, contexts=()))
    n_bytes = memory_bytes(config, n_threads=2)
    Runtime(threads=2, max_memory_bytes=n_bytes).check(config)
    with pytest.raises(ConfigError, match="memory"):
        Runtime(threads=2, max_memory_bytes=n_bytes - 1).check(config)
    with pytest.raises(ConfigError, match="memory"):
        Runtime(threads=2, max_memory_bytes=n_bytes).check(config, extra_bytes=1)
    with pytest.raises(ConfigError, match="memory"):
        Runtime(threads=2, audit_every=8, max_memory_bytes=2 * n_bytes - 1).check(config)
    Runtime(threads=2, audit_every=8, max_memory_bytes=2 * n_bytes).check(config)
    assert memory_bytes(config, n_threads=1) < n_bytes == memory_bytes(config, n_threads=2)


def _random_config(random: Random) -> Config:
    """A configuration in range. Raises ConfigError for parts that do not fit together."""

    def up_to(n: int) -> int:
        """1 .. n; small numbers are as likely as large ones."""
        return random.randint(1, 1 << random.randrange(n.bit_length()))

    n_heads = up_to(64)
    gpt = GPTConfig(
        n_layers=up_to(64), width=2 * n_heads * up_to(64), n_heads=n_heads, mlp_factor=up_to(8), n_embeddings=up_to(8),
        window=random.choice((2, 100, 128, 512)), contexts=random.choice(((), (), GPT_CONTEXTS)),
    )  # fmt: skip
    schedule = ScheduleConfig(
        first_segment_symbols=up_to(1 << 13), segment_symbols=up_to(1 << 13), row_symbols=up_to(512), n_rows=up_to(1024),
        history_bits=14, block_symbols=up_to(1 << 15),
    )  # fmt: skip
    return Config(gpt=gpt, mixer=random.choice((None, MixerConfig())), schedule=schedule)


def test_the_bound_of_the_work_holds_for_every_length_of_a_corpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "_LAYER_STEP_OPERATIONS", 0)  # which is not counted
    random, n_configs, largest_share = Random(1), 0, 0.0
    while n_configs < 200:
        try:
            config = _random_config(random)
        except ConfigError:
            continue
        n_configs += 1
        s = config.schedule
        bound = operations_per_byte(config)
        for n in {1, s.segment_symbols + 1, s.block_symbols, s.block_symbols + 1, random.randint(1, 20_000)}:
            share = total_flops(config, n) / (n * bound)
            assert share <= 1, (config, n)
            largest_share = max(largest_share, share)
    assert largest_share > 0.9  # the bound is close for some


def test_calls_and_digests_are_counted() -> None:
    """Some 10 s and 0.4 s for each byte that hardly any product is counted for."""
    shortest = ScheduleConfig(
        first_segment_symbols=1, segment_symbols=1, row_symbols=1, n_rows=64, history_bits=28, block_symbols=1
    )
    calls = Config(gpt=GPTConfig(n_layers=64, width=16, n_heads=1, window=2), mixer=None, schedule=shortest)
    assert operations_per_byte(calls) > 2 * total_flops(calls, 1000) / 1000
    digests = Config(gpt=None, mixer=MixerConfig(table_bits=25), schedule=shortest)
    assert operations_per_byte(digests) > 1e9 > 1e4 * total_flops(digests, 1000) / 1000
