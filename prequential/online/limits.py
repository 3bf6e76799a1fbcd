"""The memory and the work of a learner, computed from its configuration alone and checked before anything is built.

An archive's header may come from a stranger. It may declare a model whose values are all in range, but that exceeds the machine.
"""

from prequential.errors import ConfigError, check_number, wrong_argument
from prequential.model.config import (
    N_RECALL_TABLES,
    N_SYMBOLS,
    RECALL_CONTEXTS,
    RECALL_KEPT_BITS,
    WEIGHT_SETS,
    Config,
    GPTConfig,
    MixerConfig,
    ScheduleConfig,
)
from prequential.model.mixer import evidence, lookup, mixing, refine, sets
from prequential.model.mixer.mixer import n_followers, n_inputs
from prequential.model.mixer.nodes import N_GROUPS, N_HISTORIES
from prequential.model.mixer.past import INDIRECT_SIZE, N_FOLLOWERS, PAST_SIZE
from prequential.online.flops import most_flops_per_byte, steps_per_byte

MAX_MEMORY_BYTES = 6 << 30  # the default limit: enough for every preset without an audit
MAX_OPERATIONS_PER_BYTE = 1e11  # 10 times those of the largest preset
_LAYER_STEP_OPERATIONS = 1e7  # the calls of a layer's step take 2 ms, even if its matrices are small

# Bytes for each parameter of a hidden matrix: float32 weight, momentum and gradient; int8 levels. The temporary copies of an
# orthogonalisation are counted with the largest matrix.
_MATRIX_BYTES = 4 + 4 + 4 + 1
# The same for embedding and head: float32 weight, gradient and Adam's two means; int8 levels.
_TABLE_BYTES = 4 + 4 + 8 + 1
_LOGIT_BYTES = 6 * 4  # for each logit: two float32 copies, int32 frequencies, gradient, two temporaries


def memory_bytes(config: Config, *, n_threads: int = 1, n_learners: int = 1) -> int:
    """Bytes that a learner of this configuration holds, in addition to the interpreter and libraries (some 300 MB).

    n_threads: threads that orthogonalise matrices at the same time. n_learners: learners held together; an audit holds a second
    one. An estimate on the high side: it serves to refuse learners that do not fit.

    Examples:
        >>> import prequential
        >>> prequential.memory_bytes(prequential.preset(1)) < prequential.memory_bytes(prequential.preset(5)) < 2**31
        True
    """
    if not isinstance(config, Config):
        raise wrong_argument("config", config, "a Config, such as prequential.preset(5)")
    for name, value in (("n_threads", n_threads), ("n_learners", n_learners)):
        check_number(name, value, 1, 1 << 20)
    schedule = config.schedule
    n_positions = max(schedule.n_rows * schedule.row_symbols, schedule.segment_symbols)
    n_bytes = (1 << schedule.history_bits) + 16  # 16: two counters
    if config.gpt:
        n_bytes += n_positions * N_SYMBOLS * _LOGIT_BYTES
        n_replicas = config.replicas.n_replicas if config.replicas else 1
        n_bytes += _gpt_bytes(config.gpt, n_threads) * n_replicas + _activation_bytes(config.gpt, schedule)
    if config.mixer:
        n_bytes += _mixer_bytes(config.mixer)
    if config.gpt and n_learners > 1:
        n_bytes += _context_bytes(config.gpt)  # a repeated step holds the table before and after it
    return n_bytes * n_learners


def check_limits(config: Config, max_memory_bytes: int, *, n_threads: int = 1, n_learners: int = 1) -> int:
    """The learners' memory. Raises ConfigError for those that exceed the limit, or the work that any archive may ask for.

    n_threads, n_learners: as in `memory_bytes`.
    """
    if (n_bytes := memory_bytes(config, n_threads=n_threads, n_learners=n_learners)) > max_memory_bytes:
        raise ConfigError(
            f"this learner takes up to {n_bytes / 2**20:,.0f} MiB of memory, more than the limit of "
            f"{max_memory_bytes / 2**20:,.0f} MiB; raise max_memory_bytes= if you trust the source"
        )
    if (operations := operations_per_byte(config)) > MAX_OPERATIONS_PER_BYTE:
        raise ConfigError(
            f"this learner takes up to {operations:.2g} operations a byte, and at most "
            f"{MAX_OPERATIONS_PER_BYTE:.0e} are accepted: choose smaller matrices, fewer rows, or longer segments and blocks"
        )
    return n_bytes


