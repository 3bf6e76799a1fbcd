"""How a run computes: device, threads, kernels. None of it changes a single bit of the result; all of it changes the speed."""

import importlib
from dataclasses import dataclass
from types import ModuleType

from prequential.errors import ConfigError
from prequential.exact import matmul, plain
from prequential.exact.matmul import Matmul
from prequential.exact.pool import Pool, available_threads
from prequential.model.config import Config
from prequential.model.gpt.device import Accelerator
from prequential.model.learner import Learner
from prequential.online import accelerators
from prequential.online.accelerators import DEVICES
from prequential.online.audit import AuditedLearner
from prequential.online.workers.shared import SharedLearner
from prequential.online.workers.team import Team

KERNELS = ("fused", "plain")


@dataclass(frozen=True, kw_only=True)
class Runtime:
    """`None` means: all processors (at most 8), the fastest backend that passes its self-test, compiled kernels.

    threads: pieces of work side by side (exact/pool.py). backend: int8, float32 or float64 (exact/matmul.py). kernels: "fused"
    (compiled by numba) or "plain" (torch). device: where the GPT goes, "cpu", "cuda" or "auto" (online/accelerators.py); threads,
    backend and kernels are the processor's. audit_every: segments in a period of the audit (online/audit.py); 0: no audit.
    team: the processes that share the GPT's steps (online/workers/shared.py), of which each takes these threads; None: this one alone.
    """

    threads: int | None = None
    backend: str | None = None
    kernels: str | None = None
    device: str = "cpu"
    audit_every: int = 0
    team: Team | None = None

    def __post_init__(self) -> None:
        if self.threads is not None and not 1 <= self.threads <= 1024:
            raise ConfigError(f"threads = {self.threads} lies outside [1, 1024]")
        if self.kernels not in (None, *KERNELS):
            raise ConfigError(f"no kernels {self.kernels!r}; there are {', '.join(KERNELS)}")
        if self.device not in DEVICES:
            raise ConfigError(f"no device {self.device!r}; there are {', '.join(DEVICES)}")
        if self.audit_every < 0:
            raise ConfigError(f"audit_every = {self.audit_every} is negative")
        if self.device == "auto" and not accelerators.available():
            object.__setattr__(self, "device", "cpu")
        if self.device == "cuda" and self.audit_every:
            raise ConfigError("audits compute on processors: leave out --device cuda")

    @property
    def n_threads(self) -> int:
        """Threads that a run takes, or each worker of it."""
        return self.threads or available_threads(self.team.n_beside if self.team else 1)

    def parts(self, config: Config) -> tuple[ModuleType, Matmul | None, Pool]:
        """Kernels, products (None where the learner needs none) and threads. Raises InexactMachineError."""
        ops = plain if self.kernels == "plain" else importlib.import_module("prequential.exact.fused")
        pool = Pool(self.n_threads)  # first: backends are rated as they will be used
        return ops, matmul.choose("cpu", self.backend) if config.gpt or self.backend else None, pool

    def check(self, config: Config) -> None:
        """Raises ConfigError for a learner that cannot be computed so, on any machine."""
        if self.audit_every and config.replicas:
            raise ConfigError("an audit is of one GPT, and this learner has several replicas: leave out --audit-every")
        if self.device == "cuda" and config.replicas:
            raise ConfigError("replicas are computed on processors: leave out --device cuda")

    def learner(self, config: Config) -> Learner:
        """A fresh learner on this machine. Raises InexactMachineError when no backend is exact here."""
        self.check(config)
        if self.audit_every:
            return AuditedLearner(config, *self.parts(config), self.audit_every)
        if self.team:
            return SharedLearner(self.team, config, *self.parts(config), self.accelerator(config))
        return Learner(config, *self.parts(config), self.accelerator(config))

    def accelerator(self, config: Config) -> Accelerator | None:
        """Where the GPT of a learner goes; tested at the first call. Raises InexactMachineError, ConfigError."""
        if self.device == "cpu":
            return None
        self.check(config)
        ops, host, _ = self.parts(config)
        return accelerators.chosen(self.device, config, ops, host)
