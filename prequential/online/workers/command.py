"""Runs a command, alone or in the workers that torchrun starts. Imports torch only for workers."""

from collections.abc import Callable

from prequential.online.runtime import Runtime
from prequential.online.workers.environment import launched


def run_by_all(runtime: Runtime, work: Callable[[Runtime], int]) -> int:
    """The result of work(runtime). Of several processes that torchrun started, only the first one runs it; the others serve it.

    The others return 0 when the work is done, and 1 if another worker is lost.
    """
    if not launched():
        return work(runtime)
    from prequential.online.workers.serving import run_in_team

    return run_in_team(runtime, work)
