"""How much memory a learner takes, from its configuration alone: known before anything is built.

An archive's header may come from a stranger and declare a model that is in range and yet larger than the machine.
"""

from prequential.errors import ConfigError
from prequential.model.config import Config, GPTConfig, NgramConfig, StreamConfig

MAX_MEMORY_BYTES = 4 << 30  # default limit

# Bytes for each parameter of a hidden matrix: float32 weight, momentum and gradient; int8 levels. The copies that one
# orthogonalisation holds are counted with the largest matrix.
_MATRIX_BYTES = 4 + 4 + 4 + 1
# Embedding and head: float32 weight, gradient and Adam's two means; int8 levels.
_TABLE_BYTES = 4 + 4 + 8 + 1
_SYMBOL_BYTES = 6 * 4  # for each logit: two float32 copies, int32 frequencies, gradient, two temporaries


def memory_bytes(config: Config) -> int:
    """Bytes that a learner of this configuration holds, beside the interpreter and libraries (some 300 MB).

    An estimate on the high side, meant for refusing what cannot fit.
    N-gram tables count in full, though pages that no context has touched take no memory yet.
    """
    n_positions = config.streams.n_streams * config.streams.segment_columns
    n_bytes = n_positions * config.n_symbols * _SYMBOL_BYTES
    if config.gpt:
        n_bytes += _gpt_bytes(config.gpt, config.n_symbols) + _activation_bytes(config.gpt, config.streams)
    if config.ngram:
        n_bytes += _ngram_bytes(config.ngram, config.n_symbols)
    return n_bytes


def check_memory(config: Config, limit_bytes: int) -> None:
    """Raises ConfigError when `memory_bytes(config)` exceeds the limit."""
    if (n_bytes := memory_bytes(config)) > limit_bytes:
        raise ConfigError(
            f"this model takes up to {n_bytes / 2**20:,.0f} MiB of memory, more than the limit of "
            f"{limit_bytes / 2**20:,.0f} MiB; raise the limit (--max-memory) if you trust the source"
        )


def _gpt_bytes(gpt: GPTConfig, n_symbols: int) -> int:
    largest = max(3, gpt.mlp_factor) * gpt.width**2
    matrices = (4 + 2 * gpt.mlp_factor) * gpt.width**2 * gpt.n_layers
    return matrices * _MATRIX_BYTES + largest * 32 + 2 * n_symbols * gpt.width * _TABLE_BYTES


def _activation_bytes(gpt: GPTConfig, streams: StreamConfig) -> int:
    """Kept activations of a segment, keys and values, attention scores: forward and backward."""
    n_positions = streams.n_streams * streams.segment_columns
    n_slots = gpt.window - 1 + streams.segment_columns
    kept = n_positions * gpt.width * (8 + 6 * gpt.mlp_factor) * 4
    keys_and_values = 2 * 2 * streams.n_streams * n_slots * gpt.width * 4  # carried, and in the segment's room
    scores = n_positions * gpt.n_heads * n_slots * 4
    return gpt.n_layers * (kept + keys_and_values + scores) + 6 * scores


def _ngram_bytes(ngram: NgramConfig, n_symbols: int) -> int:
    n_rows = len(ngram.contexts) << ngram.row_bits
    return n_rows * (n_symbols + 1) * 4  # int32 rows and counts
