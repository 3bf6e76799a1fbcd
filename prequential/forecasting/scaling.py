"""Scaling laws: the mean loss as a function of the number of weights N and of bytes D, and their fits.

    additive    L = E + A N^-a + B D^-b                 Hoffmann et al. (2022), equation 2
    crossed     L = E + A N^-a + B D^-b + C N^-a D^-b   the same, but larger learners also learn more from each byte
    shared      L = (E + A N^-a + B / D)^b              after Kaplan et al. (2020), equation 1.5, with one root for all terms

For given exponents, every form is linear in its coefficients (up to the root), which cannot be negative: they are solved exactly,
so only the two exponents are searched (variable projection, Golub and Pereyra 1973): by damped Gauss-Newton steps within bounds
(Marquardt 1963), from the lowest local minima of a coarse grid. The fit with the least residual counts.

Residuals are relative, fitted / observed - 1: an error of 0.01 bits in 1 bit weighs as much as 0.02 bits in 2.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from prequential.errors import ConfigError

Floats = NDArray[np.float64]

MIN_SIZES = MIN_PREFIXES = 3  # fewer are too little evidence for three coefficients and two exponents
LOWEST, HIGHEST_A = 0.01, 4.0  # of the exponents; with 0.01, a term changes by 2 % over a factor of 10
HIGHEST_B = 1.0  # a mean over D falls at most as 1 / D, as what was paid at the beginning is divided by more bytes
GRID_POINTS, MAX_STARTS = 12, 3  # along each exponent; local minima that are refined
MAX_STEPS = 48
MOST_DAMPED = 0.1  # if a step this short does not help, none does
FALL = 1e-7  # relative fall of the squared residuals that is worth a step
N_LINEARISATIONS = 8  # of a form with a root: each is a least squares problem around the last
SETTLED = 1e-12  # relative change of the fitted values, from which on another linearisation changes nothing
DIFFERENCE = 1e-6  # of the logarithm of an exponent, for numerical derivatives
FEW_PROBLEMS = 10


@dataclass(frozen=True)
class Form:
    """loss^(1 / root) = coefficients @ terms: terms(n, d, a, b) are k arrays, root(a, b) is one."""

    name: str
    terms: Callable[[Floats, Floats, Floats, Floats], list[Floats]]
    root: Callable[[Floats, Floats], Floats] = field(default=lambda a, b: np.ones_like(b))


FORMS = {
    form.name: form
    for form in (
        Form("additive", lambda n, d, a, b: [np.ones_like(n * a), n**-a, d**-b + 0 * a]),
        Form("crossed", lambda n, d, a, b: [np.ones_like(n * a), n**-a, d**-b, n**-a * d**-b]),
        Form("shared", lambda n, d, a, b: [np.ones_like(n * a), n**-a, 1 / d + 0 * a], root=lambda a, b: b),
    )
}


@dataclass(frozen=True, kw_only=True)
class Fit:
    """A form with its coefficients and exponents a and b. N is in units of n_unit weights, D in units of d_unit bytes.

    residuals: (R, P), the logarithm of observed over fitted losses.
    """

    form: str
    a: float
    b: float
    coefficients: tuple[float, ...]
    n_unit: float
    d_unit: float
    residuals: Floats = field(repr=False, compare=False)

    def at(self, n_weights: float, n_bytes: float) -> float:
        """The loss of a run with n_weights after n_bytes."""
        form = FORMS[self.form]
        n, d, a, b = (np.array([x]) for x in (n_weights / self.n_unit, n_bytes / self.d_unit, self.a, self.b))
        total = sum(c * term for c, term in zip(self.coefficients, form.terms(n, d, a, b), strict=True))
        return float((np.asarray(total) ** form.root(a, b))[0])


# ---- fits


def non_negative_least_squares(designs: Floats, wanted: Floats) -> Floats:
    """The coefficients c >= 0 (S, k) with the least |designs @ c - wanted|, for S problems at once.

    designs: (S, m, k). wanted: (S, m). Where the solution without the bounds is negative: of the solutions for each subset of the
    k columns, the best without a negative coefficient, for all problems at once. For few problems, scipy's `nnls` is faster.
    """
    gram, moments = designs.transpose(0, 2, 1) @ designs, (wanted[:, None] @ designs)[:, 0]  # (S, k, k), (S, k)
    norms = np.sqrt(np.maximum(np.einsum("skk->sk", gram), 1e-300))
    k = designs.shape[2]
    gram = gram / norms[:, :, None] / norms[:, None] + 1e-13 * np.eye(k)  # so that equal columns can be solved, too
    moments = moments / norms
    coefficients = np.linalg.solve(gram, moments[:, :, None])[:, :, 0]
    rest = np.flatnonzero(np.any(coefficients < 0, 1))
    if len(rest) > FEW_PROBLEMS:
        coefficients[rest] = _best_subset(gram[rest], moments[rest])
    elif len(rest):
        from scipy.optimize import nnls  # not every command fits a law

        coefficients[rest] = [nnls(designs[i] / norms[i], wanted[i])[0] for i in rest]
    return np.asarray(coefficients / norms, np.float64)


def _best_subset(gram: Floats, moments: Floats) -> Floats:
    """The coefficients (S, k) that explain most of the wanted values, without a negative one and without the complete set."""
    n_problems, k = moments.shape
    most, best = np.zeros(n_problems), np.zeros((n_problems, k))
    for subset in (list(s) for size in range(1, k) for s in combinations(range(k), size)):
        part = np.linalg.solve(gram[:, subset][:, :, subset], moments[:, subset, None])[:, :, 0]
        explained = (part * moments[:, subset]).sum(1)
        better = np.flatnonzero(np.all(part >= 0, 1) & (explained > most))
        most[better], best[better] = explained[better], 0.0
        best[better[:, None], np.array(subset)] = part[better]
    return best


class Projection:
    """The fit of one form to losses (R, P) > 0 of R runs with n_weights (R,), each at the prefixes n_bytes (P,).

    The losses are in bits per byte, of the text or corrected by a proxy. Raises ConfigError for too few sizes or prefixes.
    """

    def __init__(self, form: Form, n_weights: Floats, n_bytes: Floats, losses: Floats) -> None:
        n_sizes, n_prefixes = len(np.unique(n_weights)), len(np.unique(n_bytes))
        if n_sizes < MIN_SIZES or n_prefixes < MIN_PREFIXES:
            needed = f"a law of size and length needs {MIN_SIZES} sizes and {MIN_PREFIXES} prefixes"
            raise ConfigError(f"{needed}; here are {n_sizes} and {n_prefixes}")
        self._form, self._shape = form, losses.shape
        n, d = np.repeat(n_weights, len(n_bytes)), np.tile(n_bytes, len(n_weights))  # of each loss, run by run
        self.n_unit, self.d_unit = float(np.exp(np.log(n).mean())), float(np.exp(np.log(d).mean()))
        self._n, self._d = n / self.n_unit, d / self.d_unit
        self._losses = losses.reshape(-1)
        self._low, self._high = np.log([LOWEST, LOWEST]), np.log([HIGHEST_A, HIGHEST_B])

    def project(self, logs: Floats) -> tuple[Floats, Floats]:
        """The best coefficients (S, k) for the logarithms of exponents (S, 2), and the relative residuals (S, m)."""
        a, b = np.exp(logs[:, :1]), np.exp(logs[:, 1:])
        terms, root = np.stack(self._form.terms(self._n, self._d, a, b), 2), self._form.root(a, b)
        powers = self._losses ** (1 / root)  # (S, m)
        total, level = powers, np.ones((len(logs), powers.shape[1]))  # level: fitted / observed
        for _ in range(1 if np.all(root == 1) else N_LINEARISATIONS):
            # near `total`, fitted / observed is level * (1 - root) + (level * root / total) * (terms @ coefficients)
            design = terms * (level * root / total)[:, :, None]
            coefficients = non_negative_least_squares(design, 1 - level * (1 - root))
            before, total = total, np.maximum((terms @ coefficients[:, :, None])[:, :, 0], 1e-6 * powers)
            level = (total / powers) ** root
            if np.abs(total / before - 1).max() < SETTLED:
                break
        return coefficients, level - 1

    def _starts(self) -> Floats:
        """Logarithms of exponents (at most MAX_STARTS, 2): the lowest local minima of a coarse grid."""
        axes = [np.linspace(low, high, GRID_POINTS) for low, high in zip(self._low, self._high, strict=True)]
        grid = np.stack([axis.reshape(-1) for axis in np.meshgrid(*axes, indexing="ij")], 1)
        squares = (self.project(grid)[1] ** 2).sum(1).reshape(GRID_POINTS, GRID_POINTS)
        around = np.lib.stride_tricks.sliding_window_view(np.pad(squares, 1, constant_values=math.inf), (3, 3))
        minima = np.flatnonzero(squares <= around.min((2, 3)))
        order = np.argsort(squares.reshape(-1)[minima], kind="stable")
        return np.asarray(grid[minima[order[:MAX_STARTS]]], np.float64)

    def fit(self) -> Fit:
        """The fit with the least residual."""
        logs = self._refine(self._starts())
        coefficients, residuals = self.project(logs)
        best = int(np.argmin((residuals**2).sum(1)))
        a, b = map(math.exp, logs[best])
        return Fit(
            form=self._form.name,
            a=a,
            b=b,
            coefficients=tuple(map(float, coefficients[best])),
            n_unit=self.n_unit,
            d_unit=self.d_unit,
            residuals=-np.log1p(residuals[best]).reshape(self._shape),
        )

    def _refine(self, logs: Floats) -> Floats:
        """The best exponents near `logs` (S, 2), as logarithms (S, 2)."""
        logs, damping = logs.copy(), np.full((len(logs), 1), 1e-3)
        residuals = self.project(logs)[1]
        for _ in range(MAX_STEPS):
            trial = np.clip(logs + self._step(logs, residuals, damping), self._low, self._high)
            new = self.project(trial)[1]
            better = (new**2).sum(1) < (residuals**2).sum(1) * (1 - FALL)
            if not better.any() and damping.min() > MOST_DAMPED:
                break
            logs[better], residuals[better] = trial[better], new[better]
            damping = np.where(better[:, None], damping / 5, damping * 5)
        return logs

    def _step(self, logs: Floats, residuals: Floats, damping: Floats) -> Floats:
        """A damped Gauss-Newton step (S, 2). An exponent at a bound stays if the residuals fall outside of it."""
        slopes = np.empty((*residuals.shape, 2))
        for i in range(2):
            change = np.where(logs[:, i] + DIFFERENCE > self._high[i], -DIFFERENCE, DIFFERENCE)
            moved = logs.copy()
            moved[:, i] += change
            slopes[:, :, i] = (self.project(moved)[1] - residuals) / change[:, None]
        gradient = (residuals[:, None] @ slopes)[:, 0]  # (S, 2)
        stays = ((logs <= self._low) & (gradient > 0)) | ((logs >= self._high) & (gradient < 0))
        slopes[np.broadcast_to(stays[:, None], slopes.shape)] = 0.0
        gradient[stays] = 0.0
        curvature = slopes.transpose(0, 2, 1) @ slopes
        diagonal = np.einsum("sii->si", curvature)
        added = damping * diagonal + 1e-9 * diagonal.max(1, keepdims=True) + 1e-30
        step = np.linalg.solve(curvature + added[:, :, None] * np.eye(2), -gradient[:, :, None])[:, :, 0]
        return np.asarray(np.clip(step, -1.0, 1.0), np.float64)
