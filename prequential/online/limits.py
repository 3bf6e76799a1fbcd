"""How much memory a learner takes, from its configuration alone: known before anything is built.

An archive's header may come from a stranger and declare a model that is in range and yet larger than the machine.
"""

from prequential.errors import ConfigError
from prequential.model.config import N_SYMBOLS, Config, GPTConfig, MixerConfig, ScheduleConfig
from prequential.model.mixer import mixing
from prequential.model.mixer.mixer import LANES
from prequential.online.runtime import Runtime

MAX_MEMORY_BYTES = 4 << 30  # default limit

# Bytes for each parameter of a hidden matrix: float32 weight, momentum and gradient; int8 levels. The copies that one
# orthogonalisation holds are counted with the largest matrix.
_MATRIX_BYTES = 4 + 4 + 4 + 1
# Embedding and head: float32 weight, gradient and Adam's two means; int8 levels.
_TABLE_BYTES = 4 + 4 + 8 + 1
_SYMBOL_BYTES = 6 * 4  # for each logit: two float32 copies, int32 frequencies, gradient, two temporaries


def memory_bytes(config: Config, *, n_threads: int = 1, n_learners: int = 1) -> int:
    """Bytes that a learner of this configuration holds, beside the interpreter and libraries (some 300 MB).

    n_threads: how many orthogonalise matrices at a time. n_learners: an audit keeps a second one beside the first. An estimate on
    the high side, meant for refusing what cannot fit.
    """
    schedule = config.schedule
    n_positions = max(schedule.n_rows * schedule.row_symbols, schedule.segment_symbols)
    n_bytes = (1 << schedule.history_bits) + 16  # and two counters
    if config.gpt:
        n_bytes += n_positions * N_SYMBOLS * _SYMBOL_BYTES
        n_replicas = config.replicas.n_replicas if config.replicas else 1
        n_bytes += _gpt_bytes(config.gpt, n_threads) * n_replicas + _activation_bytes(config.gpt, schedule)
    if config.mixer:
        n_bytes += _mixer_bytes(config.mixer)
    if config.gpt and n_learners > 1:
        n_bytes += _context_bytes(config.gpt)  # a step that is taken again has its table as it was, and as it will be
    return n_bytes * n_learners


def check_memory(config: Config, limit_bytes: int, runtime: Runtime | None = None, *, n_learners: int = 1) -> None:
    """Raises ConfigError when what a run holds exceeds the limit; n_learners as in `memory_bytes`, one more if it is audited."""
    runtime = runtime or Runtime()
    n_learners += runtime.audit_every > 0
    if (n_bytes := memory_bytes(config, n_threads=runtime.n_threads, n_learners=n_learners)) > limit_bytes:
        raise ConfigError(
            f"this model takes up to {n_bytes / 2**20:,.0f} MiB of memory, more than the limit of "
            f"{limit_bytes / 2**20:,.0f} MiB; raise the limit (--max-memory) if you trust the source"
        )


def _context_bytes(gpt: GPTConfig) -> int:
    return 4 * (gpt.width + 1) << gpt.context_bits if gpt.contexts else 0


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
    """A step's kept activations, keys and values, attention scores, forward and backward; and the segment that is read."""
    n_positions = schedule.n_rows * schedule.row_symbols
    kept = n_positions * gpt.width * (8 + 6 * gpt.mlp_factor) * 4
    scores = n_positions * gpt.n_heads * schedule.row_symbols * 4
    n_read = schedule.segment_symbols
    reading = n_read * (gpt.width * (8 + 2 * gpt.mlp_factor) + gpt.n_heads * 3 * (gpt.window + 64)) * 4
    contexts = (
        n_positions * len(gpt.contexts) * gpt.width * 4 * 4
    )  # sums, gradient, its levels and the change, of each row met
    return gpt.n_layers * (kept + scores) + 6 * scores + reading + contexts


def _mixer_bytes(mixer: MixerConfig) -> int:
    n_inputs = len(mixer.contexts) * mixing.INPUTS_PER_CONTEXT + mixing.EXTRA_INPUTS + LANES
    weights = sum(mixing.SET_SIZES) * n_inputs * 4
    maps = (len(mixer.contexts) * (mixing.N_HISTORIES + mixing.RUN_MAP) + mixing.MATCH_MAP) * 4
    refined = mixing.REFINED_MAPS * mixing.REFINED_CONTEXTS * mixing.REFINED_STEPS * 2
    small = 256 * mixing.N_SETS * 4 + mixing.PAST_SIZE * 8
    return (4 * mixing.SLOTS << mixer.table_bits) + (8 << mixer.match_bits) + weights + maps + refined + small
