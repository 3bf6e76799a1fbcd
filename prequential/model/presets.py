"""Presets: configurations by level, from fast to small archives. The archive stores the complete Config, not the level."""

import dataclasses
import re
from collections.abc import Mapping
from numbers import Integral
from typing import Any

from prequential.errors import ConfigError, wrong_argument
from prequential.model.config import (
    CONTEXTS,
    CURVES,
    FAST_CONTEXTS,
    FAST_SETS,
    GPT_CONTEXTS,
    HASHED_CONTEXTS,
    RECALL_CONTEXTS,
    WEIGHT_SETS,
    Config,
    GPTConfig,
    MixerConfig,
    ScheduleConfig,
)

DEFAULT_PRESET = 5
# Shorter inputs are compressed with SMALL_PRESET, which has no GPT: it has too little to learn from (dev/LOG.md, 2026-11-23).
SMALL_N_BYTES, SMALL_PRESET = 1 << 18, 4
# Contexts in the order in which they were chosen on text, code and JSON (dev/LOG.md).
SECOND_CONTEXTS = (
    *FAST_CONTEXTS, "word,word3-4", "groups4", "word,gaps", "above,next", "16", "collapsed8", "line,above", "vowels,length",
    "5", "8", "match", "above", "word3", "word,marks", "nest,word", "after2,2", "skip1,3", "skip2-3", "first,word", "letters5",
)  # fmt: skip
THIRD_CONTEXTS = (
    *SECOND_CONTEXTS, "0", "word,1", "word,word3", "word,2", "word2,gap2", "11", "classes", "phrase", "skip1,4", "template,next",
)  # fmt: skip
SECOND_SETS = (*FAST_SETS, "bits", "vowels", "history2,length")

# What remains without a GPT:
SETS_ALONE, CURVES_ALONE = (tuple(name for name in names if name != "gpt") for names in (WEIGHT_SETS, CURVES))
# With the other two, texts and code of 0.3 MB take no fewer bits (dev/LOG.md, 2026-11-24):
FULL_SETS = tuple(name for name in SETS_ALONE if name not in ("match,known", "words,known"))

# Contexts that say little in text. In binary data they take the places of contexts of words, with or without a name here:
# One more would begin another block of contexts (model/mixer/arrays.py), and "tag,1" gives nothing.
_LEAST_OF_ALL = {"tag,1", "skip3-4", "skip4-6", "skip3-5", "skip2", "nibbles4", "nibbles7", "after1,3"}
# Contexts that give the least for their time (dev/LOG.md, 2026-11-23):
_LEAST_OF_FAST, _LEAST_OF_SECOND = {"1", "2"}, {"1", "6", "above", "word,marks", "letters5"}

_FAST = MixerConfig(contexts=tuple(name for name in FAST_CONTEXTS if name not in _LEAST_OF_FAST))
_SECOND = MixerConfig(
    contexts=(*(name for name in SECOND_CONTEXTS if name not in _LEAST_OF_SECOND), "template,next"),
    sets=SECOND_SETS,
    curves=("1", "2", "word"),
)
_THIRD = MixerConfig(contexts=THIRD_CONTEXTS, sets=FULL_SETS, curves=CURVES_ALONE)
_FULL = MixerConfig(
    contexts=tuple(name for name in CONTEXTS if name not in _LEAST_OF_ALL),
    sets=FULL_SETS,
    curves=CURVES_ALONE,
    table_bits=23,
)


def _with_gpt(n_layers: int, width: int, bits: int, mixer: MixerConfig | None, mlp: int = 4, rows: int = 4) -> Config:
    """A GPT that learns once from each symbol. Without a memory of contexts, replay costs bits (dev/LOG.md)."""
    gpt = GPTConfig(
        n_layers=n_layers, width=width, n_heads=width // 64, mlp_factor=mlp, contexts=GPT_CONTEXTS, context_bits=bits,
        context_step=0.16,
    )  # fmt: skip
    schedule = ScheduleConfig(segment_symbols=ScheduleConfig.row_symbols * rows, n_rows=rows)
    return Config(gpt=gpt, mixer=mixer, schedule=schedule)


