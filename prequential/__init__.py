"""prequential: a GPT and a context mixer learn a corpus online; the resulting archive proves how many bits the data cost it.

The public names are below. Each is imported when it is first used: `import prequential` alone loads no torch. `prequential.plots`
draws curves and tables with matplotlib.
"""

import importlib
from typing import TYPE_CHECKING, Any

from prequential.version import VERSION

if TYPE_CHECKING:
    from prequential_corpora.sources import sample_path

    from prequential import plots as plots
    from prequential.comparison.compare import Comparison, compare
    from prequential.comparison.documents import DocumentComparison
    from prequential.compression import CompressionResult, compress
    from prequential.decompression import DecompressionResult, decompress
    from prequential.errors import (  # isort: skip
        CausalityError, CheckpointError, ConfigError, CorpusError, CorruptArchiveError, FaultError, InexactMachineError,
        InvalidDistributionError, MissingDependencyError, OutputError, PrequentialError, UnsupportedVersionError,
    )  # fmt: skip
    from prequential.evaluation.curves import Curve
    from prequential.evaluation.evaluation import Evaluation, evaluate
    from prequential.evaluation.ledger import Ledger
    from prequential.evaluation.runs import DraftFolder, Run, read_run, read_runs, runs_frame
    from prequential.forecasting.forecast import Forecast, ForecastScore, forecast, read_forecast
    from prequential.heldout_loss.labels import LabelCost, labels
    from prequential.heldout_loss.monorepo import monorepo, read_series
    from prequential.heldout_loss.request import Heldout, heldout
    from prequential.learners.protocol import OnlineModel
    from prequential.model.config import Config, GPTConfig, MixerConfig, ScheduleConfig
    from prequential.model.presets import preset, without
    from prequential.online.coding import Progress
    from prequential.online.costs import memory_bytes
    from prequential.online.health import Finding, Health
    from prequential.online.progress import progress
    from prequential.online.runtime import Runtime
    from prequential.recording.imported import import_log
    from prequential.recording.recorder import Recorder
    from prequential.report.page import write_report
    from prequential.sweeps.plans import sweep_plan
    from prequential.sweeps.sweep import sweep

__version__ = VERSION

__all__ = [
    "CausalityError", "CheckpointError", "Comparison", "CompressionResult", "Config", "ConfigError", "CorpusError",
    "CorruptArchiveError", "Curve", "DecompressionResult", "DocumentComparison", "DraftFolder", "Evaluation",
    "FaultError", "Finding", "Forecast", "ForecastScore", "GPTConfig", "Health", "Heldout", "InexactMachineError",
    "InvalidDistributionError", "LabelCost", "Ledger", "MissingDependencyError", "MixerConfig", "OnlineModel",
    "OutputError", "PrequentialError", "Progress", "Recorder", "Run", "Runtime", "ScheduleConfig",
    "UnsupportedVersionError", "compare", "compress", "decompress", "evaluate", "forecast", "heldout", "import_log",
    "labels", "memory_bytes", "monorepo", "preset", "progress", "read_forecast", "read_run", "read_runs",
    "read_series", "runs_frame", "sample_path", "sweep", "sweep_plan", "without", "write_report",
]  # fmt: skip
_NAMES_OF = {  # by module; others are errors
    "comparison.compare": "Comparison compare", "comparison.documents": "DocumentComparison",
    "compression": "CompressionResult compress", "decompression": "DecompressionResult decompress",
    "evaluation.curves": "Curve", "evaluation.evaluation": "Evaluation evaluate", "evaluation.ledger": "Ledger",
    "evaluation.runs": "DraftFolder Run read_run read_runs runs_frame",
    "forecasting.forecast": "Forecast ForecastScore forecast read_forecast", "heldout_loss.labels": "LabelCost labels",
    "heldout_loss.monorepo": "monorepo read_series", "heldout_loss.request": "Heldout heldout",
    "learners.protocol": "OnlineModel", "model.config": "Config GPTConfig MixerConfig ScheduleConfig",
    "model.presets": "preset without", "online.coding": "Progress", "online.costs": "memory_bytes",
    "online.health": "Finding Health", "online.progress": "progress", "online.runtime": "Runtime",
    "recording.imported": "import_log", "recording.recorder": "Recorder", "report.page": "write_report",
    "sweeps.plans": "sweep_plan", "sweeps.sweep": "sweep",
}  # fmt: skip
_MODULE_OF = {name: f"prequential.{module}" for module, names in _NAMES_OF.items() for name in names.split()}
_MODULE_OF["sample_path"] = "prequential_corpora.sources"


def __getattr__(name: str) -> Any:
    if name == "plots":
        return importlib.import_module("prequential.plots")
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULE_OF.get(name, "prequential.errors")), name)


def __dir__() -> list[str]:
    return sorted([*(name for name in globals() if name.startswith("__")), *__all__, "plots"])
