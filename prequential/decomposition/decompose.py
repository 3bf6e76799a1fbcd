"""The parts of a code length: the cost of the data for a learner that knows such data, and the cost of learning.

docs/MEASURES.md defines the parts; METHOD.md gives the field's words. The learner is a GPT without context mixer and without a
table of contexts. Its weights can be sent to a receiver; hundreds of megabytes of counts and rows cannot. The weights are sent as
the GPT uses them: int8 levels and float32 scales; for the embedding, the levels of its change since initialisation.
Hindsight is a code only together with these weights. A frozen learner reads the corpus as one stream: its window continues from
segment to segment.

The expected curve takes the cost of a byte at position t as r(t) = E + A (t + s)^-b + noise, with A >= 0, 0.05 <= b <= 2 and
s >= 0. The mean over cells of equal length is fitted by least squares. E and A are linear; b and s come from a grid. The fit
is no forecast: it is used inside the text, where neighbouring nodes give nearly the same curve.

Text has long memory, and one text cannot show how much. So the intervals come from replicates whose noise is fractional Gaussian
(Mandelbrot & Van Ness 1968), with Hurst exponents of 0.5 to 0.9 in equal shares. The noise has the variance of the residuals,
corrected for what the fit takes away. Each replicate is fitted again.
"""

import io
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from prequential_codecs.baselines.counting import compress_order0, decompress_order0
from prequential_codecs.byte_source import ByteSource, varint
from scipy.linalg import toeplitz

from prequential.errors import ConfigError, CorpusError
from prequential.evaluation.curves import Curve
from prequential.evaluation.law import Values, cell_means, integral
from prequential.exact import plain
from prequential.exact.arrays import to_array, to_tensor
from prequential.learners.subject import follow
from prequential.model.config import Config
from prequential.model.frozen import FrozenLearner
from prequential.model.learner import OnlineLearner
from prequential.online.runtime import Runtime
from prequential.online.training import finish

THRESHOLDS = (0.1, 0.5, 1.0)  # by default, in bits per byte above the rate at the end of the corpus
EMBEDDING = "gpt.embedding"
N_CELLS, MIN_CELLS = 256, 64  # no interval with fewer cells, as in comparison
SEGMENTS_PER_CELL = 2  # at least: a curve has no points within a segment
LEVEL = 0.9
N_REPLICATES = 1000
EXPONENTS = np.linspace(0.05, 2.0, 104)  # 1 is not among them
SHIFTS = np.concatenate([[0.0], np.geomspace(1e-4, 1.0, 41)])  # s, as shares of the text
HURST = (0.5, 0.6, 0.7, 0.8, 0.9)
N_PARAMETERS = 4


# ---- the expected curve


@dataclass(frozen=True)
class Bounded:
    """A figure and its interval of level LEVEL; the ends are None with fewer than MIN_CELLS cells."""

    point: float
    low: float | None
    high: float | None