def _with_memory(config: Config, block_symbols: int = ScheduleConfig.block_symbols) -> Config:
    """The same with a memory of contexts and smaller steps. A step replays a position for each new one."""
    assert config.gpt
    gpt = dataclasses.replace(config.gpt, memory_bits=20, matrix_step=0.02, momentum=0.8)
    schedule = dataclasses.replace(config.schedule, n_rows=2 * config.schedule.n_rows, block_symbols=block_symbols)
    return dataclasses.replace(config, gpt=gpt, schedule=schedule)


def _beside_gpt(mixer: MixerConfig, table_bits: int) -> MixerConfig:
    """The mixer with what needs a GPT: a weight set and a map of curves by the byte that the GPT expects."""
    return dataclasses.replace(mixer, sets=(*mixer.sets, "gpt"), curves=(*mixer.curves, "gpt"), table_bits=table_bits)


PRESETS: dict[int, Config] = {
    1: Config(gpt=None, mixer=_FAST), 2: Config(gpt=None, mixer=_SECOND), 3: Config(gpt=None, mixer=_THIRD),
    4: Config(gpt=None, mixer=_FULL),
    # Beside this mixer an MLP twice as wide, or four rows, take as many bits, and longer (dev/LOG.md, 2026-11-29).
    5: _with_gpt(2, 192, 19, _beside_gpt(_FULL, 23), mlp=2, rows=5),
    6: _with_memory(_with_gpt(2, 192, 20, _beside_gpt(_FULL, 25))),
}  # fmt: skip

# For a device, which steps while the processor mixes: 7 million weights. The mixer is the one of -2, with a larger table: a
# larger mixer would take most of the time. Blocks are larger, because each ends with a digest of 1 GB.
DEVICE_PRESETS: dict[str, Config] = {
    "gpu-small": _with_memory(_with_gpt(4, 384, 20, _beside_gpt(_SECOND, 24)), block_symbols=1 << 20)
}

# Without the mixer, one GPT. A larger one, 4 x 384, takes more bits at 1 and 4 MB (dev/LOG.md, 2026-11-25).
_PURE = _with_memory(_with_gpt(2, 192, 20, None))


def preset(level: int | str = DEFAULT_PRESET, *, pure: bool = False, seed: int = 0) -> Config:
    """The Config of a level, as 1, "1" or "-1", or of a name in DEVICE_PRESETS. pure: a GPT without the context mixer, of the
    default level only. Raises ConfigError for an unknown level.

    Examples:
        >>> import prequential
        >>> prequential.preset(1).gpt is None, prequential.preset(5).gpt.width, prequential.preset(5, pure=True).mixer
        (True, 192, None)
    """
    if not isinstance(pure, bool):
        raise wrong_argument("pure", pure, "True or False")
    if isinstance(level, str) and level in DEVICE_PRESETS:
        config = DEVICE_PRESETS[str(level)]
        return dataclasses.replace(config, seed=seed, mixer=None if pure else config.mixer)
    if isinstance(level, str) and re.fullmatch("-?[1-9]", level, re.ASCII):
        level = int(level[-1])
    if not isinstance(level, Integral) or isinstance(level, bool) or level not in PRESETS:
        names = " or ".join(map(repr, DEVICE_PRESETS))
        raise wrong_argument("level", level, f"a number from {min(PRESETS)} to {max(PRESETS)}, or {names}")
    if pure and level != DEFAULT_PRESET:
        raise ConfigError(f"only preset {DEFAULT_PRESET} has a GPT that is used alone (pure), not preset {level}")
    return dataclasses.replace(_PURE if pure else PRESETS[int(level)], seed=seed)


def default_for(n_bytes: int) -> Config:
    """The Config for an input of this length, where none was chosen."""
    return preset(SMALL_PRESET if n_bytes < SMALL_N_BYTES else DEFAULT_PRESET)


