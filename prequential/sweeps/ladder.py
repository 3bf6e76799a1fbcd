"""Ladders: one learner at several sizes over the same bytes, from which a larger run can be forecast.

Segment length, step size and the choice of training rows depend only on the bytes so far: a run contains the run over every
prefix. The sizes differ in width, layers, heads (at most MAX_HEAD_WIDTH wide) and the step size of embedding and head, which is
proportional to width**-0.75. In theory, the head's is proportional to 1 / width, and the embedding's constant (Yang et al. 2022);
measurements favour an exponent in between (docs/STUDIES.md).
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from prequential.errors import ConfigError
from prequential.evaluation.runs import Run
from prequential.evaluation.summary import seed_of
from prequential.model.config import N_SYMBOLS, Config, GPTConfig
from prequential.online.costs import hidden_matrices, total_flops
from prequential.online.runtime import Runtime
from prequential.printable import format_table
from prequential.sweeps.plans import CorpusKey, Plan, Variant, recorded_corpus, seeded

MAX_HEAD_WIDTH = 32
VECTOR_STEP_POWER = 0.75  # of 1 / width
N_PREFIXES, PREFIX_RATIO = 7, math.sqrt(0.5)  # from all bytes of the ladder down to an eighth
N_WINDOWS = 8  # windows of a curve, among which a diverged run is recognised
# of a window over an earlier one, relative to the rise that is usual for the other runs on the same text
MAX_RISE = 1.1
UNIFORM_BITS = 8.0  # bits per byte of the uniform code


class Size(NamedTuple):
    """Width and layers of a GPT."""

    width: int
    n_layers: int

    def __str__(self) -> str:
        return f"{self.width}x{self.n_layers}"


class Parameters(NamedTuple):
    """All parameters of a model in a training loop."""

    n: int

    def __str__(self) -> str:
        return f"{self.n:,} parameters"


AnySize = Size | Parameters
DEFAULT_SIZES = tuple(Size(width, 2) for width in (24, 32, 48, 64, 96))


def n_weights(gpt: GPTConfig) -> int:
    """N: the weights that each symbol is multiplied with, in the hidden matrices and the head; 2 N operations each."""
    hidden = sum(n_in * n_out * n_parts for n_in, n_out, n_parts in hidden_matrices(gpt))
    return gpt.n_layers * hidden + gpt.width * N_SYMBOLS


# ---- the plan


def scaled(base: Config, size: Size) -> Config:
    """`base` at another size, with the fewest heads of at most MAX_HEAD_WIDTH, by the rule of step sizes. Raises ConfigError."""
    if base.gpt is None:
        raise ConfigError("a ladder varies the size of the GPT, and this configuration has none: choose -5 or -6")
    gpt = replace(
        base.gpt,
        width=size.width,
        n_layers=size.n_layers,
        n_heads=math.ceil(size.width / MAX_HEAD_WIDTH),
        vector_step=base.gpt.vector_step * (base.gpt.width / size.width) ** VECTOR_STEP_POWER,
    )
    return replace(base, gpt=gpt)


def ladder_plan(
    base: Config,
    sizes: Sequence[Size] = DEFAULT_SIZES,
    *,
    seeds: Sequence[int] = (0, 1, 2),
    repeated: Sequence[Size] | None = None,
    runtime: Runtime | None = None,
) -> Plan:
    """Every size with the first seed, and those `repeated` with all seeds (None: the second and the second to last).

    Raises ConfigError for an impossible size: a law of fewer sizes would be another law.
    """
    configs = {size: scaled(base, size) for size in sizes}
    ascending = sorted(configs, key=lambda size: n_weights(_gpt(configs[size])))
    several = (*ascending[:2][-1:], *ascending[-2:][:1]) if repeated is None else repeated
    if others := set(several) - set(ascending):
        raise ConfigError(f"{min(others)} is to run with all seeds, and is not among the sizes of the ladder")
    variants = []
    for size in ascending:
        (runtime or Runtime()).check(configs[size])
        variants.append(Variant(name=str(size), configs=seeded(configs[size], seeds if size in several else seeds[:1])))
    return Plan(variants=tuple(variants))


def _gpt(config: Config) -> GPTConfig:
    assert config.gpt
    return config.gpt


# ---- the runs


@dataclass(frozen=True)
class Rung:
    """A finished run of the ladder, with its learning curve."""

    run: Run

    @cached_property
    def config(self) -> Config:
        return Config.from_record(self.run.record["config"])

    @property
    def size(self) -> AnySize:
        gpt = _gpt(self.config)
        return Size(gpt.width, gpt.n_layers)

    @property
    def seed(self) -> int:
        return seed_of(self.run.record["config"])

    @property
    def family(self) -> str:
        return family(self.run.record["config"])

    def operations(self, n_bytes: int) -> float:
        """Those of the run over its first bytes."""
        return total_flops(self.config, n_bytes)

    @property
    def n_weights(self) -> int:
        return n_weights(_gpt(self.config))

    @property
    def name(self) -> str:
        return f"{self.size}, seed {self.seed}"


@dataclass(frozen=True)
class Ladder:
    """Runs of one learner at several sizes over the same bytes, ascending by size, then by seed."""

    rungs: tuple[Rung, ...]
    corpus: CorpusKey

    @property
    def sizes(self) -> list[AnySize]:
        return list(dict.fromkeys(rung.size for rung in self.rungs))

    def prefixes(self) -> NDArray[np.int64]:
        """(N_PREFIXES,) lengths in bytes, ascending by the factor sqrt 2; the last is the length of the runs."""
        return np.array([round(self.corpus.n_bytes * PREFIX_RATIO**k) for k in range(N_PREFIXES)][::-1], np.int64)

    def to_text(self) -> str:
        """Bits per byte of every run over every prefix, and which look diverged."""
        prefixes, rows = self.prefixes(), []
        for rung in self.rungs:
            rates = rung.run.curve.at(prefixes) / prefixes
            rows.append((rung.name, f"{rung.n_weights:,}", *(f"{rate:.4f}" for rate in rates)))
        table = format_table(("bits/byte over", "weights", *(f"{n:,}" for n in prefixes)), rows)
        diverged = [f"looks diverged: {name}: {reason}" for name, reason in diverged_runs(self).items()]
        return "\n".join([table, *diverged])


def ladder_of(rungs: Iterable[Rung]) -> Ladder:
    """The ladder of one or more runs over the same bytes, which differ only in size and seed."""
    ascending = sorted(rungs, key=lambda rung: (rung.n_weights, rung.seed))
    return Ladder(tuple(ascending), recorded_corpus(ascending[0].run.record))


def family(config: Mapping[str, Any]) -> str:
    """A string that is equal for configurations that differ only in seed and, by the rule of step sizes, in size."""
    gpt = {k: v for k, v in config["gpt"].items() if k not in ("width", "n_layers", "n_heads", "vector_step")}
    gpt["rule of steps"] = f"{config['gpt']['vector_step'] * config['gpt']['width'] ** VECTOR_STEP_POWER:.9g}"
    return json.dumps({k: v for k, v in config.items() if k != "seed"} | {"gpt": gpt}, sort_keys=True)


def diverged_runs(ladder: Ladder) -> dict[str, str]:
    """Why a run looks diverged, by rung: it ends above the uniform code, or a window costs MAX_RISE times the usual rise more."""
    rates = np.array([rung.run.curve.windows(N_WINDOWS).bits for rung in ladder.rungs])  # (R, W) bits per byte
    rises = (rates / np.maximum(np.minimum.accumulate(rates, 1), 1e-9)).max(1)
    usual = float(np.median(rises))
    return {
        rung.name: f"its loss rises by {rise - 1:.0%} within the run, usual is {usual - 1:.0%}; {last:.2f} bits/byte at its end"
        for rung, rise, last in zip(ladder.rungs, rises, rates[:, -1], strict=True)
        if last > UNIFORM_BITS or rise > MAX_RISE * usual
    }
