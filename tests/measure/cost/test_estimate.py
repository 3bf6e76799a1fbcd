"""Estimates: what the probe codes, how a whole run follows from it, and the counts that are exact."""

import json
import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch

from prequential import (
    Config,
    ConfigError,
    CorpusError,
    GPTConfig,
    MixerConfig,
    ReplicaConfig,
    Runtime,
    ScheduleConfig,
    compress,
)
from prequential.codecs.archive_header import Header
from prequential.corpora.bundled import sample_path
from prequential.exact.matmul import Matmul
from prequential.measure.cost import estimate as measure
from prequential.measure.cost import products
from prequential.measure.cost.devices import Device, Work, built_in, chosen, read_devices, segment_s
from prequential.measure.cost.probe import Coded, Probe, probe, spans
from prequential.online.flops import total_flops
from prequential.online.schedule import blocks, segments

SCHEDULE = ScheduleConfig(
    first_segment_symbols=48, segment_symbols=160, row_symbols=32, n_rows=6, history_bits=14, block_symbols=6000
)
GPT = Config(gpt=GPTConfig(n_layers=2, width=32, n_heads=2, mlp_factor=2, window=24), mixer=None, schedule=SCHEDULE)
APART = replace(GPT, replicas=ReplicaConfig(n_replicas=4, sync_every=3))
MIXER = Config(gpt=None, mixer=MixerConfig(contexts=("1", "2", "4"), table_bits=10, match_bits=8), schedule=SCHEDULE)
TINY = Config(
    gpt=GPTConfig(n_layers=1, width=16, n_heads=1, mlp_factor=1, window=8),
    mixer=None,
    schedule=ScheduleConfig(first_segment_symbols=16, segment_symbols=32, row_symbols=16, n_rows=2, history_bits=14),
)
PLAIN = Runtime(kernels="plain", threads=1)
WORK = Work(
    wall_s=0.1, cpu_s=0.18, mixer_s=0.02, products_s=0.05, n_operations=10**10, n_products=100, n_threads=2, bandwidth=1e10
)  # fmt: skip
LAPTOP = Device(
    name="a", kind="cpu", cores=2, int8_tops=1.0, memory_gb_per_s=50.0, memory_gb=8.0, source="made up"
)  # fmt: skip


def text(n: int) -> np.ndarray:
    return np.fromfile(sample_path("christmas_carol"), np.uint8, n)


