"""Configurations, checked when they are built. Names of fields and contexts are part of the archive format (docs/FORMAT.md)."""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from prequential.errors import ConfigError, wrong_argument

N_SYMBOLS = 256  # size of the alphabet: symbols are bytes
# Columns that the GPT reads at once on a processor, at most. t queries are multiplied with W - 1 + t keys, of which each query
# sees at most W. No bit depends on it.
COLUMNS_AT_ONCE = 128

# What a mixer is made of. Each name has one line in model/mixer/contexts.py, sets.py or curves.py, which explain how to add one.
CONTEXTS = (
    "0", "1", "2", "3", "4", "5", "6", "8", "word", "word,1", "word2", "word,word3", "word3", "word,2", "skip2-3", "skip1,3",
    "skip3-4", "above", "line,above", "first,word", "classes", "match", "word,marks", "11", "word,gap", "word,gap2,1",
    "gap,word2,1", "gaps,words", "word2,gap2", "word,word4", "word,word3-4", "letters5", "keyword,gap", "keyword,word,1",
    "firstword,word", "opened,word", "groups4", "groups4,2", "collapsed8", "collapsed4,2", "collapsed6", "skip1,4", "skip2",
    "above2", "above,run", "line,1", "after1,2", "after1,3", "after2,1", "after2,2", "words,next", "after3,2", "afterword,2",
    "afterword,1", "match,1", "match,2", "vowels,length", "vowels6,1", "nest", "nest,1", "nest,word", "tag,word", "tag,1",
    "folded4", "folded5", "sentence,word", "nibbles4", "nibbles7", "word4", "owner,identifier", "lengths,groups2", "case,word",
    "after4,2", "phrase", "12", "16", "skip3-5", "skip4-6", "paragraph,word", "template,next", "halves", "2,word2",
    "3,word2", "first,line", "word,suffix", "word,suffixes2", "word,suffixes3", "field,next", "2,length,suffix",
    "word,initials", "word,gaps", "lengths,gaps", "owner2,1", "letters4", "place,word", "whole line", "above,next",
    "indent,word", "indent,above", "whole line,above2", "inside", "inside,nest", "tags,word", "tags,line", "nextword",
    "nextword2", "identifier", "identifier2", "template,number", "template2,line", "template3", "key,value", "owner,line",
)  # fmt: skip
WEIGHT_SETS = (
    "bits", "1", "match,known", "bits,known", "words,gpt", "2,match", "3", "words,known", "expected", "column,above",
    "classes3", "bits,class", "word", "vowels", "history2,length", "nest", "suffix", "tags", "gpt",
    "states",
)  # fmt: skip
CURVES = ("1", "2", "3", "expected", "word", "4", "collapsed4", "above,1", "gpt")
# A fast mixer has few of each. Chosen one by one on text, code and JSON (dev/LOG.md).
FAST_CONTEXTS = (
    "1", "2", "3", "4", "6", "word", "whole line,above2", "collapsed6", "word2", "keyword,gap", "match,2", "first,line",
)  # fmt: skip
FAST_SETS = ("bits,class", "classes3", "words,known", "2,match")
FAST_CURVES = ("1", "2")

# The contexts whose embeddings can be inputs of the GPT: hashes (model/gpt/context_table.py), and values of tables (recall.py).
HASHED_CONTEXTS = ("2", "3", "4", "5", "6", "word", "word2")
RECALL_CONTEXTS = (
    "after2", "after3", "after4", "after6", "after8", "after12", "after16", "afterword", "afterword2", "other4", "other6",
    "otherword",
)  # fmt: skip
LEAST_MEMORY_BITS = 13  # a step has at most 8192 new symbols, which need different places
N_RECALL_TABLES, RECALL_KEPT_BITS = 9, 17  # the values of the last 2**RECALL_KEPT_BITS positions are kept
GPT_CONTEXTS = (*HASHED_CONTEXTS, *RECALL_CONTEXTS)
# The sums of a context table's gradient are exact up to this number of terms: positions of a step, times contexts.
MOST_CONTEXT_TERMS = 1 << 16
CONTEXT_REACH = 16  # the last symbols that they depend on, at most


