"""Reference codes of a corpus, which tell what the learner's code length is made of. Each is coded for real, and decodes.

The GPT alone is referred to, without a context mixer and without a table of contexts: its weights can be sent to a receiver,
hundreds of megabytes of counts and of rows cannot.

    online     the learner itself: its prequential code
    hindsight  the weights it ended with, frozen, over the same corpus again
    frozen     weights that were learned from another corpus, frozen
    blocks     weights learned from scratch on all before t, frozen from t to 2t, for each t; the first block raw
               (Blier & Ollivier 2018; Voita & Titov 2020)
    counting   codecs/baselines/order0.py, two_part.py, adaptive.py, order2.py

Weights are sent as the GPT uses them: int8 levels and float32 scales; the embedding, as such levels of its change since the
seed's. A code with its weights is a two-part code; without them it is none, but a comparator. A frozen learner reads its
corpus as one stream: its window goes on from segment to segment, and begins empty unless said otherwise. Program and
configuration are the receiver's in every row, and are counted in none.
"""

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from prequential.codecs.baselines import order0, two_part
from prequential.codecs.baselines.registry import measure
from prequential.codecs.baselines.static import STATIC, TWO_PART_ORDERS
from prequential.codecs.bit_coder import DECODE, ENCODE, FOLLOW, UNIT_BITS, BitCoder
from prequential.codecs.byte_source import ByteSource, varint
from prequential.errors import ConfigError, CorpusError
from prequential.exact import plain
from prequential.measure.evaluation.curves import Curve
from prequential.measure.evaluation.ledger import bits_per_byte
from prequential.model.config import Config
from prequential.model.frozen import Frozen
from prequential.model.learner import Learner
from prequential.online.loop import run
from prequential.online.runtime import Runtime
from prequential.online.schedule import blocks
from prequential.online.training import finish

FIRST_BLOCK_BYTES = 1 << 10
FINAL_WINDOW_BYTES = 1 << 16
EMBEDDING = "gpt.embedding"

Bytes = NDArray[np.uint8]
Say = Callable[[str], object]


@dataclass(frozen=True, kw_only=True)
class Reference:
    """One code of n_bytes of original. payload_bytes: of the data; model_bytes: of weights or parameters, which are sent first.

    code_bits: ideal code length of the data, of learners; None of counting. trained_bytes: read in training, replay not counted.
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
        """All that is sent."""
        return 8 * (self.payload_bytes + self.model_bytes)

    @property
    def uncounted_bits(self) -> int:
        """Without the model: no code length, unless there is no model to send."""
        return 8 * self.payload_bytes

    def to_record(self) -> dict[str, Any]:
        """JSON values."""
        return {
            **vars(self),
            "counted_bits": self.counted_bits,
            "uncounted_bits": self.uncounted_bits,
            "bits_per_byte": bits_per_byte(self.payload_bytes + self.model_bytes, self.n_bytes),
            "uncounted_bits_per_byte": bits_per_byte(self.payload_bytes, self.n_bytes),
        }


@dataclass(frozen=True, kw_only=True)
class Split:
    """A code length in two: what the data would cost the final learner, and what it cost to become that learner.

    data_bits: n times the bits per byte of the last window_bytes, rounded to whole units. learning_bits: the rest (excess
    description length; negative where the corpus ends in a harder part). They sum to code_bits exactly, below 2**31 bits.
    """

    code_bits: float
    window_bytes: int
    final_bits_per_byte: float
    data_bits: float
    learning_bits: float


@dataclass(frozen=True, kw_only=True)
class References:
    """All codes of a corpus; `curve` is the online learner's, `regret` its excess over the hindsight learner, both cumulative."""

    references: tuple[Reference, ...]
    curve: Curve
    regret: Curve
    split: Split


# ---- of a curve


