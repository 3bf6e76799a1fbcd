"""The GPT on an accelerator gives the processor's bits, or the accelerator is not used.

These tests run on a simulated device (simulated_cuda.py). Those marked gpu need a real one.
"""

import io
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from prequential_codecs.archive import ArchiveReader
from prequential_codecs.archive_header import Header
from prequential_codecs.bit_coder import SCORE, BitCoder
from prequential_corpora.sources import sample_path
from simulated_cuda import CUDA, is_capturing, is_on_device, n_replays, simulated_cuda
from torch.utils._pytree import tree_flatten

from prequential.errors import ConfigError, InexactMachineError
from prequential.exact import matmul, plain, tables
from prequential.exact.backend import Arithmetic
from prequential.model.config import Config, GPTConfig, ScheduleConfig
from prequential.model.gpt import weights
from prequential.model.gpt.device import Accelerator, DeviceGPT
from prequential.model.gpt.gpt import GPT
from prequential.model.gpt.reader import Reader
from prequential.online import accelerators, coding
from prequential.online.loop import Learner, run
from prequential.online.runtime import Runtime
from prequential.online.selftest import FIXED_CONFIG, fixed_run

SCHEDULE = ScheduleConfig(first_segment_symbols=256, segment_symbols=256, row_symbols=64, n_rows=6, block_symbols=512)
TEST_COLUMNS = accelerators.TEST_COLUMNS
MIXED = replace(FIXED_CONFIG, schedule=SCHEDULE)
PURE = replace(MIXED, mixer=None)
ON_CUDA = Runtime(device="cuda", threads=1)
PRIMITIVES = [
    name for name, each in vars(plain).items() if getattr(each, "__module__", "") == plain.__name__ and name[0] != "_"
]
pytestmark = pytest.mark.thorough  # a simulated device takes each operation apart
real = pytest.mark.gpu
needs_device = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device")


