"""Forecasts by several assumptions, and their backtests: laws fitted to the smaller runs of a ladder forecast the larger ones.

The ladder does not show what lies ahead in a text. A proxy, a cheap run over all of it, shows how hard it is there, but not how
the learner's loss follows the proxy's. So the link to a proxy is an assumption, like the form of the law:

    ratio         the loss changes with the text by the same factor as the proxy's
    difference    it changes by as many bits
    none          the text ahead is as hard as the ladder's

With each link, the losses are corrected to the text of the whole ladder, a law of size and length is fitted to them, and the
law's loss is corrected to the text of the target.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray
from prequential_codecs.bit_coder import UNIT_BITS

from prequential.errors import CorpusError
from prequential.evaluation.curves import Curve
from prequential.forecasting.scaling import FORMS, MIN_PREFIXES, MIN_SIZES, Floats, Projection
from prequential.sweeps.ladder import Ladder, Rung

MAX_LOSS = 2.0**10  # bits per byte
MIN_COMPUTE_RATIO = 2.0  # of a hidden run to the largest fitted run: a nearer one is not an extrapolation
LEAST_SHARE = 0.05  # of a loss that is left if a difference takes more than all of it
WITH_PROXY = "_with_proxy"  # at the end of the name of a naive forecast

Lengths = NDArray[np.int64] | Floats  # in bytes


def loss_bits_per_byte(curve: Curve, n_bytes: Lengths) -> Floats:
    """The mean loss (P,) over the first n_bytes (P,). Raises CorpusError for a loss that no run has."""
    ends = np.asarray(n_bytes, np.int64)
    losses = np.asarray(curve.at(ends) / ends, np.float64)
    wrong = ends[(losses < UNIT_BITS) | (losses > MAX_LOSS)]
    if len(wrong):
        raise CorpusError(f"a curve has an impossible loss up to byte {wrong[0]}: its run is damaged")
    return losses


# ---- assumptions


@dataclass(frozen=True)
class Link:
    """How the loss follows the text: `none`, or `ratio` or `difference` to the proxy of this name."""

    kind: str
    proxy_name: str = ""
    proxy: Curve | None = None

    def corrected(self, losses: Floats, n_bytes: Lengths, to: int) -> Floats:
        """Mean losses (..., P) over n_bytes (P,), as if the text were as hard as its first `to` bytes."""
        return self._moved(losses, n_bytes, to, there=False)

    def restored(self, losses: Floats, n_bytes: Lengths, to: int) -> Floats:
        """The inverse of `corrected`."""
        return self._moved(losses, n_bytes, to, there=True)

    def _moved(self, losses: Floats, n_bytes: Lengths, to: int, *, there: bool) -> Floats:
        if self.proxy is None:
            return losses
        ahead, here = loss_bits_per_byte(self.proxy, n_bytes), loss_bits_per_byte(self.proxy, np.array([to]))
        if not there:
            ahead, here = here, ahead
        moved = losses * ahead / here if self.kind == "ratio" else losses + ahead - here
        return np.asarray(np.maximum(moved, LEAST_SHARE * losses), np.float64)


def links(proxies: Mapping[str, Curve]) -> list[Link]:
    """`none`, then a ratio and a difference to each proxy."""
    return [Link("none"), *(Link(kind, *proxy) for proxy in proxies.items() for kind in ("ratio", "difference"))]


def forecast_losses(
    rungs: Sequence[Rung], prefixes: Lengths, targets: Sequence[tuple[float, int]], assumed: Sequence[Link]
) -> Floats:
    """The losses (L, F, T) of T targets, N and bytes of each, by each link and form. Raises ConfigError for too few sizes."""
    n_weights = np.array([rung.n_weights for rung in rungs], np.float64)
    losses = np.array([loss_bits_per_byte(rung.curve, prefixes) for rung in rungs])
    to, ends = int(prefixes[-1]), np.array([n_bytes for _, n_bytes in targets])
    found = np.empty((len(assumed), len(FORMS), len(targets)))
    for i, link in enumerate(assumed):
        corrected = link.corrected(losses, prefixes, to)
        for j, form in enumerate(FORMS.values()):
            fit = Projection(form, n_weights, np.asarray(prefixes, np.float64), corrected).fit()
            found[i, j] = link.restored(np.array([fit.at(*target) for target in targets]), ends, to)
    return found


# ---- rolling origins


@dataclass(frozen=True, kw_only=True)
class Cell:
    """The forecast of one hidden run from smaller sizes and shorter prefixes. errors: (L, F), log(forecast / actual)."""

    origin: tuple[str, int]  # the largest fitted size and length; cells of one origin share their fits
    target: tuple[str, int]  # size and length of the hidden run; cells of one target share the actual loss
    compute_ratio: float
    errors: Floats


def rolling_origins(ladder: Ladder, assumed: Sequence[Link]) -> list[Cell]:
    """The forecasts of all hidden runs, for every way to fit at least 3 sizes and 3 prefixes and hide the others."""
    return [
        cell
        for n_sizes in range(MIN_SIZES, len(ladder.sizes) + 1)
        for n_prefixes in range(MIN_PREFIXES, len(ladder.prefixes()) + 1)
        for cell in _cells(ladder, n_sizes, n_prefixes, assumed)
    ]


def _cells(ladder: Ladder, n_sizes: int, n_prefixes: int, assumed: Sequence[Link]) -> Iterator[Cell]:
    """The forecasts of every hidden run of MIN_COMPUTE_RATIO or more, from the smallest sizes and the shortest prefixes."""
    sizes, prefixes = ladder.sizes, ladder.prefixes()
    last, end = ladder.first_rung(sizes[n_sizes - 1]), int(prefixes[n_prefixes - 1])
    operations = last.operations(end)
    hidden = product(map(ladder.first_rung, sizes[n_sizes - 1 :]), prefixes[n_prefixes - 1 :].tolist())
    ratios = [(rung, n_bytes, rung.operations(n_bytes) / operations) for rung, n_bytes in hidden]
    targets = [target for target in ratios if target[2] >= MIN_COMPUTE_RATIO]
    if not targets:
        return
    rungs = [rung for rung in ladder.rungs if rung.size in sizes[:n_sizes]]
    places = [(float(rung.n_weights), n_bytes) for rung, n_bytes, _ in targets]
    found = forecast_losses(rungs, prefixes[:n_prefixes], places, assumed)
    for i, (rung, n_bytes, ratio) in enumerate(targets):
        actual = float(loss_bits_per_byte(rung.curve, np.array([n_bytes]))[0])
        yield Cell(
            origin=(str(last.size), end),
            target=(str(rung.size), n_bytes),
            compute_ratio=ratio,
            errors=np.log(found[:, :, i] / actual),
        )


# ---- naive forecasts


def naive_losses(ladder: Ladder, target_flops: float, n_bytes: int, proxies: Sequence[Curve] = ()) -> dict[str, float]:
    """Forecasts of the mean loss over n_bytes without a fit, in bits per byte, by name: a forecast must beat them.

    last_rung: the loss of the largest rung, carried over. line: the straight line through the last two rungs, over the
    logarithms of operations and loss, at target_flops. With each proxy also both `_with_proxy`: the same for the ratio of the
    loss to the proxy's, times the proxy's loss on the target.
    """
    end = ladder.corpus.n_bytes
    last_two = [ladder.first_rung(size) for size in ladder.sizes[-2:]]
    y0, y1 = (float(loss_bits_per_byte(rung.curve, np.array([end]))[0]) for rung in last_two)
    x0, x1 = (rung.operations(end) for rung in last_two)
    slope = math.log(y1 / y0) / math.log(x1 / x0)
    found = plain = {"last_rung": y1, "line": y1 * (target_flops / x1) ** slope}
    for i, proxy in enumerate(proxies):
        there, here = loss_bits_per_byte(proxy, np.array([end, n_bytes]))
        # dividing both points by a constant moves a line in logarithms as a whole
        number = f"_{i + 1}" if i else ""
        found = found | {name + WITH_PROXY + number: float(loss * here / there) for name, loss in plain.items()}
    return found
