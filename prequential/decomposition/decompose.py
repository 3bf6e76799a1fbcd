"""Reference codes of a corpus, which show what the learner's code length consists of. Each is really coded, and decodes.

The learner is a GPT without context mixer and without a table of contexts. Its weights can be sent to a receiver, unlike hundreds
of megabytes of counts and rows.

    online     the learner itself: its prequential code
    hindsight  its final weights, frozen, over the same corpus again
    frozen     weights learned from another corpus, frozen
    blocks     for each t: weights learned from scratch from all bytes before t, frozen from t to 2t; the first block is raw
               (Blier & Ollivier 2018; Voita & Titov 2020)

Weights are sent as the GPT uses them: int8 levels and float32 scales. For the embedding they are the levels of its change since
initialisation. A code with its weights is a two-part code. Without them it is not a code, only a comparison. A frozen learner
reads its corpus as one stream: its window continues from segment to segment. The receiver has the program and the configuration
in every case, so they are not counted.
"""

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from prequential_codecs.baselines import order0
from prequential_codecs.bit_coder import DECODE, ENCODE, FOLLOW, UNIT_BITS, BitCoder
from prequential_codecs.byte_source import ByteSource, varint

from prequential.errors import ConfigError, CorpusError
from prequential.evaluation.curves import Curve
from prequential.evaluation.ledger import bits_per_byte
from prequential.exact import plain
from prequential.exact.host import to_array, to_tensor
from prequential.model.config import Config
from prequential.model.frozen import FrozenLearner
from prequential.model.learner import OnlineLearner
from prequential.model.schedule import blocks
from prequential.online.loop import run
from prequential.online.runtime import Runtime
from prequential.online.training import finish
from prequential.sweeps.expected_curve import ExpectedCurve, expected_curve

FIRST_BLOCK_BYTES = 1 << 10
FINAL_WINDOW_BYTES = 1 << 16
EMBEDDING = "gpt.embedding"

Bytes = NDArray[np.uint8]
OnStage = Callable[[str], object]  # called with the name of each stage when it begins


@dataclass(frozen=True, kw_only=True)
class Reference:
    """One code of a corpus of n_bytes.

    payload_bytes: of the data. model_bytes: of weights or parameters, which are sent first. code_bits: ideal code length of the
    data by a learner; None for counting. trained_bytes: read in training, without replay.
    """

    name: str
    shows: str
    n_bytes: int
    payload_bytes: int
    model_bytes: int = 0
    code_bits: float | None = None
    trained_bytes: int = 0

    @property
    def counted_bits(self) -> int:
        """The length of everything that is sent, in bits."""
        return 8 * (self.payload_bytes + self.model_bytes)

    @property
    def uncounted_bits(self) -> int:
        """The length without the model, in bits. It is a code length only if there is no model to send."""
        return 8 * self.payload_bytes

    def to_record(self) -> dict[str, Any]:
        """The code as JSON values."""
        return {
            **vars(self),
            "counted_bits": self.counted_bits,
            "uncounted_bits": self.uncounted_bits,
            "bits_per_byte": bits_per_byte(self.payload_bytes + self.model_bytes, self.n_bytes),
            "uncounted_bits_per_byte": bits_per_byte(self.payload_bytes, self.n_bytes),
        }


@dataclass(frozen=True, kw_only=True)
class Split:
    """A code length in two parts: what the data would cost the final learner, and what learning cost.

    data_bits: n times the bits per byte of the last window_bytes, rounded to units of the code length. learning_bits: the rest
    (excess description length), below 0 if the corpus ends with a harder part. The sum is exactly code_bits, below 2**31 bits.
    """

    code_bits: float
    window_bytes: int
    final_bits_per_byte: float
    data_bits: float
    learning_bits: float


@dataclass(frozen=True, kw_only=True)
class References:
    """All codes of a corpus. curve: of the online learner. regret: curve minus the hindsight learner's. Both are cumulative.

    split: by the mean of a final window. expected: the law fitted to the curve, whose learning cost has an interval.
    """

    references: tuple[Reference, ...]
    curve: Curve
    regret: Curve
    split: Split
    expected: ExpectedCurve


# ---- measures of a learning curve


