"""How a run computes: device, threads, kernels, memory limit. None of this changes a bit of the result; it changes the speed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from prequential.errors import ConfigError, check_number
from prequential.exact.backend import Backend
from prequential.exact.pool import Pool, available_threads
from prequential.machine.facts import check_usable
from prequential.model.config import Config
from prequential.model.learner import OnlineLearner
from prequential.online.costs import MAX_MEMORY_BYTES, check_limits

# Imported where they are used: a mixer alone needs no torch, a decoder of plain archives no devices.
if TYPE_CHECKING:
    from prequential.model.gpt.device import Accelerator
    from prequential.model.gpt.gpt import GPT

KERNELS = ("fused", "plain")
BACKENDS = ("int8", "float32", "float64")
DEVICES = ("cpu", "cuda", "auto")


@dataclass(frozen=True, kw_only=True)
class Runtime:
    """Where and how learners compute. `None` means: all processors (at most 8), the fastest exact backend, compiled kernels.

    backend: int8, float32 or float64. kernels: "fused" (compiled by numba) or "plain" (torch). device: where the GPT runs, "cpu",
    "cuda" or "auto"; the rest is of the processor. audit_every: segments between two comparisons of an
    audit; 0: no audit. max_memory_bytes: a learner that takes more is refused; None: 6 GiB, or less if this process may use less.

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
        if self.threads is not None:
            check_number("threads", self.threads, 1, 1024)
        check_number("audit_every", self.audit_every, 0, 1 << 62)
        if self.max_memory_bytes is not None:
            check_number("max_memory_bytes", self.max_memory_bytes, 0, 1 << 62)
        _check_name("kernels", self.kernels, (None, *KERNELS))
        _check_name("backend", self.backend, (None, *BACKENDS))
        _check_name("device", self.device, DEVICES)
        if self.device == "auto":
            from prequential.online.accelerators import cuda_available

            if not cuda_available():
                object.__setattr__(self, "device", "cpu")
        if self.device == "cuda" and self.audit_every:
            raise ConfigError('audits compute on processors: leave out device="cuda"')

    @property
    def n_threads(self) -> int:
        """Threads of the run."""
        return self.threads or available_threads()

    @property
    def n_step_threads(self) -> int:
        """Threads of a GPT's step while the learner codes, which takes the others; at least 1.

        The mixer takes half of them or more: it is the larger part, and the default's step has 4 rows (dev/LOG.md).
        """
        return min(max(1, self.n_threads // 2), 4)

    def check(self, config: Config, *, n_learners: int = 1, extra_bytes: int = 0) -> None:
        """Raises ConfigError for learners that exceed the limits or that cannot be computed in this way on any machine.

        n_learners: how many are held at a time, not counting the second one of an audit. extra_bytes: of other memory.
        """
        n_learners += self.audit_every > 0
        most = MAX_MEMORY_BYTES if self.max_memory_bytes is None else self.max_memory_bytes
        n_bytes = check_limits(config, most - extra_bytes, n_threads=self.n_threads, n_learners=n_learners)
        if self.max_memory_bytes is None:
            check_usable(n_bytes + extra_bytes, has_gpt=config.gpt is not None)

    def learner(self, config: Config) -> OnlineLearner:
        """A fresh learner on this machine. Raises ConfigError like `check`, InexactMachineError if no backend is exact here."""
        self.check(config)
        made: Callable[..., OnlineLearner] = OnlineLearner
        if self.audit_every:
            from prequential.online.audit import AuditedLearner

            kernels = "fused" if self.kernels == "plain" else "plain"
            replica = replace(self, audit_every=0, kernels=kernels, backend=None).learner(config)
            made = partial(AuditedLearner, replica=replica, every=self.audit_every)
        backend = self.exact_backend(config, beside_coding=self.n_step_threads < self.n_threads)
        if backend is None or config.gpt is None:
            if self.device == "cuda":
                from prequential.online.accelerators import warn_without_gpt

                warn_without_gpt()
            return made(config, mixer_threads=self.n_threads)
        accelerator = self.accelerator(config, backend)
        step_thread = backend.pool.n_threads > 1 or accelerator is not None  # coding continues while a device computes
        gpt = make_gpt(config, backend, accelerator)
        mixer_threads = self.n_threads if accelerator else self.n_threads - self.n_step_threads
        return made(config, gpt, step_thread=step_thread, mixer_threads=max(1, mixer_threads))

    def exact_backend(self, config: Config, *, beside_coding: bool = False) -> Backend | None:
        """Primitives, products and threads; None for a learner that needs none. Raises InexactMachineError.

        beside_coding: steps leave threads to the learner, which codes in parallel with them.
        """
        if config.gpt is None and self.backend is None:
            return None
        from prequential.exact import fused, matmul, plain

        n_threads = self.n_step_threads + 1 if beside_coding else self.n_threads
        pool = Pool(n_threads, with_helper=beside_coding)  # first: backends are rated as they will be used
        return Backend(plain if self.kernels == "plain" else fused, matmul.choose("cpu", self.backend), pool)

    def accelerator(self, config: Config, backend: Backend | None = None) -> Accelerator | None:
        """Where the GPT of a learner runs, verified at the first call; None: on the processor. Raises InexactMachineError.

        backend: `exact_backend` of the configuration, if it has been made.
        """
        if self.device == "cpu" or config.gpt is None:
            return None
        from prequential.online.accelerators import select_device

        backend = backend or self.exact_backend(config)
        assert backend is not None
        return select_device(self.device, config, backend)


def _check_name(name: str, value: Any, known: Sequence[str | None]) -> None:
    if not isinstance(value, str | None) or value not in known:
        names = ", ".join(each for each in known if each)
        raise ConfigError(f"unknown {name} {value!r}; choose one of {names}")


def make_gpt(config: Config, backend: Backend, accelerator: Accelerator | None = None) -> GPT:
    """The configuration's GPT: on the accelerator if there is one."""
    assert config.gpt is not None
    if accelerator:
        from prequential.model.gpt.device import DeviceGPT

        return DeviceGPT(accelerator, config.gpt, config.seed, backend)
    from prequential.model.gpt.gpt import GPT

    return GPT(config.gpt, config.seed, backend)