def header(source: np.ndarray, config: Config) -> Header:
    return Header(n_bytes=len(source), blake2b=bytes(32), config=config.to_dict())


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The probe has no process of its own and does not warm up: its memory and start-up then mean nothing, all else does."""
    monkeypatch.setattr("prequential.measure.cost.estimate.probe_apart", probe)
    for module in ("estimate", "probe"):
        monkeypatch.setattr(f"prequential.measure.{module}.warm_up", lambda *_: None)


# ---- the probe


def test_a_probe_begins_with_the_schedules_segments_and_ends_with_full_size_ones() -> None:
    parts, n_full_bytes = spans(100_000, 3000, SCHEDULE)
    sizes = [s.stop - s.start for part in parts for s in segments(part, SCHEDULE)]
    n_full = n_full_bytes // 160
    assert sizes[-n_full:] == [160] * n_full
    assert sizes[:-n_full] == [48] * 42  # 42 * 48 is the first end of a segment from two thirds of 3000 on


def test_a_corpus_not_longer_than_the_probe_is_probed_whole() -> None:
    assert spans(2500, 3000, SCHEDULE) == (list(blocks(2500, SCHEDULE)), 0)
    assert spans(1, 3000, SCHEDULE) == ([slice(0, 1)], 0)


@pytest.mark.parametrize("config", [TINY, MIXER])
def test_a_probe_of_the_whole_has_the_bits_of_the_run(config: Config, in_this_process: None) -> None:
    source = text(200)
    found, _ = measure.estimate(source, header(source, config), PLAIN, probe_bytes=4000)
    archive = compress(source, config=config, runtime=PLAIN)
    assert found.probe_bytes == 200
    assert found.archive_low == found.archive_bytes == found.archive_high
    assert abs(found.archive_bytes - len(archive)) <= 16  # the coder's flush, and varints of sizes


def test_segments_of_a_probe_are_decoded_to_what_was_encoded_and_cost_the_same_bits(in_this_process: None) -> None:
    found = probe(text(400), 10_000, 100, TINY, PLAIN)
    assert found.encoded.code_bits == found.decoded.code_bits
    assert len(found.sizes) == len(found.encoded.wall_s) == len(found.decoded.wall_s)
    assert found.n_full > 0 and found.encoded.full_cpu_s > 0
    assert found.mixer_byte_s == 0


# ---- time: probes that are made up, so that sums are known


def made_up(n_bytes: int, probe_bytes: int, cost: float, for_each: float) -> Probe:
    """A probe in which a segment of n symbols takes `cost` + n * `for_each` seconds."""
    parts, n_full_bytes = spans(n_bytes, probe_bytes, SCHEDULE)
    sizes = tuple(s.stop - s.start for part in parts for s in segments(part, SCHEDULE))
    coded = Coded(
        wall_s=tuple(cost + n * for_each for n in sizes),
        code_bits=tuple(2.0 * n for n in sizes),
        learner_s=0.5,
        block_s=0.25,
        full_cpu_s=0.1,
    )
    return Probe(
        sizes=sizes, n_full=n_full_bytes // 160, encoded=coded, decoded=coded,
        mixer_byte_s=0.0, startup_s=1.0, peak_memory_bytes=10**8,
    )  # fmt: skip


@pytest.mark.parametrize("n_bytes", [40_000, 2500, 6001])
def test_time_is_the_sum_over_the_schedule_where_it_is_a_straight_line_in_the_size(n_bytes: int) -> None:
    found = made_up(n_bytes, 3000, 0.01, 0.0001)
    sizes = [s.stop - s.start for b in blocks(n_bytes, SCHEDULE) for s in segments(b, SCHEDULE)]
    expected = 0.5 + 0.25 * len(list(blocks(n_bytes, SCHEDULE))) + sum(0.01 + 0.0001 * n for n in sizes)
    assert measure.run_s(found, found.encoded, n_bytes, SCHEDULE) == pytest.approx(expected, rel=1e-9)


# ---- memory and size


def test_memory_grows_by_what_is_mapped_and_by_the_history_up_to_its_size() -> None:
    ring = 1 << SCHEDULE.history_bits
    assert measure._growth_bytes(1000, 5000, SCHEDULE) == 5000 + 4000
    assert measure._growth_bytes(1000, 10 * ring, SCHEDULE) == 10 * ring + ring - 1000


def test_the_container_is_that_of_a_real_archive(in_this_process: None) -> None:
    source = text(9000)
    archive = compress(source, config=MIXER, runtime=PLAIN)
    beside = measure.container_bytes(header(source, MIXER), SCHEDULE)
    payload = len(archive) - beside
    assert 0 < payload < len(source)
    found = probe(source, len(source), 20_000, MIXER, PLAIN)
    assert abs(8 * payload - sum(found.encoded.code_bits)) <= 8 * 24  # two blocks: a flush and a few varints each


def test_bounds_of_the_size_enclose_it_and_stay_below_the_original() -> None:
    source = text(40_000)
    found = made_up(len(source), 3000, 0.01, 0.0001)
    low, middle, high = measure.code_bits(source, found, measure.GPT_ALONE)
    assert 0 < low < middle < high < 8 * len(source)
    noise = np.random.default_rng(0).integers(0, 256, 40_000, dtype=np.uint8)
    dear = replace(found, encoded=replace(found.encoded, code_bits=tuple(8.5 * n for n in found.sizes)))
    assert measure.code_bits(noise, dear, measure.GPT_ALONE)[2] <= 8 * len(noise)


def test_an_easier_rest_of_the_corpus_makes_the_archive_smaller() -> None:
    hard = np.random.default_rng(0).integers(0, 16, 40_000, dtype=np.uint8)
    easy = hard.copy()
    easy[8000:] = 7
    found = made_up(40_000, 3000, 0.01, 0.0001)
    assert (
        measure.code_bits(easy, found, measure.WITH_MIXER)[1]
        < 0.5 * measure.code_bits(hard, found, measure.WITH_MIXER)[1]
    )


def test_an_empty_corpus_is_refused() -> None:
    empty = np.zeros(0, np.uint8)
    with pytest.raises(CorpusError, match="nothing to estimate"):
        measure.estimate(empty, header(empty, GPT), PLAIN)


# ---- products


def asked_in_a_run(config: Config, n_bytes: int, runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> Counter:
    """(batch, m, k, n, carried) of all products that a run asks for."""
    compress(b"warm up", config=config, runtime=runtime)  # the self-test multiplies, too, but once a process
    asked: list[tuple[int, int, int, int, bool]] = []  # appended to from several threads
    single, batched = Matmul.__call__, Matmul.batched

    def count_single(self: Matmul, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        asked.append((1, *a.shape, b.shape[1], False))
        return single(self, a, b)

    def count_batched(self: Matmul, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        result = batched(self, a, b)
        asked.append((math.prod(result.shape[:-2]), a.shape[-2], a.shape[-1], b.shape[-1], True))
        return result

    monkeypatch.setattr(Matmul, "__call__", count_single)
    monkeypatch.setattr(Matmul, "batched", count_batched)
    compress(np.arange(n_bytes, dtype=np.uint8), config=config, runtime=runtime)
    monkeypatch.undo()
    return Counter(asked)


@pytest.mark.parametrize("learner", [GPT, APART], ids=["one", "replicas"])
@pytest.mark.parametrize("threads", [1, 2])
def test_counted_products_are_those_that_a_full_size_segment_asks_for(
    threads: int, learner: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    flat = replace(learner, schedule=replace(SCHEDULE, first_segment_symbols=160))  # every segment is full-size
    runtime = Runtime(kernels="plain", threads=threads)
    longer, shorter = (asked_in_a_run(flat, n * 160, runtime, monkeypatch) for n in (4, 3))
    expected: Counter = Counter()
    for shape, times in products.products(flat, threads).items():
        expected[shape.batch, shape.m, shape.k, shape.n, shape.carried] += times
    assert longer - shorter == expected


@pytest.mark.parametrize("learner", [GPT, APART], ids=["one", "replicas"])
def test_their_operations_are_those_that_flops_counts(learner: Config) -> None:
    per_segment = total_flops(learner, 64 * 160 * 2) + total_flops(learner, 64 * 160 * 2 - 160) * -1
    counted = per_segment.reading + per_segment.learning + per_segment.attention + per_segment.optimiser
    assert products.operations(products.products(learner)) == counted


def test_replicas_beside_a_mixer_are_estimated(in_this_process: None) -> None:
    """The probe prices the mixer alone, which knows of no replicas."""
    learner = replace(APART, mixer=MIXER.mixer)
    source = text(3000)
    found, _ = measure.estimate(source, header(source, learner), PLAIN)
    assert abs(found.archive_bytes - len(compress(source, config=learner, runtime=PLAIN))) <= 24


def test_without_a_gpt_there_are_no_products() -> None:
    assert not products.products(MIXER)
    assert measure.product_rates(MIXER, PLAIN) == []


def test_every_shape_has_a_rate() -> None:
    asked = products.products(GPT)
    rates = products.measure(asked, Matmul("float64"))
    assert {rate.shape: rate.times for rate in rates} == asked
    assert all(rate.operations_per_s > 0 for rate in rates)


# ---- workers, shapes, machines


def test_a_step_shared_by_workers_sends_an_integer_for_each_entry_and_a_maximum_for_each_column() -> None:
    gpt = GPTConfig(n_layers=1, width=16, n_heads=1, mlp_factor=2, n_embeddings=2)
    entries = 16 * 48 + 16 * 16 + 2 * 16 * 32 + 16 * 256 + 2 * 256 * 16
    columns = 48 + 16 + 32 + 16 + 256 + 2
    schedule = ScheduleConfig(n_rows=3, row_symbols=10, segment_symbols=30, first_segment_symbols=30)
    config = Config(gpt=gpt, mixer=None, schedule=schedule)
    found = measure.network(config, 11, 3, 4)
    assert found
    assert (found.gradient_bytes, found.scale_bytes) == (4 * entries, 4 * columns)
    assert found.sent_bytes == math.ceil(2 * 3 / 4 * 4 * (entries + columns))
    assert found.total_bytes == 10 * 2 * 3 * 4 * (entries + columns)
    alone = measure.network(config, 11, 3, 1)
    assert alone
    assert alone.total_bytes == 0
    with_contexts = measure.network(replace(config, gpt=replace(gpt, contexts=("2", "word"))), 11, 3, 4)
    assert with_contexts
    assert with_contexts.gradient_bytes - found.gradient_bytes == 4 * 3 * 10 * 2 * 16


def test_replicas_are_sent_whole_now_and_then() -> None:
    gpt = GPTConfig(n_layers=1, width=16, n_heads=1, mlp_factor=2, n_embeddings=2)
    hidden, tables = 16 * 48 + 16 * 16 + 2 * 16 * 32, 16 * 256 + 2 * 256 * 16
    config = Config(gpt=gpt, replicas=ReplicaConfig(n_replicas=3, sync_every=4))
    found = measure.network(config, 11, 3, 2)
    assert found
    assert found.state_bytes == 3 * 4 * (2 * hidden + 3 * tables)
    assert found.total_bytes == found.state_bytes * (
        2 + 3
    )  # after steps 4 and 8 of 10, and 3 blocks, to the other of two
    assert measure.network(replace(config, replicas=None, gpt=None), 11, 3, 2) is None


def test_a_width_is_suggested_where_its_products_run_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    def rates(asked: Counter, _: Matmul) -> list[products.Rate]:
        fast = any(shape.n == 3 * 48 for shape in asked)  # of the width 48 alone
        return [products.Rate(shape=s, times=n, wall_s=s.operations / (2e9 if fast else 1e9)) for s, n in asked.items()]

    monkeypatch.setattr(products, "measure", rates)
    now = measure.product_rates(GPT, PLAIN)
    n_operations = sum(rate.shape.operations * rate.times for rate in now)
    found = made_up(40_000, 3000, 0.01, 0.0001)
    work = replace(WORK, n_operations=n_operations, products_s=n_operations / 1e9)
    whole = measure.Estimate(
        n_bytes=1, probe_bytes=1, startup_s=1, compress_s=10.0, decompress_s=1, peak_memory_bytes=1, model_memory_bytes=1,
        archive_bytes=1, archive_low=1, archive_high=1, flops=total_flops(GPT, 100), n_segments=1,
    )  # fmt: skip
    (only,) = measure.suggest(GPT, PLAIN, whole, work)
    assert (only.width, only.n_heads) == (48, 3)
    assert only.operations_per_s == pytest.approx(2e9)
    assert only.operations_factor > 1
    assert measure.suggest(MIXER, PLAIN, whole, work) == []
    assert measure.work(replace(found, n_full=0), now, GPT, PLAIN) is None


def test_a_machine_that_is_better_in_every_figure_is_no_slower() -> None:
    better = replace(LAPTOP, cores=4, int8_tops=4.0, memory_gb_per_s=100.0)
    assert segment_s(better, WORK) < segment_s(LAPTOP, WORK)


def test_no_machine_is_faster_than_the_mixer_which_goes_bit_by_bit() -> None:
    endless = dict(int8_tops=1e6, memory_gb_per_s=1e6)
    for device in (replace(LAPTOP, **endless), replace(LAPTOP, kind="gpu", cores=None, **endless)):
        assert segment_s(device, replace(WORK, n_products=1)) >= WORK.mixer_s


def test_users_machines_join_the_table_or_replace_one_of_its_names(tmp_path) -> None:
    known = built_in()[0]
    ours = [LAPTOP, replace(known, cores=64)]
    (tmp_path / "more.json").write_text(json.dumps([vars(device) for device in ours]))
    table = read_devices(tmp_path / "more.json")
    assert len(table) == len(built_in()) + 1
    assert chosen(table, ["a", known.name]) == ours
    assert chosen(table, []) == table


@pytest.mark.parametrize(
    ("content", "part"),
    [
        ("{}", "must hold a list"),
        ("[1]", "exactly the names"),
        ('[{"name": "x"}]', "exactly the names"),
        ("[", "not JSON"),
        (json.dumps([{**vars(LAPTOP), "cores": None}]), "numbers above 0"),
        (json.dumps([{**vars(LAPTOP), "int8_tops": "many"}]), "numbers above 0"),
        (json.dumps([{**vars(LAPTOP), "kind": "abacus"}]), "one of cpu, gpu"),
    ],
)
def test_a_table_that_is_none_is_named_in_one_line(tmp_path, content: str, part: str) -> None:
    (tmp_path / "bad.json").write_text(content)
    with pytest.raises(ConfigError, match=part) as error:
        read_devices(tmp_path / "bad.json")
    assert "\n" not in str(error.value)


def test_a_machine_that_is_not_in_the_table_is_named() -> None:
    with pytest.raises(ConfigError, match="no device 'Z80'; there are laptop"):
        chosen(built_in(), ["Z80"])
