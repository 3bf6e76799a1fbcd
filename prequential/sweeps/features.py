"""Features that a configuration may have, and how it is without each of them.

A feature sets its own fields, so the order in which features are removed does not matter.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from prequential.model.config import HASHED_CONTEXTS, RECALL_CONTEXTS, Config

NO_DECAY = 10**9  # updates after which the step size would have shrunk to 1/sqrt(2)


class Feature(NamedTuple):
    """A feature that a configuration may have. without: returns the configuration without the feature.

    by_default: whether the feature is chosen if none are named.
    """

    description: str
    without: Callable[[Config], Config]
    by_default: bool = True


def _gpt(**fields: Any) -> Callable[[Config], Config]:
    return lambda config: replace(config, gpt=replace(config.gpt, **fields)) if config.gpt else config


def _no_gpt_contexts(names: Sequence[str], config: Config) -> Config:
    contexts = config.gpt.contexts if config.gpt else ()
    return _gpt(contexts=tuple(name for name in contexts if name not in names))(config)


def _no_contexts(kind: str, config: Config) -> Config:
    if config.mixer is None:
        return config
    kept = tuple(name for name in config.mixer.contexts if _kind(name) != kind)
    return replace(config, mixer=replace(config.mixer, contexts=kept))


def _no_replay(config: Config) -> Config:
    schedule = config.schedule
    return replace(config, schedule=replace(schedule, n_rows=-(-schedule.segment_symbols // schedule.row_symbols)))


def _no_short_start(config: Config) -> Config:
    return replace(config, schedule=replace(config.schedule, first_segment_symbols=config.schedule.segment_symbols))


# Kinds of contexts of the mixer: what they are, and the pattern of their names. The last pattern that matches decides.
KINDS = {
    "high-orders": ("of 5 bytes and more", r"[5-9]|1\d"),
    "words": ("of words", r".*(word|letters|vowels|length|gap|phrase|suffix).*"),
    "sparse": ("with gaps", r"skip.*|halves|nibbles.*"),
    "columns": ("of lines and columns", r".*(above|line|indent).*|first.*"),
    "structure": ("of brackets and tags", r"(nest|tag|inside|opened).*"),
    "classes": ("of kinds of characters", r"classes|(groups|collapsed|folded).*"),
    "indirect": ("of what followed before", r"(after|next).*"),
    "match": ("of the longest match", r"match.*"),
}


def _kind(context: str) -> str | None:
    return next((kind for kind, (_, name) in reversed(KINDS.items()) if re.fullmatch(name, context)), None)


FEATURES = {
    "embeddings": Feature("several symbols enter the GPT, not only the last one", _gpt(n_embeddings=1)),
    "contexts": Feature(
        "several symbols together, and words, enter the GPT", partial(_no_gpt_contexts, HASHED_CONTEXTS)
    ),
    "recall": Feature("what followed these before enters the GPT", partial(_no_gpt_contexts, RECALL_CONTEXTS)),
    "window": Feature("attention reaches further than 16 symbols", _gpt(window=16)),
    "replay": Feature("a step learns from more rows than the newest segment", _no_replay),
    "short-start": Feature("early segments are shorter, so there are more early steps", _no_short_start),
    "warmup": Feature("the first steps are shorter, not only the first one", _gpt(warmup_updates=1)),
    "decay": Feature("steps become shorter with time", _gpt(decay_updates=NO_DECAY)),
    "momentum": Feature("a step continues in the direction of earlier ones", _gpt(momentum=0.0)),
    "mlp": Feature("the MLP is wider than the GPT", _gpt(mlp_factor=1), by_default=False),
    **{kind: Feature(f"the mixer's contexts {what}", partial(_no_contexts, kind)) for kind, (what, _) in KINDS.items()},
    "mixer": Feature("the complete context mixer", lambda config: replace(config, mixer=None), by_default=False),
}


def without(config: Config, names: Iterable[str]) -> Config:
    """`config` without these features. Raises ConfigError if the result is not a valid configuration."""
    for name in names:
        config = FEATURES[name].without(config)
    return config
