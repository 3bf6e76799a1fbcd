"""Sweeps: the grid, runs that are made once, the Pareto front, and how much data one learner needs against another."""

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import prequential
from prequential import Config, ConfigError, CorpusError, Curve, GPTConfig, Runtime, ScheduleConfig, preset
from prequential.measure.study.sweep import (
    N_WINDOWS,
    Outcome,
    Plan,
    Subject,
    check_baseline,
    compare_data,
    data_multiple,
    falling,
    mean_curve,
    pareto_front,
    plan,
    subject,
    summarise,
    sweep,
    varied,
)
from prequential.online.flops import flops_per_byte, replay_factor

TINY = Config(
    gpt=GPTConfig(n_layers=1, width=16, n_heads=1, window=8),
    mixer=None,
    schedule=ScheduleConfig(
        first_segment_symbols=64, segment_symbols=128, row_symbols=32, n_rows=4, history_bits=14, block_symbols=1024
    ),
)
PLAIN = Runtime(kernels="plain", threads=1)
TEXT = b"it was the best of times, it was the worst of times. " * 20


# ---- the plan


def test_a_grid_has_every_combination_once() -> None:
    made = plan(TINY, replay=[1, 2, 1], widths=[16, 32], layers=[1, 2], update_symbols=[64, 128], seeds=[3, 4])
    assert len(made.settings) == 16
    assert len(set(made.configs)) == len(made.configs) == 32
    points = {
        (replay_factor(c), c.gpt.width, c.gpt.n_layers, c.schedule.segment_symbols, c.seed)
        for c in made.configs
        if c.gpt
    }
    assert points == set(product((1, 2), (16, 32), (1, 2), (64, 128), (3, 4)))
    assert made.refusals == ()


def test_what_is_not_varied_stays_as_it_is() -> None:
    for base in (TINY, preset(3), preset(5, pure=True, seed=7), preset(8)):
        assert plan(base).configs == [base]


def test_a_combination_that_is_no_configuration_is_refused_by_name_with_its_reason() -> None:
    made = plan(TINY, replay=[0.5, 1, 1.1], widths=[16, 33])
    assert [setting.name for setting in made.settings] == ["replay 1, width 16, layers 1, update 128"]
    reasons = dict(made.refusals)
    assert len(reasons) == 5
    assert "at most n_rows * row_symbols" in reasons["replay 0.5, width 16, layers 1, update 128"]
    assert "multiple of 2 * n_heads" in reasons["replay 1, width 33, layers 1, update 128"]
    assert "no whole number of rows" in reasons["replay 1.1, width 16, layers 1, update 128"]


def test_a_model_above_the_memory_limit_is_refused() -> None:
    made = plan(TINY, widths=[16, 1024], max_memory_bytes=32 << 20)
    assert [refusal.name for refusal in made.refusals] == ["replay 1, width 1024, layers 1, update 128"]
    assert "memory" in made.refusals[0].reason


def test_a_grid_without_a_gpt_or_without_any_configuration_is_an_error() -> None:
    with pytest.raises(ConfigError, match="has none"):
        plan(Config(gpt=None))
    with pytest.raises(ConfigError, match="no combination is left"):
        plan(TINY, widths=[33])


def test_heads_keep_their_width() -> None:
    assert [varied(preset(5), 1.5, width, 2, 1024).gpt.n_heads for width in (64, 128, 256)] == [1, 2, 4]  # type: ignore[union-attr]


def test_the_operations_of_a_plan_are_those_of_its_runs() -> None:
    made = plan(TINY, widths=[16, 32], seeds=[0, 1, 2])
    expected = sum(flops_per_byte(config, 1024).total * 1024 for config in made.configs)  # 1024: exact in binary
    assert made.flops(1024) == expected


# ---- the runs


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("corpus") / "times.txt"
    path.write_bytes(TEXT)
    return path


def swept(corpus: Path, made: Plan, folder: Path, **options: object) -> list[Outcome]:
    given = {"evaluate": prequential.evaluate, "program_version": "1", "limit_bytes": 700, "runtime": PLAIN} | options
    return list(sweep(str(corpus), made, folder, **given))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def first(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Plan, Path, list[Outcome]]:
    """A sweep of two widths and two seeds."""
    folder = tmp_path_factory.mktemp("sweep") / "runs"
    made = plan(TINY, widths=[16, 32], seeds=[0, 1])
    return made, folder, swept(corpus, made, folder)


def test_every_run_leaves_a_folder_with_its_configuration(first: tuple[Plan, Path, list[Outcome]]) -> None:
    made, folder, outcomes = first
    runs = prequential.read_runs(folder)
    assert [outcome.config for outcome in outcomes] == made.configs
    assert {run.path for run in runs} == {outcome.run.path for outcome in outcomes if outcome.run}
    assert [Config.from_dict(o.run.record["config"]) for o in outcomes if o.run] == made.configs
    assert prequential.decompress(runs[0].archive, runtime=PLAIN) == TEXT[:700]


