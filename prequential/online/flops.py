"""How much a learner computes for each byte, counted from shapes: the x axis of bits against compute.

A multiply-add counts as two operations. Counted are the GPT's products as a coder that knows the symbols computes them (compress,
evaluate), exactly those that `Matmul` is asked for: masked places of attention are among them, elementwise work (normalisation,
rounding, softmax, Adam) is not. Products of integers and of floats count alike. What the mixer does is an estimate.

Letters as in model/gpt/gpt.py: D width, M = mlp_factor * D, L layers, V symbols, W window; N positions of a step, in rows of T.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import astuple, dataclass, replace
from itertools import chain, pairwise
from typing import NamedTuple

from prequential.errors import ConfigError, CorpusError
from prequential.exact.optim import NEWTON_SCHULZ_STEPS
from prequential.model.config import N_SYMBOLS, Config, GPTConfig, MixerConfig, ScheduleConfig
from prequential.model.gpt.gpt import COLUMNS_AT_ONCE
from prequential.model.mixer.mixer import LANES
from prequential.model.mixer.mixing import EXTRA_INPUTS, INPUTS_PER_CONTEXT, N_SETS
from prequential.online.schedule import blocks, segments

MAX_FLOPS_PER_BYTE = 1e11  # 300 times what the largest preset takes


@dataclass(frozen=True, kw_only=True)
class Flops:
    """Operations, a multiply-add being two; each part beside the others, none within another.

    reading: products with weights, once for each symbol. learning: the same on a step's rows, forward and backward. attention:
    queries with keys and weights with values, of both. optimiser: Muon's orthogonalisation. mixer: integer operations, estimated.
    """

    reading: float = 0
    learning: float = 0
    attention: float = 0
    optimiser: float = 0
    mixer: float = 0

    @property
    def total(self) -> float:
        return self.reading + self.learning + self.attention + self.optimiser + self.mixer

    def __add__(self, other: "Flops") -> "Flops":
        return Flops.of(a + b for a, b in zip(astuple(self), astuple(other), strict=True))

    def __mul__(self, factor: float) -> "Flops":
        return Flops.of(part * factor for part in astuple(self))

    def __truediv__(self, n_bytes: int) -> "Flops":
        return Flops.of(part / n_bytes for part in astuple(self))

    @classmethod
    def of(cls, parts: Iterator[float]) -> "Flops":
        """From the parts in order."""
        reading, learning, attention, optimiser, mixer = parts
        return cls(reading=reading, learning=learning, attention=attention, optimiser=optimiser, mixer=mixer)


def check_work(config: Config) -> None:
    """Raises ConfigError for a learner that takes more than MAX_FLOPS_PER_BYTE: any archive may ask for one."""
    schedule = config.schedule
    for n_symbols in {schedule.first_segment_symbols, schedule.segment_symbols}:
        flops = flops_per_byte(replace(config, schedule=replace(schedule, segment_symbols=n_symbols))).total
        if flops > MAX_FLOPS_PER_BYTE:
            raise ConfigError(
                f"this model takes {flops:.2g} operations a byte, more than the {MAX_FLOPS_PER_BYTE:.0e} that are accepted: "
                "smaller matrices, fewer rows or longer segments"
            )


class _Segment(NamedTuple):
    """n_symbols are read; meanwhile a step learns from n_rows rows of row_symbols, or from none at the very beginning."""

    n_symbols: int
    n_rows: int
    row_symbols: int


def replay_factor(config: Config) -> float:
    """How many positions a step learns from for each symbol that is read, where segments have grown to their full size."""
    schedule = config.schedule
    return schedule.n_rows * schedule.row_symbols / schedule.segment_symbols


def flops_per_byte(config: Config, n_bytes: int | None = None) -> Flops:
    """Operations for each byte: averaged over a corpus of n_bytes, or, without, of a segment that has grown to its full size.

    A corpus begins with short segments, and so more steps, from fewer and shorter rows. Raises CorpusError for no bytes.
    """
    if n_bytes is not None:
        return total_flops(config, n_bytes) / n_bytes
    s = config.schedule
    full = _Segment(s.segment_symbols, s.n_rows, s.row_symbols)
    return _segment_flops(config, full) / full.n_symbols


def total_flops(config: Config, n_bytes: int) -> Flops:
    """Operations of coding n_bytes, whole numbers, with every segment as long as the schedule makes it.

    Costs a microsecond or so for each segment. Raises CorpusError for no bytes.
    """
    if n_bytes < 1:
        raise CorpusError(f"operations per byte are counted over 1 byte or more, not {n_bytes}")
    total = Flops()
    for segment, n in Counter(_segments(n_bytes, config.schedule)).items():
        total += _segment_flops(config, segment) * n
    return total


def _segments(n_bytes: int, config: ScheduleConfig) -> Iterator[_Segment]:
    """The segments of a corpus. A step runs while its segment is read, and learns from what came before (`rows_of_step`)."""
    ranges = (segment for block in blocks(n_bytes, config) for segment in segments(block, config))
    for last, segment in pairwise(chain([slice(0, 0)], ranges)):
        n_known = last.stop
        length = min(config.row_symbols, n_known, 1 << config.history_bits)
        n_rows = max(-(-(n_known - last.start) // length), min(config.n_rows, n_known // length)) if n_known else 0
        yield _Segment(segment.stop - segment.start, n_rows, length)


def _segment_flops(config: Config, segment: _Segment) -> Flops:
    mixer = mixer_operations(config.mixer, has_gpt=config.gpt is not None) if config.mixer else 0
    flops = Flops(mixer=mixer * segment.n_symbols)
    n_gpts = config.replicas.n_replicas if config.replicas else 1
    return flops + _gpt_flops(config.gpt, segment, n_gpts) if config.gpt else flops


def _gpt_flops(gpt: GPTConfig, segment: _Segment, n_gpts: int) -> Flops:
    """Backward, each matrix has two products of the size of its forward one, for its input and for itself; the head's input
    gradient is of two halves of each entry and counts twice."""
    n, rows, length = segment
    hidden = gpt.n_layers * sum(c_in * c_out * n_parts for c_in, c_out, n_parts in hidden_matrices(gpt))
    head = gpt.width * N_SYMBOLS
    positions = rows * length
    # six products: scores and output forward; values, weights, queries and keys backward; each 2 * T * D a position
    learning_attention = gpt.n_layers * 12 * positions * length * gpt.width
    steps = min(rows, n_gpts)
    return Flops(
        reading=2 * n * (hidden + head),
        learning=2 * positions * (3 * hidden + 4 * head),
        attention=gpt.n_layers * _reading_attention(gpt, n) + learning_attention,
        optimiser=steps * gpt.n_layers * sum(k * _orthogonalisation(r, c) for r, c, k in hidden_matrices(gpt)),
    )


def hidden_matrices(gpt: GPTConfig) -> list[tuple[int, int, int]]:
    """The matrices of one layer as Muon takes them: (C_in, C_out, how many of this shape side by side)."""
    d, m = gpt.width, gpt.width * gpt.mlp_factor
    return [(d, d, 3), (d, d, 1), (d, m, 1), (m, d, 1)]


def _reading_attention(gpt: GPTConfig, n_columns: int) -> int:
    """Of one layer, over a segment: runs of t <= COLUMNS_AT_ONCE columns meet W - 1 + t slots, in two products."""
    whole, rest = divmod(n_columns, COLUMNS_AT_ONCE)
    runs = [COLUMNS_AT_ONCE] * whole + [rest]
    return sum(4 * t * (gpt.window - 1 + t) * gpt.width for t in runs)


def _orthogonalisation(n_in: int, n_out: int) -> int:
    """Newton-Schulz on (R, C), R <= C: each step has X X^T, its square, and that with X: 2 R R C + 2 R R R + 2 R R C."""
    r, c = sorted((n_in, n_out))
    return NEWTON_SCHULZ_STEPS * (4 * r * r * c + 2 * r * r * r)


# The mixer's operations beside its products, read off model/mixer/mixing.py; hashes and table look-ups are the smaller part.
_PER_CONTEXT_AND_BIT = 6  # three adaptive probabilities (history, node, run) move by a multiply-add each
_CURVES_PER_BIT = 8  # two curves are read between two points: two multiply-adds each
_PER_CONTEXT_AND_BYTE = 22  # three hashes of six operations, two buckets found by a multiply and an add


def mixer_inputs(mixer: MixerConfig) -> int:
    """I: the inputs of a decision, filled up to whole lanes."""
    return -(-(len(mixer.contexts) * INPUTS_PER_CONTEXT + EXTRA_INPUTS) // LANES) * LANES


def mixer_operations(mixer: MixerConfig, *, has_gpt: bool) -> int:
    """Integer operations for each byte, an estimate: 8 * (4 S (I + 1) + 6 C + 8) + 22 C, and 256 to sum the GPT's frequencies.

    C contexts, S weight sets, I inputs. A bit is predicted by S sums of I products and one of S, and every one of those weights
    learns by a multiply-add: 2 * 2 * (S I + S).
    """
    n_contexts = len(mixer.contexts)
    per_bit = 4 * N_SETS * (mixer_inputs(mixer) + 1) + _PER_CONTEXT_AND_BIT * n_contexts + _CURVES_PER_BIT
    return 8 * per_bit + _PER_CONTEXT_AND_BYTE * n_contexts + (N_SYMBOLS if has_gpt else 0)
