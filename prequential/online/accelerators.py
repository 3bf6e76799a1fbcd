"""Which device runs the GPT. A device is used only after a test: its bits must equal those of this processor."""

import logging
import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from importlib import import_module
from itertools import accumulate

import torch

from prequential.errors import InexactMachineError
from prequential.exact import matmul, plain
from prequential.exact.arrays import digest, random_words
from prequential.exact.backend import Arithmetic, Primitives
from prequential.exact.matmul import Matmul
from prequential.exact.pool import Pool
from prequential.model.config import LEAST_MEMORY_BITS, Config, GPTConfig
from prequential.model.gpt.device import Accelerator, DeviceGPT
from prequential.model.gpt.gpt import GPT
from prequential.model.gpt.reader import DEVICE_COLUMNS

Tensor = torch.Tensor

# the first changes the head; the second also the matrices that write to the residual stream; later ones all
TEST_STEPS = 4
TEST_COLUMNS = DEVICE_COLUMNS + 7  # of a segment that is read at once
TEST_SEGMENTS = 4  # the last two are read by a graph, if the device captures
# of two segments that are then read one by one, as a decoder does; the second by a graph, if one is used
TEST_SINGLE_COLUMNS = 8
TEST_CONTEXT_BITS = 10


def cuda_available() -> bool:
    """Whether torch sees a CUDA device. Suppresses torch's warning about a device that it cannot use."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.cuda.is_available()


def select_device(name: str, config: Config, host: Arithmetic) -> Accelerator | None:
    """The device for a run's GPT. One that fails the test: "auto" warns and gives None, "cuda" raises InexactMachineError."""
    assert config.gpt is not None
    rows = config.schedule.n_rows, config.schedule.row_symbols
    verified = verify_device(config.gpt, rows, host.primitives, host.matmul)
    if isinstance(verified, Accelerator):
        return verified
    if name == "cuda":
        raise InexactMachineError(verified)
    warn_once(f"{verified}; continuing without it")
    return None


@cache
def warn_once(text: str) -> None:
    logging.getLogger(__name__).warning(text)


@cache
def verify_device(
    config: GPTConfig, rows: tuple[int, int], primitives: Primitives, matmul_of_host: Matmul
) -> Accelerator | str:
    """The device for a GPT that learns from rows (R, T) at a time, if it gives the processor's bits; else the reason."""
    if not cuda_available():
        return "no CUDA device: this torch sees none"
    host = Arithmetic(primitives, matmul_of_host, Pool(1))
    try:
        device = torch.device("cuda", torch.cuda.current_device())
        own: Primitives = plain
        if primitives.COMPILED and torch.version.cuda:
            try:
                own = import_module("prequential.exact.device.primitives")
            except ImportError:
                warn_once(
                    "Triton is not installed: the GPT runs on the device with torch's own kernels, which are slower"
                )
        return compare_with_host(Accelerator(device, matmul.choose(device), own, captures=True), config, rows, host)
    except InexactMachineError as error:
        return str(error)
    # torch and Triton raise many types: out of memory, a driver of another version, a missing operation
    except Exception as error:
        return f"the CUDA device cannot be used: {type(error).__name__}: {error}".splitlines()[0]


def compare_with_host(tried: Accelerator, config: GPTConfig, rows: tuple[int, int], host: Arithmetic) -> Accelerator:
    """The device as it can be used. Raises InexactMachineError unless such a GPT learns and reads alike here and there."""
    config = replace(
        config,
        context_bits=min(config.context_bits, TEST_CONTEXT_BITS),
        memory_bits=min(config.memory_bits, LEAST_MEMORY_BITS),
    )
    here, there = GPT(config, 0, host), DeviceGPT(tried, config, 0, host)
    places = places_of_test(*rows)
    for step in range(TEST_STEPS):
        inputs = _test_symbols(f"inputs/{step}", *rows, config.n_inputs)
        targets = _test_symbols(f"targets/{step}", *rows)
        for gpt in (here, there):
            gpt.update(inputs, targets, places)
        _compare(tried, f"step {step + 1}", here.state(), there.state())
        for gpt in (here, there):  # the end of a segment commits the step; after two steps, one is captured
            gpt.begin(0)
            gpt.end()
    for i in range(TEST_SEGMENTS):
        together = _test_symbols(f"stream/{i}", TEST_COLUMNS, config.n_inputs)
        _compare(tried, f"reading segment {i + 1}", *(_read(gpt, [together]) for gpt in (here, there)))
    for i in range(2):
        singly = _test_symbols(f"single/{i}", TEST_SINGLE_COLUMNS, config.n_inputs).split(1)
        _compare(tried, "reading symbol by symbol", *(_read(gpt, singly) for gpt in (here, there)))
    return replace(tried, captures=there.captures)


def places_of_test(n_rows: int, n_columns: int) -> Tensor:
    """Places (R, T) for `GPT.update`, of a step whose second half replays what the first half keeps."""
    n_new = -(-n_rows // 2)
    places = torch.arange(n_rows * n_columns).view(n_rows, n_columns) % (n_new * n_columns)
    places[:n_new] = ~places[:n_new]
    return places


def _read(gpt: GPT, parts: Sequence[Tensor]) -> dict[str, Tensor]:
    """The logits of a segment that is read in these parts, and the GPT's state after it."""
    gpt.begin(sum(len(part) for part in parts))
    firsts = accumulate((len(part) for part in parts), initial=0)
    logits = [gpt.forward(part, first) for part, first in zip(parts, firsts, strict=False)]
    gpt.end()
    return {"logits": torch.cat(logits)} | gpt.state()


def _test_symbols(name: str, *shape: int) -> Tensor:
    """Pseudorandom symbols of this shape, int64, skewed like those of a text: larger symbols are rarer."""
    n = torch.Size(shape).numel()
    words = random_words(0, f"accelerator/{name}", 2 * n) >> 56
    symbols = torch.from_numpy(words.astype("int64"))
    return torch.minimum(symbols[:n], symbols[n:]).view(shape)


def _compare(tried: Accelerator, what: str, here: dict[str, Tensor], there: dict[str, Tensor]) -> None:
    names = [name for name, tensor in here.items() if digest({name: tensor}) != digest({name: there[name]})]
    if names:
        where, shown = f"{tried.device} ({tried.matmul.name})", ", ".join(names[:4])
        raise InexactMachineError(f"{where} does not compute the processor's bits: {what}: {shown}")
