"""Several processes share a plan: each run is made once, and the first process reports all of them."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NoReturn

import pytest
import torch.distributed as dist

import prequential
from prequential import Config, CorpusError, GPTConfig, Runtime, ScheduleConfig
from prequential.sweeps.plan_workers import PlanWorker
from prequential.sweeps.plans import Outcome, Plan, config_key, run_plan
from prequential.sweeps.sweep import sweep_plan

TINY = Config(
    gpt=GPTConfig(n_layers=1, width=16, n_heads=1, window=8),
    mixer=None,
    schedule=ScheduleConfig(
        first_segment_symbols=64, segment_symbols=128, row_symbols=32, n_rows=4, history_bits=14, block_symbols=1024
    ),
)
TEXT = b"it was the best of times, it was the worst of times. " * 8


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("prequential.evaluation.evaluation.warm_up", lambda *_: None)
    path = tmp_path / "corpus"
    path.write_bytes(TEXT)
    return path


@pytest.fixture
def workers() -> tuple[PlanWorker, PlanWorker]:
    store = dist.HashStore()
    return PlanWorker(store, 0, 2), PlanWorker(store, 1, 2)


def outcomes(corpus: Path, folder: Path, plan: Plan, worker: PlanWorker | None) -> list[Outcome]:
    return list(run_plan(corpus, plan, folder, runtime=Runtime(kernels="fused", threads=1), worker=worker))


def archive_bits(outcomes: list[Outcome]) -> dict[int, int]:
    """Length of the archive of each finished run, by its seed."""
    return {outcome.config.seed: outcome.run.record["archive_bits"] for outcome in outcomes if outcome.run}


def test_two_processes_make_every_run_once(
    corpus: Path, tmp_path: Path, workers: tuple[PlanWorker, PlanWorker]
) -> None:
    plan = sweep_plan(TINY, seeds=[0, 1, 2, 3, 4])
    with ThreadPoolExecutor() as threads:
        first, other = threads.map(lambda worker: outcomes(corpus, tmp_path / "runs", plan, worker), workers)
    assert sorted(outcome.config.seed for outcome in first) == [0, 1, 2, 3, 4]
    assert len(prequential.read_runs(tmp_path / "runs")) == 5
    assert {outcome.config.seed for outcome in other} < {0, 1, 2, 3, 4}
    assert archive_bits(first) == archive_bits(outcomes(corpus, tmp_path / "alone", plan, None))


def test_the_first_process_reports_why_the_run_of_another_failed(
    corpus: Path, tmp_path: Path, workers: tuple[PlanWorker, PlanWorker], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> NoReturn:
        raise CorpusError("the disk is gone")

    first, other = workers
    plan = sweep_plan(TINY, seeds=[0, 1])
    with monkeypatch.context() as patch:
        patch.setattr("prequential.sweeps.plans.evaluate", fail)
        assert [str(o.error) for o in outcomes(corpus, tmp_path / "runs", plan, other)] == ["the disk is gone"] * 2
    reported = outcomes(corpus, tmp_path / "runs", plan, first)
    assert [(outcome.run, str(outcome.error)) for outcome in reported] == [(None, "the disk is gone")] * 2


def test_a_folder_that_is_not_shared_is_named(
    corpus: Path, tmp_path: Path, workers: tuple[PlanWorker, PlanWorker]
) -> None:
    first, other = workers
    plan = sweep_plan(TINY, seeds=[0])
    assert outcomes(corpus, tmp_path / "elsewhere", plan, other)[0].run
    (outcome,) = outcomes(corpus, tmp_path / "runs", plan, first)
    assert outcome.run is None
    assert f"{tmp_path / 'runs'}, which all workers must share" in str(outcome.error)


def test_the_first_process_does_not_wait_for_a_process_that_has_ended(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("prequential.sweeps.plan_workers.LOST_S", 0.5)
    store = dist.HashStore()
    plan = sweep_plan(TINY, seeds=[0, 1])
    key = config_key(plan.configs[0].to_dict())
    store.set("beat 1", "3")  # the last heartbeat of the process that has ended, and its claim
    assert store.add(f"claim {key}", 1) == 1
    store.set(f"by {key}", "1")
    made = {o.config.seed: o for o in outcomes(corpus, tmp_path / "runs", plan, PlanWorker(store, 0, 2))}
    assert made[1].run
    assert str(made[0].error) == "worker 1, which had claimed it, has ended or does not answer"


def test_without_torchrun_there_is_no_worker() -> None:
    assert PlanWorker.launched() is None
