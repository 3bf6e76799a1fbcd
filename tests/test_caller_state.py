"""What the caller has set in torch changes no bit of an archive, and stays as it was; results travel between processes."""

import copy
import ctypes
import pickle
import platform
import resource
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from threading import Event

import numpy as np
import pytest
import torch
from small import BOTH as CONFIG
from small import CONFIGS
from torch._subclasses.fake_tensor import FakeTensorMode

import prequential

TEXT = b"It was the best of times, it was the worst of times, it was the age of wisdom. " * 4


@contextmanager
def default_type(value, change=torch.set_default_dtype, usual=torch.float32):
    change(value)
    try:
        yield
    finally:
        change(usual)


STATES = {
    "float64": lambda: default_type(torch.float64),
    "bfloat16": lambda: default_type(torch.bfloat16),
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "inference mode": torch.inference_mode,
    "device meta": lambda: torch.device("meta"),
    "precision": lambda: default_type("medium", torch.set_float32_matmul_precision, "highest"),
}


def settings():
    modes = (torch.is_autocast_enabled("cpu"), torch.is_inference_mode_enabled(), torch.is_grad_enabled())
    return torch.get_default_dtype(), torch.get_default_device(), *modes, torch.get_float32_matmul_precision()


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize(
    "options",
    [{"backend": "float64", "threads": 1}, {"kernels": "plain", "threads": 1}, {"backend": "float32", "threads": 2}],
)
@pytest.mark.first_quick
def test_what_the_caller_has_set_in_torch_changes_no_bit(state, options):
    runtime = prequential.Runtime(**options)
    archive = prequential.compress(TEXT, config=CONFIG, runtime=runtime)
    expected = prequential.evaluate(TEXT, config=CONFIG, runtime=runtime, baselines=()).code_bits
    with STATES[state]():
        before = settings()
        assert prequential.compress(TEXT, config=CONFIG, runtime=runtime) == archive
        assert prequential.decompress(archive, runtime=runtime) == TEXT
        assert prequential.evaluate(TEXT, config=CONFIG, runtime=runtime, baselines=()).code_bits == expected
        assert settings() == before


@contextmanager
def rounding(mode):
    library = ctypes.CDLL(None)
    library.fesetround(mode)
    try:
        yield
    finally:
        library.fesetround(0)


UPWARDS, DOWNWARDS, TO_ZERO = {"x86_64": (0x800, 0x400, 0xC00)}.get(platform.machine(), (0x400000, 0x800000, 0xC00000))


@pytest.mark.parametrize("mode", [UPWARDS, DOWNWARDS, TO_ZERO])
@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "fesetround"), reason="the C library has another name")
def test_another_rounding_of_the_processor_is_named(mode):
    with rounding(mode), pytest.raises(prequential.ConfigError, match="does not round to nearest"):
        prequential.compress(TEXT, config=CONFIG)


CALLS = {
    "compress": lambda: prequential.compress(TEXT, config=CONFIGS["mixer"]),
    "decompress": lambda: prequential.decompress(b""),
    "evaluate": lambda: prequential.evaluate(TEXT, config=CONFIGS["mixer"]),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_mode_whose_tensors_hold_no_values_is_named(call):
    with FakeTensorMode(), pytest.raises(prequential.ConfigError, match="torch gives FakeTensors here"):
        CALLS[call]()


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.filterwarnings("ignore")  # torch's own, while it tries
@pytest.mark.first_quick
def test_a_call_that_torch_should_compile_is_refused_in_one_line(call):
    with pytest.raises(prequential.ConfigError, match=r"torch\.compile cannot compile this call"):
        torch.compile(CALLS[call])()
    torch.compiler.reset()


def strided(data):
    return np.repeat(np.frombuffer(data, np.uint8), 2)[::2]


@pytest.mark.parametrize("in_parts", [strided, lambda data: memoryview(strided(data))], ids=["array", "view"])
def test_bytes_that_lie_apart_in_memory_are_read_as_those_in_one_piece(in_parts):
    config = CONFIGS["mixer"]
    archive = prequential.compress(TEXT, config=config, given=TEXT[::-1])
    assert prequential.compress(in_parts(TEXT), config=config, given=in_parts(TEXT[::-1])) == archive
    assert prequential.decompress(in_parts(archive), given=in_parts(TEXT[::-1])) == TEXT
    assert prequential.evaluate(in_parts(TEXT), config=config, baselines=()).corpus["n_bytes"] == len(TEXT)


def test_calls_of_several_threads_that_overlap_share_what_is_put_aside():
    """The call that began first ends while the other one works, and must not give it the caller's types back."""
    runtime = prequential.Runtime(backend="float64", threads=1)
    expected = prequential.compress(TEXT, config=CONFIG, runtime=runtime)
    other_works, first_has_ended = Event(), Event()

    def first():
        prequential.compress(TEXT, config=CONFIG, runtime=runtime, on_progress=lambda *_: other_works.wait(60))
        first_has_ended.set()

    def other(*_):
        other_works.set()
        assert first_has_ended.wait(60)

    with default_type(torch.float64), ThreadPoolExecutor(1) as pool:
        before, running = settings(), pool.submit(first)
        while torch.get_default_dtype() == torch.float64:  # until the first call has begun
            time.sleep(0.01)
        assert prequential.compress(TEXT, config=CONFIG, runtime=runtime, on_progress=other) == expected
        running.result()
        assert settings() == before


def test_a_precision_that_was_set_in_the_newer_way_stays():
    backend = torch.backends.mkldnn.matmul
    with ExitStack() as stack:
        stack.callback(torch.set_float32_matmul_precision, "highest")
        backend.fp32_precision = "bf16"
        prequential.compress(TEXT, config=CONFIG, runtime=prequential.Runtime(threads=1))
        assert backend.fp32_precision == "bf16"


def test_a_learner_of_ones_own_keeps_what_its_user_has_set():
    seen = []

    class Uniform:
        n_symbols = 256

        def predict(self, context, symbols):
            seen.append(torch.get_default_dtype())
            return np.full((len(symbols), 256), -np.log(256))

        def update(self, symbols):
            pass

    with default_type(torch.float64):
        prequential.evaluate(TEXT, learner=Uniform, baselines=())
    assert set(seen) == {torch.float64}


@pytest.fixture(scope="module")
def evaluation():
    return prequential.evaluate(
        TEXT, config=CONFIGS["mixer"], runtime=prequential.Runtime(threads=1), baselines=("gzip",)
    )


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda found: pickle.loads(pickle.dumps(found))], ids=["copy", "pickle"]
)
def test_an_evaluation_can_be_copied_and_sent_to_another_process(evaluation, copied):
    found = copied(evaluation)
    assert found.ledger == evaluation.ledger
    assert np.array_equal(found.trace.bits("model"), evaluation.trace.bits("model"))
    assert found.trace.bits("model").sum() == found.code_bits


@pytest.mark.thorough
def test_many_evaluations_can_be_kept_with_few_open_files():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    kept = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
    try:
        for _ in range(70):
            kept.append(
                prequential.evaluate(
                    TEXT, config=CONFIGS["mixer"], runtime=prequential.Runtime(threads=1), baselines=()
                )
            )
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert len({found.trace.total_bits("model") for found in kept}) == 1
