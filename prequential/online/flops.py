"""The operations of a learner for each byte, counted from shapes: the x axis of bits against compute.

A multiply-add counts as two operations. The count covers the GPT's matrix products for a coder that knows the symbols. It equals
the products that `Matmul` computes: they include the masked entries of attention, and exclude elementwise work. The mixer's
operations are an estimate.

Letters as in model/gpt/weights.py: D width, L layers, V symbols, W window. M = mlp_factor * D; N positions of a step, in rows
of T.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import chain, pairwise
from typing import NamedTuple

from prequential.errors import CorpusError
from prequential.exact.backend import NEWTON_SCHULZ_STEPS
from prequential.model.config import COLUMNS_AT_ONCE, N_SYMBOLS, Config, GPTConfig, MixerConfig, ScheduleConfig
from prequential.model.mixer.mixer import n_inputs
from prequential.model.mixer.sets import N_LAST
from prequential.model.schedule import GROWTH, blocks, segments


class Flops(NamedTuple):
    """Operations by part. The parts do not overlap.

    reading: products with weights, once for each symbol. learning: the same on the rows of steps, forward and backward.
    attention: in reading and learning. optimiser: Muon's orthogonalisation. mixer: integer operations, an estimate.
    """

    reading: float = 0
    learning: float = 0
    attention: float = 0
    optimiser: float = 0
    mixer: float = 0

    @property
    def total(self) -> float:
        return sum(self)

    def per_byte(self, n_bytes: int) -> "Flops":
        return Flops(*(part / n_bytes for part in self))


class _Segment(NamedTuple):
    """n_symbols are read while a step learns from n_rows rows of row_symbols; from none in the first segment of a corpus."""

    n_symbols: int
    n_rows: int
    row_symbols: int


def replay_factor(config: Config) -> float:
    """Positions that a step learns from for each symbol that is read, once segments have their full size."""
    schedule = config.schedule
    return schedule.n_rows * schedule.row_symbols / schedule.segment_symbols


def flops_per_byte(config: Config, n_bytes: int | None = None) -> Flops:
    """Operations for each byte: the mean over a corpus of n_bytes, or, without n_bytes, those of a segment of full size.

    A corpus begins with short segments: it has more steps, on fewer and shorter rows. Raises CorpusError for n_bytes < 1.
    """
    if n_bytes is not None:
        return total_flops(config, n_bytes).per_byte(n_bytes)
    s = config.schedule
    full = _Segment(s.segment_symbols, s.n_rows, s.row_symbols)
    return _segment_flops(config, full).per_byte(full.n_symbols)


def most_flops_per_byte(config: Config) -> float:
    """A bound of `flops_per_byte(config, n).total` for all n.

    Every segment except the first of the corpus has a step, on at most all rows. Attention costs most in full runs.
    """
    s = config.schedule
    n_read = min(s.segment_symbols, s.block_symbols, COLUMNS_AT_ONCE)
    step = _segment_flops(config, _Segment(0, s.n_rows, s.row_symbols)).total
    return _segment_flops(config, _Segment(n_read, 0, 0)).total / n_read + step * steps_per_byte(config)


def steps_per_byte(config: Config) -> float:
    """The most segments, and so steps of the GPT, for each byte.

    Segments have at least the size of the first ones, except the last segment of each block.
    """
    s = config.schedule
    n_symbols = min(s.first_segment_symbols, s.segment_symbols)
    return -(-s.block_symbols // n_symbols) / s.block_symbols


def total_flops(config: Config, n_bytes: int) -> Flops:
    """Operations of coding n_bytes, as integers, with the segments of the schedule. Raises CorpusError for n_bytes < 1."""
    if n_bytes < 1:
        raise CorpusError(f"operations per byte are counted over 1 byte or more, not {n_bytes}")
    counts = _segment_counts(n_bytes, config.schedule).items()
    weighted = [[n * part for part in _segment_flops(config, segment)] for segment, n in counts]
    return Flops(*map(sum, zip(*weighted, strict=True)))


def _segment_counts(n_bytes: int, config: ScheduleConfig) -> Counter[_Segment]:
    """How often each kind of segment occurs in a corpus. Takes at most a second or two, also for the longest corpus.

    Once segments have grown to their full size and steps to all rows, the rest of a block has full segments and one remainder.
    """
    counts: Counter[_Segment] = Counter()
    n_growing, n_done = max(GROWTH * config.segment_symbols, config.n_rows * config.row_symbols), 0
    for segment in _segments(n_bytes, config):
        if n_done >= n_growing:
            break
        counts[segment] += 1
        n_done += segment.n_symbols
    open_block = min(-n_done % config.block_symbols, n_bytes - n_done)
    n_blocks, last_block = divmod(n_bytes - n_done - open_block, config.block_symbols)
    for n_symbols, n in ((open_block, 1), (config.block_symbols, n_blocks), (last_block, 1)):
        n_full, rest = divmod(n_symbols, config.segment_symbols)
        counts[_Segment(config.segment_symbols, config.n_rows, config.row_symbols)] += n * n_full
        counts[_Segment(rest, config.n_rows, config.row_symbols)] += n * (rest > 0)
    return +counts


def _segments(n_bytes: int, config: ScheduleConfig) -> Iterator[_Segment]:
    """The segments of a corpus. A segment's step runs while it is read, and learns from earlier symbols (`training_rows`)."""
    ranges = (segment for block in blocks(n_bytes, config) for segment in segments(block, config))
    for last, segment in pairwise(chain([slice(0, 0)], ranges)):
        n_known = last.stop
        length = min(config.row_symbols, n_known, 1 << config.history_bits)
        n_rows = max(-(-(n_known - last.start) // length), min(config.n_rows, n_known // length)) if n_known else 0
        yield _Segment(segment.stop - segment.start, n_rows, length)


def _segment_flops(config: Config, segment: _Segment) -> Flops:
    mixer = mixer_operations(config.mixer, has_gpt=config.gpt is not None) if config.mixer else 0
    n_gpts = config.replicas.n_replicas if config.replicas else 1
    gpt = _gpt_flops(config.gpt, segment, n_gpts) if config.gpt else Flops()
    return gpt._replace(mixer=mixer * segment.n_symbols)


def _gpt_flops(gpt: GPTConfig, segment: _Segment, n_gpts: int) -> Flops:
    """The operations of one GPT, or of all replicas, in a segment.

    In the backward pass each matrix takes two products of the size of its forward product: the gradient of its input and its own.
    The gradient of the head's input has entries in two halves, so its product counts twice.
    """
    n, rows, length = segment
    hidden = gpt.n_layers * sum(c_in * c_out * n_parts for c_in, c_out, n_parts in hidden_matrices(gpt))
    head = gpt.width * N_SYMBOLS
    positions = rows * length
    # six products of 2 * T * D for each position: scores and output forward; values, weights, queries and keys backward
    learning_attention = gpt.n_layers * 12 * positions * length * gpt.width
    steps = min(rows, n_gpts)
    return Flops(
        reading=2 * n * (hidden + head),
        learning=2 * positions * (3 * hidden + 4 * head),
        attention=gpt.n_layers * _reading_attention(gpt, n) + learning_attention,
        optimiser=steps * gpt.n_layers * sum(k * _orthogonalisation(r, c) for r, c, k in hidden_matrices(gpt)),
    )


def hidden_matrices(gpt: GPTConfig) -> list[tuple[int, int, int]]:
    """The matrices of one layer as Muon takes them: (C_in, C_out, number of matrices of this shape side by side)."""
    d, m = gpt.width, gpt.width * gpt.mlp_factor
    return [(d, d, 3), (d, d, 1), (d, m, 1), (m, d, 1)]


def _reading_attention(gpt: GPTConfig, n_columns: int) -> int:
    """Attention of one layer over a segment: each run of t <= COLUMNS_AT_ONCE columns sees W - 1 + t keys, in two products."""
    n_full, rest = divmod(n_columns, COLUMNS_AT_ONCE)
    runs = [COLUMNS_AT_ONCE] * n_full + [rest]
    return sum(4 * t * (gpt.window - 1 + t) * gpt.width for t in runs)


def _orthogonalisation(n_in: int, n_out: int) -> int:
    """Newton-Schulz on X (R, C), R <= C. A step computes G = X X^T, G G and its product with X: 2 R R C + 2 R R R + 2 R R C."""
    r, c = sorted((n_in, n_out))
    return NEWTON_SCHULZ_STEPS * (4 * r * r * c + 2 * r * r * r)


# The mixer's operations apart from its products, counted in model/mixer/. Hashes and look-ups are the smaller part.
_PER_CONTEXT_AND_BIT = 8  # four adaptive probabilities (history, node, run, history and run): a multiply-add each
_PER_CURVE_AND_BIT = 4  # interpolated between two points: two multiply-adds
_PER_CONTEXT_AND_BYTE = 22  # three hashes of six operations, and two bucket addresses of a multiply and an add


def mixer_operations(mixer: MixerConfig, *, has_gpt: bool) -> int:
    """Integer operations for each byte, an estimate: 8 * (4 S (I + F) + 8 C + 4 M) + 22 C, and with a GPT 256 + 8 * 4 M.

    C contexts, S weight sets, F last sets, M maps of curves, I inputs. A bit is predicted by S sums of I products and F sums of S
    products. Each of these weights then learns by a multiply-add: 2 * 2 * (S I + S F).
    """
    n_contexts, n_sets = len(mixer.contexts), len(mixer.sets)
    per_bit = 4 * n_sets * (n_inputs(mixer) + N_LAST) + _PER_CONTEXT_AND_BIT * n_contexts
    per_bit += _PER_CURVE_AND_BIT * len(mixer.curves) * (2 if has_gpt else 1)  # each map has a second one for the GPT
    return 8 * per_bit + _PER_CONTEXT_AND_BYTE * n_contexts + (N_SYMBOLS if has_gpt else 0)
