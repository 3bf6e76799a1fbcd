"""What the code length of a corpus consists of: the cost of data for a learner that knows such data, and the cost of learning.

    learning cost   the area between the learning curve and the end of the expected curve (expected_curve.py)
    surplus         the area of the expected curve above a threshold
    hindsight       the corpus coded once more, under the learner's final weights, which do not change any more
    regret          code length minus hindsight: what it would save to know the final weights beforehand

The learner is a GPT without context mixer and without a table of contexts: its weights can be sent to a receiver, unlike hundreds
of megabytes of counts and rows. They are sent as the GPT uses them, as int8 levels and float32 scales; for the embedding, the
levels of its change since initialisation. Hindsight with its weights is a two-part code; without them no receiver could decode
it. A frozen learner reads the corpus as one stream: its window continues from segment to segment. The receiver has the program
and the configuration, so they are not counted.
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

from prequential.decomposition.expected_curve import LEVEL, MIN_CELLS, ExpectedCurve, expected_curve
from prequential.errors import ConfigError, CorpusError
from prequential.evaluation.curves import Curve
from prequential.exact import plain
from prequential.exact.host import to_array, to_tensor
from prequential.learners.subject import follow
from prequential.model.config import Config
from prequential.model.frozen import FrozenLearner
from prequential.model.learner import OnlineLearner
from prequential.online.runtime import Runtime
from prequential.online.training import finish
from prequential.records.table import format_table

THRESHOLDS = (0.1, 0.5, 1.0)  # by default, in bits per byte above the rate at the end of the corpus
EMBEDDING = "gpt.embedding"
ROWS = {
    "code_bits": "code length",
    "data_bits": "= data, at the expected final rate",
    "learning_bits": "+ learning",
    "hindsight_bits": "hindsight, under the last weights",
    "regret_bits": "regret to hindsight",
    "weights_bits": "the last weights, as int8 levels",
}


@dataclass(frozen=True, kw_only=True)
class Decomposition:
    """The learning curve of a corpus, the curve of hindsight, and the law that was fitted to the learning curve.

    Both curves have ideal code lengths. weights_bytes: of the final weights, as `pack_weights` gives them.
    """

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

    The cost is that of training on the corpus, and of one more reading. Raises ConfigError for a learner that is not a GPT alone,
    CorpusError for an empty corpus.
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

    First the int8 levels of each matrix (one scale for each column; for the change of the embedding, one for each row), in an
    order-0 two-part code after its length. Then the float32 scales.
    """
    packed, scales = b"", b""
    for name, weight in _weights(learner).items():
        if name == EMBEDDING:
            change = weight - _weights(start)[EMBEDDING]
            levels, scale = plain.quantise_rows(change.reshape(-1, change.shape[-1]))
        else:
            levels, scale = plain.quantise_columns(weight)
        coded = order0.compress(levels.contiguous().numpy().tobytes())
        packed += varint(len(coded)) + coded
        scales += scale.numpy().astype("<f4").tobytes()
    return packed + scales


def unpack_weights(packed: bytes, config: Config, runtime: Runtime) -> OnlineLearner:
    """A learner with these weights, before its first byte. Raises CorruptArchiveError if the bytes cannot be weights."""
    learner, source = fresh_learner(config, runtime), ByteSource(io.BytesIO(packed))
    weights = _weights(learner)
    levels = {
        name: np.frombuffer(order0.decompress(source.take(source.take_varint())), np.int8).astype(np.float32)
        for name in weights
    }
    loaded = {}
    for name, weight in weights.items():
        per_row = name == EMBEDDING
        n_scales = weight.numel() // weight.shape[-1] if per_row else weight.shape[-1]
        scales = np.frombuffer(source.take(4 * n_scales), "<f4").astype(np.float32)
        matrix = levels[name].reshape(-1, weight.shape[-1]) * (scales[:, None] if per_row else scales)
        loaded[name] = torch.from_numpy(matrix).reshape(weight.shape)
    loaded[EMBEDDING] += weights[EMBEDDING]
    source.check_end()
    learner.load_state({**learner.state(), **{name: to_array(tensor) for name, tensor in loaded.items()}})
    return learner


def _weights(learner: OnlineLearner) -> dict[str, torch.Tensor]:
    """The float32 weights that determine the predictions, by their names in the state; the embedding is the last."""
    assert learner.config.gpt
    hidden = [f"gpt.{i}.{name}" for i in range(learner.config.gpt.n_layers) for name in ("qkv", "out", "up", "down")]
    state = learner.state()
    return {name: to_tensor(state[name]) for name in (*hidden, "gpt.head", EMBEDDING)}


# ---- record and text


def decomposition_record(found: Decomposition, epsilons: Sequence[float] | None = None) -> dict[str, Any]:
    """The figures as JSON values. epsilons: thresholds in bits per byte; None: THRESHOLDS above the expected final rate.

    data_bits + learning_bits = code_bits, also at the ends of their intervals.
    """
    expected, n_bytes = found.expected, int(found.online.n_bytes[-1])
    rate = expected.final_rate
    return {
        "n_bytes": n_bytes,
        "level": LEVEL,
        "n_cells": expected.n_cells,
        "code_bits": float(found.online.bits[-1]),
        "final_bits_per_byte": vars(rate),
        "data_bits": {end: value and n_bytes * value for end, value in vars(rate).items()},
        "learning_bits": vars(expected.learning_bits),
        "hindsight_bits": float(found.hindsight.bits[-1]),
        "regret_bits": float(found.online.bits[-1] - found.hindsight.bits[-1]),
        "weights_bits": 8 * found.weights_bytes,
        "thresholds": [
            {"epsilon": epsilon, "surplus_bits": vars(expected.surplus_bits(epsilon))}
            for epsilon in epsilons or [rate.point + above for above in THRESHOLDS]
        ],
    }


def format_decomposition(record: dict[str, Any]) -> str:
    """The parts of the code length and the thresholds of a `decomposition_record`, as tables; no final newline."""
    n_bytes, interval = record["n_bytes"], (f"{record['level']:.0%} from", "to")
    parts = [
        "data: the cost of all bytes at the end of the expected curve, a smooth law through the costs of all segments. hindsight "
        "is a code only together with the last weights.",
        format_table(("part", "bits", "bits/byte", *interval), [_part_row(n_bytes, record[k], ROWS[k]) for k in ROWS]),
        format_table(
            ("epsilon", "surplus bits", *interval),
            [[f"{each['epsilon']:.4f}", *_figures(each["surplus_bits"])] for each in record["thresholds"]],
        ),
    ]
    if record["learning_bits"]["low"] is None:
        parts.append(f"no intervals: {record['n_cells']} cells, {MIN_CELLS} are needed")
    return "\n\n".join(parts)


def _part_row(n_bytes: int, bits: "dict[str, Any] | float", title: str) -> list[str]:
    figure: dict[str, Any] = bits if isinstance(bits, dict) else {"point": bits, "low": None, "high": None}
    point, *ends = _figures(figure)
    return [title, point, f"{figure['point'] / n_bytes:.4f}", *ends]


def _figures(figure: dict[str, Any]) -> list[str]:
    """The point and both ends of an interval; an end that is not known is empty."""
    return ["" if figure[name] is None else f"{figure[name]:,.0f}" for name in ("point", "low", "high")]
