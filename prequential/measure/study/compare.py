"""Comparison of two or more runs over the same bytes: the difference in bits, its interval, and where it arose.

Every difference is of ideal code lengths, B - A with A as the reference: below 0 if B needs fewer bits. For one corpus and one
seed each, it is one exact number. An interval refers to a population, which it names: the difference on other text like this,
and with other seeds if a group has several runs.

Runs of one configuration that differ in the seed form a group, and the curve of the group is their mean. All differences are
paired, because both runs coded the same text.
"""

import math
import string
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prequential.errors import ConfigError, CorpusError
from prequential.measure.evaluation.curves import MODEL, Curve, crossing_byte
from prequential.measure.evaluation.runs import PathLike, Run, read_run
from prequential.measure.study.data_multiple import mean_curve

MIN_CELLS, MAX_CELLS = 64, 4096  # of the grid that is resampled; with fewer cells there is no interval
CHUNK_RESAMPLES = 256  # resamples at a time, which take 8 MiB each
MAX_LOG2_E = 332  # e-values above 10**100 or below its inverse are printed as bounds
DEFAULTS = {"alphabet": "bytes", "context": "carried memory"}  # of records without these names


@dataclass(frozen=True, kw_only=True)
class Bootstrap:
    """How an interval is made.

    block_bytes: the length of a resampled block; None chooses it from the autocorrelation (`block_length`). Raises ConfigError
    for a value out of range.
    """

    confidence: float = 0.95
    n_resamples: int = 1999
    seed: int = 0
    block_bytes: int | None = None

    def __post_init__(self) -> None:
        if not 0 < self.confidence < 1:
            raise ConfigError(f"the confidence {self.confidence} is outside (0, 1): 0.95 is usual")
        if self.seed < 0:
            raise ConfigError(f"the seed {self.seed} is negative")
        if self.block_bytes is not None and self.block_bytes < 1:
            raise ConfigError(f"a block of {self.block_bytes} bytes is impossible: it has at least 1")
        if self.n_outside < 1:
            enough = math.ceil(2 / (1 - self.confidence)) - 1
            raise ConfigError(
                f"{self.n_resamples} resamples are too few for confidence {self.confidence}: take at least {enough}"
            )

    @property
    def n_outside(self) -> int:
        """The rank of the resample that bounds the interval, counted from either end."""
        return math.floor(round((self.n_resamples + 1) * (1 - self.confidence) / 2, 6))

    def widening(self, freedom: float) -> float:
        """The quantile of Student's t, divided by that of the normal distribution, both at this confidence.

        freedom: degrees of freedom, > 0.
        """
        from scipy.special import stdtrit  # not every command compares

        level = (1 + self.confidence) / 2
        return float(stdtrit(freedom, level)) / NormalDist().inv_cdf(level)


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A two-sided interval of a difference, in bits, and how it was made.

    population: what it refers to. The grid has n_cells cells of cell_bytes. At n_interpolated of their ends, at least one curve
    is interpolated. automatic: whether `block_length` chose block_bytes.
    """

    low_bits: float
    high_bits: float
    population: str
    bootstrap: Bootstrap
    cell_bytes: int
    n_cells: int
    n_interpolated: int
    block_bytes: int
    automatic: bool


@dataclass(frozen=True, kw_only=True)
class Group:
    """Runs of one configuration, ascending by seed. bits, archive_bits: ideal code length and archive of each run."""

    label: str
    runs: tuple[str, ...]
    seeds: tuple[int, ...]
    config: Mapping[str, Any]
    bits: tuple[float, ...]
    archive_bits: tuple[int, ...]
    curves: tuple[Curve, ...] = field(repr=False, compare=False)

    @property
    def mean_bits(self) -> float:
        """Mean ideal code length of the runs, in bits."""
        return math.fsum(self.bits) / len(self.bits)

    @property
    def mean_archive_bits(self) -> float:
        """Mean length of the archives, in bits."""
        return sum(self.archive_bits) / len(self.archive_bits)


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A group compared with the reference.

    bits: other - reference over all bytes, exact if both groups have one run. interval: None for a corpus with fewer than
    MIN_CELLS cells. log2_e: see `log2_e_value`. crossing_byte: from there on the other is below the reference; 0 means
    everywhere, None never. n_bytes (n,) int64 and running_bits (n,) float64, both from 0 on: the difference so far, at every
    byte where a run ends a segment. known (n,) bool: whether all runs end a segment there, so that nothing is interpolated.
    """

    reference: Group
    other: Group
    bits: float
    interval: Interval | None
    log2_e: float
    crossing_byte: int | None
    n_bytes: NDArray[np.int64] = field(repr=False, compare=False)
    running_bits: NDArray[np.float64] = field(repr=False, compare=False)
    known: NDArray[np.bool_] = field(repr=False, compare=False)

    @property
    def bits_per_byte(self) -> float:
        """The difference per byte of the corpus."""
        return self.bits / int(self.n_bytes[-1])

    @property
    def percent(self) -> float:
        """The difference in percent of the reference's ideal code length; 0 if that is 0."""
        return 100 * self.bits / self.reference.mean_bits if self.reference.mean_bits else 0.0

    @property
    def archive_bits(self) -> float:
        """The difference of the archives' lengths in bits, with headers and containers."""
        return self.other.mean_archive_bits - self.reference.mean_archive_bits

    @property
    def furthest_behind(self) -> tuple[int, float]:
        """The byte up to which the other group costs the most more than the reference, and how many bits more (>= 0)."""
        return self._at(int(np.argmax(self.running_bits)))

    @property
    def furthest_ahead(self) -> tuple[int, float]:
        """The byte up to which the other group costs the most less than the reference, and the difference in bits (<= 0)."""
        return self._at(int(np.argmin(self.running_bits)))

    def _at(self, i: int) -> tuple[int, float]:
        return int(self.n_bytes[i]), float(self.running_bits[i])

    def to_dict(self) -> dict[str, Any]:
        """All but the arrays, as JSON values."""
        return {
            "reference": self.reference.label,
            "other": self.other.label,
            "bits": self.bits,
            "bits_per_byte": self.bits_per_byte,
            "percent": self.percent,
            "archive_bits": self.archive_bits,
            "interval": None if self.interval is None else asdict(self.interval),
            "e_value": {
                "log2": self.log2_e,
                "text": bounded_e_value(self.log2_e),
                "against": f"the data follow {self.reference.label}",
            },
            "furthest_behind": dict(zip(("n_bytes", "bits"), self.furthest_behind, strict=True)),
            "furthest_ahead": dict(zip(("n_bytes", "bits"), self.furthest_ahead, strict=True)),
            "crossing_byte": self.crossing_byte,
        }


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Groups of runs over one corpus. The first group is the reference of every difference."""

    corpus: Mapping[str, Any]
    groups: tuple[Group, ...]
    differences: tuple[Difference, ...]

    @property
    def n_runs(self) -> int:
        """The number of runs in all groups."""
        return sum(len(group.runs) for group in self.groups)

    @property
    def choice_bits(self) -> float:
        """The bits that it costs to state which of these runs is the best, in addition to its description length."""
        return math.log2(self.n_runs)

    def to_dict(self) -> dict[str, Any]:
        """All but the arrays, as JSON values."""
        return {
            "kind": "comparison",
            "corpus": dict(self.corpus),
            "groups": [
                {
                    "label": group.label,
                    "runs": list(group.runs),
                    "seeds": list(group.seeds),
                    "config": dict(group.config),
                    "bits": list(group.bits),
                    "archive_bits": list(group.archive_bits),
                }
                for group in self.groups
            ],
            "differences": [difference.to_dict() for difference in self.differences],
            "n_runs": self.n_runs,
            "choice_bits": self.choice_bits,
        }


def compare(
    runs: Sequence[Run | PathLike], *, groups: Sequence[str] | None = None, bootstrap: Bootstrap | None = None
) -> Comparison:
    """Every group of `runs` compared with the group of the first run.

    runs: two or more runs, or their folders. groups: a label for each run, equal for runs of one group. By default, runs of one
    configuration with different seeds form a group, and groups are named A, B, C ... in the order of their first run. Equal
    arguments give equal results. Exchanging two groups changes only the signs of the results, exactly.

    Raises CorpusError for runs that are damaged or not comparable (corpus, alphabet or context policy differ). Raises ConfigError
    if the runs form a single group, or if a block is too long for the corpus.
    """
    opened = [run if isinstance(run, Run) else read_run(run) for run in runs]
    for run in opened:
        _check_comparable(opened[0], run)
    labels = _automatic_groups(opened) if groups is None else list(groups)
    if len(labels) != len(opened):
        raise ConfigError(f"{len(labels)} group labels for {len(opened)} runs: give one for each")
    names = list(dict.fromkeys(labels))
    if len(names) < 2:
        raise ConfigError(
            f"the {len(opened)} runs form one group, and there is no other group to compare it with: set the groups with --group"
        )
    reference, *others = (
        _group(name, [run for run, label in zip(opened, labels, strict=True) if label == name]) for name in names
    )
    differences = tuple(_difference(reference, other, bootstrap or Bootstrap()) for other in others)
    return Comparison(corpus=opened[0].record["corpus"], groups=(reference, *others), differences=differences)


def _check_comparable(first: Run, run: Run) -> None:
    """Raises CorpusError, which names the difference, if the runs are not comparable."""
    for what, expected, found in zip(
        ("corpus (bytes)", "corpus (BLAKE2b)", "alphabet", "context policy"), _basis(first), _basis(run), strict=True
    ):
        if expected != found:
            raise CorpusError(
                f"{str(first.path)!r} and {str(run.path)!r} are not comparable: {what} {expected!r} and {found!r}"
            )


def _basis(run: Run) -> tuple[Any, ...]:
    """The values that comparable runs share: length and digest of the corpus, alphabet, context policy."""
    corpus, config = run.record["corpus"], run.record["config"]
    policies = [run.record.get(name) or config.get(name) or default for name, default in DEFAULTS.items()]
    return corpus["n_bytes"], corpus["blake2b"], *policies


def _automatic_groups(runs: Sequence[Run]) -> list[str]:
    """A label for each run: that of the newest group of its configuration, or a new one if that group has its seed already."""
    groups: list[tuple[dict[str, Any], set[int]]] = []
    labels = []
    for run in runs:
        config = _without_seed(run)
        same = [i for i, (other, _) in enumerate(groups) if other == config][-1:]
        if not same or _seed(run) in groups[same[0]][1]:
            same = [len(groups)]
            groups.append((config, set()))
        groups[same[0]][1].add(_seed(run))
        labels.append(_letters(same[0]))
    return labels


def _letters(i: int) -> str:
    """The i-th label of A ... Z, A2 ... Z2, A3 ..."""
    repeat, letter = divmod(i, len(string.ascii_uppercase))
    return string.ascii_uppercase[letter] + (str(repeat + 1) if repeat else "")


def _seed(run: Run) -> int:
    return int(run.record["config"].get("seed", 0))


def _without_seed(run: Run) -> dict[str, Any]:
    return {name: value for name, value in run.record["config"].items() if name != "seed"}


def _group(label: str, runs: Sequence[Run]) -> Group:
    ordered = sorted(runs, key=_seed)
    curves = tuple(_curve(run) for run in ordered)
    return Group(
        label=label,
        runs=tuple(run.name for run in ordered),
        seeds=tuple(_seed(run) for run in ordered),
        config=_without_seed(ordered[0]),
        bits=tuple(float(curve.bits[-1]) for curve in curves),
        archive_bits=tuple(run.record["archive_bits"] for run in ordered),
        curves=curves,
    )


def _curve(run: Run) -> Curve:
    """The curve of the learner. Raises CorpusError if it does not reach the end of the corpus."""
    curve, n_bytes = run.curves.get(MODEL), run.record["corpus"]["n_bytes"]
    if curve is None or not len(curve.n_bytes) or curve.n_bytes[-1] != n_bytes:
        raise CorpusError(f"{str(run.path)!r} has no curve of the model up to byte {n_bytes}: evaluate again")
    return curve


def _difference(reference: Group, other: Group, bootstrap: Bootstrap) -> Difference:
    curves = [*reference.curves, *other.curves]
    ends = np.unique(np.concatenate([curve.n_bytes for curve in curves]))
    ours, theirs = mean_curve(other.curves, ends), mean_curve(reference.curves, ends)
    return Difference(
        reference=reference,
        other=other,
        bits=other.mean_bits - reference.mean_bits,
        interval=_interval(reference, other, bootstrap),
        log2_e=log2_e_value(reference.bits, other.bits),
        crossing_byte=crossing_byte(ours, theirs),
        n_bytes=np.concatenate(([0], ends)),
        running_bits=np.concatenate(([0.0], ours.bits - theirs.bits)),
        known=np.concatenate(([True], _known(curves, ends))),
    )


def _known(curves: Sequence[Curve], at: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether every curve has a point at each of the positions (n,): (n,) bool."""
    return np.all([np.isin(at, curve.n_bytes) for curve in curves], 0)


