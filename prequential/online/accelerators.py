"""Which device a run's GPT goes to. None is trusted by its name: it must first give the bits that this processor gives."""

import logging
import os
import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import accumulate
from types import ModuleType

import torch

from prequential.errors import ConfigError, InexactMachineError
from prequential.exact import matmul
from prequential.exact.digest import digest
from prequential.exact.matmul import Matmul
from prequential.exact.pool import Pool
from prequential.exact.random import random_words
from prequential.model.config import N_SYMBOLS, Config, GPTConfig
from prequential.model.gpt.device import Accelerator, DeviceGPT
from prequential.model.gpt.gpt import DEVICE_COLUMNS, GPT
from prequential.online.workers.team import launched

Tensor = torch.Tensor

NONE = "no CUDA device: this torch sees none"
DEVICES = ("cpu", "cuda", "auto")
TEST_STEPS = 4  # the first teaches the head, the second what writes to the residual stream, the others everything
TEST_COLUMNS = DEVICE_COLUMNS + 7  # read together
TEST_SINGLE = 8  # read one by one behind them, as a decoder does
TEST_CONTEXT_BITS = 10


def available() -> bool:
    """Whether torch sees a CUDA device; it says nothing where it sees one that it cannot use."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.cuda.is_available()


def own_device() -> torch.device:
    """This process's CUDA device, from now on the current one; of those that torchrun started on a machine each has the next.

    Raises RuntimeError where torch cannot use it.
    """
    if launched():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    return torch.device("cuda", torch.cuda.current_device())


def check_own_devices() -> None:
    """Raises InexactMachineError or ConfigError unless each process that torchrun started here can have a device of its own."""
    if not available():
        raise InexactMachineError(NONE)
    n_workers, n_devices = int(os.environ["LOCAL_WORLD_SIZE"]), torch.cuda.device_count()
    if n_workers > n_devices:
        raise ConfigError(
            f"{n_workers} workers share steps, but this machine's CUDA devices are {n_devices}: start no more"
        )


def chosen(name: str, config: Config, ops: ModuleType, host: Matmul | None) -> Accelerator | None:
    """Where the GPT of a run goes, for a name of DEVICES; None: it stays on the processor, as do replicas.

    "auto": a device that fails its tests is warned of, and left alone. Raises InexactMachineError for "cuda" instead.
    """
    if name == "cpu" or config.gpt is None or config.replicas:
        return None
    assert host is not None
    found = tested(config.gpt, (config.schedule.n_rows, config.schedule.row_symbols), ops, host)
    if isinstance(found, Accelerator):
        return found
    if name == "cuda":
        raise InexactMachineError(found)
    _warn(f"{found}; going on without it")
    return None


@cache
def _warn(text: str) -> None:
    logging.getLogger(__name__).warning(text)


@cache
def tested(config: GPTConfig, rows: tuple[int, int], ops: ModuleType, host: Matmul) -> Accelerator | str:
    """The device for a GPT that learns from rows (R, T) at a time, once it has passed its tests, or why there is none.

    Found out once a process: whether there is a device, which matmul is exact on it, and whether the GPT's bits are those of the
    processor.
    """
    if not available():
        return NONE
    try:
        device = own_device()
        found = Accelerator(device, matmul.choose(device), captures=not config.contexts)  # their table is on the host
        try:
            return test(found, config, rows, ops, host)
        except InexactMachineError as error:
            if not found.captures:
                raise
            wrong = str(error)
        found = test(replace(found, captures=False), config, rows, ops, host)
        _warn(f"steps go kernel by kernel, as captured ones fail: {wrong}")
    except InexactMachineError as error:
        return str(error)
    except Exception as error:  # torch's, of many types: no memory, a driver of another version, a missing operation
        return f"the CUDA device cannot be used: {type(error).__name__}: {error}".splitlines()[0]
    return found


def test(found: Accelerator, config: GPTConfig, rows: tuple[int, int], ops: ModuleType, host: Matmul) -> Accelerator:
    """Lets a GPT of this shape take steps and read, there and on the processor; what is found, as it can be used.

    Raises InexactMachineError unless all bits agree.
    """
    config = replace(config, context_bits=min(config.context_bits, TEST_CONTEXT_BITS))
    arguments = config, N_SYMBOLS, 0, ops, host
    here, there = GPT(*arguments, Pool(1)), DeviceGPT(found, *arguments)
    for step in range(TEST_STEPS):
        inputs, targets = _drawn(f"inputs/{step}", *rows, config.n_inputs), _drawn(f"targets/{step}", *rows)
        here.update(inputs, targets)
        there.update(inputs, targets)
        _compare(found, f"step {step + 1}", here.state(), there.state())
        for gpt in (here, there):  # what a step has left to be written, is written when a segment ends; behind two
            gpt.begin(0)  # steps, one is captured
            gpt.end()
    together, singly = _drawn("stream", TEST_COLUMNS + TEST_SINGLE, config.n_inputs).split((TEST_COLUMNS, TEST_SINGLE))
    _compare(found, "reading", *(_read(gpt, [together]) for gpt in (here, there)))
    _compare(found, "reading behind it", *(_read(gpt, singly.split(1)) for gpt in (here, there)))
    return replace(found, captures=there.captures)


def _read(gpt: GPT, parts: Sequence[Tensor]) -> dict[str, Tensor]:
    """The logits of a segment that is read in these parts, and the GPT's state behind it."""
    gpt.begin(sum(len(part) for part in parts))
    firsts = accumulate((len(part) for part in parts), initial=0)
    logits = [gpt.forward(part, first) for part, first in zip(parts, firsts, strict=False)]
    gpt.end()
    return {"logits": torch.cat(logits)} | gpt.state()


def _drawn(name: str, *shape: int) -> Tensor:
    """Symbols of this shape, int64, skewed as those of a text are: the larger, the rarer."""
    n = torch.Size(shape).numel()
    words = random_words(0, f"accelerator/{name}", 2 * n) >> 56
    symbols = torch.from_numpy(words.astype("int64"))
    return torch.minimum(symbols[:n], symbols[n:]).view(shape)


def _compare(found: Accelerator, what: str, here: dict[str, Tensor], there: dict[str, Tensor]) -> None:
    names = [name for name, tensor in here.items() if digest({name: tensor}) != digest({name: there[name]})]
    if names:
        raise InexactMachineError(
            f"{found.device} ({found.matmul.name}) does not compute the processor's bits: {what}: {', '.join(names[:4])}"
            + (f" and {len(names) - 4} more" if len(names) > 4 else "")
        )
