"""Runs a command, alone or in the workers that torchrun starts. Imports torch only for workers."""

from collections.abc import Callable

from prequential.online.runtime import Runtime
from prequential.online.workers.environment import launched


def run_by_all(runtime: Runtime, work: Callable[[Runtime], int]) -> int:
    """The result of work(runtime), which only the first worker runs; the others serve it, and return 0, or 1 if one is lost."""
    if not launched():
        return work(runtime)
    from prequential.online.workers.serving import run_in_team

    return run_in_team(runtime, work)