def log2_e_value(reference_bits: Sequence[float], other_bits: Sequence[float]) -> float:
    """log2 of an e-value against "the data follow the reference". For one run each it is L_reference - L_other.

    If the data followed the reference, the expectation of the e-value would be at most 1. It would reach 1/a at any stopping time
    with a probability of at most a (Ville's inequality), provided that `other` was fixed before the data were seen. Several seeds
    of `other` are mixed with equal weights. Of several seeds of the reference the best counts, so the e-value is valid against
    each of them.
    """
    mixed_bits = math.log2(len(other_bits)) - float(np.logaddexp2.reduce(-np.array(other_bits)))
    return min(reference_bits) - mixed_bits


def bounded_e_value(log2_e: float) -> str:
    """The e-value with three digits, or the power of ten that bounds it."""
    if abs(log2_e) > MAX_LOG2_E:
        return "above 10^100" if log2_e > 0 else "below 10^-100"
    return f"{2.0**log2_e:.3g}"


def _interval(reference: Group, other: Group, bootstrap: Bootstrap) -> Interval | None:
    """The interval of the difference over all bytes; None for fewer than MIN_CELLS cells."""
    curves = [*reference.curves, *other.curves]
    n_bytes = int(curves[0].n_bytes[-1])
    cell_bytes = choose_cell_bytes(curves, n_bytes)
    n_cells = n_bytes // cell_bytes
    if n_cells < MIN_CELLS:
        return None
    grid = cell_bytes * np.arange(n_cells + 1)
    ours, theirs = (np.diff([curve.at(grid) for curve in group.curves]) for group in (other, reference))  # (S, m)
    block = _block_cells(ours.mean(0) - theirs.mean(0), cell_bytes, bootstrap)
    deviations = cell_deviations((theirs, reference.seeds), (ours, other.seeds), block, bootstrap)
    low, high = bounds(deviations * n_bytes / cell_bytes, bootstrap)
    bits = other.mean_bits - reference.mean_bits
    return Interval(
        low_bits=bits + low,
        high_bits=bits + high,
        population=_population(reference, other),
        bootstrap=bootstrap,
        cell_bytes=cell_bytes,
        n_cells=n_cells,
        n_interpolated=int(np.count_nonzero(~_known(curves, grid[1:]))),
        block_bytes=block * cell_bytes,
        automatic=bootstrap.block_bytes is None,
    )


