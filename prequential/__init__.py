"""prequential: a GPT and a context mixer learn a corpus online; the resulting archive proves how many bits the data cost it.

The public names are below. They are imported when first used: `import prequential` alone loads no torch.
"""

import importlib
from typing import TYPE_CHECKING, Any

from prequential.version import VERSION

if TYPE_CHECKING:
    from prequential.api import (
        CompressionResult,
        Config,
        DecompressionResult,
        Evaluation,
        GPTConfig,
        MixerConfig,
        Progress,
        ReplicaConfig,
        Runtime,
        ScheduleConfig,
        compress,
        decompress,
        evaluate,
        preset,
        sweep,
    )
    from prequential.errors import (
        CheckpointError,
        ConfigError,
        CorpusError,
        CorruptArchiveError,
        FaultError,
        InexactMachineError,
        InvalidDistributionError,
        LawError,
        MissingDependencyError,
        OutputError,
        PrequentialError,
        UnsupportedVersionError,
    )
    from prequential.measure.evaluation.curves import Curve
    from prequential.measure.evaluation.runs import Run, read_run, read_runs
    from prequential.measure.watch.health import Finding, Health
    from prequential.measure.watch.progress import progress

__version__ = VERSION

__all__ = [
    "CheckpointError",
    "CompressionResult",
    "Config",
    "ConfigError",
    "CorpusError",
    "CorruptArchiveError",
    "Curve",
    "DecompressionResult",
    "Evaluation",
    "FaultError",
    "Finding",
    "GPTConfig",
    "Health",
    "InexactMachineError",
    "InvalidDistributionError",
    "LawError",
    "MissingDependencyError",
    "MixerConfig",
    "OutputError",
    "PrequentialError",
    "Progress",
    "ReplicaConfig",
    "Run",
    "Runtime",
    "ScheduleConfig",
    "UnsupportedVersionError",
    "compress",
    "decompress",
    "evaluate",
    "preset",
    "progress",
    "read_run",
    "read_runs",
    "sweep",
]
_ROOMS = {
    **dict.fromkeys(("Finding", "Health"), "measure.health"),
    **dict.fromkeys(("Run", "read_run", "read_runs"), "measure.runs"),
    "progress": "measure.progress",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    room = "errors" if name.endswith("Error") else _ROOMS.get(name, "api")
    return getattr(importlib.import_module(f"prequential.{room}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
