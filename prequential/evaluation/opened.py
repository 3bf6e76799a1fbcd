"""Runs that arguments of public functions are or name."""

import os
from typing import Any

from prequential.evaluation.runs import Run, is_run, read_run


def opened_run(value: Any, name: str) -> Run | None:
    """A run, a result of `evaluate`, which gets this name, or the run at a path that exists; None for anything else."""
    if isinstance(value, Run):
        return value
    if isinstance(value, str | os.PathLike):
        return read_run(value) if is_run(value) else None
    from prequential.evaluation.evaluation import Evaluation, run_of  # imports torch

    return run_of(value, name) if isinstance(value, Evaluation) else None
