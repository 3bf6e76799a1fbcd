"""prequential: a GPT and a context mixer learn a corpus online; the resulting archive proves how many bits the data cost it.

The public names are below. Each is imported when it is first used: `import prequential` alone loads no torch. `prequential.plots`
draws curves and tables with matplotlib.
"""

import importlib
from typing import TYPE_CHECKING, Any

from prequential.version import VERSION

if TYPE_CHECKING:
    from prequential.compression import CompressionResult, compress
    from prequential.decompression import DecompressionResult, decompress
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
    from prequential.measure.evaluation.evaluation import DraftFolder, Evaluation, evaluate
    from prequential.measure.evaluation.ledger import Ledger
    from prequential.measure.evaluation.runs import Run, read_run, read_runs
    from prequential.measure.study.sweep import sweep
    from prequential.measure.watch.health import Finding, Health
    from prequential.measure.watch.progress import progress
    from prequential.model.config import Config, GPTConfig, MixerConfig, ReplicaConfig, ScheduleConfig
    from prequential.model.presets import preset
    from prequential.online.coding import Progress
    from prequential.online.limits import memory_bytes
    from prequential.online.loop import Learner
    from prequential.online.runtime import Runtime
    from prequential.report import plots as plots

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
    "DraftFolder",
    "Evaluation",
    "FaultError",
    "Finding",
    "GPTConfig",
    "Health",
    "InexactMachineError",
    "InvalidDistributionError",
    "LawError",
    "Learner",
    "Ledger",
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
    "memory_bytes",
    "preset",
    "progress",
    "read_run",
    "read_runs",
    "sweep",
]
_MODULES = {
    **dict.fromkeys(
        (
            "CompressionResult",
            "compress",
        ),
        "prequential.compression",
    ),
    **dict.fromkeys(
        (
            "DecompressionResult",
            "decompress",
        ),
        "prequential.decompression",
    ),
    **dict.fromkeys(("Curve",), "prequential.measure.evaluation.curves"),
    **dict.fromkeys(
        (
            "DraftFolder",
            "Evaluation",
            "evaluate",
        ),
        "prequential.measure.evaluation.evaluation",
    ),
    **dict.fromkeys(("Ledger",), "prequential.measure.evaluation.ledger"),
    **dict.fromkeys(
        (
            "Run",
            "read_run",
            "read_runs",
        ),
        "prequential.measure.evaluation.runs",
    ),
    **dict.fromkeys(("sweep",), "prequential.measure.study.sweep"),
    **dict.fromkeys(
        (
            "Finding",
            "Health",
        ),
        "prequential.measure.watch.health",
    ),
    **dict.fromkeys(("progress",), "prequential.measure.watch.progress"),
    **dict.fromkeys(
        (
            "Config",
            "GPTConfig",
            "MixerConfig",
            "ReplicaConfig",
            "ScheduleConfig",
        ),
        "prequential.model.config",
    ),
    **dict.fromkeys(("preset",), "prequential.model.presets"),
    **dict.fromkeys(("Progress",), "prequential.online.coding"),
    **dict.fromkeys(("memory_bytes",), "prequential.online.limits"),
    **dict.fromkeys(("Learner",), "prequential.online.loop"),
    **dict.fromkeys(("Runtime",), "prequential.online.runtime"),
}


def __getattr__(name: str) -> Any:
    if name == "plots":  # the module of pictures, which needs matplotlib
        return importlib.import_module("prequential.report.plots")
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES.get(name, "prequential.errors")), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
