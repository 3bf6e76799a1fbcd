"""The last weights of a GPT as bytes that a receiver could get: int8 levels and float32 scales, as the GPT uses them.

For the embedding, the levels are those of its change since initialisation. Hindsight is a code only together with these bytes. A
context mixer, or a table of contexts, would take hundreds of megabytes: so the learner has neither.
"""

import io
from dataclasses import replace

import numpy as np
import torch
from prequential_codecs.baselines import order0
from prequential_codecs.byte_source import ByteSource, varint

from prequential.errors import ConfigError
from prequential.exact import plain
from prequential.exact.arrays import to_array, to_tensor
from prequential.model.config import Config
from prequential.model.learner import OnlineLearner
from prequential.online.runtime import Runtime

EMBEDDING = "gpt.embedding"


def fresh_learner(config: Config, runtime: Runtime) -> OnlineLearner:
    """A learner before its first byte. Raises ConfigError unless it is a GPT without mixer and contexts."""
    if config.gpt is None or config.gpt.contexts or config.mixer is not None:
        raise ConfigError(
            "hindsight sends the weights of a GPT alone: give a config without mixer and without contexts"
        )
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
