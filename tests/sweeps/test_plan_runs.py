"""Plans of runs: each run is made once, also by several processes, and a failed one does not stop the others."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch.distributed as dist
from studies import FUSED, N_BYTES, TEXT, TINY

import prequential
from prequential import Config, ConfigError, CorpusError
from prequential.sweeps.finished import corpus_key
from prequential.sweeps.plan_runs import run_plan
from prequential.sweeps.plan_workers import PlanWorker
from prequential.sweeps.plans import sweep_plan
from prequential.sweeps.sweep import sweep
from prequential.version import VERSION


def fail(*_, **__):
    raise ConfigError("the GPT has diverged")


def test_every_run_leaves_a_folder_with_its_configuration_and_equals_the_run_that_evaluate_makes(finished):
    plan, folder, outcomes = finished
    runs = prequential.read_runs(folder)
    assert {run.path for run in runs} == {outcome.run.path for outcome in outcomes}
    assert [Config.from_dict(outcome.run.record["config"]) for outcome in outcomes] == plan.configs
    assert prequential.decompress(runs[0].archive, runtime=FUSED) == TEXT[:N_BYTES]
    alone = prequential.evaluate(TEXT[:N_BYTES], config=plan.configs[0], baselines=(), runtime=FUSED)
    assert outcomes[0].run.record["code_bits"] == alone.ledger.code_bits


def test_finished_runs_are_used_again_and_only_the_others_are_made(finished, run_all, replace_evaluate):
    evaluated = []

    def evaluate(*args, **options):
        evaluated.append(options["config"])
        fail()

    replace_evaluate(evaluate)
    wider = sweep_plan(TINY, widths=[16, 32], seeds=[0, 1, 2])
    again = run_all(wider, finished.folder)
    assert evaluated == [config for config in wider.configs if config.seed == 2]
    assert [o.run.path for o in again if o.run] == [o.run.path for o in finished.outcomes]
    assert {o.is_new for o in again if o.run} == {False}


@pytest.mark.parametrize(("limit_bytes", "version"), [(N_BYTES - 1, VERSION), (N_BYTES, "0")])
def test_runs_over_other_bytes_or_by_another_version_do_not_count(
    finished, run_all, limit_bytes, version, replace_evaluate, monkeypatch
):
    replace_evaluate(fail)
    monkeypatch.setattr("prequential.sweeps.finished.VERSION", version)
    again = run_all(finished.plan, finished.folder, limit_bytes=limit_bytes)
    assert [outcome.run for outcome in again] == [None] * 4


def test_a_corpus_that_changes_during_the_runs_makes_them_fail(tmp_path, replace_evaluate):
    path = tmp_path / "changing"
    path.write_bytes(TEXT[:N_BYTES])

    def evaluate(*args, **options):
        path.write_bytes(TEXT[1 : N_BYTES + 1])
        return prequential.evaluate(*args, **options)

    replace_evaluate(evaluate)
    (outcome,) = run_plan(path, sweep_plan(TINY), tmp_path / "runs", runtime=FUSED)
    assert "changed during the runs" in str(outcome.error)
    assert list((tmp_path / "runs").iterdir()) == []


def test_standard_input_and_empty_corpora_are_refused(tmp_path):
    (tmp_path / "empty").touch()
    for source, reason in (("-", "reads the corpus again"), (str(tmp_path / "empty"), "empty")):
        with pytest.raises(CorpusError, match=reason):
            corpus_key(source)


def test_a_sweep_without_a_successful_run_gives_the_first_error(corpus, tmp_path, replace_evaluate):
    replace_evaluate(fail)
    with pytest.raises(CorpusError, match="the first error: the GPT has diverged"):
        sweep(str(corpus), sweep_plan(TINY), tmp_path, limit_bytes=N_BYTES, runtime=FUSED)


# ---- several processes


@pytest.fixture
def workers():
    store = dist.HashStore()
    return PlanWorker(store, 0, 2), PlanWorker(store, 1, 2)


def archive_bits(outcomes):
    """Length of the archive of each finished run, by its seed."""
    return {outcome.config.seed: outcome.run.record["archive_bits"] for outcome in outcomes if outcome.run}


def test_two_processes_make_every_run_once(run_all, tmp_path, workers):
    plan = sweep_plan(TINY, seeds=range(5))
    with ThreadPoolExecutor() as threads:
        first, other = threads.map(lambda worker: run_all(plan, tmp_path / "runs", worker=worker), workers)
    assert sorted(outcome.config.seed for outcome in first) == [0, 1, 2, 3, 4]
    assert len(prequential.read_runs(tmp_path / "runs")) == 5
    assert {outcome.config.seed for outcome in other} < {0, 1, 2, 3, 4}
    assert archive_bits(first) == archive_bits(run_all(plan, tmp_path / "alone"))


def test_the_first_process_reports_why_the_run_of_another_failed(run_all, tmp_path, workers, monkeypatch):
    plan, reason = sweep_plan(TINY, seeds=[0, 1]), "the GPT has diverged"
    with monkeypatch.context() as patch:
        patch.setattr("prequential.sweeps.plan_runs.evaluate", fail)
        assert [str(o.error) for o in run_all(plan, tmp_path, worker=workers[1])] == [reason] * 2
    reported = run_all(plan, tmp_path, worker=workers[0])
    assert [(outcome.run, str(outcome.error)) for outcome in reported] == [(None, reason)] * 2


def test_a_folder_that_is_not_shared_is_named(run_all, tmp_path, workers):
    plan = sweep_plan(TINY, seeds=[0])
    assert run_all(plan, tmp_path / "elsewhere", worker=workers[1])[0].run
    (outcome,) = run_all(plan, tmp_path / "runs", worker=workers[0])
    assert outcome.run is None
    assert f"{tmp_path / 'runs'}, which all workers must share" in str(outcome.error)


def test_the_first_process_does_not_wait_for_a_process_that_has_ended(run_all, tmp_path, monkeypatch):
    monkeypatch.setattr("prequential.sweeps.plan_workers.LOST_S", 0.5)
    store, plan = dist.HashStore(), sweep_plan(TINY, seeds=[0, 1])
    (key,) = sweep_plan(TINY, seeds=[0]).keys
    store.set("beat 1", "3")  # the last heartbeat of the process that has ended, and its claim
    assert store.add(f"claim {key}", 1) == 1
    store.set(f"by {key}", "1")
    made = {outcome.config.seed: outcome for outcome in run_all(plan, tmp_path, worker=PlanWorker(store, 0, 2))}
    assert made[1].run
    assert str(made[0].error) == "worker 1, which had claimed it, has ended or does not answer"


def test_without_torchrun_there_is_no_worker():
    assert PlanWorker.launched() is None
