"""How long an archive takes to decode, roughly, from its header alone: a small one may take days."""

import logging
from dataclasses import replace

from prequential.errors import ConfigError
from prequential.model.config import Config
from prequential.online.costs import memory_bytes, most_flops_per_byte, steps_per_byte

LONG_S = 300.0  # the user is told when the first segment is decoded
_BYTE_S, _LAYER_STEP_S = 5e-6, 2e-3
_MIXER_OPERATIONS_PER_S, _GPT_OPERATIONS_PER_S, _DIGEST_BYTES_PER_S = 1e10, 5e11, 4e9


def check_decoding_time(config: Config, n_bytes: int, most_s: float) -> None:
    """Raises ConfigError if decoding takes more than `most_s` on a processor."""
    seconds = decoding_s(config, n_bytes)
    if seconds > most_s:
        raise ConfigError(
            f"decoding takes about {_duration(seconds)}, more than the limit of {_duration(most_s)}; "
            "raise max_decoding_s= if you trust the source"
        )


def warn_if_long(config: Config, n_bytes: int) -> None:
    """Logs a warning if decoding takes LONG_S or more on a processor."""
    seconds = decoding_s(config, n_bytes)
    if seconds >= LONG_S:
        logging.getLogger(__name__).warning("decoding takes about %s on a processor of 2026", _duration(seconds))


def decoding_s(config: Config, n_bytes: int) -> float:
    """Roughly the seconds that decoding n_bytes takes on a processor, with compiled kernels; from the configuration alone.

    The rates give what the presets took on two servers (docs/RESULTS.md), within a factor of 2. Other machines, and more threads,
    differ by a factor of some 4.
    """
    alone = replace(config, gpt=None, replicas=None) if config.mixer else None
    mixer = most_flops_per_byte(alone) if alone else 0.0
    n_gpts = config.replicas.n_replicas if config.replicas else 1
    layers = config.gpt.n_layers * n_gpts if config.gpt else 0
    byte_s = (
        _BYTE_S
        + mixer / _MIXER_OPERATIONS_PER_S
        + (most_flops_per_byte(config) - mixer) / _GPT_OPERATIONS_PER_S
        + layers * steps_per_byte(config) * _LAYER_STEP_S
        + memory_bytes(config) / config.schedule.block_symbols / _DIGEST_BYTES_PER_S
    )
    return n_bytes * byte_s


def _duration(seconds: float) -> str:
    for unit_s, unit, most in ((1, "s", 120), (60, "min", 120), (3600, "h", 72)):
        if seconds < most * unit_s:
            return f"{seconds / unit_s:.0f} {unit}"
    return f"{seconds / 86400:,.0f} days"
