"""The memory estimate is at least what a learner really holds, and needs no learner."""

from dataclasses import replace

import pytest

from prequential.errors import ConfigError
from prequential.model.config import Config, GPTConfig, MixerConfig, ScheduleConfig
from prequential.model.presets import PRESETS
from prequential.online.limits import MAX_MEMORY_BYTES, check_limits, memory_bytes
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


@pytest.mark.parametrize("level", PRESETS)
def test_every_preset_fits_the_default_limit(level: int) -> None:
    check_limits(PRESETS[level], MAX_MEMORY_BYTES)


def test_the_largest_model_in_range_is_refused() -> None:
    largest = Config(gpt=GPTConfig(n_layers=64, width=4096, n_heads=64, mlp_factor=4), mixer=MixerConfig(table_bits=26))
    with pytest.raises(ConfigError, match="memory"):
        check_limits(largest, MAX_MEMORY_BYTES)


def test_the_runtime_makes_no_learner_beyond_the_limits() -> None:
    small = Runtime(kernels="plain", threads=1, max_memory_bytes=1 << 20)
    with pytest.raises(ConfigError, match="memory"):
        small.learner(PRESETS[5])
    slow = replace(
        PRESETS[5], schedule=ScheduleConfig(segment_symbols=1, first_segment_symbols=1, row_symbols=512, n_rows=16)
    )
    slow = replace(slow, gpt=GPTConfig(n_layers=8, width=1024, n_heads=8))
    with pytest.raises(ConfigError, match="operations a byte"):
        Runtime(kernels="plain", threads=1, max_memory_bytes=1 << 40).learner(slow)


def test_an_audited_run_is_counted_twice_and_every_thread_orthogonalises() -> None:
    config = PRESETS[5]
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
