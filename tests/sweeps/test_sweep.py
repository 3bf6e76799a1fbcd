"""Sweeps: the grid, runs that are made once, means over seeds, and the Pareto front."""

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

import prequential
from prequential import Config, ConfigError, CorpusError, GPTConfig, Runtime, ScheduleConfig, preset
from prequential.evaluation.curves import mean_curve
from prequential.online.flops import flops_per_byte, replay_factor
from prequential.sweeps.data_multiple import data_multiple
from prequential.sweeps.plans import Outcome, Plan, Subject, run_plan, subject_of
from prequential.sweeps.sweep import check_baseline, pareto_front, summarise, sweep, sweep_plan, varied
from prequential.version import VERSION

TINY = Config(
    gpt=GPTConfig(n_layers=1, width=16, n_heads=1, window=8),
    mixer=None,
    schedule=ScheduleConfig(
        first_segment_symbols=64, segment_symbols=128, row_symbols=32, n_rows=4, history_bits=14, block_symbols=1024
    ),
)
FUSED = Runtime(kernels="fused", threads=1)
TEXT = b"it was the best of times, it was the worst of times. " * 20


# ---- the plan


def test_a_grid_has_every_combination_once() -> None:
    plan = sweep_plan(TINY, replay=[1, 2, 1], widths=[16, 32], layers=[1, 2], update_symbols=[64, 128], seeds=[3, 4])
    assert len(plan.settings) == 16
    assert len(set(plan.configs)) == len(plan.configs) == 32
    points = {
        (replay_factor(c), c.gpt.width, c.gpt.n_layers, c.schedule.segment_symbols, c.seed)
        for c in plan.configs
        if c.gpt
    }
    assert points == set(product((1, 2), (16, 32), (1, 2), (64, 128), (3, 4)))
    assert plan.refusals == ()


def test_values_that_are_not_varied_stay_as_in_the_base() -> None:
    for base in (TINY, preset(5), preset(5, pure=True, seed=7), preset(8)):
        assert sweep_plan(base).configs == [base]


def test_an_impossible_combination_is_refused_by_name_with_its_reason() -> None:
    plan = sweep_plan(TINY, replay=[0.5, 1, 1.1], widths=[16, 33])
    assert [setting.name for setting in plan.settings] == ["replay 1, width 16, layers 1, update 128"]
    reasons = dict(plan.refusals)
    assert len(reasons) == 5
    assert "at most n_rows * row_symbols" in reasons["replay 0.5, width 16, layers 1, update 128"]
    assert "multiple of 2 * n_heads" in reasons["replay 1, width 33, layers 1, update 128"]
    assert "does not fill an integer number of rows" in reasons["replay 1.1, width 16, layers 1, update 128"]


def test_a_model_above_the_memory_limit_is_refused() -> None:
    plan = sweep_plan(TINY, widths=[16, 1024], runtime=replace(FUSED, max_memory_bytes=32 << 20))
    assert [refusal.name for refusal in plan.refusals] == ["replay 1, width 1024, layers 1, update 128"]
    assert "memory" in plan.refusals[0].reason


def test_a_grid_without_a_gpt_or_without_any_configuration_is_an_error() -> None:
    with pytest.raises(ConfigError, match="lacks"):
        sweep_plan(Config(gpt=None))
    with pytest.raises(ConfigError, match="no combination is left; replay 1, width 33"):
        sweep_plan(TINY, widths=[33])


def test_heads_keep_their_width() -> None:
    assert [varied(preset(5), 1.5, width, 2, 1024).gpt.n_heads for width in (64, 128, 256)] == [1, 2, 4]  # type: ignore[union-attr]


def test_the_operations_of_a_plan_are_those_of_its_runs() -> None:
    plan = sweep_plan(TINY, widths=[16, 32], seeds=[0, 1, 2])
    expected = sum(flops_per_byte(config, 1024).total * 1024 for config in plan.configs)  # 1024: exact in binary
    assert plan.flops(1024) == expected


# ---- the runs


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("corpus") / "times.txt"
    path.write_bytes(TEXT)
    return path


def swept(corpus: Path, plan: Plan, folder: Path, *, limit_bytes: int = 700) -> list[Outcome]:
    return list(run_plan(str(corpus), plan, folder, limit_bytes=limit_bytes, runtime=FUSED))


