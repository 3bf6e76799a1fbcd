"""Plans of runs: each run is made once, and a failed one does not stop the others."""

import pytest
from studies import FUSED, N_BYTES, TEXT, TINY

import prequential
from prequential import Config, ConfigError, CorpusError
from prequential.sweeps.plans import corpus_key, run_plan, sweep_plan
from prequential.sweeps.sweep import sweep


def fail(*_, **__):
    raise ConfigError("the GPT has diverged")


def test_every_run_leaves_a_folder_with_its_configuration_and_equals_the_run_that_evaluate_makes(finished):
    plan, folder, outcomes = finished
    runs = prequential.read_runs(folder)
    assert {run.path for run in runs} == {outcome.run.path for outcome in outcomes}
    assert [Config.from_dict(outcome.run.record["config"]) for outcome in outcomes] == plan.configs
    assert prequential.decompress(runs[0].archive, runtime=FUSED) == TEXT[:N_BYTES]
    alone = prequential.evaluate(TEXT[:N_BYTES], config=plan.configs[0], baselines=(), runtime=FUSED)
    assert outcomes[0].run.record["code_bits"] == alone.code_bits


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


def test_runs_over_other_bytes_or_by_another_version_do_not_count(finished, run_all, replace_evaluate, monkeypatch):
    replace_evaluate(fail)
    again = run_all(finished.plan, finished.folder, limit_bytes=N_BYTES - 1)
    monkeypatch.setattr("prequential.sweeps.plans.VERSION", "0")
    again += run_all(finished.plan, finished.folder)
    assert [outcome.run for outcome in again] == [None] * 8


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
        sweep(str(corpus), sweep_plan(TINY), tmp_path, limit=N_BYTES, runtime=FUSED)
