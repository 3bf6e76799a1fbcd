"""Ladders: a run contains the runs over its prefixes, sizes share one learner, diverged runs are named."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from studies import FUSED, TEXT, TINY

import prequential
from prequential import ConfigError, CorpusError, Curve, MixerConfig, preset
from prequential.evaluation.runs import Run
from prequential.forecasting.members import read_ladder
from prequential.sweeps.ladder import Rung, Size, diverged_runs, family, ladder_of, ladder_plan, scaled
from prequential.sweeps.plans import sweep_plan

SMALL_MIXER = MixerConfig(contexts=("1", "2"), table_bits=8, match_bits=8)


@pytest.mark.parametrize("mixer", [None, SMALL_MIXER])
@pytest.mark.parametrize("n_bytes", [128, 1500])
@pytest.mark.first_quick
def test_a_shorter_run_costs_what_the_longer_one_cost_for_its_bytes(mixer, n_bytes):
    config = replace(TINY, mixer=mixer)
    long = prequential.evaluate(TEXT[:2500], config=config, baselines=(), runtime=FUSED)
    short = prequential.evaluate(TEXT[:n_bytes], config=config, baselines=(), runtime=FUSED)
    assert short.trace.bits("model").tolist() == long.trace.bits("model", slice(0, n_bytes)).tolist()
    ends = short.curve.n_bytes[:-1]  # of complete segments; the last point may be inside a segment of the longer run
    assert set(ends) <= set(long.curve.n_bytes) and np.array_equal(short.curve.at(ends), long.curve.at(ends))


# ---- the plan


def test_a_rung_differs_from_the_base_only_in_size_heads_and_the_step_of_the_rule():
    base = preset(5, pure=True)
    for size in (Size(24, 1), Size(48, 2), Size(256, 3)):
        config = replace(scaled(base, size), seed=4)
        assert config.gpt and base.gpt
        assert config.gpt.width // config.gpt.n_heads <= 32
        assert (config.gpt.width, config.gpt.n_layers) == size
        smaller = base.gpt.width / size.width
        assert config.gpt.vector_step == pytest.approx(base.gpt.vector_step * smaller**0.75)
        assert config.gpt.matrix_step == base.gpt.matrix_step
        assert family(config.to_dict()) == family(base.to_dict())
        other = replace(config, gpt=replace(config.gpt, matrix_step=2 * config.gpt.matrix_step))
        assert family(other.to_dict()) != family(base.to_dict())


def test_a_plan_has_every_size_and_all_seeds_on_two():
    plan = ladder_plan(preset(5, pure=True))
    assert [variant.name for variant in plan.variants] == ["24x2", "32x2", "48x2", "64x2", "96x2"]
    assert [[c.seed for c in variant.configs] for variant in plan.variants] == [[0], [0, 1, 2], [0], [0, 1, 2], [0]]


def test_an_impossible_size_refuses_the_complete_ladder():
    with pytest.raises(ConfigError, match="multiple of 2"):
        ladder_plan(TINY, [Size(16, 1), Size(33, 1)])
    with pytest.raises(ConfigError, match="has none"):
        ladder_plan(preset(1))


# ---- the runs


def test_a_ladder_is_read_back_from_its_runs(run_all, tmp_path):
    plan = ladder_plan(TINY, [Size(32, 1), Size(16, 1)], seeds=[0, 1])
    run_all(plan, tmp_path / "runs")
    run_all(sweep_plan(TINY, replay=[2], widths=[16]), tmp_path / "runs")  # of another family
    ladder = read_ladder(tmp_path / "runs")
    assert [rung.name for rung in ladder.rungs] == ["16x1, seed 0", "16x1, seed 1", "32x1, seed 0", "32x1, seed 1"]
    assert ladder.corpus.n_bytes == 700
    assert [rung.config for rung in ladder.rungs] == plan.configs
    (tmp_path / "empty").mkdir()
    with pytest.raises(CorpusError, match="has no runs of a ladder"):
        read_ladder(tmp_path / "empty")


def synthetic(rates):
    """A ladder of these widths, whose curves have windows of these bits per byte."""
    runs = []
    for width, values in rates.items():
        config = scaled(TINY, Size(width, 1))
        record: dict[str, Any] = {"config": config.to_dict(), "corpus": {"n_bytes": 800, "blake2b": "0"}}
        runs.append(Run(Path(f"run-{width}"), record))
        ends = np.arange(1, len(values) + 1) * 100
        runs[-1].__dict__["curves"] = {"model": Curve(n_bytes=ends, bits=np.cumsum(values) * 100.0)}
    return ladder_of(map(Rung, runs))


def test_a_run_above_the_uniform_code_or_with_an_unusual_rise_looks_diverged():
    usual = [5.0, 4.0, 3.5, 3.8, 3.2, 3.0, 2.9, 3.1]
    harder_text = {16: usual, 32: [0.9 * r for r in usual], 48: [0.8 * r for r in usual]}
    assert diverged_runs(synthetic(harder_text)) == {}
    rising = synthetic(harder_text | {64: [4.0, 3.0, 2.5, 2.6, 2.8, 3.2, 3.5, 3.9]})
    assert list(diverged_runs(rising)) == ["64x1, seed 0"]
    assert "looks diverged: 64x1, seed 0: its loss rises by 56% within the run" in rising.to_text()
    assert list(diverged_runs(synthetic(harder_text | {64: [8.1] * 8}))) == ["64x1, seed 0"]
