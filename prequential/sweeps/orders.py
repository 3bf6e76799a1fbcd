"""Drawn orders of documents and seeds as one population: what the code length of a learner owes to either.

Runs are a table: an order a row, a seed a column, two crossed random effects. The interval is for the mean over all orders and
seeds, of those that were varied: Student's t, with the variance of the mean of the rows plus that of the mean of the columns, and
the degrees of freedom of Welch (1947) and Satterthwaite (1946). What belongs to single runs is in both terms, so the interval is
a little too wide.
"""

import math
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prequential.errors import ConfigError, CorpusError
from prequential.files import PathLike, temporary_folder, writing
from prequential.online.source import drawn_order, open_source
from prequential.printable import format_table
from prequential.sweeps.plan_runs import RunOutcome

CONFIDENCE = 0.95
MIN_VARIED = 3  # orders or seeds, if they are varied: with two, an interval holds too seldom
PLURALS = {"order": "orders", "seed": "seeds", "rest": "orders and seeds"}


@contextmanager
def order_files(source: str | PathLike, n_orders: int, limit_bytes: int | None = None) -> Iterator[Iterator[Path]]:
    """Files with the documents in drawn orders, each document with the bytes that follow it. Only one exists at a time.

    Raises ConfigError for a corpus of one document, and what `open_source` raises.
    """
    with writing(temporary_folder()):
        folder = tempfile.TemporaryDirectory(dir=temporary_folder(), prefix="prequential-")
    with folder as name, open_source(source, limit_bytes) as opened:
        symbols = opened.symbols[:]
        parts = [slice(*ends) for ends in pairwise([*(d.offset for d in opened.documents), len(symbols)])]
        if len(parts) < 2:
            raise ConfigError(f"{opened.name!r} is one document, so it has one order: name a folder, shards: or hf:")

        def files() -> Iterator[Path]:
            for order in range(n_orders):
                path = Path(name) / f"{re.sub(r'[^A-Za-z0-9._-]+', '-', opened.name)}-order-{order}"
                with writing(path), path.open("wb") as file:
                    file.writelines(symbols[parts[i]].tobytes() for i in drawn_order(len(parts), order))
                path.chmod(opened.mode)
                yield path
                path.unlink()

        yield files()


@dataclass(frozen=True, kw_only=True)
class Population:
    """What runs over orders and seeds show, in ideal bits per byte. n_orders: 0 if the corpus was read as it is.

    low, high, freedom: of the interval; None with two orders or seeds, or one run. deviations: of one run, by what was varied;
    `rest`: by both together.
    """

    bits_per_byte: float
    low_bits_per_byte: float | None
    high_bits_per_byte: float | None
    freedom: float | None
    deviations: Mapping[str, float]
    n_orders: int
    n_seeds: int
    confidence: float = CONFIDENCE

    def to_record(self) -> dict[str, Any]:
        """JSON values."""
        return asdict(self)

    def to_text(self) -> str:
        """The deviations, and at the end what to expect and what to add."""
        seeds = f"{self.n_seeds} seed{'s' * (self.n_seeds > 1)}"
        over = f"{seeds} and {self.n_orders or 'its own'} order{'s' * (self.n_orders > 1)}"
        if self.low_bits_per_byte is None:
            return f"{self.bits_per_byte:.4f} bits/byte over {over}: give {MIN_VARIED} or more of what varies for an interval"
        n_runs = {"order": self.n_orders, "seed": self.n_seeds, "rest": self.n_orders * self.n_seeds}
        largest = max(self.deviations, key=lambda name: self.deviations[name] ** 2 / n_runs[name])
        bounds = f"{self.low_bits_per_byte:.4f} to {self.high_bits_per_byte:.4f} ({100 * self.confidence:g} %)"
        one = math.hypot(*self.deviations.values())
        rows = [(name, f"{deviation:.5f}") for name, deviation in self.deviations.items()]
        return (
            f"{format_table(('deviation of a run by', 'bits/byte'), rows)}\n\n"
            f"expect {self.bits_per_byte:.4f} bits/byte, {bounds} over {over}; a single run is off by {one:.4f}, and more "
            f"{PLURALS[largest]} help most"
        )


def population(rates: NDArray[np.float64], *, is_ordered: bool = True) -> Population:
    """The population of runs with these bits per byte (K, S). is_ordered: rows are drawn orders."""
    from scipy.special import stdtrit  # not every command needs it

    mean, rest, half, freedom = float(rates.mean()), 0.0, None, None
    parts, deviations = list[tuple[float, int]](), dict[str, float]()
    if min(rates.shape) > 1:
        residuals = rates - rates.mean(1)[:, None] - rates.mean(0) + mean
        rest = float(np.square(residuals).sum()) / math.prod(n - 1 for n in rates.shape)
    for axis, name in enumerate(("order", "seed")):
        if (n := rates.shape[axis]) > 1:
            variance = float(rates.mean(1 - axis).var(ddof=1))
            parts.append((variance / n, n - 1))
            deviations[name] = math.sqrt(max(0.0, variance - rest / rates.shape[1 - axis]))
    if len(parts) == 2:
        deviations["rest"] = math.sqrt(rest)
    if parts and 2 not in rates.shape:
        total = sum(part for part, _ in parts)
        freedom = total**2 / sum(part**2 / n for part, n in parts) if total else float(min(n for _, n in parts))
        half = float(stdtrit(freedom, (1 + CONFIDENCE) / 2)) * math.sqrt(total)
    return Population(
        bits_per_byte=mean,
        low_bits_per_byte=None if half is None else mean - half,
        high_bits_per_byte=None if half is None else mean + half,
        freedom=freedom,
        deviations=deviations,
        n_orders=rates.shape[0] * is_ordered,
        n_seeds=rates.shape[1],
    )


def population_of(outcomes: Sequence[Sequence[RunOutcome]], *, is_ordered: bool) -> Population:
    """The population of the runs of each order. Raises CorpusError if one has failed."""
    runs = [[outcome.run for outcome in of_order if outcome.run] for of_order in outcomes]
    if any(len(of_order) != len(outcomes[0]) for of_order in runs):
        raise CorpusError("a run failed, so there is no interval: the same command runs only what is missing")
    rates = [[run.record["code_bits_per_byte"] for run in of_order] for of_order in runs]
    return population(np.array(rates, np.float64), is_ordered=is_ordered)