@pytest.fixture(autouse=True)
def empty_caches(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Clears what a process caches: it may come from a simulated device. Also shortens the test of a device."""
    monkeypatch.setattr(accelerators, "TEST_COLUMNS", 40)
    cached = (
        accelerators.verify_device,
        accelerators.warn_once,
        matmul.trials,
        tables.attention_table,
        tables.frequency_table,
        weights.phases_of_rows,
    )
    for function in cached:
        function.cache_clear()
    yield
    for function in cached:
        function.cache_clear()


def text(n_bytes: int) -> np.ndarray:
    return np.fromfile(sample_path("christmas_carol"), np.uint8, n_bytes)


def archive(source: np.ndarray, config: Config, runtime: Runtime) -> bytes:
    header, sink = Header(n_bytes=len(source), blake2b=bytes(32), config=config.to_dict()), io.BytesIO()
    for _ in coding.compress(source, header, sink, runtime.learner(config)):
        pass
    return sink.getvalue()


def decoded(packed: bytes, runtime: Runtime) -> bytes:
    sink, reader = io.BytesIO(), ArchiveReader(io.BytesIO(packed))
    for _ in coding.decompress(reader, sink, runtime.learner(coding.config_of(reader.header))):
        pass
    return sink.getvalue()


@pytest.mark.parametrize(
    ("config", "kernels"),
    [
        pytest.param(MIXED, "fused", id="mixed, captured"),
        pytest.param(PURE, "plain", id="pure", marks=pytest.mark.slow),
    ],
)
def test_an_archive_made_on_either_device_is_the_same(monkeypatch, config, kernels):
    monkeypatch.setattr(accelerators, "TEST_COLUMNS", TEST_COLUMNS)
    source = text(800)
    packed = archive(source, config, Runtime(threads=1))
    with simulated_cuda(monkeypatch) as mode:
        runtime = Runtime(device="cuda", threads=1, kernels=kernels)
        assert archive(source, config, runtime) == packed
        assert config == PURE or decoded(packed, runtime) == source.tobytes()
    assert mode.n_operations > 5_000


def host() -> Arithmetic:
    return Runtime(threads=1).exact_backend()


def device_gpt(config: GPTConfig = MIXED.gpt, *, captures: bool = True) -> DeviceGPT:
    return DeviceGPT(Accelerator(CUDA, matmul.choose(CUDA), captures=captures), config, 0, host())


def rows(step: int, n_rows: int = 4) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Inputs, targets and places of a step on rows of 32 columns. The last row replays what another step may have kept."""
    drawn = accelerators._test_symbols(f"{step}", n_rows, 32, MIXED.gpt.n_inputs + 1)
    places = ~torch.arange(n_rows * 32).view(n_rows, 32)
    places[-1] = -1 - places[0] if n_rows > 1 else places[-1]
    return drawn[..., 1:].contiguous(), drawn[..., 0].contiguous(), places


@pytest.mark.parametrize("contexts", [MIXED.gpt.contexts, ()])
def test_captured_steps_and_readings_give_the_same_bits(monkeypatch, contexts):
    config = replace(MIXED.gpt, contexts=contexts)

    def states(gpt: GPT) -> Iterator[tuple[torch.Tensor, dict[str, torch.Tensor]]]:
        stream, before = accelerators._test_symbols("stream", 8 * 8, MIXED.gpt.n_inputs), {}
        for step, columns in enumerate(stream.split(8)):
            gpt.begin(8)
            gpt.update(*rows(step, n_rows=3 if step == 5 else 4))  # one step of another shape between captured ones
            logits = gpt.forward(columns, 0)  # with the weights before this step
            gpt.end()
            if step == 6:  # captured steps continue from a loaded state
                gpt.load_state({name: t.clone() for name, t in gpt.state().items()} | {"head": before["head"]})
            before = {name: t.clone() for name, t in gpt.state().items()}
            yield logits, before

    here = list(states(GPT(config, 0, host())))
    with simulated_cuda(monkeypatch):
        there = list(states(device_gpt(config)))
        assert n_replays() == 5 + 4  # steps; segments after a complete window of 32 columns
    for (logits, state), (other_logits, other) in zip(here, there, strict=True):
        assert torch.equal(logits, other_logits)
        assert all(torch.equal(tensor, other[name]) for name, tensor in state.items())


def test_a_frozen_learner_and_a_new_stream_may_use_the_graph_of_a_learner(monkeypatch):
    """The frozen copy leaves the learner's keys and values as they are, and a stream begins without keys."""
    config = replace(MIXED.gpt, window=16)

    def read(gpt: GPT, i: int) -> torch.Tensor:
        gpt.begin(8)
        logits = gpt.forward(accelerators._test_symbols(f"segment {i}", 8, config.n_inputs), 0)
        gpt.end()
        return logits.clone()

    def logits_of(gpt: GPT) -> Iterator[torch.Tensor]:
        gpt.update(*rows(1))
        gpt.end()
        yield from (read(gpt, i) for i in range(6))
        frozen = copy(gpt)  # as a FrozenLearner does
        frozen._reader = gpt._reader.fork()
        yield read(frozen, 6)
        yield read(gpt, 7)
        frozen._reader = Reader(config)
        yield from (read(frozen, i) for i in range(8, 12))
        yield read(gpt, 12)

    here = list(logits_of(GPT(config, 0, host())))
    with simulated_cuda(monkeypatch):
        there = list(logits_of(device_gpt(config)))
        assert n_replays() == 4 + 1 + 1 + 2 + 1
    assert [torch.equal(a, b) for a, b in zip(here, there, strict=True)] == [True] * 13


def test_steps_run_kernel_by_kernel_if_capturing_fails(monkeypatch, caplog):
    def refused(*_: object, **__: object) -> None:
        raise RuntimeError("CUDA error: operation not permitted\nmore")

    source = text(600)
    packed = archive(source, MIXED, Runtime(threads=1))
    with simulated_cuda(monkeypatch):
        monkeypatch.setattr(torch.cuda, "current_blas_handle", refused)
        assert archive(source, MIXED, ON_CUDA) == packed
        assert n_replays() == 0
    (said,) = caplog.records
    assert said.getMessage().endswith("kernel by kernel, because capturing failed: CUDA error: operation not permitted")


@contextmanager
def with_primitives_of_a_simulated_device(monkeypatch: pytest.MonkeyPatch) -> Iterator[set[tuple]]:
    """A simulated device with primitives other than `plain`, which have its bits.

    Gives the uses of primitives, by their shapes and integers, that happened first while a graph was captured. Triton compiles
    and loads a kernel at its first use, which is not possible then.
    """
    used, too_late = set(), set()

    def noting(name: str) -> Callable:
        def call(*arguments: Any, **named: Any) -> Any:
            leaves = tree_flatten((arguments, named))[0]
            use = name, *(_shape_or_integer(x) for x in leaves)
            if is_capturing() and use not in used:
                too_late.add(use)
            used.add(use)
            return getattr(plain, name)(*arguments, **named)

        return call

    with simulated_cuda(monkeypatch):
        own = SimpleNamespace(COMPILED=False, **{name: noting(name) for name in PRIMITIVES})
        monkeypatch.setattr(accelerators, "plain", own)
        yield too_late


def _shape_or_integer(x: Any) -> Any:
    """What a kernel is compiled for. A step size is a number, or a tensor without dimensions, which kernels get in any case."""
    return tuple(x.shape) if isinstance(x, torch.Tensor) else () if isinstance(x, float) else x


def test_nothing_is_launched_for_the_first_time_while_capturing(monkeypatch):
    """Also with segments below a window, where the first ones see fewer keys."""
    short = replace(SCHEDULE, first_segment_symbols=16, segment_symbols=16, row_symbols=16, block_symbols=64)
    for config in (MIXED, replace(MIXED, schedule=short)):
        with with_primitives_of_a_simulated_device(monkeypatch) as too_late:
            source = text(700)
            n_before = n_replays()
            assert archive(source, config, ON_CUDA) == archive(source, config, Runtime(threads=1))
            assert n_replays() > n_before and not too_late


def test_an_update_is_not_lost_when_the_table_of_contexts_moves(monkeypatch):
    rows = torch.zeros(2, 8, MIXED.gpt.n_inputs, dtype=torch.int64)
    with simulated_cuda(monkeypatch):
        gpt = device_gpt(captures=False)
        gpt.begin(2)
        gpt.forward(rows[0, :1], 0)  # as a decoder does, on the processor
        gpt.forward(rows[0, :1], 1)
        gpt.end()
        gpt.update(rows, rows[..., 0], ~rows[..., 0])
        with pytest.raises(RuntimeError, match="an update is staged"):
            gpt.begin(1)


def test_a_run_resumes_on_another_device(monkeypatch):
    def coded(learner: Learner, first: int, stop: int) -> tuple[float, bytes]:
        parts = run(learner, BitCoder(SCORE), slice(first, stop), source[first:stop].copy())
        return sum(float(bits.sum()) for _, bits in parts), learner.digest()

    source, half = text(1024), 512
    here = Runtime(threads=1).learner(PURE)
    halves = [coded(here, 0, half), coded(here, half, 1024)]
    with simulated_cuda(monkeypatch):
        there = ON_CUDA.learner(PURE)
        assert isinstance(there.gpt, DeviceGPT)
        assert coded(there, 0, half) == halves[0]
        state = {name: array.copy() for name, array in there.state().items()}
        assert not any(is_on_device(tensor) for tensor in state.values())
        for runtime in (Runtime(threads=1), ON_CUDA):
            other = runtime.learner(PURE)
            other.load_state(state)
            assert coded(other, half, 1024) == halves[1]


def test_a_device_that_computes_other_bits_is_refused_or_not_used(monkeypatch, caplog):
    plainly = plain.row_squares
    monkeypatch.setattr(plain, "row_squares", lambda q: plainly(q) + float(q.device.type == "cuda"))
    with simulated_cuda(monkeypatch):
        with pytest.raises(InexactMachineError, match=r"^cuda:0"):
            ON_CUDA.learner(PURE)
        with caplog.at_level(logging.WARNING):
            learner = Runtime(device="auto", threads=1).learner(PURE)
    assert not isinstance(learner.gpt, DeviceGPT)
    assert [r.getMessage().endswith("; continuing without it") for r in caplog.records] == [True]


def test_a_device_that_cannot_be_opened_is_not_used(monkeypatch, caplog):
    def fail() -> int:
        raise RuntimeError("CUDA error: all devices are busy\nmore")

    with simulated_cuda(monkeypatch):
        monkeypatch.setattr(torch.cuda, "current_device", fail)
        with pytest.raises(InexactMachineError, match=r"RuntimeError: CUDA error: all devices are busy$"):
            ON_CUDA.learner(PURE)
        for _ in range(3):
            assert not isinstance(Runtime(device="auto", threads=1).learner(PURE).gpt, DeviceGPT)
    assert len(caplog.records) == 1  # one warning only


@pytest.mark.skipif(torch.cuda.is_available(), reason="torch sees a CUDA device")
def test_without_a_device_cuda_is_refused_and_auto_uses_the_processor():
    with pytest.raises(InexactMachineError, match="no CUDA device"):
        ON_CUDA.learner(PURE)
    assert not isinstance(Runtime(device="auto").learner(PURE).gpt, DeviceGPT)
    assert ON_CUDA.learner(replace(FIXED_CONFIG, gpt=None)).gpt is None


def test_audits_refuse_cuda_and_an_unknown_device_is_named():
    with pytest.raises(ConfigError, match=r"device=.cuda"):
        Runtime(device="cuda", audit_every=4)
    with pytest.raises(ConfigError, match="unknown device 'tpu'"):
        Runtime(device="tpu")


@real
@needs_device
def test_the_fixed_run_gives_the_expected_digest_on_a_gpu():
    for threads in (1, 2):
        for kernels in ("fused", "plain"):
            assert fixed_run(Runtime(device="cuda", threads=threads, kernels=kernels)).passed


@real
@needs_device
@pytest.mark.parametrize("config", [FIXED_CONFIG, PURE], ids=["mixed", "pure"])
def test_archives_of_a_gpu_decode_on_the_processor_and_vice_versa(config):
    source = text(20_000)
    packed = archive(source, config, Runtime())
    assert archive(source, config, Runtime(device="cuda")) == packed
    assert decoded(packed, Runtime(device="cuda")) == source.tobytes()
