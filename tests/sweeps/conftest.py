"""Plans over the same bytes, two of which have been run."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from studies import FUSED, N_BYTES, TEXT, TINY

from prequential.sweeps.plans import Plan, RunOutcome, run_plan, sweep_plan

RunAll = Callable[..., list[RunOutcome]]


class Finished(NamedTuple):
    """A plan that has been run, with the folder of its runs."""

    plan: Plan
    folder: Path
    outcomes: list[RunOutcome]


@pytest.fixture(scope="session", autouse=True)
def no_warm_up():
    """Each run skips the warm-up, which takes a second: these tests measure no speed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("prequential.evaluation.evaluation.warm_up", lambda *_: None)
        yield


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    path = tmp_path_factory.mktemp("corpus") / "times.txt"
    path.write_bytes(TEXT)
    return path


@pytest.fixture(scope="session")
def run_all(corpus):
    """Runs a plan over the beginning of the corpus."""

    def run_all(plan, folder, *, limit_bytes=N_BYTES):
        return list(run_plan(corpus, plan, folder, limit_bytes=limit_bytes, runtime=FUSED))

    return run_all


@pytest.fixture(scope="session")
def finished(run_all, tmp_path_factory):
    """Two widths with two seeds."""
    folder = tmp_path_factory.mktemp("sweep") / "runs"
    plan = sweep_plan(TINY, widths=[16, 32], seeds=[0, 1])
    return Finished(plan, folder, run_all(plan, folder))


@pytest.fixture
def replace_evaluate(monkeypatch):
    """A function that lets plans call another `evaluate`."""
    return lambda evaluate: monkeypatch.setattr("prequential.sweeps.plans.evaluate", evaluate)
