"""What a learner costs, from its configuration alone: its operations for each byte, its memory, and the limits of both.

A multiply-add is two operations. They are those that `Matmul` computes for a coder that knows the symbols: with the masked
entries of attention, without elementwise work. The mixer's are an estimate. Limits are checked first.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import chain, pairwise
from typing import NamedTuple

from prequential.errors import ConfigError, CorpusError, check_number, wrong_argument
from prequential.exact.backend import NEWTON_SCHULZ_STEPS
from prequential.model import config as parts
from prequential.model.config import COLUMNS_AT_ONCE, N_SYMBOLS, Config, GPTConfig, MixerConfig, ScheduleConfig
from prequential.model.mixer import contexts, curves, evidence, lookup, mixing, nodes, past, sets
from prequential.model.mixer.mixer import n_inputs, table_size

MAX_MEMORY_BYTES = 6 << 30  # the default limit: enough for every preset without an audit
MAX_OPERATIONS_PER_BYTE = 1e11  # 10 times those of the largest preset
_LAYER_STEP_OPERATIONS = 1e7  # the calls of a layer's step take 2 ms, even if its matrices are small

# Bytes for each parameter of a hidden matrix: float32 weight and momentum; int8 levels, three copies, and four of the segment's.
_MATRIX_BYTES = 4 + 4 + 3 + 4
# The same for embedding and head: float32 weight, gradient and Adam's two means; int8 levels.
_TABLE_BYTES = 4 + 4 + 8 + 1
_LOGIT_BYTES = 6 * 4  # for each logit: two float32 copies, int32 frequencies, gradient, two temporaries


class _Segment(NamedTuple):
    """n_symbols are read while a step learns from n_rows rows of row_symbols; from none in the first segment of a corpus."""

    n_symbols: int
    n_rows: int
    row_symbols: int


def total_flops(config: Config, n_bytes: int) -> int:
    """Operations of coding n_bytes with the segments of the schedule. Raises CorpusError for n_bytes < 1."""
    if n_bytes < 1:
        raise CorpusError(f"operations per byte are counted over 1 byte or more, not {n_bytes}")
    return sum(n * _segment_flops(config, segment) for segment, n in _segment_counts(n_bytes, config.schedule).items())


def _segment_counts(n_bytes: int, config: ScheduleConfig) -> Counter[_Segment]:
    """How often each kind of segment occurs in a corpus. Takes at most a second or two, also for the longest corpus.

    Once segments have grown to their full size and steps to all rows, the rest of a block has full segments and one remainder.
    """
    counts: Counter[_Segment] = Counter()
    n_growing, n_done = max(parts.GROWTH * config.segment_symbols, config.n_rows * config.row_symbols), 0
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
    ranges = (segment for block in parts.blocks(n_bytes, config) for segment in parts.segments(block, config))
    for last, segment in pairwise(chain([slice(0, 0)], ranges)):
        n_known = last.stop
        length = min(config.row_symbols, n_known, 1 << config.history_bits)
        n_rows = max(-(-(n_known - last.start) // length), min(config.n_rows, n_known // length)) if n_known else 0
        yield _Segment(segment.stop - segment.start, n_rows, length)


def _segment_flops(config: Config, segment: _Segment) -> int:
    """The operations in a segment: reading, learning and its attention, Muon's orthogonalisation, and the mixer's.

    In the backward pass each matrix takes two products of the size of its forward product: the gradient of its input and its own.
    The gradient of the head's input has entries in two halves, so its product counts twice.
    """
    n, rows, length = segment
    mixer = n * _mixer_operations(config.mixer, has_gpt=config.gpt is not None) if config.mixer else 0
    if not (gpt := config.gpt):
        return mixer
    matrices, head, positions = hidden_matrices(gpt), gpt.width * N_SYMBOLS, rows * length
    hidden = gpt.n_layers * sum(c_in * c_out * n_parts for c_in, c_out, n_parts in matrices)
    products = 2 * n * (hidden + head) + 2 * positions * (3 * hidden + 4 * head)
    # each run of t columns that are read at once sees W - 1 + t keys, in two products
    runs = [COLUMNS_AT_ONCE] * (n // COLUMNS_AT_ONCE) + [n % COLUMNS_AT_ONCE]
    attention = sum(4 * t * (gpt.window - 1 + t) * gpt.width for t in runs)
    # six products of 2 * length * width for each position: scores and output forward; values, weights, queries and keys backward
    attention += 12 * positions * length * gpt.width
    # a step of Newton-Schulz on X (R, C), R <= C: G = X X^T, G G and its product with X, 2 R R C + 2 R R R + 2 R R C
    shapes = [(*sorted((n_in, n_out)), k) for n_in, n_out, k in matrices]
    optimiser = min(rows, 1) * NEWTON_SCHULZ_STEPS * sum(k * (4 * r * r * c + 2 * r * r * r) for r, c, k in shapes)
    return products + gpt.n_layers * (attention + optimiser) + mixer


def hidden_matrices(gpt: GPTConfig) -> list[tuple[int, int, int]]:
    """The matrices of one layer as Muon takes them: (C_in, C_out, number of matrices of this shape side by side)."""
    d, m = gpt.width, gpt.width * gpt.mlp_factor
    return [(d, d, 3), (d, d, 1), (d, m, 1), (m, d, 1)]


def _mixer_operations(mixer: MixerConfig, *, has_gpt: bool) -> int:
    """Integer operations for each byte, an estimate: 8 * (4 S (I + F) + 8 C + 4 M) + 22 C, and with a GPT 256 + 8 * 4 M.

    C contexts, S weight sets, F last sets, M maps of curves, I inputs. A bit is predicted by S sums of I products and F sums of S
    products, whose weights then learn by a multiply-add. A context has four adaptive probabilities for a bit, and for a byte
    three hashes of six operations and two bucket addresses of two. A curve is interpolated between two points.
    """
    c, s, m = len(mixer.contexts), len(mixer.sets), len(mixer.curves) * (2 if has_gpt else 1)
    return 8 * (4 * s * (n_inputs(mixer) + sets.N_LAST) + 8 * c + 4 * m) + 22 * c + (N_SYMBOLS if has_gpt else 0)


# ---- memory, and the limits


def memory_bytes(config: Config, *, n_threads: int = 1) -> int:
    """Bytes that a learner of this configuration holds, in addition to the interpreter and libraries (some 300 MB).

    n_threads: threads that orthogonalise matrices at the same time. An estimate on the high side: it serves to refuse learners
    that do not fit.

    Examples:
        >>> import prequential
        >>> prequential.memory_bytes(prequential.preset(1)) < prequential.memory_bytes(prequential.preset(5)) < 2**31
        True
    """
    if not isinstance(config, Config):
        raise wrong_argument("config", config, "a Config, such as prequential.preset(5)")
    check_number("n_threads", n_threads, 1, 1 << 20)
    n_bytes = (1 << config.schedule.history_bits) + 16  # 16: two counters
    if config.gpt:
        n_bytes += _gpt_bytes(config.gpt, n_threads) + _activation_bytes(config.gpt, config.schedule)
    return n_bytes + (_mixer_bytes(config.mixer) if config.mixer else 0)


def check_limits(config: Config, n_bytes: int, max_memory_bytes: int) -> None:
    """Raises ConfigError if n_bytes, of its learners, are above the limit, or it takes more operations than an archive may."""
    if n_bytes > max_memory_bytes:
        limit = f"the limit of {max_memory_bytes >> 20:,} MiB; raise max_memory_bytes= if you trust the source"
        raise ConfigError(f"this learner takes up to {n_bytes >> 20:,} MiB of memory, more than {limit}")
    if (operations := operations_per_byte(config)) > MAX_OPERATIONS_PER_BYTE:
        what = f"{operations:.2g} operations a byte, and at most {MAX_OPERATIONS_PER_BYTE:.0e} are accepted"
        raise ConfigError(f"this learner takes up to {what}: choose smaller matrices, fewer rows, or longer segments")


def operations_per_byte(config: Config) -> float:
    """A bound of the operations for each byte, whatever the corpus: those of `total_flops`, and two costs that it does not count.

    These are the calls of a layer's step, and the digest of the learner after each block, which reads all its memory. The slowest
    of 534 random learners computed 2e9 of them a second. So a stranger's archive takes some 50 seconds a byte at most.
    """
    s = config.schedule
    n_read = min(s.segment_symbols, s.block_symbols, COLUMNS_AT_ONCE)
    step: float = _segment_flops(config, _Segment(0, s.n_rows, s.row_symbols))
    step += _LAYER_STEP_OPERATIONS * (config.gpt.n_layers if config.gpt else 0)
    n_steps = -(-s.block_symbols // min(s.first_segment_symbols, s.segment_symbols))  # of a block, at most
    reading = _segment_flops(config, _Segment(n_read, 0, 0)) / n_read
    return reading + (n_steps * step + memory_bytes(config)) / s.block_symbols


def _gpt_bytes(gpt: GPTConfig, n_threads: int) -> int:
    largest = max(3, gpt.mlp_factor) * gpt.width**2
    matrices = (4 + 2 * gpt.mlp_factor) * gpt.width**2 * gpt.n_layers
    table = ((2 * gpt.width + 4) << gpt.context_bits) + (gpt.width + 1) * gpt.n_places if gpt.contexts else 0
    recall = (4 * parts.N_RECALL_TABLES << gpt.recall_bits) + (2 * len(parts.RECALL_CONTEXTS) << parts.RECALL_KEPT_BITS)
    return (
        matrices * _MATRIX_BYTES
        + largest * 24 * min(n_threads, 4 * gpt.n_layers)  # gradient, direction and orthogonal matrix, in copies
        + (gpt.n_embeddings + 1) * N_SYMBOLS * gpt.width * _TABLE_BYTES
        + table
        + (recall if gpt.recalls else 0)
    )


def _activation_bytes(gpt: GPTConfig, schedule: ScheduleConfig) -> int:
    """Logits, a step's saved activations, keys, values and attention scores, and those of the columns that are read at once."""
    n_positions = schedule.n_rows * schedule.row_symbols
    logits = max(n_positions, schedule.segment_symbols) * N_SYMBOLS * _LOGIT_BYTES
    kept = n_positions * gpt.width * (8 + 6 * gpt.mlp_factor) * 4
    scores = n_positions * gpt.n_heads * schedule.row_symbols * 4
    n_read = min(schedule.segment_symbols, COLUMNS_AT_ONCE)
    reading = n_read * (gpt.width * (8 + 2 * gpt.mlp_factor) + gpt.n_heads * 3 * (gpt.window + n_read)) * 4
    # for each slot: key and value, carried, new and interleaved, and their factors
    cache = gpt.n_layers * (gpt.window + schedule.segment_symbols) * (6 * gpt.width + 20 * gpt.n_heads)
    # for each row of the table that occurs: sums, gradient, its levels and the change
    of_contexts = n_positions * len(gpt.contexts) * gpt.width * 4 * 4
    return logits + gpt.n_layers * (kept + scores) + 9 * scores + reading + cache + of_contexts