def test_a_run_is_the_one_that_evaluate_makes(first: tuple[Plan, Path, list[Outcome]]) -> None:
    outcome = first[2][0]
    alone = prequential.evaluate(TEXT[:700], config=outcome.config, baselines=(), runtime=PLAIN)
    assert outcome.run
    assert outcome.run.record["code_bits"] == alone.ledger.code_bits


def test_finished_runs_are_not_made_again_and_others_are(first: tuple[Plan, Path, list[Outcome]], corpus: Path) -> None:
    _, folder, outcomes = first
    asked = []

    def evaluate(*args: object, **options: object) -> None:
        asked.append(options["config"])
        raise ConfigError("not now")

    wider = plan(TINY, widths=[16, 32], seeds=[0, 1, 2])
    again = swept(corpus, wider, folder, evaluate=evaluate)
    assert asked == [config for config in wider.configs if config.seed == 2]
    assert [o.run.path for o in again if o.run] == [o.run.path for o in outcomes if o.run]
    assert {o.is_new for o in again if o.run} == {False}


@pytest.mark.parametrize("change", [{"limit_bytes": 699}, {"program_version": "2"}])
def test_runs_over_other_bytes_or_by_another_version_do_not_count(
    first: tuple[Plan, Path, list[Outcome]], corpus: Path, change: dict[str, object]
) -> None:
    def evaluate(*args: object, **options: object) -> None:
        raise ConfigError("not now")

    again = swept(corpus, first[0], first[1], evaluate=evaluate, **change)
    assert [outcome.run for outcome in again] == [None] * 4


def test_a_run_that_fails_keeps_no_other_back(corpus: Path, tmp_path: Path) -> None:
    def evaluate(*args: object, **options: object) -> prequential.Evaluation:
        if options["config"].seed == 0:  # type: ignore[attr-defined]
            raise ConfigError("the GPT has diverged")
        return prequential.evaluate(*args, **options)  # type: ignore[arg-type]

    made = plan(TINY, seeds=[0, 1])
    failed, done = swept(corpus, made, tmp_path, evaluate=evaluate)
    assert (failed.run, str(failed.error)) == (None, "the GPT has diverged")
    assert done.error is None
    assert [path.name for path in tmp_path.iterdir()] == [done.run.path.name]  # type: ignore[union-attr]
    assert summarise(made, [failed, done]).results[0].n_seeds == 1


def test_a_corpus_that_changes_during_the_sweep_fails_its_runs(tmp_path: Path) -> None:
    path = tmp_path / "changing"
    path.write_bytes(TEXT)

    def evaluate(*args: object, **options: object) -> prequential.Evaluation:
        path.write_bytes(TEXT[::-1])
        return prequential.evaluate(*args, **options)  # type: ignore[arg-type]

    (outcome,) = swept(path, plan(TINY), tmp_path / "runs", evaluate=evaluate)
    assert "changed during the sweep" in str(outcome.error)
    assert list((tmp_path / "runs").iterdir()) == []


def test_standard_input_and_empty_corpora_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    with pytest.raises(CorpusError, match="again for each run"):
        subject("-")
    with pytest.raises(CorpusError, match="empty"):
        subject(str(tmp_path / "empty"))


# ---- what came of it


def test_results_are_averages_over_seeds(first: tuple[Plan, Path, list[Outcome]]) -> None:
    made, _, outcomes = first
    summary = summarise(made, outcomes)
    for i, result in enumerate(summary.results):
        bits = [o.run.record["bits_per_byte"] for o in outcomes[2 * i : 2 * i + 2] if o.run]
        assert result.n_seeds == 2
        assert result.bits_per_byte == sum(bits) / 2
        assert result.spread == abs(bits[0] - bits[1])
        assert result.flops_per_byte == flops_per_byte(made.settings[i].configs[0], 700).total


def test_the_summary_says_what_a_choice_costs_and_compares_with_the_cheapest(
    first: tuple[Plan, Path, list[Outcome]],
) -> None:
    summary = summarise(first[0], first[2])
    assert (summary.choice_bits, summary.run_choice_bits) == (1.0, 2.0)
    assert summary.baseline == summary.results[0].name
    assert summary.results[0].data_multiple == 1.0
    assert summary.results[0].on_front
    assert summary.best.bits_per_byte == min(r.bits_per_byte for r in summary.results)


def test_a_run_can_be_the_baseline_if_it_is_of_the_same_bytes(first: tuple[Plan, Path, list[Outcome]]) -> None:
    made, _, outcomes = first
    baseline = outcomes[2].run
    assert baseline
    summary = summarise(made, outcomes, baseline)
    expected = data_multiple(
        mean_curve([o.run.curves["model"] for o in outcomes[:2] if o.run]), baseline.curves["model"]
    )
    assert summary.baseline == baseline.name
    assert summary.results[0].data_multiple == expected
    with pytest.raises(CorpusError, match="other bytes"):
        check_baseline(baseline, Subject(700, "00" * 32))