def choose_cell_bytes(curves: Sequence[Curve], n_bytes: int) -> int:
    """The length of the cells of a grid over n_bytes: the longest step of a curve, or the multiple that gives MAX_CELLS.

    So an interpolated value is never further from a known one than a cell. If all steps are equal, nothing is interpolated.
    """
    longest = max(int(np.diff(curve.n_bytes, prepend=0).max()) for curve in curves)
    return longest * math.ceil(n_bytes / (longest * MAX_CELLS))


def _block_cells(differences: NDArray[np.float64], cell_bytes: int, bootstrap: Bootstrap) -> int:
    """The length of a block in cells, for the differences (m,) of the cells. Raises ConfigError if it exceeds half of them."""
    if bootstrap.block_bytes is None:
        return block_length(differences)
    block = max(1, round(bootstrap.block_bytes / cell_bytes))
    if 2 * block > len(differences):
        raise ConfigError(
            f"a block of {bootstrap.block_bytes} bytes is longer than half of the {len(differences) * cell_bytes} resampled "
            "bytes: choose a shorter one"
        )
    return block


def bounds(deviations: NDArray[np.float64], bootstrap: Bootstrap) -> tuple[float, float]:
    """The lower and the upper bound among the resampled deviations (n_resamples,)."""
    low, high = np.sort(deviations)[[bootstrap.n_outside - 1, -bootstrap.n_outside]]
    return float(low), float(high)


