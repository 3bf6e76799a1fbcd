"""Presets: configurations by level, from fast to small archives. The archive stores the complete Config, not the level."""

import dataclasses

from prequential.errors import ConfigError
from prequential.model.config import GPT_CONTEXTS, Config, GPTConfig, MixerConfig, ScheduleConfig

DEFAULT_PRESET = 5
FEW_CONTEXTS = ("1", "2", "3", "4", "5", "6", "word", "word2", "classes", "line,above")


def _with_gpt(n_layers: int, width: int, segment_symbols: int, n_rows: int, table_bits: int = 23) -> Config:
    return Config(
        gpt=GPTConfig(n_layers=n_layers, width=width, n_heads=width // 64),
        mixer=MixerConfig(table_bits=table_bits),
        schedule=ScheduleConfig(segment_symbols=segment_symbols, n_rows=n_rows),
    )


PRESETS: dict[int, Config] = {
    1: Config(gpt=None, mixer=MixerConfig(contexts=FEW_CONTEXTS, table_bits=22)),
    2: Config(gpt=None, mixer=MixerConfig(table_bits=22)),
    3: _with_gpt(1, 128, 1024, 8),
    4: _with_gpt(2, 128, 1024, 12),
    5: _with_gpt(2, 192, 1024, 12),
    6: _with_gpt(2, 256, 1024, 16, table_bits=24),
    7: _with_gpt(3, 256, 1024, 16, table_bits=24),
    8: _with_gpt(3, 256, 512, 16, table_bits=24),
    9: _with_gpt(4, 384, 512, 16, table_bits=24),
}
PURE_CONTEXT_BITS = 20  # 4 million bytes of text have about 2 million different contexts
PURE_SEGMENT_SYMBOLS, PURE_ROWS = 640, 10  # without the mixer, the GPT gains more from frequent steps


def preset(level: int = DEFAULT_PRESET, *, pure: bool = False, seed: int = 0) -> Config:
    """The Config of a level. pure: without the context mixer. Raises ConfigError for an unknown level, or pure without a GPT."""
    if level not in PRESETS:
        raise ConfigError(f"no preset {level}; choose {min(PRESETS)} to {max(PRESETS)}")
    config = dataclasses.replace(PRESETS[level], seed=seed)
    if not pure:
        return config
    if config.gpt is None:
        raise ConfigError(f"preset {level} has no GPT, so it cannot be pure")
    schedule = dataclasses.replace(
        config.schedule,
        segment_symbols=min(config.schedule.segment_symbols, PURE_SEGMENT_SYMBOLS),
        n_rows=min(config.schedule.n_rows, PURE_ROWS),
    )
    gpt = dataclasses.replace(config.gpt, contexts=GPT_CONTEXTS, context_bits=PURE_CONTEXT_BITS)
    return dataclasses.replace(config, gpt=gpt, mixer=None, schedule=schedule)
