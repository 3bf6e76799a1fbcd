"""A tiny GPT, a text, and what tests of plans of runs share."""

from prequential import Config, GPTConfig, Runtime, ScheduleConfig

TINY = Config(
    gpt=GPTConfig(n_layers=1, width=16, n_heads=1, window=8),
    mixer=None,
    schedule=ScheduleConfig(
        first_segment_symbols=64, segment_symbols=128, row_symbols=32, n_rows=4, history_bits=14, block_symbols=1024
    ),
)
FUSED = Runtime(kernels="fused", threads=1)
TEXT = b"it was the best of times, it was the worst of times. " * 60
N_BYTES = 700  # of the text, that the runs of the fixture `finished` read
