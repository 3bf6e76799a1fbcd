"""Presets: named points on the front of bits against time. Each is a full Config, which the archive stores."""

import dataclasses

from prequential.errors import ConfigError
from prequential.model.config import Config, GPTConfig, MixerConfig, ScheduleConfig

DEFAULT_PRESET = 5
PRESETS: dict[int, Config] = {
    1: Config(gpt=None, mixer=MixerConfig()),
    5: Config(gpt=GPTConfig(n_layers=2, width=192, n_heads=3), mixer=MixerConfig(), schedule=ScheduleConfig()),
}


def preset(level: int = DEFAULT_PRESET, *, pure: bool = False, seed: int = 0) -> Config:
    """The Config of a level. pure: the GPT alone, without context mixing. Raises ConfigError for an unknown level."""
    if level not in PRESETS:
        raise ConfigError(f"no preset {level}; there are {', '.join(map(str, PRESETS))}")
    config = dataclasses.replace(PRESETS[level], seed=seed)
    if pure and config.gpt is None:
        raise ConfigError(f"preset {level} has no GPT, so it cannot be pure")
    return dataclasses.replace(config, mixer=None) if pure else config