def _population(reference: Group, other: Group) -> str:
    varied = [group.label for group in (reference, other) if len(group.runs) > 1]
    seeds = f"and of other seeds of {' and '.join(varied)}" if varied else "under these seeds"
    return f"differences on other text of this length and kind, {seeds}"


def block_length(series: NDArray[np.float64]) -> int:
    """How many cells to resample together, at least 1, for the mean of a dependent series (m,).

    Twice the rule of Politis and White (2004), corrected by Patton, Politis and White (2009): (2 G^2 / D)^(1/3) m^(1/3). G and D
    are from the autocovariances with a flat-top window. The window ends at twice the lag after which no covariance is
    significant. The rule minimises the error of the variance; twice its length halves the bias, which reduces coverage. The
    result is at most a third of the series and at most 3 sqrt(m), and 1 if no covariance is significant.
    """
    m = len(series)
    covariances, n_significant = _significant_covariances(series)
    if not n_significant:
        return 1
    width = min(2 * n_significant, len(covariances) - 1)
    lags = np.arange(1, width + 1)
    weighted = np.minimum(1, 2 * (1 - lags / width)) * covariances[1 : width + 1]
    g, spectrum = 2 * lags @ weighted, covariances[0] + 2 * weighted.sum()
    longest = max(1, math.floor(min(3 * math.sqrt(m), m / 3)))
    if spectrum <= 0:
        return longest
    return min(longest, max(1, round(2 * (1.5 * (g / spectrum) ** 2 * m) ** (1 / 3))))