def test_a_sweep_without_a_finished_run_has_no_summary(first: tuple[Plan, Path, list[Outcome]]) -> None:
    failed = [replace(outcome, run=None, error=ConfigError("no")) for outcome in first[2]]
    with pytest.raises(CorpusError, match="no run"):
        summarise(first[0], failed)


POINTS = st.lists(st.tuples(st.integers(0, 5).map(float), st.integers(0, 5).map(float)), max_size=12)


@given(POINTS)
def test_a_point_is_on_the_front_if_and_only_if_no_other_dominates_it(points: list[tuple[float, float]]) -> None:
    def dominated(p: tuple[float, float]) -> bool:
        return any(q[0] <= p[0] and q[1] <= p[1] and q != p for q in points)

    assert pareto_front(points) == [not dominated(p) for p in points]


# ---- data multiples


def power_law(n_bytes: int, speed: float, floor: float = 1.0) -> Curve:
    """A learner whose loss after n bytes is floor + 7 / sqrt(1 + speed * n / 1000) bits per byte."""
    at = np.arange(64, n_bytes + 1, 64, dtype=np.int64)
    scale = 1000 / speed
    return Curve(n_bytes=at, bits=floor * at + 14 * scale * (np.sqrt(1 + at / scale) - 1))


@pytest.mark.parametrize("speed", [1.5, 2.0, 4.0])
def test_a_learner_that_needs_a_share_of_the_data_has_the_inverse_as_its_multiple(speed: float) -> None:
    multiple = data_multiple(power_law(1 << 18, speed), power_law(1 << 18, 1.0))
    assert multiple == pytest.approx(speed, rel=0.08)  # windows are wide where the faster one is


def test_exchanged_curves_have_the_inverse_multiple() -> None:
    fast, slow = power_law(1 << 16, 3.0), power_law(1 << 16, 1.0)
    forth, back = data_multiple(fast, slow), data_multiple(slow, fast)
    assert forth is not None
    assert back is not None
    assert forth > 1 > back
    assert forth * back == pytest.approx(1.0, rel=1e-12)


def test_a_curve_against_itself_has_multiple_one() -> None:
    curve = power_law(1 << 14, 1.0)
    assert data_multiple(curve, curve) == 1.0


@pytest.mark.parametrize("ease", [0.05, 0.1, 0.2, 0.5, 1.0])
def test_stretches_that_are_easy_for_both_are_not_taken_for_learning(ease: float) -> None:
    fast, slow = power_law(1 << 18, 2.0), power_law(1 << 18, 1.0)
    easy = np.where(fast.n_bytes // (1 << 14) % 4 == 1, -ease, 0.0)  # bits per byte
    change = np.cumsum(np.diff(fast.n_bytes, prepend=0) * (easy - easy.mean()))
    multiple = data_multiple(*(Curve(n_bytes=c.n_bytes, bits=c.bits + change) for c in (fast, slow)))
    assert multiple is not None
    assert 1.3 < multiple < 2.1  # taken as they are, the windows say up to 2.7


def test_a_loss_reached_within_the_first_window_gives_no_multiple_but_a_reason() -> None:
    good = power_law(1 << 14, 1.0, floor=0.0)
    flat = Curve(n_bytes=good.n_bytes, bits=8.0 * good.n_bytes)
    slow = Curve(n_bytes=good.n_bytes, bits=8.0 * good.n_bytes - good.n_bytes**2 / 2**16)  # 8 falling to 7.5
    for curve, baseline, who in ((flat, flat, "it"), (good, slow, "it"), (slow, good, "the baseline")):
        multiple, reason = compare_data(curve, baseline)
        assert multiple is None
        assert reason.startswith(f"{who} reaches ")
        assert reason.endswith(f"within its first {(1 << 14) // N_WINDOWS} bytes")


@given(st.lists(st.integers(-8, 8).map(float), min_size=1, max_size=12))
def test_the_nearest_falling_sequence_falls_and_keeps_the_sum_and_is_optimal(values: list[float]) -> None:
    found = falling(np.array(values))
    residual = np.array(values) - found
    assert (np.diff(found) <= 1e-12).all()
    # optimality of a projection on a cone: the residual has no component along it and none into it
    assert residual @ found == pytest.approx(0.0, abs=1e-9)
    assert residual.sum() == pytest.approx(0.0, abs=1e-9)
    assert (np.cumsum(residual)[:-1] <= 1e-9).all()


def test_a_mean_curve_is_the_mean_at_the_firsts_positions() -> None:
    a = Curve(n_bytes=np.array([10, 20]), bits=np.array([40.0, 60.0]))
    b = Curve(n_bytes=np.array([20]), bits=np.array([100.0]))
    assert mean_curve([a, b]).bits.tolist() == [45.0, 80.0]
