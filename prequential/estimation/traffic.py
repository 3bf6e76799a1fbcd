"""The bytes that workers who share the GPT's optimiser steps send to each other."""

import math
from dataclasses import dataclass

from prequential.model.config import N_SYMBOLS, Config, GPTConfig, ScheduleConfig
from prequential.online.flops import hidden_matrices

NUMBER_BYTES = 4  # an int32 sum or a float32 maximum


@dataclass(frozen=True, kw_only=True)
class WorkerTraffic:
    """Of one optimiser step shared by n_workers: gradient_bytes of integer sums and scale_bytes of maxima to agree on.

    sent_bytes: by each worker in a ring, 2 (N - 1) / N of them (Patarasuk and Yuan 2009). total_bytes: by all workers in the
    complete run. With replicas: state_bytes, which every worker must have after every sync_every steps; sent_bytes is then of
    such a step.
    """

    n_workers: int
    sync_every: int = 1
    state_bytes: int = 0
    gradient_bytes: int
    scale_bytes: int
    sent_bytes: int
    total_bytes: int


def worker_traffic(config: Config, n_segments: int, n_blocks: int, n_workers: int) -> WorkerTraffic | None:
    """The traffic of a run of n_segments, which has one optimiser step fewer. None without a GPT.

    With replicas, their state is sent at every synchronisation and for the digest of each block. The new matrices that workers
    also send are not counted.
    """
    if config.gpt is None:
        return None
    gradient_bytes, scale_bytes = _agreed_bytes(config.gpt, config.schedule)
    n_steps = max(0, n_segments - 1)
    if config.replicas:
        sync_every = config.replicas.sync_every
        tables = NUMBER_BYTES * (config.gpt.n_embeddings + 1) * N_SYMBOLS * config.gpt.width
        # Muon keeps one number for each entry, Adam (embedding and head) two.
        state_bytes = config.replicas.n_replicas * (2 * gradient_bytes + tables)
        return WorkerTraffic(
            n_workers=n_workers,
            sync_every=sync_every,
            state_bytes=state_bytes,
            gradient_bytes=0,
            scale_bytes=0,
            sent_bytes=math.ceil(state_bytes * (n_workers - 1) / n_workers),
            total_bytes=state_bytes * (n_workers - 1) * (n_steps // sync_every + n_blocks),
        )
    step_bytes = 2 * (n_workers - 1) * (gradient_bytes + scale_bytes)  # sent by all workers
    return WorkerTraffic(
        n_workers=n_workers,
        gradient_bytes=gradient_bytes,
        scale_bytes=scale_bytes,
        sent_bytes=math.ceil(step_bytes / n_workers),
        total_bytes=step_bytes * n_steps,
    )


def _agreed_bytes(gpt: GPTConfig, schedule: ScheduleConfig) -> tuple[int, int]:
    """Bytes of integer sums, and of maxima by which gradients are rounded before they are summed.

    One sum for each entry of each matrix, of the embedding, and of at most the rows of contexts of a step's new positions. One
    maximum for each column of a matrix, one for the embedding and one for contexts.
    """
    d = gpt.width
    n_new = -(-schedule.segment_symbols // schedule.row_symbols) * schedule.row_symbols
    context_rows = min(1 << gpt.context_bits, n_new * len(gpt.contexts))
    matrices = [(c_in, c_out * n_parts) for c_in, c_out, n_parts in hidden_matrices(gpt)] * gpt.n_layers
    matrices.append((d, N_SYMBOLS))
    n_sums = sum(c_in * c_out for c_in, c_out in matrices) + (gpt.n_embeddings * N_SYMBOLS + context_rows) * d
    n_maxima = sum(c_out for _, c_out in matrices) + 2
    return NUMBER_BYTES * n_sums, NUMBER_BYTES * n_maxima
