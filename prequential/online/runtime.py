"""How a run computes: device, threads, kernels, memory limit. None of this changes a bit of the result; it changes the speed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from prequential.errors import ConfigError, check_number
from prequential.exact.backend import Arithmetic
from prequential.exact.pool import Pool
from prequential.machine.facts import available_threads, check_usable
from prequential.model.config import Config
from prequential.model.learner import OnlineLearner
from prequential.online.costs import MAX_MEMORY_BYTES, check_limits, memory_bytes

# Imported where they are used: a mixer alone needs no torch, a decoder of plain archives no devices.
if TYPE_CHECKING:
    from prequential.model.gpt.device import Accelerator

KERNELS = ("fused", "plain")
BACKENDS = ("int8", "float32", "float64")
DEVICES = ("cpu", "cuda", "auto")


@dataclass(frozen=True, kw_only=True)
class Runtime:
    """Where and how learners compute. `None` means: all usable cores (at most 8), the fastest exact backend, compiled kernels.

    kernels: "fused" (compiled by numba) or "plain" (torch). device: where the GPT runs; the rest is of the processor.
    audit_every: segments between two comparisons of an audit; 0: no audit. max_memory_bytes: a learner that takes more is
    refused; None: 6 GiB, or less if this process may use less.

    Examples:
        >>> import prequential
        >>> prequential.Runtime(threads=2, kernels="plain").n_threads
        2
        >>> prequential.Runtime(kernels="numpy")
        Traceback (most recent call last):
        prequential.errors.ConfigError: unknown kernels 'numpy'; choose one of fused, plain
    """

    threads: int | None = None
    backend: str | None = None
    kernels: str | None = None
    device: str = "cpu"
    audit_every: int = 0
    max_memory_bytes: int | None = None

    def __post_init__(self) -> None:
        for name, least, most in (("threads", 1, 1024), ("audit_every", 0, 1 << 62), ("max_memory_bytes", 0, 1 << 62)):
            if (value := getattr(self, name)) is not None or name == "audit_every":
                check_number(name, value, least, most)
        for name, known in (("kernels", KERNELS), ("backend", BACKENDS), ("device", DEVICES)):
            if (value := getattr(self, name)) not in known and (value is not None or name == "device"):
                raise ConfigError(f"unknown {name} {value!r}; choose one of {', '.join(known)}")
        if self.device == "auto":
            from prequential.online.accelerators import cuda_available

            if not cuda_available():
                object.__setattr__(self, "device", "cpu")
        if self.device == "cuda" and self.audit_every:
            raise ConfigError('audits compute on processors: leave out device="cuda"')

    @property
    def n_threads(self) -> int:
        return self.threads or available_threads()

    @property
    def n_step_threads(self) -> int:
        """Threads of a GPT's step while the learner codes, which takes the others; at least 1.

        The mixer takes half of them or more: it is the larger part, and the default's step has 5 rows (dev/LOG.md).
        """
        return min(max(1, self.n_threads // 2), 4)

    def check(self, config: Config, *, extra_bytes: int = 0) -> None:
        """Raises ConfigError for learners that exceed the limits: one, or two in an audit. extra_bytes: of other memory."""
        n_bytes = memory_bytes(config, n_threads=self.n_threads) * (2 if self.audit_every else 1) + extra_bytes
        check_limits(config, n_bytes, MAX_MEMORY_BYTES if self.max_memory_bytes is None else self.max_memory_bytes)
        if self.max_memory_bytes is None:
            check_usable(n_bytes, has_gpt=config.gpt is not None)

    def learner(self, config: Config) -> OnlineLearner:
        """A fresh learner on this machine. Raises ConfigError like `check`, InexactMachineError if no backend is exact here."""
        self.check(config)
        made: Callable[..., OnlineLearner] = OnlineLearner
        if self.audit_every:
            from prequential.online.audit import AuditedLearner

            kernels = "fused" if self.kernels == "plain" else "plain"
            replica = replace(self, audit_every=0, kernels=kernels, backend=None).learner(config)
            made = partial(AuditedLearner, replica=replica, every=self.audit_every)
        if config.gpt is None:
            if self.device == "cuda":
                from prequential.online.accelerators import warn_once

                warn_once('device="cuda" has no effect: this learner has no GPT, and nothing else runs on a GPU')
            return made(config, mixer_threads=self.n_threads)
        backend = self.exact_backend(beside_coding=self.n_step_threads < self.n_threads)
        accelerator = self.accelerator(config, backend)
        if accelerator:  # coding continues while a device computes
            from prequential.model.gpt.device import DeviceGPT

            on_device = DeviceGPT(accelerator, config.gpt, config.seed, backend)
            return made(config, on_device, step_thread=True, mixer_threads=self.n_threads)
        from prequential.model.gpt.gpt import GPT

        gpt, mixer_threads = GPT(config.gpt, config.seed, backend), max(1, self.n_threads - self.n_step_threads)
        return made(config, gpt, step_thread=backend.pool.n_threads > 1, mixer_threads=mixer_threads)

    def exact_backend(self, *, beside_coding: bool = False) -> Arithmetic:
        """Primitives, products and threads. Raises InexactMachineError.

        beside_coding: steps leave threads to the learner, which codes in parallel with them.
        """
        from prequential.exact import fused, matmul, plain

        n_threads = self.n_step_threads + 1 if beside_coding else self.n_threads
        pool = Pool(n_threads, with_helper=beside_coding)  # first: backends are rated as they will be used
        return Arithmetic(plain if self.kernels == "plain" else fused, matmul.choose("cpu", self.backend), pool)

    def accelerator(self, config: Config, backend: Arithmetic | None = None) -> Accelerator | None:
        """Where the GPT of a learner runs, verified at the first call; None: on the processor. Raises InexactMachineError.

        backend: `exact_backend`, if it has been made.
        """
        if self.device == "cpu" or config.gpt is None:
            return None
        from prequential.online.accelerators import select_device

        return select_device(self.device, config, backend or self.exact_backend())
