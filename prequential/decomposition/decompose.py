"""The parts of a code length: the cost of the data for a learner that knows such data, and the cost of learning.

docs/MEASURES.md defines the parts; METHOD.md gives the field's words. The learner is a GPT without context mixer and without a
table of contexts. Its weights can be sent to a receiver; hundreds of megabytes of counts and rows cannot. The weights are sent as
the GPT uses them: int8 levels and float32 scales; for the embedding, the levels of its change since initialisation.
Hindsight is a code only together with these weights. A frozen learner reads the corpus as one stream: its window continues from
segment to segment.
"""

import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from prequential_codecs.baselines import order0
from prequential_codecs.byte_source import ByteSource, varint

from prequential.decomposition.expected import N_CELLS, ExpectedCurve, curve_record, expected_curve
from prequential.errors import ConfigError, CorpusError
from prequential.evaluation.curves import Curve
from prequential.exact import plain
from prequential.exact.arrays import to_array, to_tensor
from prequential.learners.subject import follow
from prequential.model.config import Config
from prequential.model.frozen import FrozenLearner
from prequential.model.learner import OnlineLearner
from prequential.online.runtime import Runtime
from prequential.online.training import finish

EMBEDDING = "gpt.embedding"


@dataclass(frozen=True, kw_only=True)
class Decomposition:
    """Ideal code lengths of a corpus, online and in hindsight, and the expected curve. weights_bytes: of `pack_weights`."""

    online: Curve
    hindsight: Curve
    weights_bytes: int
    expected: ExpectedCurve


def decompose(
    source: NDArray[np.uint8],
    config: Config,
    runtime: Runtime,
    *,
    n_orders: int = 0,
    on_stage: Callable[[str], object] = lambda stage: None,
) -> Decomposition:
    """The parts of the code length of source (n,). on_stage: called with the name of each stage when it begins.

    n_orders: fit the expected curve to the mean over so many shuffled orders of the text, in which no kind of text comes late.
    Raises ConfigError for a learner that is not a GPT alone, CorpusError for an empty corpus.
    """
    if not len(source):
        raise CorpusError("the corpus is empty: there is nothing to code")
    on_stage("online")
    learner = fresh_learner(config, runtime)
    online = _curve(follow(learner, source))
    finish(learner)
    expected = expected_curve(online)
    if n_orders:
        on_stage("shuffled orders")
        orders = [_curve(follow(fresh_learner(config, runtime), shuffled(source, seed))) for seed in range(n_orders)]
        mean = Curve(n_bytes=online.n_bytes, bits=np.mean([each.bits for each in orders], axis=0))
        expected = replace(expected_curve(mean, is_shuffled=True), code_bits=float(online.bits[-1]))
    on_stage("hindsight")
    weights = pack_weights(learner, fresh_learner(config, runtime))
    return Decomposition(
        online=online,
        hindsight=_curve(follow(FrozenLearner(unpack_weights(weights, config, runtime)), source)),
        weights_bytes=len(weights),
        expected=expected,
    )


def shuffled(source: NDArray[np.uint8], seed: int) -> NDArray[np.uint8]:
    """The text (n,) with its N_CELLS pieces in another order."""
    pieces = np.array_split(source, min(N_CELLS, len(source)))
    return np.concatenate([pieces[i] for i in np.random.default_rng(seed).permutation(len(pieces))])


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
            peaks = plain.column_peaks(weight)
            levels, scale = plain.round_columns(weight, peaks), peaks * (1.0 / plain.INT8_LIMIT)
        coded = order0.compress(levels.contiguous().numpy().tobytes())
        packed += varint(len(coded)) + coded + scale.numpy().astype("<f4").tobytes()
    return packed


def unpack_weights(packed: bytes, config: Config, runtime: Runtime) -> OnlineLearner:
    """A learner with these weights, before its first byte. Raises CorruptArchiveError if the bytes cannot be weights."""
    learner, source = fresh_learner(config, runtime), ByteSource(io.BytesIO(packed))
    loaded = {}
    for name, weight in _weights(learner).items():
        n_columns, per_row = weight.shape[-1], name == EMBEDDING
        levels = np.frombuffer(order0.decompress(source.take(source.take_varint())), np.int8).astype(np.float32)
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


def decomposition_record(found: Decomposition, epsilons: Sequence[float] = ()) -> dict[str, Any]:
    """The figures as JSON values, as of `curve_record`."""
    return curve_record(found.expected, epsilons) | {
        "hindsight_bits": float(found.hindsight.bits[-1]),
        "regret_bits": float(found.online.bits[-1] - found.hindsight.bits[-1]),
        "weights_bits": 8 * found.weights_bytes,
    }
