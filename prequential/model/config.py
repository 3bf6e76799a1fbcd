"""Configurations: small frozen dataclasses, checked when built, stored whole in every archive."""

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from prequential.errors import ConfigError


def _check(condition: bool, message: str) -> None:
    if not condition:
        raise ConfigError(message)


def _check_range(config: object, **ranges: tuple[float, float]) -> None:
    """Every named field lies in its closed range and has the type of its default; bool is no int."""
    for name, (low, high) in ranges.items():
        value, kind = getattr(config, name), type(low)
        _check(
            isinstance(value, (int, float) if kind is float else int) and not isinstance(value, bool),
            f"{name} must be {'a number' if kind is float else 'an integer'}, not {value!r}",
        )
        _check(low <= value <= high, f"{name} = {value!r} lies outside [{low}, {high}]")


@dataclass(frozen=True, kw_only=True)
class GPTConfig:
    """Shape and step sizes of the GPT.

    `window`: keys each symbol attends to, its own among them. Step sizes are per update, before warm-up.
    """

    n_layers: int = 3
    width: int = 256
    n_heads: int = 4
    mlp_factor: int = 4
    window: int = 128
    matrix_step: float = 0.02
    vector_step: float = 0.003
    momentum: float = 0.8
    beta1: float = 0.9
    beta2: float = 0.99
    warmup_updates: int = 5
    decay_updates: int = 1000

    def __post_init__(self) -> None:
        _check_range(
            self, n_layers=(1, 64), width=(16, 4096), n_heads=(1, 64), mlp_factor=(1, 8), window=(2, 512),
            matrix_step=(0.0, 1.0), vector_step=(0.0, 1.0), momentum=(0.0, 0.999), beta1=(0.0, 0.999), beta2=(0.0, 0.9999),
            warmup_updates=(1, 100000), decay_updates=(1, 10**9),
        )  # fmt: skip
        _check(
            self.width % (2 * self.n_heads) == 0, f"width {self.width} must be a multiple of 2 * n_heads {self.n_heads}"
        )
        _check(self.width // self.n_heads <= 128, "heads are at most 128 wide: 1023 * 127 * 128 < 2**24")
        _check(self.width * self.mlp_factor <= 16384, "width * mlp_factor is at most 16384")


@dataclass(frozen=True, kw_only=True)
class NgramConfig:
    """Direct n-gram connections: which contexts, how many hashed rows each, and how fast rows and gates learn.

    `contexts`: names of context sources, see model/ngram.py.
    """

    contexts: tuple[str, ...] = ("1", "2", "3", "4", "5", "6", "word", "word2")
    row_bits: int = 16
    row_step: float = 1.0
    row_step_floor: float = 0.02
    gate_step: float = 0.02

    def __post_init__(self) -> None:
        from prequential.model.ngram import CONTEXT_NAMES  # the names live with their definitions

        names = self.contexts
        _check(
            isinstance(names, (list, tuple)) and all(isinstance(n, str) for n in names),
            "contexts must be a list of names",
        )
        object.__setattr__(self, "contexts", tuple(names))
        _check(
            1 <= len(self.contexts) <= 32 and len(set(self.contexts)) == len(self.contexts),
            "contexts: 1 to 32 distinct names",
        )
        for name in self.contexts:
            _check(name in CONTEXT_NAMES, f"unknown context {name!r}; there are {', '.join(CONTEXT_NAMES)}")
        _check_range(self, row_bits=(8, 22), row_step=(0.0, 16.0), row_step_floor=(0.0, 1.0), gate_step=(0.0, 1.0))


@dataclass(frozen=True, kw_only=True)
class StreamConfig:
    """How a sequence is cut: into stripes, each read by several streams at once, a segment of columns at a time.

    A stripe of `n_streams` contiguous parts is read in lockstep; a segment is the unit of a GPT update, a chunk that of an
    n-gram update; a block, of whole stripes, is the unit of the archive. The first stripe has ramp_symbols symbols, and stripes,
    streams and segments grow from there (online/stripes.py), so that the first updates come soon.
    """

    n_streams: int = 32
    segment_columns: int = 32
    chunk_columns: int = 16
    stripe_symbols: int = 1 << 16
    ramp_symbols: int = 1 << 12
    block_symbols: int = 1 << 18

    def __post_init__(self) -> None:
        _check_range(
            self, n_streams=(1, 1024), segment_columns=(1, 512), chunk_columns=(1, 512), stripe_symbols=(1 << 8, 1 << 24),
            ramp_symbols=(1, 1 << 20), block_symbols=(1, 1 << 25),
        )  # fmt: skip
        _check(self.n_streams * self.segment_columns <= 8192, "n_streams * segment_columns is at most 8192")


@dataclass(frozen=True, kw_only=True)
class Config:
    """Everything that decides the coded bits: two runs with equal configs over equal bytes give equal archives."""

    n_symbols: int = 256
    seed: int = 0
    gpt: GPTConfig | None = field(default_factory=GPTConfig)
    ngram: NgramConfig | None = field(default_factory=NgramConfig)
    streams: StreamConfig = field(default_factory=StreamConfig)

    def __post_init__(self) -> None:
        _check_range(self, n_symbols=(2, 65536), seed=(0, 2**63 - 1))
        _check(
            self.gpt is not None or self.ngram is not None, "a learner needs the GPT, the n-gram connections or both"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON-able values, the inverse of `from_dict`."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: Any) -> "Config":
        """Raises ConfigError on unknown or missing names, wrong types and values out of range."""
        parts = {"gpt": GPTConfig, "ngram": NgramConfig, "streams": StreamConfig}
        fields = _fields(cls, values, "config")
        for name, part in parts.items():
            if fields[name] is not None or name == "streams":
                fields[name] = part(**_fields(part, fields[name], name))
        return cls(**fields)


def _fields(cls: type, values: Any, where: str) -> dict[str, Any]:
    _check(isinstance(values, dict), f"{where} must be an object, not {type(values).__name__}")
    names = {f.name for f in dataclasses.fields(cls)}
    _check(values.keys() == names, f"{where}: unknown or missing names {sorted(values.keys() ^ names)}")
    return dict(values)
