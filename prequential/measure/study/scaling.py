"""Scaling laws: the loss as a function of the number of weights N and of bytes D, fitted by variable projection.

    additive    L = E + A N^-a + B D^-b                 Hoffmann et al. (2022), equation 2
    crossed     L = E + A N^-a + B D^-b + C N^-a D^-b   the same, but larger learners also learn more from each byte
    shared      L = (E + A N^-a + B / D)^q              Kaplan et al. (2020), equation 1.5, with one root for all terms

For given exponents, every form is linear in its coefficients, which cannot be negative. They are solved for each point of a grid
of exponents (Golub and Pereyra 1973). So no start has to be chosen, and a minimum is missed only between the points of the grid.
Residuals are relative: an error of 0.01 bits in 1 bit weighs as much as 0.02 bits in 2.

If the loss at D is E + A N^-a + B D^-b, its mean over the first D bytes is E + A N^-a + B / (1 - b) D^-b: the same form.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prequential.errors import ConfigError

Floats = NDArray[np.float64]

# The exponents of N, and of D (or the root q), that are tried. The second is below 1: from 1 on, the mean over D does not exist.
FIRST_GRID, SECOND_GRID = np.geomspace(0.05, 2.0, 20), np.linspace(0.04, 0.96, 20)
MIN_SIZES = MIN_PREFIXES = 3  # fewer are too little evidence for three coefficients and two exponents


@dataclass(frozen=True, kw_only=True)
class Observations:
    """Losses (R, P) > 0 of R runs with n_weights (R,), each at the same P prefixes n_bytes (P,).

    The losses are in bits per byte, or ratios to those of another run. Raises ConfigError for too few sizes or prefixes.
    """

    n_weights: Floats
    n_bytes: Floats
    losses: Floats

    def __post_init__(self) -> None:
        n_sizes, n_prefixes = len(np.unique(self.n_weights)), len(np.unique(self.n_bytes))
        if n_sizes < MIN_SIZES or n_prefixes < MIN_PREFIXES:
            raise ConfigError(
                f"a law of size and length needs {MIN_SIZES} sizes and {MIN_PREFIXES} prefixes; here are {n_sizes} and "
                f"{n_prefixes}"
            )

    @property
    def places(self) -> tuple[Floats, Floats]:
        """N and D of every loss, each (R * P,), run by run."""
        return np.repeat(self.n_weights, len(self.n_bytes)), np.tile(self.n_bytes, len(self.n_weights))


@dataclass(frozen=True, kw_only=True)
class Form:
    """loss^(1 / root) = coefficients @ terms. terms(n, d, a, b): k arrays, with the exponents a and b. root(a, b): an array."""

    name: str
    formula: str
    terms: Callable[[Floats, Floats, Floats, Floats], list[Floats]]
    root: Callable[[Floats, Floats], Floats] = field(default=lambda a, b: np.ones_like(b))


FORMS = {
    form.name: form
    for form in (
        Form(
            name="additive",
            formula="E + A N^-a + B D^-b",
            terms=lambda n, d, a, b: [np.ones_like(n * a), n**-a, d**-b + 0 * a],
        ),
        Form(
            name="crossed",
            formula="E + A N^-a + B D^-b + C N^-a D^-b",
            terms=lambda n, d, a, b: [np.ones_like(n * a), n**-a, d**-b, n**-a * d**-b],
        ),
        Form(
            name="shared",
            formula="(E + A N^-a + B / D)^b",
            terms=lambda n, d, a, b: [np.ones_like(n * a), n**-a, 1 / d + 0 * a],
            root=lambda a, b: b,
        ),
    )
}


@dataclass(frozen=True, kw_only=True)
class Fit:
    """A form with its coefficients and exponents a and b. N is in units of n_unit weights, D in units of d_unit bytes.

    residuals: (R, P), relative. rms: their root mean square.
    """

    form: str
    a: float
    b: float
    coefficients: tuple[float, ...]
    n_unit: float
    d_unit: float
    rms: float
    residuals: Floats = field(repr=False, compare=False)

    def at(self, n_weights: float, n_bytes: float) -> float:
        """The loss of a run with n_weights after n_bytes."""
        form = FORMS[self.form]
        n, d, a, b = (np.array([x]) for x in (n_weights / self.n_unit, n_bytes / self.d_unit, self.a, self.b))
        total = sum(c * term for c, term in zip(self.coefficients, form.terms(n, d, a, b), strict=True))
        return float((np.asarray(total) ** form.root(a, b))[0])

    def mean_to(self, n_weights: float, n_bytes: float) -> float | None:
        """The mean loss over the first n_bytes, for a law of the loss at n_bytes. None for forms without the identity."""
        n_falling = {"additive": 1, "crossed": 2}.get(self.form)  # the last terms, which contain D^-b
        if n_falling is None:
            return None
        kept = len(self.coefficients) - n_falling
        falling = tuple(c / (1 - self.b) for c in self.coefficients[kept:])
        return replace(self, coefficients=self.coefficients[:kept] + falling).at(n_weights, n_bytes)

    @property
    def floor(self) -> float:
        """The loss that it approaches for infinite size and length."""
        return self.coefficients[0] ** (self.b if self.form == "shared" else 1.0)

    def to_record(self) -> dict[str, Any]:
        """The fit as JSON values, without its residuals."""
        return {
            "form": self.form,
            "formula": FORMS[self.form].formula,
            "a": self.a,
            "b": self.b,
            "coefficients": list(self.coefficients),
            "n_unit": self.n_unit,
            "d_unit": self.d_unit,
            "rms": self.rms,
        }


class Projection:
    """Fits of one form to losses at fixed sizes and prefixes, many samples of losses at once.

    It solves least squares for each of the G grid points and each subset of the k terms. Among the subsets without a negative
    coefficient, the one with the least residual is the non-negative least squares solution.
    """

    def __init__(self, form: Form, observed: Observations) -> None:
        self._form, self._observed = form, observed
        n, d = observed.places
        self.n_unit, self.d_unit = (float(np.exp(np.log(x).mean())) for x in (n, d))
        a, b = (grid.reshape(-1, 1) for grid in np.meshgrid(FIRST_GRID, SECOND_GRID))
        self._a, self._b, self._root = a[:, 0], b[:, 0], np.broadcast_to(form.root(a, b), a.shape)
        losses = observed.losses.reshape(1, -1)
        terms = np.stack(form.terms(n[None] / self.n_unit, d[None] / self.d_unit, a, b), 2)  # (G, m, k)
        self._design = terms * (self._root / losses ** (1 / self._root))[:, :, None]  # for relative residuals
        self._gram = self._design.transpose(0, 2, 1) @ self._design  # (G, k, k)

    @property
    def _subsets(self) -> list[tuple[int, ...]]:
        k = self._design.shape[2]
        return [subset for size in range(1, k + 1) for subset in combinations(range(k), size)]

    @cached_property
    def _inverses(self) -> list[Floats]:
        grams = [self._gram[:, s][:, :, s] for s in map(list, self._subsets)]
        return [np.asarray(np.linalg.pinv(gram, rcond=1e-13, hermitian=True), np.float64) for gram in grams]

    def solve(self, changes: Floats) -> tuple[NDArray[np.int64], Floats]:
        """The best grid point (S,) and the coefficients (S, k) of each of S samples of losses.

        changes: (m, S), the logarithm of each sample minus the logarithm of the observed losses; small.
        """
        n_samples, (n_points, n_places, k) = changes.shape[1], self._design.shape
        best = np.full(n_samples, math.inf)
        point, found = np.zeros(n_samples, np.int64), np.zeros((n_samples, k))
        rows = np.ascontiguousarray(self._design.transpose(0, 2, 1))  # (G, k, m)
        moments = (rows.reshape(-1, n_places) @ changes).reshape(n_points, k, n_samples)
        moments += (rows.sum(2) * self._root)[:, :, None]  # root * exp(change / root) is root + change to first order
        energy = n_places * self._root**2 + 2 * self._root * changes.sum(0) + (changes**2).sum(0)  # (G, S)
        for subset, inverse in zip(map(list, self._subsets), self._inverses, strict=True):
            part = moments[:, subset]
            coefficients = np.asarray(inverse @ part, np.float64)  # (G, |s|, S)
            error = energy - (coefficients * part).sum(1)  # (G, S)
            error[np.any(coefficients < 0, 1)] = math.inf
            i = error.argmin(0)
            lowest = error[i, np.arange(n_samples)]
            better = np.flatnonzero(lowest < best)
            best[better], point[better] = lowest[better], i[better]
            found[better] = 0.0
            found[better[:, None], np.array(subset)] = coefficients[i[better], :, better]
        return point, found

    def fit(self) -> Fit:
        """The fit to the observed losses."""
        point, coefficients = self.solve(np.zeros((self._observed.losses.size, 1)))
        return self._fit(int(point[0]), coefficients[0])

    def _fit(self, i: int, coefficients: Floats) -> Fit:
        predicted = (self._design[i] @ coefficients / self._root[i]) ** self._root[i]  # divided by the observed losses
        residuals = -np.log(predicted).reshape(self._observed.losses.shape)
        return Fit(
            form=self._form.name,
            a=float(self._a[i]),
            b=float(self._b[i]),
            coefficients=tuple(map(float, coefficients)),
            n_unit=self.n_unit,
            d_unit=self.d_unit,
            rms=float(np.sqrt((residuals**2).mean())),
            residuals=residuals,
        )

    def bootstrap(self, fit: Fit, places: Floats, n_resamples: int, seed: int = 0) -> Floats:
        """Losses (T, n_resamples) at `places` (T, 2), rows of N and D, by fits to losses with resampled residuals.

        A residual has two parts. The part that all runs share at a prefix belongs to the text: it is rotated along the prefixes
        and takes a random sign. The other part is drawn run by run, so complete curves stay together.
        """
        random = np.random.default_rng(seed)
        common = fit.residuals.mean(0)  # (P,)
        own = (fit.residuals - common) * math.sqrt(len(fit.residuals) / (len(fit.residuals) - 1))
        n_runs, n_prefixes = own.shape
        drawn = own[random.integers(0, n_runs, (n_resamples, n_runs))]  # (S, R, P)
        shifts = (np.arange(n_prefixes) + random.integers(0, n_prefixes, (n_resamples, 1))) % n_prefixes
        text = common[shifts] * random.choice([-1.0, 1.0], (n_resamples, 1))  # (S, P)
        changes = (drawn + text[:, None]).reshape(n_resamples, -1).T - fit.residuals.reshape(-1, 1)
        point, coefficients = self.solve(changes)
        a, b, root = self._a[point], self._b[point], self._root[point, 0]  # (S,) each
        n, d = places[:, :1] / self.n_unit, places[:, 1:] / self.d_unit  # (T, 1) each
        terms = np.stack(
            [np.broadcast_to(term, (len(places), n_resamples)) for term in self._form.terms(n, d, a, b)], 2
        )
        return np.asarray((coefficients * terms).sum(2) ** root, np.float64)


def fit(observed: Observations, form: str = "additive") -> Fit:
    """The best fit of the form on the grid of exponents."""
    return Projection(FORMS[form], observed).fit()


def line_in_logs(points: Sequence[tuple[float, float]], x: float) -> float:
    """The value at x of the straight line through two points (x, y) > 0, on logarithmic axes."""
    (x0, y0), (x1, y1) = points
    slope = math.log(y1 / y0) / math.log(x1 / x0)
    return y1 * (x / x1) ** slope
