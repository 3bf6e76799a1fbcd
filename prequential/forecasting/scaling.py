"""Scaling laws: the loss as a function of the number of weights N and of bytes D.

    additive    L = E + A N^-a + B D^-b                 Hoffmann et al. (2022), equation 2
    crossed     L = E + A N^-a + B D^-b + C N^-a D^-b   the same, but larger learners also learn more from each byte
    shared      L = (E + A N^-a + B / D)^b              after Kaplan et al. (2020), equation 1.5, with one root for all terms

For given exponents, every form is linear in its coefficients (up to the root), which cannot be negative: projection.py fits it.

If the loss at D is E + A N^-a + B D^-b with b < 1, its mean over the first D bytes is E + A N^-a + B / (1 - b) D^-b: the same
form. `total_both_ways` (forecast.py) compares the two.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prequential.errors import ConfigError

Floats = NDArray[np.float64]

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
    """loss^(1 / root) = coefficients @ terms.

    terms(n, d, a, b): k arrays, with the exponents a and b. root(a, b): an array. coefficients: their names, in the order of
    terms.
    """

    name: str
    formula: str
    terms: Callable[[Floats, Floats, Floats, Floats], list[Floats]]
    coefficients: str = "EAB"
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
            coefficients="EABC",
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

    residuals: (R, P), the logarithm of observed over fitted losses. rms: their root mean square. binding: the bounds that the
    least residual lies at, in words; then the data alone do not determine this value.
    """

    form: str
    a: float
    b: float
    coefficients: tuple[float, ...]
    n_unit: float
    d_unit: float
    rms: float
    residuals: Floats = field(repr=False, compare=False)
    binding: tuple[str, ...] = ()

    def at(self, n_weights: float, n_bytes: float) -> float:
        """The loss of a run with n_weights after n_bytes."""
        form = FORMS[self.form]
        n, d, a, b = (np.array([x]) for x in (n_weights / self.n_unit, n_bytes / self.d_unit, self.a, self.b))
        total = sum(c * term for c, term in zip(self.coefficients, form.terms(n, d, a, b), strict=True))
        return float((np.asarray(total) ** form.root(a, b))[0])

    def mean_to(self, n_weights: float, n_bytes: float) -> float | None:
        """The mean loss over the first n_bytes, for a law of the loss at n_bytes.

        None for forms without the identity, and for b >= 1, where this mean is infinite.
        """
        n_falling = {"additive": 1, "crossed": 2}.get(self.form)  # the last terms, which contain D^-b
        if n_falling is None or self.b >= 1:
            return None
        kept = len(self.coefficients) - n_falling
        falling = tuple(c / (1 - self.b) for c in self.coefficients[kept:])
        return replace(self, coefficients=self.coefficients[:kept] + falling).at(n_weights, n_bytes)

    def to_record(self) -> dict[str, Any]:
        """The fit as JSON values, without its residuals."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "residuals"}
        lists = {"coefficients": list(self.coefficients), "binding": list(self.binding)}
        return values | lists | {"formula": FORMS[self.form].formula}