def _significant_covariances(series: NDArray[np.float64]) -> tuple[NDArray[np.float64], int]:
    """The autocovariances of a series (m,) by lag, and the lag after which none is significant."""
    m = len(series)
    centred = series - series.mean()
    n_quiet = max(5, math.ceil(math.sqrt(math.log10(m))))
    n_lags = min(math.ceil(math.sqrt(m)) + n_quiet, m - 1)
    covariances = np.array([centred[lag:] @ centred[: m - lag] for lag in range(n_lags + 1)]) / m
    if covariances[0] <= 0:
        return covariances, 0
    quiet = np.abs(covariances[1:] / covariances[0]) < 2 * math.sqrt(math.log10(m) / m)
    runs = np.convolve(quiet, np.ones(n_quiet), "valid") == n_quiet  # n_quiet insignificant lags in a row
    return covariances, int(np.argmax(runs)) if runs.any() else n_lags


Cells = tuple[NDArray[np.float64], Sequence[int]]  # bits of each cell, (S, m), and the S seeds


def cell_deviations(reference: Cells, other: Cells, block: int, bootstrap: Bootstrap) -> NDArray[np.float64]:
    """Resampled mean differences per cell, minus the mean difference: (n_resamples,), in bits.

    Seeds are resampled, and within each seed moving blocks of `block` cells. All runs get the same blocks, because all coded the
    same text. Groups with equal seeds are resampled in pairs, others independently. S seeds and m / b blocks give only estimates
    of the variances, so the deviations are widened from the normal distribution to Student's t.
    """
    n_cells = reference[0].shape[1]
    widening = bootstrap.widening(n_cells / block - 1)
    random = np.random.default_rng([bootstrap.seed])
    sides = [
        (cells, _seed_weights(len(seeds), np.random.default_rng([bootstrap.seed, *seeds, len(seeds)]), bootstrap))
        for cells, seeds in (reference, other)
    ]
    deviations = np.empty(bootstrap.n_resamples)
    for start in range(0, bootstrap.n_resamples, CHUNK_RESAMPLES):
        chunk = slice(start, min(start + CHUNK_RESAMPLES, bootstrap.n_resamples))
        places = random.integers(0, n_cells - block + 1, (chunk.stop - start, math.ceil(n_cells / block)))
        theirs, ours = (_deviation(cells, weights[chunk], places, block, widening) for cells, weights in sides)
        deviations[chunk] = ours - theirs
    return deviations


def _seed_weights(n_seeds: int, random: np.random.Generator, bootstrap: Bootstrap) -> NDArray[np.float64]:
    """The weight of each seed in each resample: (n_resamples, S), with row sums of 1 and column means of about 1/S.

    S draws with replacement have (S - 1) / S of the true variance. The weights are widened to correct this (Rao and Wu 1988).
    """
    if n_seeds == 1:
        return np.ones((bootstrap.n_resamples, 1))
    drawn = random.multinomial(n_seeds, [1 / n_seeds] * n_seeds, bootstrap.n_resamples) / n_seeds
    factor = math.sqrt(n_seeds / (n_seeds - 1)) * bootstrap.widening(n_seeds - 1)
    return 1 / n_seeds + (drawn - 1 / n_seeds) * factor


def _deviation(
    cells: NDArray[np.float64], weights: NDArray[np.float64], places: NDArray[np.int64], block: int, widening: float
) -> NDArray[np.float64]:
    """Resampled means per cell minus the mean: (R,). cells: (S, m). weights: (R, S). places: (R, k), where the k blocks begin.

    The variance of m / b blocks is too small, as for seeds, here by the factor (m - b) / m. And k * b cells are drawn, not m.
    """
    n_cells, n_drawn = cells.shape[1], places.shape[1] * block
    sums = np.cumsum(np.pad(cells, ((0, 0), (1, 0))), 1)  # (S, m + 1)
    means = (sums[:, block:] - sums[:, :-block]) / block  # (S, m - b + 1), the mean of every block
    levels = means.mean(1)  # (S,)
    text = np.stack([mean[places].mean(1) for mean in means], 1) - levels  # (R, S)
    text *= widening * math.sqrt(n_drawn / (n_cells - block))
    return np.asarray((weights * (levels + text)).sum(1) - levels.mean(), np.float64)
