"""Configurations that are quick and use every part of the learner, for tests of all folders."""

from dataclasses import replace

from prequential.model.config import Config, GPTConfig, MixerConfig, ScheduleConfig

GPT = GPTConfig(
    n_layers=1, width=16, n_heads=1, mlp_factor=2, contexts=("2", "word", "after3", "other4"), context_bits=6,
    memory_bits=13, window=8,
)  # fmt: skip
MIXER = MixerConfig(contexts=("1", "2", "4", "word"), table_bits=8, match_bits=8)
SCHEDULE = ScheduleConfig(
    first_segment_symbols=32, segment_symbols=64, row_symbols=16, n_rows=6, history_bits=14, block_symbols=300
)
BOTH = Config(gpt=GPT, mixer=MIXER, schedule=SCHEDULE)
CONFIGS = {"both": BOTH, "pure": replace(BOTH, mixer=None), "mixer": replace(BOTH, gpt=None)}

# A GPT of two layers and heads, segments of one size:
DEEPER = Config(
    gpt=replace(GPT, n_layers=2, width=32, n_heads=2, contexts=("2", "word", "after3"), window=7, warmup_updates=1),
    mixer=MIXER,
    schedule=replace(SCHEDULE, first_segment_symbols=48, segment_symbols=48, n_rows=5, block_symbols=400),
)
