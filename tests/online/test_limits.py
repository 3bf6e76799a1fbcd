"""The memory estimate is at least what a learner really holds, and needs no learner."""

from dataclasses import replace
from random import Random

import pytest

from prequential.decompression import decoding_s
from prequential.errors import ConfigError
from prequential.model.config import GPT_CONTEXTS, Config, GPTConfig, MixerConfig, ReplicaConfig, ScheduleConfig
from prequential.model.presets import PRESETS, preset
from prequential.online.flops import most_flops_per_byte, total_flops
from prequential.online.limits import (
    MAX_MEMORY_BYTES,
    MAX_OPERATIONS_PER_BYTE,
    check_limits,
    memory_bytes,
    operations_per_byte,
)
from prequential.online.runtime import Runtime

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


def test_the_largest_model_in_range_is_refused() -> None:
    largest = Config(gpt=GPTConfig(n_layers=64, width=4096, n_heads=64, mlp_factor=4), mixer=MixerConfig(table_bits=26))
    with pytest.raises(ConfigError, match="memory"):
        check_limits(largest, MAX_MEMORY_BYTES)


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
        n_layers=up_to(64),
        width=2 * n_heads * up_to(64),
        n_heads=n_heads,
        mlp_factor=up_to(8),
        n_embeddings=up_to(8),
        window=random.choice((2, 100, 128, 512)),
        contexts=random.choice(((), (), GPT_CONTEXTS)),
    )
    schedule = ScheduleConfig(
        first_segment_symbols=up_to(1 << 13),
        segment_symbols=up_to(1 << 13),
        row_symbols=up_to(512),
        n_rows=up_to(1024),
        history_bits=14,
        block_symbols=up_to(1 << 15),
    )
    replicas = ReplicaConfig(n_replicas=1 + up_to(63)) if random.random() < 0.2 else None
    return Config(gpt=gpt, mixer=random.choice((None, MixerConfig())), schedule=schedule, replicas=replicas)


def test_the_bound_of_the_work_holds_for_every_length_of_a_corpus() -> None:
    random, n_configs, largest_share = Random(1), 0, 0.0
    while n_configs < 200:
        try:
            config = _random_config(random)
        except ConfigError:
            continue
        n_configs += 1
        s = config.schedule
        bound = most_flops_per_byte(config)
        for n in {1, s.segment_symbols + 1, s.block_symbols, s.block_symbols + 1, random.randint(1, 20_000)}:
            share = total_flops(config, n).total / (n * bound)
            assert share <= 1, (config, n)
            largest_share = max(largest_share, share)
    assert largest_share > 0.9  # the bound is close for some


@pytest.mark.parametrize(
    ("gpt", "size", "row", "n_rows", "block", "n_bytes"),
    [
        (GPTConfig(n_layers=16, width=128, n_heads=2), 4096, 512, 16, 1, 9000),
        (GPTConfig(n_layers=12, width=512, n_heads=8), 32, 32, 256, 33, 330_000),
    ],
    ids=["a block for each byte", "every second segment has one byte"],
)
def test_blocks_that_cut_segments_are_counted(gpt, size, row, n_rows, block, n_bytes) -> None:
    schedule = ScheduleConfig(
        first_segment_symbols=size, segment_symbols=size, row_symbols=row, n_rows=n_rows, block_symbols=block
    )
    config = Config(gpt=gpt, mixer=None, schedule=schedule)
    declared = replace(config, schedule=replace(config.schedule, block_symbols=1 << 18))
    check_limits(declared, 1 << 60)
    assert total_flops(config, n_bytes).total / n_bytes > MAX_OPERATIONS_PER_BYTE
    with pytest.raises(ConfigError, match="operations a byte"):
        check_limits(config, 1 << 60)


def test_calls_and_digests_are_counted() -> None:
    """Some 10 s and 0.4 s for each byte that hardly any product is counted for."""
    shortest = ScheduleConfig(
        first_segment_symbols=1, segment_symbols=1, row_symbols=1, n_rows=64, history_bits=28, block_symbols=1
    )
    calls = Config(
        gpt=GPTConfig(n_layers=64, width=16, n_heads=1, window=2),
        mixer=None,
        schedule=shortest,
        replicas=ReplicaConfig(n_replicas=64),
    )
    assert operations_per_byte(calls) > 2 * most_flops_per_byte(calls)
    digests = Config(gpt=None, mixer=MixerConfig(table_bits=25), schedule=shortest)
    assert operations_per_byte(digests) > 1e9 > 1e4 * most_flops_per_byte(digests)


@pytest.mark.parametrize("level", PRESETS)
def test_presets_are_far_below_the_limit_of_work(level: int) -> None:
    assert operations_per_byte(PRESETS[level]) < MAX_OPERATIONS_PER_BYTE / 100


@pytest.mark.parametrize(("level", "kb_per_s"), [(1, 154), (2, 78), (3, 26), (4, 19), (5, 8.1), (9, 6.8)])
def test_the_estimated_time_of_decoding_is_that_of_the_recorded_runs_within_a_factor_of_2(
    level: int, kb_per_s: float
) -> None:
    """`benchmarks/results.py --every-row`, enwik6: 1,000,000 bytes, decompressed in these kB/s."""
    seconds = decoding_s(preset(level), 1_000_000)
    assert 0.5 < seconds / (1000 / kb_per_s) < 2