def operations_per_byte(config: Config) -> float:
    """Operations for each byte, at most, whatever the corpus: those of `total_flops`, and two costs that it does not count.

    These are the calls of a layer's step, and the digest of the learner after each block, which reads all its memory. The slowest
    of 534 random learners computed 2e9 of them a second. So a stranger's archive takes some 50 seconds a byte at most.
    """
    n_gpts = config.replicas.n_replicas if config.replicas else 1
    layers = config.gpt.n_layers * n_gpts if config.gpt else 0
    return (
        most_flops_per_byte(config)
        + layers * _LAYER_STEP_OPERATIONS * steps_per_byte(config)
        + memory_bytes(config) / config.schedule.block_symbols
    )


def _context_bytes(gpt: GPTConfig) -> int:
    table = ((2 * gpt.width + 4) << gpt.context_bits) + (gpt.width + 1) * gpt.n_places if gpt.contexts else 0
    recall = (4 * N_RECALL_TABLES << gpt.recall_bits) + (2 * len(RECALL_CONTEXTS) << RECALL_KEPT_BITS)
    return table + (recall if gpt.recalls else 0)


def _gpt_bytes(gpt: GPTConfig, n_threads: int) -> int:
    largest = max(3, gpt.mlp_factor) * gpt.width**2
    matrices = (4 + 2 * gpt.mlp_factor) * gpt.width**2 * gpt.n_layers
    return (
        matrices * _MATRIX_BYTES
        + largest * 40 * min(n_threads, 4 * gpt.n_layers)
        + (gpt.n_embeddings + 1) * N_SYMBOLS * gpt.width * _TABLE_BYTES
        + _context_bytes(gpt)
    )


def _activation_bytes(gpt: GPTConfig, schedule: ScheduleConfig) -> int:
    """A step's saved activations, keys, values and attention scores, and those of the segment read, in blocks of 64 keys."""
    n_positions = schedule.n_rows * schedule.row_symbols
    kept = n_positions * gpt.width * (8 + 6 * gpt.mlp_factor) * 4
    scores = n_positions * gpt.n_heads * schedule.row_symbols * 4
    n_read = schedule.segment_symbols
    reading = n_read * (gpt.width * (8 + 2 * gpt.mlp_factor) + gpt.n_heads * 3 * (gpt.window + 64)) * 4
    head = gpt.width // gpt.n_heads
    # for each slot: key and value, up to three copies of the key, three factors of 4 bytes
    cache = gpt.n_layers * gpt.n_heads * (gpt.window + n_read + 64) * (2 * head + 3 * (head + 3) + 12)
    # for each row of the table that occurs: sums, gradient, its levels and the change
    contexts = n_positions * len(gpt.contexts) * gpt.width * 4 * 4
    return gpt.n_layers * (kept + scores) + 6 * scores + reading + cache + contexts


def _mixer_bytes(mixer: MixerConfig) -> int:
    n_contexts, n_sets = len(mixer.contexts), len(mixer.sets)
    rows = sum(size for name, size in zip(WEIGHT_SETS, sets.SET_SIZES, strict=True) if name in mixer.sets)
    packed = (
        n_contexts * (N_HISTORIES + evidence.RUN_MAP + N_GROUPS * evidence.RUN_STATES)
        + mixing.MATCH_MAP
        + mixing.MATCH_BYTE_MAP
        + 2 * mixing.ORDER_MAP
        + len(mixer.curves) * (refine.N_CURVE_CONTEXTS + refine.N_GPT_CURVE_CONTEXTS) * refine.N_POINTS
    )
    weights = rows * n_inputs(mixer) + sum(sets.LAST_SIZES) * n_sets
    small = (INDIRECT_SIZE + PAST_SIZE) * 8 + N_FOLLOWERS * n_followers(mixer) * 4
    buckets = 4 * (lookup.SLOTS + lookup.ENTRIES_PER_BUCKET)
    return (buckets << mixer.table_bits) + (8 << mixer.match_bits) + 4 * (packed + weights) + small
