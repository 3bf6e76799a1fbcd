"""Ladders: a run contains the runs over its prefixes, sizes share one learner, diverged runs are named, rule of step sizes."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import prequential
from prequential import Config, ConfigError, CorpusError, Curve, GPTConfig, MixerConfig, Runtime, ScheduleConfig, preset
from prequential.evaluation.runs import Run
from prequential.online.flops import total_flops
from prequential.sweeps.ladder import (
    DEFAULT_SIZES,
    Ladder,
    Rung,
    Size,
    check_steps,
    diverged_runs,
    family,
    ladder_plan,
    n_weights,
    parse_size,
    predicted_seconds,
    read_ladder,
    scaled,
    step_drift,
    step_plan,
)
from prequential.sweeps.plans import Subject, run_plan

TINY = Config(
    gpt=GPTConfig(n_layers=1, width=16, n_heads=1, window=8),
    mixer=None,
    schedule=ScheduleConfig(
        first_segment_symbols=64, segment_symbols=128, row_symbols=32, n_rows=4, history_bits=14, block_symbols=1024
    ),
)
SMALL_MIXER = MixerConfig(contexts=("1", "2"), table_bits=8, match_bits=8)
FUSED = Runtime(kernels="fused", threads=1)
TEXT = b"it was the best of times, it was the worst of times. " * 60


# ---- one run serves every prefix


@pytest.mark.parametrize("mixer", [None, SMALL_MIXER])
@pytest.mark.parametrize("n_bytes", [128, 700, 1024, 1500])
def test_a_shorter_run_costs_what_the_longer_one_cost_for_its_bytes(mixer: MixerConfig | None, n_bytes: int) -> None:
    config = replace(TINY, mixer=mixer)
    long = prequential.evaluate(TEXT[:2500], config=config, baselines=(), runtime=FUSED)
    short = prequential.evaluate(TEXT[:n_bytes], config=config, baselines=(), runtime=FUSED)
    assert short.trace.bits("model").tolist() == long.trace.bits("model", slice(0, n_bytes)).tolist()
    # The curves agree at every end of a complete segment. The last point may be inside a segment of the longer run.
    assert set(short.curve.n_bytes[:-1]) <= set(long.curve.n_bytes)
    assert np.array_equal(short.curve.at(short.curve.n_bytes[:-1]), long.curve.at(short.curve.n_bytes[:-1]))


# ---- sizes


def test_a_rung_differs_from_the_base_only_in_size_heads_seed_and_the_step_of_the_rule() -> None:
    base = preset(5, pure=True)
    for size in (Size(24, 1), Size(48, 2), Size(256, 3)):
        config = scaled(base, size, seed=4)
        assert config.gpt and base.gpt
        assert config.gpt.width // config.gpt.n_heads <= 32
        assert (config.gpt.width, config.gpt.n_layers, config.seed) == (*size, 4)
        smaller = base.gpt.width / size.width
        assert config.gpt.vector_step == pytest.approx(base.gpt.vector_step * smaller**0.75)
        assert config.gpt.matrix_step == base.gpt.matrix_step
        assert family(config.to_dict()) == family(base.to_dict())
    assert family(scaled(base, Size(24, 1), step_factor=2.0).to_dict()) != family(base.to_dict())


def test_n_is_the_number_of_weights_that_a_symbol_is_multiplied_with() -> None:
    for config in (scaled(preset(5, pure=True), size) for size in DEFAULT_SIZES):
        assert config.gpt
        reading = total_flops(config, 1 << 16).reading / (1 << 16)
        assert 2 * n_weights(config.gpt) == reading


def test_a_plan_has_every_size_and_all_seeds_on_two() -> None:
    plan = ladder_plan(preset(5, pure=True))
    assert [setting.name for setting in plan.settings] == ["24x2", "32x2", "48x2", "64x2", "96x2"]
    assert [[c.seed for c in setting.configs] for setting in plan.settings] == [[0], [0, 1, 2], [0], [0, 1, 2], [0]]
    chosen = ladder_plan(preset(5, pure=True), seeded=[Size(24, 2)], seeds=[5, 6])
    assert [[c.seed for c in setting.configs] for setting in chosen.settings] == [[5, 6], [5], [5], [5], [5]]


def test_an_impossible_size_refuses_the_complete_ladder() -> None:
    with pytest.raises(ConfigError, match="multiple of 2"):
        ladder_plan(TINY, [Size(16, 1), Size(33, 1)])
    with pytest.raises(ConfigError, match="memory"):
        ladder_plan(TINY, [Size(16, 1), Size(1024, 1)], runtime=replace(FUSED, max_memory_bytes=32 << 20))
    with pytest.raises(ConfigError, match="has none"):
        ladder_plan(preset(1))


def test_sizes_are_written_as_width_and_layers() -> None:
    assert str(parse_size("64x2")) == "64x2"
    for wrong in ("64", "64x", "x2", "64x2x1"):
        with pytest.raises(ValueError):
            parse_size(wrong)


def test_the_predicted_time_is_that_of_the_probe_and_between_probes_it_is_interpolated() -> None:
    plan = ladder_plan(TINY, [Size(16, 1), Size(32, 1), Size(64, 1)], seeds=[0])
    small, middle, large = plan.configs
    n = 2000
    flops = [total_flops(config, n).total for config in (small, middle, large)]
    probes = [(small, n, flops[0] / 1e6), (large, n, flops[2] / 4e6)]

    def alone(i: int) -> float:
        return predicted_seconds(replace(plan, settings=(plan.settings[i],)), n, probes)

    assert alone(0) == pytest.approx(flops[0] / 1e6)
    assert flops[1] / 4e6 < alone(1) < flops[1] / 1e6
    assert predicted_seconds(plan, n, probes) == pytest.approx(alone(0) + alone(1) + alone(2))


# ---- the runs


def test_a_ladder_is_read_back_from_its_runs(tmp_path: Path) -> None:
    corpus = tmp_path / "times.txt"
    corpus.write_bytes(TEXT)
    plan = ladder_plan(TINY, [Size(32, 1), Size(16, 1)], seeds=[0, 1])
    for other in (plan, step_plan(TINY, [Size(16, 1)], factors=[2.0])):
        outcomes = run_plan(str(corpus), other, tmp_path / "runs", limit_bytes=600, runtime=FUSED)
        assert all(outcome.run for outcome in outcomes)
    ladder = read_ladder(tmp_path / "runs")
    assert [rung.name for rung in ladder.rungs] == ["16x1, seed 0", "16x1, seed 1", "32x1, seed 0", "32x1, seed 1"]
    assert ladder.subject.n_bytes == 600
    assert [rung.config for rung in ladder.rungs] == plan.configs
    (tmp_path / "empty").mkdir()
    with pytest.raises(CorpusError, match="has no runs of a GPT"):
        read_ladder(tmp_path / "empty")


def synthetic(rates: dict[int, list[float]]) -> Ladder:
    """A ladder of these widths, whose curves have windows of these bits per byte."""
    rungs = []
    for width, values in rates.items():
        config = scaled(TINY, Size(width, 1))
        record: dict[str, Any] = {"config": config.to_dict(), "corpus": {"n_bytes": 800, "blake2b": "0"}}
        run = Run(Path(f"run-{width}"), record)
        ends = np.arange(1, len(values) + 1) * 100
        run.__dict__["curves"] = {"model": Curve(n_bytes=ends, bits=np.cumsum(values) * 100.0)}
        rungs.append(Rung(run))
    return Ladder(tuple(rungs), Subject(800, "0"))


def test_a_run_above_the_uniform_code_or_with_an_unusual_rise_looks_diverged() -> None:
    usual = [5.0, 4.0, 3.5, 3.8, 3.2, 3.0, 2.9, 3.1]
    harder_text = {16: usual, 32: [0.9 * r for r in usual], 48: [0.8 * r for r in usual]}
    assert diverged_runs(synthetic(harder_text)) == {}
    rising = diverged_runs(synthetic(harder_text | {64: [4.0, 3.0, 2.5, 2.6, 2.8, 3.2, 3.5, 3.9]}))
    assert list(rising) == ["64x1, seed 0"]
    assert "rises by 56%" in rising["64x1, seed 0"]
    wild = diverged_runs(synthetic(harder_text | {64: [8.0, 9.0, 9.5, 9.1, 9.2, 9.3, 9.9, 9.9]}))
    assert "the uniform code has 8" in wild["64x1, seed 0"]


# ---- the rule of step sizes


def parabola(best: float) -> dict[float, float]:
    return {f: 3.0 + 0.05 * (np.log2(f) - np.log2(best)) ** 2 for f in (0.5, 1.0, 2.0)}


def test_the_best_factor_is_the_vertex_of_the_parabola_and_the_drift_is_a_slope() -> None:
    sizes = [Size(16, 1), Size(32, 1), Size(64, 1)]
    best = [1.5, 1.2, 0.8]
    bits = {(size, f): b for size, at in zip(sizes, best, strict=True) for f, b in parabola(at).items()}
    checks = check_steps(bits, TINY)
    assert [check.size for check in checks] == sizes
    assert [check.best_factor for check in checks] == pytest.approx(best)
    assert checks[0].loss_percent == pytest.approx(100 * (bits[sizes[0], 1.0] / 3.0 - 1))
    drift = step_drift(checks)
    assert drift is not None
    assert drift < -0.1
    assert step_drift(checks[:2]) is None


def test_without_an_optimum_among_the_factors_the_check_names_the_best_of_them() -> None:
    checks = check_steps({(Size(16, 1), f): b for f, b in ((0.5, 3.0), (1.0, 3.2), (2.0, 9.0))}, TINY)
    assert checks[0].best_factor is None
    assert "the fewest bits at 0.5" in checks[0].note
    assert "diverged with factor 2" in checks[0].note
    assert checks[0].loss_percent == pytest.approx(100 * (3.2 / 3.0 - 1))


def test_a_check_without_factor_1_is_refused() -> None:
    with pytest.raises(ConfigError, match="needs the step factor 1"):
        check_steps({(Size(16, 1), f): 3.0 for f in (0.5, 2.0, 4.0)}, TINY)


def test_an_incomplete_size_may_be_left_out() -> None:
    bits = {(Size(16, 1), f): 3.0 for f in (0.5, 2.0)} | {(Size(32, 1), f): b for f, b in parabola(1.5).items()}
    errors: list[ConfigError] = []
    assert [check.size for check in check_steps(bits, TINY, errors.append)] == [Size(32, 1)]
    assert "the check of 16x1 needs the step factor 1" in str(errors[0]) and len(errors) == 1