def final_window_bytes(n_bytes: int) -> int:
    """The length of the last eighth, but at most 64 KiB and at least 1 byte."""
    return max(1, min(FINAL_WINDOW_BYTES, n_bytes // 8))


def split_of(curve: Curve, window_bytes: int | None = None) -> Split:
    """Learning cost and data cost of a learning curve by one window. window_bytes: by default `final_window_bytes`.

    It moves with the window and with how hard its bytes are; `expected_curve` uses all bytes and gives an interval.
    Raises ConfigError for a window that is empty or longer than the curve.
    """
    n_bytes, code_bits = int(curve.n_bytes[-1]), float(curve.bits[-1])
    window = final_window_bytes(n_bytes) if window_bytes is None else window_bytes
    if not 1 <= window <= n_bytes:
        raise ConfigError(f"a final window of {window} bytes does not fit a corpus of {n_bytes}: take 1 to {n_bytes}")
    rate = (code_bits - float(curve.at(n_bytes - window))) / window
    data_bits = float(np.rint(n_bytes * rate / UNIT_BITS)) * UNIT_BITS
    return Split(
        code_bits=code_bits,
        window_bytes=window,
        final_bits_per_byte=rate,
        data_bits=data_bits,
        learning_bits=code_bits - data_bits,
    )


# ---- learners


def fresh_learner(config: Config, runtime: Runtime) -> OnlineLearner:
    """A learner before its first byte. Raises ConfigError unless it is a GPT without mixer and contexts."""
    if config.gpt is None or config.gpt.contexts or config.mixer is not None:
        raise ConfigError("references send the weights of a GPT: choose one without mixer and without contexts")
    return replace(runtime, audit_every=0).learner(config)


def code(learner: OnlineLearner, coder: BitCoder, symbols: Bytes, start: int = 0) -> Curve:
    """Encodes symbols (n,), or decodes them in place. start: their position in the stream. Returns the curve, by segments."""
    ends, bits = [0], [0.0]
    for block in blocks(len(symbols), learner.config.schedule):
        stretch = slice(start + block.start, start + block.stop)
        before = ends[-1]
        for n_done, costs in run(learner, coder, stretch, symbols[block]):
            ends.append(before + n_done)
            bits.append(bits[-1] + float(costs.sum()))
    return Curve(n_bytes=np.array(ends[1:], np.int64), bits=np.array(bits[1:], np.float64))


def train(learner: OnlineLearner, symbols: Bytes, coder: BitCoder | None = None, epochs: int = 1) -> Curve:
    """Lets a fresh learner read symbols (n,) `epochs` times, and learn also from the last segment.

    coder: encodes the first pass. Returns the curve of the first pass.
    """
    curve = code(learner, coder or BitCoder(FOLLOW), symbols)
    for epoch in range(1, epochs):
        code(learner, BitCoder(FOLLOW), symbols, epoch * len(symbols))
    finish(learner)
    return curve


def _weights(learner: OnlineLearner) -> dict[str, torch.Tensor]:
    """The float32 weights that determine the predictions, by their names in the state; the embedding is the last."""
    assert learner.config.gpt
    hidden = [f"gpt.{i}.{name}" for i in range(learner.config.gpt.n_layers) for name in ("qkv", "out", "up", "down")]
    state = learner.state()
    return {name: to_tensor(state[name]) for name in (*hidden, "gpt.head", EMBEDDING)}


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


# ---- codes


def encode_frozen(weights: bytes, symbols: Bytes, config: Config, runtime: Runtime) -> tuple[bytes, Curve]:
    """Payload and curve of symbols (n,) with packed weights that do not change."""
    coder = BitCoder(ENCODE)
    curve = code(FrozenLearner(unpack_weights(weights, config, runtime)), coder, symbols)
    return coder.payload(), curve


def decode_frozen(weights: bytes, payload: bytes, n_bytes: int, config: Config, runtime: Runtime) -> bytes:
    """The data of `encode_frozen`. Raises CorruptArchiveError if it notices that these are not its bytes."""
    coder, symbols = BitCoder(DECODE, payload), np.zeros(n_bytes, np.uint8)
    code(FrozenLearner(unpack_weights(weights, config, runtime)), coder, symbols)
    coder.check_end()
    return symbols.tobytes()


def block_ends(n_bytes: int, first_bytes: int = FIRST_BLOCK_BYTES) -> list[int]:
    """Where blocks end: at first_bytes, twice that, and so on; the last at n_bytes."""
    ends = [min(first_bytes, n_bytes)]
    while ends[-1] < n_bytes:
        ends.append(min(2 * ends[-1], n_bytes))
    return ends


def encode_blocks(
    symbols: Bytes,
    config: Config,
    runtime: Runtime,
    *,
    first_bytes: int = FIRST_BLOCK_BYTES,
    epochs: int = 1,
    on_stage: OnStage = lambda stage: None,
) -> tuple[bytes, Curve]:
    """The first block as raw bytes, then the payload of the others; and the curve, which is a straight line in the first block.

    Each further block is coded with weights that were trained from scratch, in `epochs` passes over all bytes before it, and
    then do not change; the window continues. The cost is the training on n - first_bytes to 2 * n bytes, times epochs.
    """
    coder = BitCoder(ENCODE)
    curve = _code_blocks(symbols, coder, config, runtime, block_ends(len(symbols), first_bytes), epochs, on_stage)
    return symbols[:first_bytes].tobytes() + coder.payload(), curve


def decode_blocks(
    packed: bytes,
    n_bytes: int,
    config: Config,
    runtime: Runtime,
    *,
    first_bytes: int = FIRST_BLOCK_BYTES,
    epochs: int = 1,
) -> bytes:
    """The data of `encode_blocks`. Raises CorruptArchiveError if it notices that these are not its bytes."""
    ends = block_ends(n_bytes, first_bytes)
    symbols = np.zeros(n_bytes, np.uint8)
    symbols[: ends[0]] = np.frombuffer(packed[: ends[0]], np.uint8)
    coder = BitCoder(DECODE, packed[ends[0] :])
    _code_blocks(symbols, coder, config, runtime, ends, epochs, lambda stage: None)
    coder.check_end()
    return symbols.tobytes()


def _code_blocks(
    symbols: Bytes,
    coder: BitCoder,
    config: Config,
    runtime: Runtime,
    stops: Sequence[int],
    epochs: int,
    on_stage: OnStage,
) -> Curve:
    """Encodes or decodes all blocks except the first, whose symbols are known. stops: the ends of blocks. Returns the curve."""
    ends, bits = [np.array(stops[:1], np.int64)], [np.array([8.0 * stops[0]])]
    for start, stop in pairwise(stops):
        on_stage(f"block {start}-{stop}: training on {start} bytes")
        learner = fresh_learner(config, runtime)
        train(learner, symbols[:start], epochs=epochs)
        curve = code(FrozenLearner(learner), coder, symbols[start:stop], epochs * start)
        ends.append(start + curve.n_bytes)
        bits.append(bits[-1][-1] + curve.bits)
    return Curve(n_bytes=np.concatenate(ends), bits=np.concatenate(bits))


def measure_references(
    source: Bytes,
    config: Config,
    runtime: Runtime,
    *,
    other: Bytes | None = None,
    first_bytes: int = FIRST_BLOCK_BYTES,
    epochs: int = 1,
    window_bytes: int | None = None,
    on_stage: OnStage = lambda stage: None,
) -> References:
    """Every reference code of source (n,) uint8. other: (m,) uint8, a corpus from which the frozen weights are learned.

    first_bytes, epochs: as for `encode_blocks`. window_bytes: as for `split_of`. The cost is that of two runs of the learner's
    training and three of its reading, and one more of both for `other`. Raises ConfigError for a learner that is not a GPT alone,
    and CorpusError for an empty corpus.
    """
    if not len(source) or (other is not None and not len(other)):
        raise CorpusError("the corpus is empty: there is nothing to code")
    symbols = np.array(source)
    on_stage("online")
    learner, coder = fresh_learner(config, runtime), BitCoder(ENCODE)
    curve = train(learner, symbols, coder)
    references = [
        _reference("online", "the learner: it learns what it has coded", coder.payload(), curve, len(symbols))
    ]
    on_stage("hindsight")
    shows = "its last weights from the first byte on"
    hindsight, hindsight_curve = _frozen_reference("hindsight", shows, learner, symbols, len(symbols), runtime)
    references.append(hindsight)
    if other is not None:
        on_stage(f"frozen: training on {len(other)} bytes")
        learner = fresh_learner(config, runtime)
        train(learner, np.array(other))
        shows = "what the other corpus teaches about this one"
        references.append(_frozen_reference("frozen", shows, learner, symbols, len(other), runtime)[0])
    packed, block_curve = encode_blocks(
        symbols, config, runtime, first_bytes=first_bytes, epochs=epochs, on_stage=on_stage
    )
    shows = f"retrained from scratch at byte {first_bytes} and each doubling, {epochs} x over all before it"
    n_trained = epochs * sum(block_ends(len(symbols), first_bytes)[:-1])
    references.append(_reference("blocks", shows, packed, block_curve, n_trained))
    return References(
        references=tuple(references),
        curve=curve,
        regret=Curve(n_bytes=curve.n_bytes, bits=curve.bits - hindsight_curve.at(curve.n_bytes)),
        split=split_of(curve, window_bytes),
        expected=expected_curve(curve),
    )


def _frozen_reference(
    name: str, shows: str, trained: OnlineLearner, symbols: Bytes, n_trained: int, runtime: Runtime
) -> tuple[Reference, Curve]:
    """The code of symbols (n,) with the weights of a trained learner, and its curve."""
    weights = pack_weights(trained, fresh_learner(trained.config, runtime))
    payload, curve = encode_frozen(weights, symbols, trained.config, runtime)
    return _reference(name, shows, payload, curve, n_trained, weights), curve


def _reference(name: str, shows: str, payload: bytes, curve: Curve, n_trained: int, weights: bytes = b"") -> Reference:
    return Reference(
        name=name,
        shows=shows,
        n_bytes=int(curve.n_bytes[-1]),
        payload_bytes=len(payload),
        model_bytes=len(weights),
        code_bits=float(curve.bits[-1]),
        trained_bytes=n_trained,
    )