def final_window_bytes(n_bytes: int) -> int:
    """The last eighth, and no more than 64 KiB."""
    return max(1, min(FINAL_WINDOW_BYTES, n_bytes // 8))


def split_of(curve: Curve, window_bytes: int | None = None) -> Split:
    """Learning cost and data cost of a learning curve. Raises ConfigError for a window that is empty or longer than the curve."""
    n_bytes, code_bits = int(curve.n_bytes[-1]), float(curve.bits[-1])
    window = final_window_bytes(n_bytes) if window_bytes is None else window_bytes
    if not 1 <= window <= n_bytes:
        raise ConfigError(f"a final window of {window} bytes does not fit a corpus of {n_bytes}; take 1 to {n_bytes}")
    rate = (code_bits - float(curve.at(n_bytes - window))) / window
    data_bits = float(np.rint(n_bytes * rate / UNIT_BITS)) * UNIT_BITS
    return Split(
        code_bits=code_bits,
        window_bytes=window,
        final_bits_per_byte=rate,
        data_bits=data_bits,
        learning_bits=code_bits - data_bits,
    )


def surplus_bits(curve: Curve, epsilon: float) -> float:
    """Surplus description length: the sum of max(cost - epsilon, 0), in bits, over bytes; epsilon in bits per byte.

    Within a step of the curve each byte counts at the step's mean: of single bytes the sum would mostly be noise. Source:
    Whitney et al. 2020.
    """
    n_bytes, bits = np.diff(curve.n_bytes, prepend=0), np.diff(curve.bits, prepend=0.0)
    return float(np.maximum(bits - epsilon * n_bytes, 0.0).sum())


def sample_complexity(curve: Curve, epsilon: float, window_bytes: int) -> int | None:
    """The first position of the curve where the last window_bytes cost at most epsilon bits per byte; None: nowhere.

    Positions before window_bytes do not count. Source: Whitney et al. 2020, with a trailing mean for the expected loss.
    """
    ends = curve.n_bytes[curve.n_bytes >= window_bytes]
    reached = curve.at(ends) - curve.at(ends - window_bytes) <= epsilon * window_bytes
    return int(ends[reached][0]) if reached.any() else None


# ---- learners


def fresh(config: Config, runtime: Runtime) -> Learner:
    """A learner before its first byte. Raises ConfigError unless it is a GPT alone."""
    if config.gpt is None or config.mixer is not None:
        raise ConfigError("references are of the GPT alone: take a configuration with a GPT and without mixer (--pure)")
    if config.gpt.contexts:
        raise ConfigError("references are of a GPT whose weights can be sent: take one without contexts")
    return replace(runtime, audit_every=0).learner(config)


def code(learner: Learner, coder: BitCoder, symbols: Bytes, start: int = 0) -> Curve:
    """Codes symbols (n,) in place, or finds them out; the curve has every segment's end. start: where they lie in the stream."""
    ends, bits = [0], [0.0]
    for block in blocks(len(symbols), learner.config.schedule):
        place = slice(start + block.start, start + block.stop)
        before = ends[-1]
        for done, costs in run(learner, coder, place, symbols[block]):
            ends.append(before + done)
            bits.append(bits[-1] + float(costs.sum()))
    return Curve(n_bytes=np.array(ends[1:], np.int64), bits=np.array(bits[1:], np.float64))


def train(learner: Learner, symbols: Bytes, coder: BitCoder | None = None, epochs: int = 1) -> Curve:
    """Lets a fresh learner read symbols (n,), epochs times, and learn from the last segment, too; the curve of the first pass.

    coder: of the first pass, if that is to be coded.
    """
    curve = code(learner, coder or BitCoder(FOLLOW), symbols)
    for epoch in range(1, epochs):
        code(learner, BitCoder(FOLLOW), symbols, epoch * len(symbols))
    finish(learner)
    return curve


def _weights(learner: Learner) -> dict[str, torch.Tensor]:
    """What predictions are made of, by its name in the state: float32; the embedding last."""
    hidden = [f"gpt.{i}.{name}" for i in range(learner.config.gpt.n_layers) for name in ("qkv", "out", "up", "down")]  # type: ignore[union-attr]
    state = learner.state()
    return {name: state[name] for name in (*hidden, "gpt.head", EMBEDDING)}


def pack_weights(learner: Learner, start: Learner) -> bytes:
    """The learner's weights as bytes; start: a fresh one of the same configuration, which the receiver has as well.

    For each matrix its levels (int8, one scale a column; of the embedding's change, one scale a row) under an order-0 two-part
    code, behind its length; then the scales, float32.
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


def unpack_weights(packed: bytes, config: Config, runtime: Runtime) -> Learner:
    """A learner with these weights, before its first byte. Raises CorruptArchiveError where it can tell that they are none."""
    learner, source = fresh(config, runtime), ByteSource(io.BytesIO(packed))
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
    learner.load_state({**learner.state(), **loaded})
    return learner


# ---- codes


def frozen(weights: bytes, symbols: Bytes, config: Config, runtime: Runtime) -> tuple[bytes, Curve]:
    """Payload and curve of symbols (n,) under packed weights that stand still."""
    coder = BitCoder(ENCODE)
    curve = code(Frozen(unpack_weights(weights, config, runtime)), coder, symbols)
    return coder.payload(), curve


def decode_frozen(weights: bytes, payload: bytes, n_bytes: int, config: Config, runtime: Runtime) -> bytes:
    """The data of `frozen`. Raises CorruptArchiveError where it can tell that these are not its bytes."""
    coder, symbols = BitCoder(DECODE, payload), np.zeros(n_bytes, np.uint8)
    code(Frozen(unpack_weights(weights, config, runtime)), coder, symbols)
    coder.check_end()
    return symbols.tobytes()


def cut_points(n_bytes: int, first_bytes: int = FIRST_BLOCK_BYTES) -> list[int]:
    """Where blocks end: first_bytes, twice that, and so on, and n_bytes, which is the last."""
    cuts = [min(first_bytes, n_bytes)]
    while cuts[-1] < n_bytes:
        cuts.append(min(2 * cuts[-1], n_bytes))
    return cuts


def block_prequential(
    symbols: Bytes,
    config: Config,
    runtime: Runtime,
    *,
    first_bytes: int = FIRST_BLOCK_BYTES,
    epochs: int = 1,
    say: Say = lambda text: None,
) -> tuple[bytes, Curve]:
    """The first block as it is, then the payload of the others; and the curve, which is straight within the first.

    Each further block is coded under weights that were trained from scratch, in `epochs` passes over all before it, and then
    stand still; the window goes on from there. Costs epochs times n - first_bytes to 2 * n bytes of training.
    """
    coder = BitCoder(ENCODE)
    curve = _code_blocks(symbols, coder, config, runtime, cut_points(len(symbols), first_bytes), epochs, say)
    return symbols[:first_bytes].tobytes() + coder.payload(), curve


def decode_block_prequential(
    packed: bytes,
    n_bytes: int,
    config: Config,
    runtime: Runtime,
    *,
    first_bytes: int = FIRST_BLOCK_BYTES,
    epochs: int = 1,
) -> bytes:
    """The data of `block_prequential`. Raises CorruptArchiveError where it can tell that these are not its bytes."""
    cuts = cut_points(n_bytes, first_bytes)
    symbols = np.zeros(n_bytes, np.uint8)
    symbols[: cuts[0]] = np.frombuffer(packed[: cuts[0]], np.uint8)
    coder = BitCoder(DECODE, packed[cuts[0] :])
    _code_blocks(symbols, coder, config, runtime, cuts, epochs, lambda text: None)
    coder.check_end()
    return symbols.tobytes()


def _code_blocks(
    symbols: Bytes, coder: BitCoder, config: Config, runtime: Runtime, cuts: Sequence[int], epochs: int, say: Say
) -> Curve:
    """The one loop of both directions: symbols up to the first cut are known, what follows is coded or found out in place."""
    ends, bits = [np.array(cuts[:1], np.int64)], [np.array([8.0 * cuts[0]])]
    for start, stop in pairwise(cuts):
        say(f"block {start}-{stop}: training on {start} bytes")
        learner = fresh(config, runtime)
        train(learner, symbols[:start], epochs=epochs)
        curve = code(Frozen(learner), coder, symbols[start:stop], epochs * start)
        ends.append(start + curve.n_bytes)
        bits.append(bits[-1][-1] + curve.bits)
    return Curve(n_bytes=np.concatenate(ends), bits=np.concatenate(bits))


def counting(data: bytes) -> Iterator[Reference]:
    """The static and adaptive models of codecs/, each decoded and compared."""
    for name in STATIC:
        n_bytes = measure(name, data).compressed_bytes
        n_model_bytes = _parameter_bytes(name, data)
        shows = "counts sent first, then the data under them" if n_model_bytes else "counts learned on the way"
        yield Reference(
            name=name,
            shows=shows,
            n_bytes=len(data),
            payload_bytes=n_bytes - n_model_bytes,
            model_bytes=n_model_bytes,
        )


def _parameter_bytes(name: str, data: bytes) -> int:
    if name in TWO_PART_ORDERS:
        return two_part.parameter_bytes(STATIC[name].compress(data), TWO_PART_ORDERS[name])
    return 32 + len(set(data)) if name == "order0" else 0  # its map, and a byte for each value


def measure_references(
    source: Bytes,
    config: Config,
    runtime: Runtime,
    *,
    other: Bytes | None = None,
    first_bytes: int = FIRST_BLOCK_BYTES,
    epochs: int = 1,
    window_bytes: int | None = None,
    say: Say = lambda text: None,
) -> References:
    """Every reference code of source (n,) uint8. other: (m,) uint8, a corpus to learn from before.

    first_bytes, epochs: of `block_prequential`. window_bytes: of `split_of`. say: is told what begins. Costs two runs of the
    learner's training and three of its reading, one more of both for `other`. Raises ConfigError and CorpusError.
    """
    if not len(source) or (other is not None and not len(other)):
        raise CorpusError("nothing to refer to: the corpus is empty")
    symbols = np.array(source)
    say("online")
    start, learner, coder = fresh(config, runtime), fresh(config, runtime), BitCoder(ENCODE)
    curve = train(learner, symbols, coder)
    say("hindsight")
    weights = pack_weights(learner, start)
    payload, hindsight = frozen(weights, symbols, config, runtime)
    found = [
        _of_learner("online", "the learner: it learns what it has coded", coder.payload(), curve, len(symbols)),
        _of_learner("hindsight", "its last weights from the first byte on", payload, hindsight, len(symbols), weights),
    ]
    if other is not None:
        say(f"frozen: training on {len(other)} bytes")
        learner = fresh(config, runtime)
        train(learner, np.array(other))
        weights = pack_weights(learner, start)
        payload, known = frozen(weights, symbols, config, runtime)
        shows = "what the other corpus teaches of this one"
        found.append(_of_learner("frozen", shows, payload, known, len(other), weights))
    packed, known = block_prequential(symbols, config, runtime, first_bytes=first_bytes, epochs=epochs, say=say)
    shows = f"retrained from scratch at byte {first_bytes} and each doubling, {epochs} x over all before it"
    n_trained = epochs * sum(cut_points(len(symbols), first_bytes)[:-1])
    found.append(_of_learner("blocks", shows, packed, known, n_trained))
    say("counting")
    return References(
        references=(*found, *counting(symbols.tobytes())),
        curve=curve,
        regret=Curve(n_bytes=curve.n_bytes, bits=curve.bits - hindsight.at(curve.n_bytes)),
        split=split_of(curve, window_bytes),
    )


def _of_learner(name: str, shows: str, payload: bytes, curve: Curve, n_trained: int, weights: bytes = b"") -> Reference:
    return Reference(
        name=name,
        shows=shows,
        n_bytes=int(curve.n_bytes[-1]),
        payload_bytes=len(payload),
        model_bytes=len(weights),
        code_bits=float(curve.bits[-1]),
        trained_bytes=n_trained,
    )