Evaluate = Callable[..., prequential.Evaluation]


@pytest.fixture
def replace_evaluate(monkeypatch: pytest.MonkeyPatch) -> Callable[[Evaluate], None]:
    """A function that lets plans call another `evaluate`."""
    return lambda evaluate: monkeypatch.setattr("prequential.sweeps.plans.evaluate", evaluate)


class FinishedSweep(NamedTuple):
    """A plan that has been run, with the folder of its runs."""

    plan: Plan
    folder: Path
    outcomes: list[Outcome]


@pytest.fixture(scope="module")
def finished(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> FinishedSweep:
    """Two widths with two seeds."""
    folder = tmp_path_factory.mktemp("sweep") / "runs"
    plan = sweep_plan(TINY, widths=[16, 32], seeds=[0, 1])
    return FinishedSweep(plan, folder, swept(corpus, plan, folder))


def fail(*_: object, **__: object) -> NoReturn:
    raise ConfigError("the GPT has diverged")


def test_every_run_leaves_a_folder_with_its_configuration(finished: FinishedSweep) -> None:
    plan, folder, outcomes = finished
    runs = prequential.read_runs(folder)
    assert [outcome.config for outcome in outcomes] == plan.configs
    assert {run.path for run in runs} == {outcome.run.path for outcome in outcomes if outcome.run}
    assert [Config.from_dict(o.run.record["config"]) for o in outcomes if o.run] == plan.configs
    assert prequential.decompress(runs[0].archive, runtime=FUSED) == TEXT[:700]


def test_a_run_of_a_plan_equals_the_run_that_evaluate_makes(finished: FinishedSweep) -> None:
    outcome = finished.outcomes[0]
    alone = prequential.evaluate(TEXT[:700], config=outcome.config, baselines=(), runtime=FUSED)
    assert outcome.run
    assert outcome.run.record["code_bits"] == alone.ledger.code_bits


def test_finished_runs_are_used_again_and_only_the_others_are_made(
    finished: FinishedSweep, corpus: Path, replace_evaluate: Callable[[Evaluate], None]
) -> None:
    evaluated = []

    def evaluate(*args: object, **options: object) -> NoReturn:
        evaluated.append(options["config"])
        fail()

    replace_evaluate(evaluate)
    wider = sweep_plan(TINY, widths=[16, 32], seeds=[0, 1, 2])
    again = swept(corpus, wider, finished.folder)
    assert evaluated == [config for config in wider.configs if config.seed == 2]
    assert [o.run.path for o in again if o.run] == [o.run.path for o in finished.outcomes if o.run]
    assert {o.is_new for o in again if o.run} == {False}


@pytest.mark.parametrize(("limit_bytes", "version"), [(699, VERSION), (700, "0")])
def test_runs_over_other_bytes_or_by_another_version_do_not_count(
    finished: FinishedSweep,
    corpus: Path,
    limit_bytes: int,
    version: str,
    replace_evaluate: Callable[[Evaluate], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    replace_evaluate(fail)
    monkeypatch.setattr("prequential.sweeps.plans.VERSION", version)
    again = swept(corpus, finished.plan, finished.folder, limit_bytes=limit_bytes)
    assert [outcome.run for outcome in again] == [None] * 4


def test_a_failed_run_does_not_stop_the_others(
    corpus: Path, tmp_path: Path, replace_evaluate: Callable[[Evaluate], None]
) -> None:
    def evaluate(*args: Any, **options: Any) -> prequential.Evaluation:
        if options["config"].seed == 0:
            fail()
        return prequential.evaluate(*args, **options)

    replace_evaluate(evaluate)
    plan = sweep_plan(TINY, seeds=[0, 1])
    failed, succeeded = swept(corpus, plan, tmp_path)
    assert (failed.run, str(failed.error)) == (None, "the GPT has diverged")
    assert succeeded.run
    assert succeeded.error is None
    assert [path.name for path in tmp_path.iterdir()] == [succeeded.run.path.name]
    assert summarise(plan, [failed, succeeded]).results[0].n_seeds == 1


def test_a_corpus_that_changes_during_the_runs_makes_them_fail(
    tmp_path: Path, replace_evaluate: Callable[[Evaluate], None]
) -> None:
    path = tmp_path / "changing"
    path.write_bytes(TEXT)

    def evaluate(*args: Any, **options: Any) -> prequential.Evaluation:
        path.write_bytes(TEXT[::-1])
        return prequential.evaluate(*args, **options)

    replace_evaluate(evaluate)
    (outcome,) = swept(path, sweep_plan(TINY), tmp_path / "runs")
    assert "changed during the runs" in str(outcome.error)
    assert list((tmp_path / "runs").iterdir()) == []


def test_standard_input_and_empty_corpora_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    with pytest.raises(CorpusError, match="reads the corpus again"):
        subject_of("-")
    with pytest.raises(CorpusError, match="empty"):
        subject_of(str(tmp_path / "empty"))


# ---- the results


def test_a_sweep_summarises_the_runs_that_it_makes_or_finds(finished: FinishedSweep, corpus: Path) -> None:
    outcomes: list[Outcome] = []
    summary = sweep(
        str(corpus), finished.plan, finished.folder, limit_bytes=700, runtime=FUSED, on_outcome=outcomes.append
    )
    assert summary == summarise(finished.plan, finished.outcomes)
    assert [outcome.config for outcome in outcomes] == finished.plan.configs


def test_a_sweep_without_a_successful_run_gives_the_first_error(
    corpus: Path, tmp_path: Path, replace_evaluate: Callable[[Evaluate], None]
) -> None:
    replace_evaluate(fail)
    with pytest.raises(CorpusError, match="the first error: the GPT has diverged"):
        sweep(str(corpus), sweep_plan(TINY), tmp_path, limit_bytes=700, runtime=FUSED)


def test_results_are_means_over_seeds(finished: FinishedSweep) -> None:
    plan, _, outcomes = finished
    for i, result in enumerate(summarise(plan, outcomes).results):
        bits_per_byte = [o.run.record["bits_per_byte"] for o in outcomes[2 * i : 2 * i + 2] if o.run]
        assert result.n_seeds == 2
        assert result.bits_per_byte == sum(bits_per_byte) / 2
        assert result.spread == abs(bits_per_byte[0] - bits_per_byte[1])
        assert result.flops_per_byte == pytest.approx(flops_per_byte(plan.settings[i].configs[0], 700).total, rel=1e-12)


def test_the_summary_has_the_cost_of_a_choice_and_compares_with_the_cheapest_setting(finished: FinishedSweep) -> None:
    summary = summarise(finished.plan, finished.outcomes)
    assert (summary.choice_bits, summary.run_choice_bits) == (1.0, 2.0)
    assert summary.baseline == summary.results[0].name
    assert summary.results[0].data_multiple == 1.0
    assert summary.results[0].on_front
    assert summary.best.bits_per_byte == min(result.bits_per_byte for result in summary.results)


def test_a_run_over_the_same_bytes_can_be_the_baseline(finished: FinishedSweep) -> None:
    plan, _, outcomes = finished
    baseline = outcomes[2].run
    assert baseline
    summary = summarise(plan, outcomes, baseline)
    curve = mean_curve([outcome.run.curves["model"] for outcome in outcomes[:2] if outcome.run])
    assert summary.baseline == baseline.name
    assert summary.results[0].data_multiple == data_multiple(curve, baseline.curves["model"])
    with pytest.raises(CorpusError, match="other bytes"):
        check_baseline(baseline, Subject(700, "00" * 32))


def test_a_sweep_without_a_finished_run_has_no_summary(finished: FinishedSweep) -> None:
    failed = [replace(outcome, run=None, error=ConfigError("no")) for outcome in finished.outcomes]
    with pytest.raises(CorpusError, match="no run"):
        summarise(finished.plan, failed)


POINTS = st.lists(st.tuples(st.integers(0, 5).map(float), st.integers(0, 5).map(float)), max_size=12)


@given(POINTS)
def test_a_point_is_on_the_front_if_and_only_if_no_other_dominates_it(points: list[tuple[float, float]]) -> None:
    def dominated(p: tuple[float, float]) -> bool:
        return any(q[0] <= p[0] and q[1] <= p[1] and q != p for q in points)

    assert pareto_front(points) == [not dominated(p) for p in points]
