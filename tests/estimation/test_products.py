"""Matrix products: their counts are those of a run and of the operation count, and faster widths are found."""

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch

from prequential import Config, GPTConfig, MixerConfig, ReplicaConfig, Runtime, ScheduleConfig, compress
from prequential.estimation import products
from prequential.estimation.estimate import Estimate
from prequential.estimation.products import ProductRate, count_products, measure_rates, product_rates
from prequential.estimation.segment_work import SegmentWork
from prequential.estimation.widths import suggest_widths
from prequential.exact.matmul import Matmul
from prequential.online.flops import total_flops

SCHEDULE = ScheduleConfig(
    first_segment_symbols=48, segment_symbols=160, row_symbols=32, n_rows=6, history_bits=14, block_symbols=6000
)
GPT = Config(gpt=GPTConfig(n_layers=2, width=32, n_heads=2, mlp_factor=2, window=24), mixer=None, schedule=SCHEDULE)
REPLICAS = replace(GPT, replicas=ReplicaConfig(n_replicas=4, sync_every=3))
MIXER = Config(gpt=None, mixer=MixerConfig(contexts=("1", "2", "4"), table_bits=10, match_bits=8), schedule=SCHEDULE)
FUSED = Runtime(kernels="fused", threads=1)


def products_of_a_run(config: Config, n_bytes: int, runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> Counter:
    """(batch, m, k, n, carried) of all products that a run computes."""
    compress(b"warm up", config=config, runtime=runtime)  # the self-test multiplies too, but only once a process
    computed: list[tuple[int, int, int, int, bool]] = []  # several threads append
    single, batched = Matmul.__call__, Matmul.batched

    def count_single(self: Matmul, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        computed.append((1, *a.shape, b.shape[1], False))
        return single(self, a, b)

    def count_batched(self: Matmul, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        result = batched(self, a, b)
        computed.append((math.prod(result.shape[:-2]), a.shape[-2], a.shape[-1], b.shape[-1], True))
        return result

    monkeypatch.setattr(Matmul, "__call__", count_single)
    monkeypatch.setattr(Matmul, "batched", count_batched)
    compress(np.arange(n_bytes, dtype=np.uint8), config=config, runtime=runtime)
    monkeypatch.undo()
    return Counter(computed)


@pytest.mark.parametrize("config", [GPT, REPLICAS], ids=["one", "replicas"])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_the_counted_products_are_those_of_a_full_size_segment(
    threads: int, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    flat = replace(config, schedule=replace(SCHEDULE, first_segment_symbols=160))  # every segment has the full size
    runtime = Runtime(kernels="fused", threads=threads)
    longer, shorter = (products_of_a_run(flat, n * 160, runtime, monkeypatch) for n in (4, 3))
    expected: Counter = Counter()
    for shape, times in count_products(flat, runtime.n_step_threads).items():
        expected[shape.batch, shape.m, shape.k, shape.n, shape.carried] += times
    assert longer - shorter == expected


@pytest.mark.parametrize("config", [GPT, REPLICAS], ids=["one", "replicas"])
def test_the_operations_of_the_products_are_those_of_total_flops(config: Config) -> None:
    per_segment = total_flops(config, 64 * 160 * 2) + total_flops(config, 64 * 160 * 2 - 160) * -1
    counted = per_segment.reading + per_segment.learning + per_segment.attention + per_segment.optimiser
    assert sum(shape.operations * times for shape, times in count_products(config).items()) == counted


def test_without_a_gpt_there_are_no_products() -> None:
    assert not count_products(MIXER)
    assert product_rates(MIXER, FUSED) == []


def test_every_shape_has_a_rate() -> None:
    counts = count_products(GPT)
    rates = measure_rates(counts, Matmul("float64"))
    assert {rate.shape: rate.times for rate in rates} == counts
    assert all(rate.operations_per_s > 0 for rate in rates)


def test_a_width_is_suggested_if_its_products_run_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    def rates(counts: Counter, _: Matmul) -> list[ProductRate]:
        is_fast = any(shape.n == 3 * 48 for shape in counts)  # only with the width 48
        return [
            ProductRate(shape=s, times=n, wall_s=s.operations / (2e9 if is_fast else 1e9)) for s, n in counts.items()
        ]

    monkeypatch.setattr(products, "measure_rates", rates)
    n_operations = sum(rate.shape.operations * rate.times for rate in product_rates(GPT, FUSED))
    work = SegmentWork(
        wall_s=0.1, cpu_s=0.18, mixer_s=0.02, products_s=n_operations / 1e9, n_operations=n_operations, n_products=100,
        n_threads=2, bandwidth=1e10,
    )  # fmt: skip
    estimate = Estimate(
        n_bytes=1, probe_bytes=1, startup_s=1, compress_s=10.0, decompress_s=1, peak_memory_bytes=1, model_memory_bytes=1,
        archive_bytes=1, archive_low=1, archive_high=1, flops=total_flops(GPT, 100), n_segments=1,
    )  # fmt: skip
    (only,) = suggest_widths(GPT, FUSED, estimate, work)
    assert (only.width, only.n_heads) == (48, 3)
    assert only.operations_per_s == pytest.approx(2e9)
    assert only.operations_factor > 1
    assert suggest_widths(MIXER, FUSED, estimate, work) == []
