"""Sweeps: the grid, means over seeds, the Pareto front."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from studies import FUSED, N_BYTES, TINY

from prequential import Config, ConfigError, CorpusError, Curve, preset
from prequential.evaluation.curves import mean_curve
from prequential.online.costs import total_flops
from prequential.sweeps.plans import RunOutcome, sweep_plan
from prequential.sweeps.sweep import pareto_front, summarise, sweep

# ---- the plan


def test_a_grid_has_every_combination_once():
    plan = sweep_plan(TINY, replay=[1, 2, 1], widths=[16, 32], layers=[1, 2], update_symbols=[64, 128], seeds=[3, 4])
    assert (len(plan.variants), len(set(plan.configs))) == (16, 32)
    parts = [(c.gpt, c.schedule, c.seed) for c in plan.configs]
    points = [
        (s.n_rows * s.row_symbols / s.segment_symbols, g.width, g.n_layers, s.segment_symbols, seed)
        for g, s, seed in parts
    ]
    assert sorted(points) == list(product((1, 2), (16, 32), (1, 2), (64, 128), (3, 4)))
    assert plan.refusals == {}
    assert plan.flops(1024) == sum(total_flops(config, 1024) for config in plan.configs)


def test_values_that_are_not_varied_stay_as_in_the_base():
    for base in (TINY, preset(5), preset(5, pure=True, seed=7), preset(6)):
        assert sweep_plan(base).configs == [base]
    heads = [config.gpt.n_heads for config in sweep_plan(preset(5), widths=(64, 128, 256)).configs]
    assert heads == [1, 2, 4]  # of equal width


def test_an_impossible_combination_is_refused_by_name_with_its_reason():
    runtime = replace(FUSED, max_memory_bytes=32 << 20)
    plan = sweep_plan(TINY, replay=[0.5, 1, 1.1], widths=[16, 33, 1024], runtime=runtime)
    assert [variant.name for variant in plan.variants] == ["replay 1, width 16, layers 1, update 128"]
    assert len(plan.refusals) == 8
    assert "multiple of 2 * n_heads" in plan.refusals["replay 1, width 33, layers 1, update 128"]
    assert "does not fill an integer number of rows" in plan.refusals["replay 1.1, width 16, layers 1, update 128"]
    assert "memory" in plan.refusals["replay 1, width 1024, layers 1, update 128"]


def test_a_grid_without_a_gpt_or_without_any_configuration_is_an_error():
    with pytest.raises(ConfigError, match="lacks"):
        sweep_plan(Config(gpt=None))
    with pytest.raises(ConfigError, match="no combination is left; replay 1, width 33"):
        sweep_plan(TINY, widths=[33])


# ---- the results


def test_a_sweep_summarises_the_runs_that_it_makes_or_finds(finished, corpus):
    outcomes: list[RunOutcome] = []
    plan, folder, before = finished
    summary = sweep(str(corpus), plan, folder, limit=N_BYTES, runtime=FUSED, on_outcome=outcomes.append)
    assert summary == summarise(plan, before)
    assert [outcome.config for outcome in outcomes] == plan.configs


def test_results_are_means_over_the_seeds_that_have_a_run(finished):
    plan, _, outcomes = finished
    for i, result in enumerate(summarise(plan, outcomes).results):
        bits_per_byte = [outcome.run.record["bits_per_byte"] for outcome in outcomes[2 * i : 2 * i + 2]]
        assert (result.n_seeds, result.bits_per_byte) == (2, sum(bits_per_byte) / 2)
        assert result.spread == abs(bits_per_byte[0] - bits_per_byte[1])
        expected = total_flops(plan.configs[2 * i], N_BYTES) / N_BYTES
        assert result.flops_per_byte == pytest.approx(expected, rel=1e-12)
    frame = summarise(plan, outcomes).to_frame()
    assert frame["data_multiple"].isna()[0] and {"low", "high"} < set(frame.columns)  # the cheapest is the baseline
    lacking = [replace(outcome, run=None, error=ConfigError("no")) for outcome in outcomes]
    assert [r.n_seeds for r in summarise(plan, [lacking[0], *outcomes[1:]]).results] == [1, 2]
    assert "Over other seeds: " in summarise(plan, outcomes).verdict and not summarise(plan, outcomes[:2]).verdict
    with pytest.raises(CorpusError, match="no run"):
        summarise(plan, lacking)


def test_a_point_is_on_the_front_if_no_other_dominates_it_and_equal_points_are_on_it_together():
    points = [(1.0, 5.0), (1.0, 5.0), (1.0, 6.0), (2.0, 5.0), (2.0, 3.0), (3.0, 4.0), (4.0, 1.0)]
    assert pareto_front(points) == [True, True, False, False, True, False, True]


def test_a_mean_curve_is_the_mean_at_the_positions_of_the_first_curve():
    a = Curve(n_bytes=np.array([10, 20]), bits=np.array([40.0, 60.0]))
    b = Curve(n_bytes=np.array([20]), bits=np.array([100.0]))
    assert mean_curve([a, b]).bits.tolist() == [45.0, 80.0]