@dataclass(frozen=True, kw_only=True)
class ExpectedCurve:
    """The law of a learning curve of n_bytes and code_bits, fitted to n_cells. Row 0 is the fit; the other rows fit replicates.

    nodes (R,): places in the grid. floors, factors (R,): E and A, in bits per byte for t and s as shares of the text.
    """

    n_bytes: int
    code_bits: float
    n_cells: int
    nodes: NDArray[np.int64]
    floors: Values
    factors: Values

    @cached_property
    def _final_rates(self) -> Values:
        return self.floors + self.factors * (1.0 + self._shifts) ** -self._exponents

    @property
    def final_rate(self) -> Bounded:
        """r(n): what a further byte would be expected to cost, in bits."""
        return self._estimate(self._final_rates)

    @property
    def learning_bits(self) -> Bounded:
        """The code length less n r(n): the area between the learning curve and its expected end, in bits."""
        return self._estimate(self.code_bits - self.n_bytes * self._final_rates)

    def surplus_bits(self, epsilon: float) -> Bounded:
        """The area of the expected curve above epsilon bits per byte, in bits. Source: Whitney et al. 2020."""
        ends = self._ends(epsilon)
        return self._estimate(self.n_bytes * (self._areas(ends) - epsilon * ends))

    @property
    def _exponents(self) -> Values:
        return np.asarray(EXPONENTS[self.nodes // len(SHIFTS)])

    @property
    def _shifts(self) -> Values:
        return np.asarray(SHIFTS[self.nodes % len(SHIFTS)])

    def _ends(self, epsilon: float) -> Values:
        """The share of the text with an expected cost above epsilon, (R,)."""
        above = epsilon - self.floors
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            ends = (self.factors / above) ** (1 / self._exponents) - self._shifts
        return np.asarray(np.where(above <= 0, 1.0, np.clip(np.nan_to_num(ends, posinf=1.0), 0.0, 1.0)))

    def _areas(self, ends: Values) -> Values:
        """The integral of r from 0 to `ends` (R,), shares of the text."""
        return self.floors * ends + self.factors * integral(self._exponents, self._shifts, 0.0, ends)

    def _estimate(self, values: Values) -> Bounded:
        """The interval of the middle LEVEL of the replicates."""
        point = float(values[0])
        if len(values) == 1:
            return Bounded(point, None, None)
        low, high = np.quantile(values[1:], [(1 - LEVEL) / 2, (1 + LEVEL) / 2], method="nearest")
        return Bounded(point, float(low), float(high))


def expected_curve(curve: Curve) -> ExpectedCurve:
    """Fits the law to a learning curve, whose points are ends of segments. Equal curves give equal results."""
    n_bytes, code_bits = int(curve.n_bytes[-1]), float(curve.bits[-1])
    n_cells = min(N_CELLS, len(curve.n_bytes) // SEGMENTS_PER_CELL, n_bytes)
    n_cells = n_cells if n_cells >= 3 else 1  # no law has so few points
    edges = np.linspace(0.0, n_bytes, n_cells + 1)
    rates = np.diff(curve.at(edges)) / np.diff(edges)
    shapes = cell_means(EXPONENTS, SHIFTS, edges / n_bytes)
    nodes, floors, factors = _fit(shapes, rates[:, None])
    if n_cells >= MIN_CELLS:
        fitted = floors[0] + factors[0] * shapes[nodes[0]]
        replicates = fitted[:, None] + _noise(rates - fitted, _tangents(shapes, int(nodes[0])))
        fits = zip((nodes, floors, factors), _fit(shapes, replicates), strict=True)
        nodes, floors, factors = (np.concatenate(parts) for parts in fits)
    return ExpectedCurve(
        n_bytes=n_bytes, code_bits=code_bits, n_cells=n_cells, nodes=nodes, floors=floors, factors=factors
    )


def _fit(shapes: Values, rates: Values) -> tuple[NDArray[np.int64], Values, Values]:
    """The best node, E and A for each column of rates (cells, R)."""
    centred = shapes - shapes.mean(1, keepdims=True)
    squares = (centred**2).sum(1)
    products = centred @ (rates - rates.mean(0))
    gains = np.where(
        (products > 0) & (squares[:, None] > 1e-12), products**2 / np.maximum(squares, 1e-12)[:, None], 0.0
    )
    nodes = gains.argmax(0)
    columns = np.arange(rates.shape[1])
    factors = np.where(gains[nodes, columns] > 0, products[nodes, columns] / np.maximum(squares[nodes], 1e-12), 0.0)
    floors = rates.mean(0) - factors * shapes.mean(1)[nodes]
    return nodes, floors, factors


def _tangents(shapes: Values, node: int) -> Values:
    """An orthonormal basis of what a fit near this node can follow, (cells, N_PARAMETERS): constant, shape and its neighbours."""
    row, column = divmod(node, len(SHIFTS))
    rows = np.clip([row - 1, row + 1], 0, len(EXPONENTS) - 1)
    columns = np.clip([column - 1, column + 1], 0, len(SHIFTS) - 1)
    near = [shapes[node], *shapes[rows * len(SHIFTS) + column], *shapes[row * len(SHIFTS) + columns]]
    found = np.stack([np.ones(shapes.shape[1]), *((shape - shape.mean()) / (shape.std() or 1.0) for shape in near)], 1)
    return np.asarray(np.linalg.svd(found, full_matrices=False)[0][:, :N_PARAMETERS])


def _noise(residuals: Values, tangents: Values) -> Values:
    """Fractional Gaussian noise of the residuals' size, (cells, N_REPLICATES), in equal shares for each Hurst exponent."""
    n_cells, random = len(residuals), np.random.default_rng(0)
    distance = np.arange(n_cells, dtype=np.float64)
    parts = []
    for hurst in HURST:
        powers = np.abs(distance[:, None] + np.array([-1.0, 0.0, 1.0])) ** (2 * hurst)
        covariance = toeplitz(powers @ [0.5, -1.0, 0.5])
        left = n_cells - np.einsum("ij,ik,kj->", tangents, covariance, tangents)  # expected sum of squares after a fit
        scale = math.sqrt(float(np.square(residuals).sum()) / left)
        drawn = random.standard_normal((n_cells, N_REPLICATES // len(HURST)))
        parts.append(scale * (np.linalg.cholesky(covariance) @ drawn))
    return np.concatenate(parts, axis=1)


# ---- the parts


@dataclass(frozen=True, kw_only=True)
class Decomposition:
    """Ideal code lengths of a corpus, online and in hindsight, and the law of `online`. weights_bytes: of `pack_weights`."""

    online: Curve
    hindsight: Curve
    weights_bytes: int
    expected: ExpectedCurve


def decompose(
    source: NDArray[np.uint8],
    config: Config,
    runtime: Runtime,
    *,
    on_stage: Callable[[str], object] = lambda stage: None,
) -> Decomposition:
    """The parts of the code length of source (n,). on_stage: called with the name of each stage when it begins.

    Raises ConfigError for a learner that is not a GPT alone, CorpusError for an empty corpus.
    """
    if not len(source):
        raise CorpusError("the corpus is empty: there is nothing to code")
    on_stage("online")
    learner = fresh_learner(config, runtime)
    online = _curve(follow(learner, source))
    finish(learner)
    on_stage("hindsight")
    weights = pack_weights(learner, fresh_learner(config, runtime))
    return Decomposition(
        online=online,
        hindsight=_curve(follow(FrozenLearner(unpack_weights(weights, config, runtime)), source)),
        weights_bytes=len(weights),
        expected=expected_curve(online),
    )


def _curve(costs: Iterable[NDArray[np.float64]]) -> Curve:
    """The curve of the costs of segments."""
    sums = [(len(bits), float(bits.sum())) for bits in costs]
    n_bytes, bits = np.cumsum(sums, axis=0).T
    return Curve(n_bytes=n_bytes.astype(np.int64), bits=bits)


# ---- weights that a receiver gets


def fresh_learner(config: Config, runtime: Runtime) -> OnlineLearner:
    """A learner before its first byte. Raises ConfigError unless it is a GPT without mixer and contexts."""
    if config.gpt is None or config.gpt.contexts or config.mixer is not None:
        raise ConfigError("hindsight sends the weights of a GPT: choose one without mixer and without contexts")
    return replace(runtime, audit_every=0).learner(config)


def pack_weights(learner: OnlineLearner, start: OnlineLearner) -> bytes:
    """The learner's weights as bytes. start: a fresh learner of the same configuration, which the receiver has too.

    For each matrix: the length of an order-0 two-part code, the int8 levels in this code, and the float32 scales: one scale for
    each column; for the change of the embedding, one for each row.
    """
    packed = b""
    for name, weight in _weights(learner).items():
        if name == EMBEDDING:
            change = weight - _weights(start)[EMBEDDING]
            levels, scale = plain.quantise_rows(change.reshape(-1, change.shape[-1]))
        else:
            levels, scale = plain.quantise_columns(weight)
        coded = compress_order0(levels.contiguous().numpy().tobytes())
        packed += varint(len(coded)) + coded + scale.numpy().astype("<f4").tobytes()
    return packed


def unpack_weights(packed: bytes, config: Config, runtime: Runtime) -> OnlineLearner:
    """A learner with these weights, before its first byte. Raises CorruptArchiveError if the bytes cannot be weights."""
    learner, source = fresh_learner(config, runtime), ByteSource(io.BytesIO(packed))
    loaded = {}
    for name, weight in _weights(learner).items():
        n_columns, per_row = weight.shape[-1], name == EMBEDDING
        levels = np.frombuffer(decompress_order0(source.take(source.take_varint())), np.int8).astype(np.float32)
        scales = np.frombuffer(source.take(4 * (weight.numel() // n_columns if per_row else n_columns)), "<f4")
        matrix = levels.reshape(-1, n_columns) * (scales[:, None] if per_row else scales)
        tensor = torch.from_numpy(matrix).reshape(weight.shape)
        loaded[name] = to_array(tensor + weight if per_row else tensor)
    source.check_end()
    learner.load_state({**learner.state(), **loaded})
    return learner


def _weights(learner: OnlineLearner) -> dict[str, torch.Tensor]:
    """The float32 weights that determine the predictions, by their names in the state; the embedding is the last."""
    assert learner.config.gpt
    hidden = [f"gpt.{i}.{name}" for i in range(learner.config.gpt.n_layers) for name in ("qkv", "out", "up", "down")]
    state = learner.state()
    return {name: to_tensor(state[name]) for name in (*hidden, "gpt.head", EMBEDDING)}


# ---- as a record


def decomposition_record(found: Decomposition, epsilons: Sequence[float] | None = None) -> dict[str, Any]:
    """The figures as JSON values. epsilons: thresholds in bits per byte; None: THRESHOLDS above the expected final rate.

    data_bits + learning_bits = code_bits, also at the ends of their intervals.
    """
    return curve_record(found.expected, epsilons) | {
        "hindsight_bits": float(found.hindsight.bits[-1]),
        "regret_bits": float(found.online.bits[-1] - found.hindsight.bits[-1]),
        "weights_bits": 8 * found.weights_bytes,
    }


def curve_record(expected: ExpectedCurve, epsilons: Sequence[float] | None = None) -> dict[str, Any]:
    """The figures that a learning curve alone gives: all without hindsight."""
    rate, n_bytes = expected.final_rate, expected.n_bytes
    return {
        "n_bytes": n_bytes,
        "level": LEVEL,
        "n_cells": expected.n_cells,
        "code_bits": expected.code_bits,
        "final_bits_per_byte": vars(rate),
        "data_bits": {end: value and n_bytes * value for end, value in vars(rate).items()},
        "learning_bits": vars(expected.learning_bits),
        "thresholds": [
            {"epsilon": epsilon, "surplus_bits": vars(expected.surplus_bits(epsilon))}
            for epsilon in epsilons or [rate.point + above for above in THRESHOLDS]
        ],
    }