def _mixer_bytes(mixer: MixerConfig) -> int:
    rows = sum(size for name, size in zip(parts.WEIGHT_SETS, sets.SET_SIZES, strict=True) if name in mixer.sets)
    packed = (
        len(mixer.contexts) * (nodes.N_HISTORIES + evidence.RUN_MAP + nodes.N_GROUPS * evidence.RUN_STATES)
        + mixing.MATCH_MAP
        + mixing.MATCH_BYTE_MAP
        + 2 * mixing.ORDER_MAP
        + len(mixer.curves) * (curves.N_CURVE_CONTEXTS + curves.N_GPT_CURVE_CONTEXTS) * curves.N_POINTS
    )
    weights = rows * n_inputs(mixer) + sum(sets.LAST_SIZES) * len(mixer.sets)
    entries = past.N_SUCCESSORS * table_size(mixer, contexts.OF_SUCCESSORS)
    entries += past.N_FIELDS * table_size(mixer, contexts.OF_FIELDS)
    small = (past.INDIRECT_SIZE + past.PAST_SIZE) * 8 + entries * 4
    buckets = 4 * (lookup.SLOTS + lookup.ENTRIES_PER_BUCKET)
    return (buckets << mixer.table_bits) + (8 << mixer.match_bits) + 4 * (packed + weights) + small
