"""What the caller has set in torch changes no bit; a call leaves the process as it was; results travel between processes."""

import copy
import ctypes
import io
import logging
import os
import pickle
import platform
import random
import signal
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event

import numpy as np
import pytest
import torch
from small import BOTH as CONFIG
from small import CONFIGS

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
    with STATES[state]():
        before = settings()
        assert prequential.compress(TEXT, config=CONFIG, runtime=runtime) == archive
        assert prequential.decompress(archive, runtime=runtime) == TEXT
        again = prequential.evaluate(TEXT, config=CONFIG, runtime=runtime, baselines=())
        assert again.archive_bytes == len(archive)
        assert settings() == before


@pytest.mark.skipif(platform.machine() != "x86_64", reason="other processors have other numbers of modes")
@pytest.mark.parametrize("mode", [0x800, 0x400, 0xC00])  # upwards, downwards, to zero
def test_another_rounding_of_the_processor_is_named(mode):
    library = ctypes.CDLL(None)
    library.fesetround(mode)
    try:
        with pytest.raises(prequential.ConfigError, match="does not round to nearest"):
            prequential.compress(TEXT, config=CONFIG)
    finally:
        library.fesetround(0)


CALLS = {
    "compress": lambda: prequential.compress(TEXT, config=CONFIGS["mixer"]),
    "decompress": lambda: prequential.decompress(b""),
    "evaluate": lambda: prequential.evaluate(TEXT, config=CONFIGS["mixer"]),
}


def test_bytes_that_lie_apart_in_memory_are_read_as_those_in_one_piece():
    def apart(data):
        return np.repeat(np.frombuffer(data, np.uint8), 2)[::2]

    config = CONFIGS["mixer"]
    archive = prequential.compress(TEXT, config=config, given=TEXT[::-1])
    for kind in (np.asarray, memoryview):
        assert prequential.compress(kind(apart(TEXT)), config=config, given=kind(apart(TEXT[::-1]))) == archive
        assert prequential.decompress(kind(apart(archive)), given=kind(apart(TEXT[::-1]))) == TEXT


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


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))], ids=["copy", "pickle"])
def test_an_evaluation_can_be_copied_and_sent_to_another_process(copied):
    evaluation = prequential.evaluate(TEXT, config=CONFIGS["mixer"], baselines=("gzip",))
    again = copied(evaluation)
    assert again.ledger == evaluation.ledger
    assert np.array_equal(again.trace.bits("model"), evaluation.trace.bits("model"))


def process_state():
    """What a call could change for the rest of the process."""
    loggers = logging.root.manager.loggerDict.values()
    return {
        "threads": torch.get_num_threads(),
        "filters": list(map(str, warnings.filters)),
        "signals": [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE)],
        "places": (Path.cwd(), dict(os.environ), list(sys.path)),
        "numpy": np.geterr(),
        "levels": [(each.name, each.level) for each in loggers if isinstance(each, logging.Logger) and each.level],
        "random": (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()),
        "streams and hooks": (sys.stdout, sys.stderr, sys.excepthook, sys.unraisablehook),
    }


def test_a_call_leaves_the_process_as_it_was():
    n_threads, runtime = torch.get_num_threads(), prequential.Runtime(kernels="fused")
    torch.set_num_threads(2)
    try:
        before = process_state()
        archive = prequential.compress(TEXT, config=CONFIG, runtime=runtime)
        prequential.decompress(archive, io.BytesIO(), runtime=prequential.Runtime(kernels="fused", threads=2))
        prequential.evaluate(TEXT, config=CONFIG, runtime=runtime, verify=True)
        with pytest.raises(prequential.CorruptArchiveError):
            prequential.decompress(archive[:-60] + bytes(60), runtime=runtime)
        assert [name for name, value in process_state().items() if value != before[name]] == []
    finally:
        torch.set_num_threads(n_threads)