def _check(condition: bool, message: str) -> None:
    if not condition:
        raise ConfigError(message)


def _check_range(config: object, **ranges: tuple[float, float]) -> None:
    """Checks that each named field lies in its closed range and has the type of the bounds. bool does not count as int."""
    for name, (low, high) in ranges.items():
        value, kind = getattr(config, name), type(low)
        _check(
            isinstance(value, (int, float) if kind is float else int) and not isinstance(value, bool),
            f"{name} must be {'a number' if kind is float else 'an integer'}, not {value!r}",
        )
        _check(low <= value <= high, f"{name} = {value!r} lies outside [{low}, {high}]")


def _distinct_names(what: str, names: Any, known: tuple[str, ...]) -> tuple[str, ...]:
    """The names as a tuple. Raises ConfigError unless it is a list of distinct known names."""
    is_list = isinstance(names, (list, tuple)) and all(isinstance(n, str) for n in names)
    _check(is_list, f"{what} must be a list of names")
    _check(len(set(names)) == len(names), f"{what} must not hold one name twice")
    for name in names:
        _check(name in known, f"unknown name {name!r} in {what}; choose from {', '.join(known)}")
    return tuple(names)


@dataclass(frozen=True, kw_only=True)
class GPTConfig:
    """Shape and step sizes of the GPT.

    n_embeddings: how many of the last symbols are inputs, each with an embedding table of its own. contexts: which of
    GPT_CONTEXTS are inputs as well, as rows of one hashed table of 2**context_bits rows. memory_bits: the sum of these rows is
    kept for each of the last 2**memory_bits symbols, to replay them (context_table.py); 0: for none. window: the number of keys
    that a symbol attends to, including its own. matrix_step: Muon's step size for the hidden matrices; vector_step: Adam's for
    the embedding and the head; context_step: Adagrad's for the context table. Warm-up and decay apply to the first two.

    Examples:
        >>> import prequential
        >>> prequential.GPTConfig(width=64, n_heads=3)
        Traceback (most recent call last):
        prequential.errors.ConfigError: width = 64 must be a multiple of 2 * n_heads = 6
    """

    n_layers: int = 2
    width: int = 192
    n_heads: int = 3
    mlp_factor: int = 4
    n_embeddings: int = 3
    contexts: tuple[str, ...] = ()
    context_bits: int = 18
    memory_bits: int = 0
    window: int = 128
    matrix_step: float = 0.04
    vector_step: float = 0.003
    context_step: float = 0.1
    momentum: float = 0.6
    beta1: float = 0.9
    beta2: float = 0.99
    warmup_updates: int = 5
    decay_updates: int = 300

    def __post_init__(self) -> None:
        _check_range(
            self, n_layers=(1, 64), width=(16, 4096), n_heads=(1, 64), mlp_factor=(1, 8), n_embeddings=(1, 8),
            context_bits=(4, 24), memory_bits=(0, 24), window=(2, 512), matrix_step=(0.0, 1.0),
            vector_step=(0.0, 1.0), context_step=(0.0, 1.0), momentum=(0.0, 0.999), beta1=(0.0, 0.999), beta2=(0.0, 0.9999),
            warmup_updates=(1, 100000), decay_updates=(1, 10**9),
        )  # fmt: skip
        object.__setattr__(self, "contexts", _distinct_names("contexts", self.contexts, GPT_CONTEXTS))
        has_room = self.memory_bits == 0 or self.memory_bits >= LEAST_MEMORY_BITS
        _check(has_room, f"memory_bits must be 0 or at least {LEAST_MEMORY_BITS}")
        unit = 2 * self.n_heads
        _check(self.width % unit == 0, f"width = {self.width} must be a multiple of 2 * n_heads = {unit}")
        # 1023 * 127 * 128 < 2**24
        _check(self.width // self.n_heads <= 128, "width / n_heads must be at most 128, so that sums stay exact")
        _check(self.width * self.mlp_factor <= 16384, "width * mlp_factor must be at most 16384")

    @property
    def n_inputs(self) -> int:
        """How many numbers each prediction of the GPT takes as input: the last symbols, and values that are recalled."""
        return self.n_last + (len(RECALL_CONTEXTS) if self.recalls else 0)

    @property
    def n_places(self) -> int:
        """How many symbols the memory has a place for; 0 without a memory. It is of contexts only."""
        return 1 << self.memory_bits if self.memory_bits and self.contexts else 0

    @property
    def recall_bits(self) -> int:
        """A table of what is recalled has 2**recall_bits entries."""
        return self.context_bits + 1

    @property
    def n_last(self) -> int:
        """How many of the last symbols each prediction of the GPT takes as input."""
        return max(self.n_embeddings, CONTEXT_REACH if self.contexts else 0)

    @property
    def recalls(self) -> bool:
        """Whether a context is one of RECALL_CONTEXTS."""
        return any(name in RECALL_CONTEXTS for name in self.contexts)


@dataclass(frozen=True, kw_only=True)
class MixerConfig:
    """Shape of the context mixer.

    contexts, sets and curves: which of CONTEXTS, WEIGHT_SETS and CURVES; by default few, for a fast mixer. table_bits: the
    table has 2**table_bits buckets of 64 bytes. match_bits: the index of matches has 2**match_bits positions.

    Examples:
        >>> import prequential
        >>> prequential.MixerConfig(contexts=("1", "2"), table_bits=10).curves
        ('1', '2')
    """

    contexts: tuple[str, ...] = FAST_CONTEXTS
    sets: tuple[str, ...] = FAST_SETS
    curves: tuple[str, ...] = FAST_CURVES
    table_bits: int = 22
    match_bits: int = 20

    def __post_init__(self) -> None:
        for name, known in (("contexts", CONTEXTS), ("sets", WEIGHT_SETS), ("curves", CURVES)):
            object.__setattr__(self, name, _distinct_names(name, getattr(self, name), known))
            _check(len(getattr(self, name)) >= 1, f"{name}: the mixer needs at least one")
        _check_range(self, table_bits=(6, 26), match_bits=(4, 26))


@dataclass(frozen=True, kw_only=True)
class ScheduleConfig:
    """How many symbols are coded between two steps of the GPT, and what each step learns from.

    A segment has segment_symbols symbols; the first segments have first_segment_symbols, and the size grows with the stream. A
    step learns from up to n_rows rows of row_symbols symbols: the newest segment, and rows drawn at random from the last
    2**history_bits symbols; if the GPT has a memory, from the last 2**memory_bits. A block is the unit of the archive:
    block_symbols symbols.

    Examples:
        >>> import prequential
        >>> schedule = prequential.ScheduleConfig(segment_symbols=512, n_rows=8)
        >>> schedule.n_rows * schedule.row_symbols / schedule.segment_symbols  # positions to learn from, for each symbol
        2.0
    """

    first_segment_symbols: int = 256
    segment_symbols: int = 1024
    row_symbols: int = 128
    n_rows: int = 12
    history_bits: int = 24
    block_symbols: int = 1 << 18

    def __post_init__(self) -> None:
        _check_range(
            self, first_segment_symbols=(1, 1 << 13), segment_symbols=(1, 1 << 13), row_symbols=(1, 512), n_rows=(1, 1024),
            history_bits=(14, 30), block_symbols=(1, 1 << 25),
        )  # fmt: skip
        _check(self.n_rows * self.row_symbols <= 8192, "n_rows * row_symbols must be at most 8192")
        longest = max(self.first_segment_symbols, self.segment_symbols)
        _check(longest <= self.n_rows * self.row_symbols, "a segment must have at most n_rows * row_symbols symbols")


@dataclass(frozen=True, kw_only=True)
class Config:
    """Everything that decides the coded bits: equal configurations and equal bytes give equal blocks.

    Examples:
        >>> import dataclasses, prequential
        >>> dataclasses.replace(prequential.preset(5), seed=1) == prequential.preset(5, seed=1)
        True
    """

    seed: int = 0
    gpt: GPTConfig | None = field(default_factory=GPTConfig)
    mixer: MixerConfig | None = field(default_factory=MixerConfig)
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)

    def __post_init__(self) -> None:
        _check_range(self, seed=(0, 2**63 - 1))
        kinds = {"gpt": GPTConfig | None, "mixer": MixerConfig | None, "schedule": ScheduleConfig}
        for name, kind in kinds.items():
            if not isinstance(getattr(self, name), kind):
                raise wrong_argument(name, getattr(self, name), "a part of a Config, as prequential.preset(5) has")
        _check(bool(self.gpt or self.mixer), "gpt and mixer are both None: a learner needs at least one")
        if self.gpt:
            n_terms = self.schedule.n_rows * self.schedule.row_symbols * len(self.gpt.contexts)
            limit = f"must be at most {MOST_CONTEXT_TERMS}, so that sums stay exact"
            _check(n_terms <= MOST_CONTEXT_TERMS, f"n_rows * row_symbols * the number of the GPT's contexts {limit}")

    def to_dict(self) -> dict[str, Any]:
        """Values for JSON, the inverse of `from_dict`."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: Any) -> "Config":
        """The inverse of `to_dict`. Raises ConfigError for unknown or missing names, wrong types and values out of range."""
        parts = {"gpt": GPTConfig, "mixer": MixerConfig, "schedule": ScheduleConfig}
        fields = _fields(cls, values, "config")
        for name, part in parts.items():
            if fields[name] is not None or name == "schedule":
                fields[name] = part(**_fields(part, fields[name], name))
        return cls(**fields)

    @classmethod
    def from_record(cls, values: Any) -> "Config":
        """`from_dict` for a record that may come from an earlier version: names that it lacks get the value of that version."""
        gpt = values.get("gpt") if isinstance(values, dict) else None
        if isinstance(gpt, dict):
            names = ("contexts", "context_bits", "memory_bits", "context_step")
            values = {**values, "gpt": {**{name: getattr(GPTConfig, name) for name in names}, **gpt}}
        return cls.from_dict(values)


def _fields(cls: type, values: Any, where: str) -> dict[str, Any]:
    """A copy of the dictionary `values`. Raises ConfigError unless its names are the fields of the dataclass."""
    _check(isinstance(values, dict), f"{where} must be an object, not {type(values).__name__}")
    names = {f.name for f in dataclasses.fields(cls)}
    _check(values.keys() == names, f"{where}: unknown or missing names {sorted(values.keys() ^ names)}")
    return dict(values)


# ---- segments and blocks


GROWTH = 64  # a segment has at most 1/64 of the symbols before it, or the size of the first segment if that is more


def blocks(n_symbols: int, config: ScheduleConfig) -> Iterator[slice]:
    """The blocks of n_symbols symbols: block_symbols each, the last one perhaps fewer."""
    for start in range(0, n_symbols, config.block_symbols):
        yield slice(start, min(start + config.block_symbols, n_symbols))


def segments(block: slice, config: ScheduleConfig) -> Iterator[slice]:
    """The segments of a block. They grow with the symbols before them, so that a GPT that has learned little is used briefly."""
    start = block.start
    while start < block.stop:
        size = min(config.segment_symbols, max(config.first_segment_symbols, start // GROWTH))
        yield slice(start, min(start + size, block.stop))
        start += size
