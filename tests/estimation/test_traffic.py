"""The bytes that workers send: counted from shapes, for shared steps and for replicas."""

import math
from dataclasses import replace

from prequential import Config, GPTConfig, ReplicaConfig, ScheduleConfig
from prequential.estimation.traffic import worker_traffic

GPT = GPTConfig(n_layers=1, width=16, n_heads=1, mlp_factor=2, n_embeddings=2)
HIDDEN = 16 * 48 + 16 * 16 + 2 * 16 * 32  # entries of the hidden matrices
TABLES = 16 * 256 + 2 * 256 * 16  # entries of the head and of the embeddings


def test_a_shared_step_sends_an_integer_for_each_entry_and_a_maximum_for_each_column() -> None:
    entries, columns = HIDDEN + TABLES, 48 + 16 + 32 + 16 + 256 + 2
    schedule = ScheduleConfig(n_rows=5, row_symbols=10, segment_symbols=30, first_segment_symbols=30)
    config = Config(gpt=GPT, mixer=None, schedule=schedule)
    found = worker_traffic(config, 11, 3, 4)
    assert found
    assert (found.gradient_bytes, found.scale_bytes) == (4 * entries, 4 * columns)
    assert found.sent_bytes == math.ceil(2 * 3 / 4 * 4 * (entries + columns))
    assert found.total_bytes == 10 * 2 * 3 * 4 * (entries + columns)
    alone = worker_traffic(config, 11, 3, 1)
    assert alone
    assert alone.total_bytes == 0
    with_contexts = worker_traffic(replace(config, gpt=replace(GPT, contexts=("2", "word"))), 11, 3, 4)
    assert with_contexts
    assert with_contexts.gradient_bytes - found.gradient_bytes == 4 * 3 * 10 * 2 * 16  # of the three new rows


def test_replicas_are_sent_completely_at_each_synchronisation_and_each_block() -> None:
    config = Config(gpt=GPT, replicas=ReplicaConfig(n_replicas=3, sync_every=4))
    found = worker_traffic(config, 11, 3, 2)
    assert found
    assert found.state_bytes == 3 * 4 * (2 * HIDDEN + 3 * TABLES)
    n_sent = 2 + 3  # after steps 4 and 8 of 10, and for 3 blocks, to the other of two workers
    assert found.total_bytes == found.state_bytes * n_sent
    assert worker_traffic(replace(config, replicas=None, gpt=None), 11, 3, 2) is None