def name_of(config: Mapping[str, Any]) -> str | None:
    """The options that give this configuration (Config.to_dict, or from JSON), but for its entry `given`; None if none do."""
    try:
        own = Config.from_dict({name: value for name, value in config.items() if name != "given"})
    except ConfigError:
        return None
    levels: list[int | str] = [*PRESETS, *DEVICE_PRESETS]
    for level in levels:
        for pure in (False, True) if level in (DEFAULT_PRESET, *DEVICE_PRESETS) else (False,):
            if preset(level, pure=pure, seed=own.seed) == own:
                options = f"--preset {level}" if level in DEVICE_PRESETS else f"-{level}"
                return options + " --pure" * pure + (f" --seed {own.seed}" if own.seed else "")
    return None


# What `without` removes. Of the mixer's contexts: the patterns of their names, of which the last one that matches decides.
_GPT_FEATURES: Mapping[str, Mapping[str, Any]] = {
    "embeddings": {"n_embeddings": 1},  # only the last symbol enters
    "window": {"window": 16},
    "warmup": {"warmup_updates": 1},
    "decay": {"decay_updates": 10**9},  # updates after which a step has 1/sqrt(2) of its size
    "momentum": {"momentum": 0.0},
    "mlp": {"mlp_factor": 1},
}
_GPT_CONTEXTS = {"contexts": HASHED_CONTEXTS, "recall": RECALL_CONTEXTS}
_MIXER_CONTEXTS = {
    "high-orders": r"[5-9]|1\d",  # of 5 bytes and more
    "words": r".*(word|letters|vowels|length|gap|phrase|suffix).*",
    "sparse": r"skip.*|halves|nibbles.*",
    "columns": r".*(above|line|indent).*|first.*",
    "structure": r"(nest|tag|inside|opened).*",
    "classes": r"classes|(groups|collapsed|folded).*",
    "indirect": r"(after|next).*",
    "match": r"match.*",
}
FEATURES = (*_GPT_FEATURES, *_GPT_CONTEXTS, *_MIXER_CONTEXTS, "replay", "short-start", "mixer")


def without(config: Config, *features: str) -> Config:
    """`config` without these features, for ablations: each sets fields of its own, so their order does not matter.

    Raises ConfigError for an unknown feature, and for one that `config` does not have.

    Examples:
        >>> import prequential
        >>> prequential.without(prequential.preset(5), "momentum", "mixer").gpt.momentum
        0.0
    """
    if not isinstance(config, Config):
        raise wrong_argument("config", config, "a Config")
    for name in features:
        if name not in FEATURES:
            raise ConfigError(f"there is no feature {name!r}; the features are {', '.join(FEATURES)}")
        if (less := _without(config, name)) == config:
            raise ConfigError(f"the configuration has no {name!r} that could be removed")
        config = less
    return config


def _without(config: Config, name: str) -> Config:
    replace, gpt, mixer, schedule = dataclasses.replace, config.gpt, config.mixer, config.schedule
    if name == "replay":
        n_rows = -(-schedule.segment_symbols // schedule.row_symbols)
        return replace(config, schedule=replace(schedule, n_rows=n_rows))
    if name == "short-start":
        return replace(config, schedule=replace(schedule, first_segment_symbols=schedule.segment_symbols))
    if name == "mixer":
        return replace(config, mixer=None)
    if gpt and name in _GPT_FEATURES:
        return replace(config, gpt=replace(gpt, **_GPT_FEATURES[name]))
    if gpt and name in _GPT_CONTEXTS:
        others = tuple(c for c in gpt.contexts if c not in _GPT_CONTEXTS[name])
        return replace(config, gpt=replace(gpt, contexts=others))
    if mixer and name in _MIXER_CONTEXTS:
        kinds = {c: [kind for kind, names in _MIXER_CONTEXTS.items() if re.fullmatch(names, c)] for c in mixer.contexts}
        return replace(config, mixer=replace(mixer, contexts=tuple(c for c, of in kinds.items() if of[-1:] != [name])))
    return config
