"""prequential: a GPT and a context mixer learn a corpus online; the resulting archive proves how many bits the data cost it.

The public names are below. Each is imported when it is first used: `import prequential` alone loads no torch. `prequential.plots`
draws curves and tables with matplotlib.
"""

import importlib
from typing import TYPE_CHECKING, Any

from prequential.version import VERSION

if TYPE_CHECKING:
    from prequential.compression import CompressionResult, compress
    from prequential.corpora.bundled import sample_path
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
    from prequential.measure.monorepo.series import read_series
    from prequential.measure.study.matrix import Matrix, measure_matrix
    from prequential.measure.study.sweep import sweep, sweep_plan
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
    "Matrix",
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
    "measure_matrix",
    "memory_bytes",
    "preset",
    "progress",
    "read_run",
    "read_runs",
    "read_series",
    "sample_path",
    "sweep",
    "sweep_plan",
]
_MODULES = {
    "compression": ("CompressionResult", "compress"),
    "corpora.bundled": ("sample_path",),
    "decompression": ("DecompressionResult", "decompress"),
    "measure.evaluation.curves": ("Curve",),
    "measure.evaluation.evaluation": ("DraftFolder", "Evaluation", "evaluate"),
    "measure.evaluation.ledger": ("Ledger",),
    "measure.evaluation.runs": ("Run", "read_run", "read_runs"),
    "measure.monorepo.series": ("read_series",),
    "measure.study.matrix": ("Matrix", "measure_matrix"),
    "measure.study.sweep": ("sweep", "sweep_plan"),
    "measure.watch.health": ("Finding", "Health"),
    "measure.watch.progress": ("progress",),
    "model.config": ("Config", "GPTConfig", "MixerConfig", "ReplicaConfig", "ScheduleConfig"),
    "model.presets": ("preset",),
    "online.coding": ("Progress",),
    "online.limits": ("memory_bytes",),
    "online.loop": ("Learner",),
    "online.runtime": ("Runtime",),
}
_MODULE_OF = {name: f"prequential.{module}" for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name == "plots":  # the module of pictures, which needs matplotlib
        return importlib.import_module("prequential.report.plots")
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULE_OF.get(name, "prequential.errors")), name)


def __dir__() -> list[str]:
    return sorted([*(name for name in globals() if name.startswith("__")), *__all__, "plots"])
