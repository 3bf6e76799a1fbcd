"""float32.py: its GPT differs from the exact one only by rounding, so its table compares only the arithmetic."""

import sys

import numpy as np
import pytest
import torch
from prequential_codecs.bit_coder import FOLLOW, BitCoder
from prequential_corpora.bundled import sample_path
from scripts import load

from prequential.exact.host import to_tensor
from prequential.model.config import Config, GPTConfig, ScheduleConfig
from prequential.model.schedule import segments
from prequential.online.runtime import Runtime

CONFIG = Config(  # the window is shorter than a row and does not divide a segment
    gpt=GPTConfig(n_layers=2, width=64, n_heads=2, mlp_factor=2, window=10),
    mixer=None,
    schedule=ScheduleConfig(first_segment_symbols=64, segment_symbols=96, row_symbols=32, n_rows=8, history_bits=14),
)
TEXT = np.fromfile(sample_path("christmas_carol"), np.uint8, 6000)


@pytest.fixture(scope="module")
def script():
    return load("float32")


@pytest.fixture
def learners(script):
    """The exact learner and the float32 one."""
    return Runtime(threads=1, backend="float32").learner(CONFIG), script.Float32Learner(CONFIG, 1)


def learn(learner, n):
    """The learner reads the first n symbols and learns from them."""
    for segment in segments(slice(0, n), CONFIG.schedule):
        read(learner, segment)


def read(learner, segment):
    symbols = TEXT[segment].astype(np.int64)
    learner.begin(len(symbols))
    learner.code(symbols, BitCoder(FOLLOW))
    learner.end(len(symbols))


def take_over(float32, exact):
    """Copies weights, optimiser state, carried keys and values of the exact learner, between two segments."""
    state = {name: tensor.clone() for name, tensor in exact.gpt.state().items()}
    gpt, carried = float32.gpt, exact.gpt._reader.carried_cache()
    gpt._weights = {name: state[name] for name in gpt._weights}
    gpt._momentum = {name: state[f"momentum.{name}"] for name in gpt._momentum}
    gpt._adam = {name: (state[f"adam.mean.{name}"], state[f"adam.square.{name}"]) for name in gpt._adam}
    gpt._n_updates, gpt._start, gpt._n_time = exact.gpt._n_updates, exact.gpt._reader.n_columns, 0
    keys, values = carried["k"] * carried["k_r"][..., None], carried["v"] * carried["v_scale"][..., None]
    gpt._carried = list(zip(keys, values, strict=True))


def relative(a, b):
    return float((a - b).norm() / b.norm())


@pytest.mark.parametrize("n", [1, 320, 2944])  # 1: fewer columns than the window
def test_logits_from_the_same_weights_keys_and_values_differ_by_rounding_only(learners, n):
    exact, float32 = learners
    learn(exact, n)
    for _ in range(20):
        exact.gpt.update(*map(to_tensor, exact._training_rows()))
    take_over(float32, exact)
    for start, stop in ((n, n + 33), (n + 33, n + 96)):
        recent = torch.from_numpy(TEXT[np.arange(start, stop)[:, None] - np.arange(1, 4)].astype(np.int64))
        for learner in learners:
            learner.gpt.begin(len(recent))
        assert relative(float32.gpt.read(recent), exact.gpt.forward(recent, 0)) < 0.02


def test_gradients_differ_by_rounding_only(learners, monkeypatch):
    """They differ by a tenth: a row of 256 logits has 127 levels, and entries below 1/254 of its largest entry are lost."""
    exact, float32 = learners
    learn(exact, 2944)
    take_over(float32, exact)
    expected, found = {}, {}
    monkeypatch.setattr(
        exact.gpt, "_update_parameter", lambda name, gradient, factor: expected.update({name: (gradient(), factor)})
    )
    monkeypatch.setattr(
        float32.gpt, "_update_parameter", lambda name, parts, factor: found.update({name: (parts[0], factor)})
    )
    for learner in learners:
        learner.gpt.update(*map(to_tensor, exact._training_rows()))
    assert found.keys() == expected.keys() == float32.gpt._weights.keys()
    assert {factor for _, factor in found.values()} == {factor for _, factor in expected.values()}
    difference = {name: relative(found[name][0], expected[name][0]) for name in found}
    assert difference.pop("head") < 0.05
    assert max(difference.values()) < 0.3


def test_steps_from_the_same_gradients_differ_by_rounding_only(learners):
    exact, float32 = learners
    take_over(float32, exact)
    before = dict(float32.gpt._weights)
    generator = torch.Generator().manual_seed(0)
    for factor in (0.5, 1.0, 1.0):
        for name, weight in before.items():
            gradient = torch.randn(weight.shape, generator=generator)
            exact.gpt._update_parameter(name, lambda gradient=gradient: gradient, factor)
            float32.gpt._update_parameter(name, [gradient], factor)
    after = exact.gpt.state()
    change = {name: relative(w - before[name], after[name] - before[name]) for name, w in float32.gpt._weights.items()}
    assert max(change.pop("embedding"), change.pop("head")) < 1e-5
    assert max(change.values()) < 0.2  # five Newton-Schulz steps enlarge the errors of int8 products


def test_both_learners_need_about_the_same_bits(script, learners):
    exact, float32 = (script.measure(learner, TEXT).code_bits for learner in learners)
    assert float32 == pytest.approx(exact, rel=0.03)


def test_threads_change_the_float32_learner_by_rounding_only(script):
    one, two, openmp = (
        script.measure(learner, TEXT[:1500]).code_bits
        for learner in (
            script.Float32Learner(CONFIG, 1),
            script.Float32Learner(CONFIG, 2),
            script.Float32Learner(CONFIG, 1, openmp=True),
        )
    )
    assert two == pytest.approx(one, rel=1e-3)
    assert openmp == pytest.approx(one, rel=1e-3)


def test_the_table_has_a_row_for_each_learner(script, monkeypatch, capsys):
    monkeypatch.setattr(
        sys, "argv", ["float32.py", "sample:christmas_carol", "--limit", "600", "--level", "5", "--threads", "1"]
    )
    assert script.main() == 0
    titles, exact, float32 = capsys.readouterr().out.splitlines()
    assert titles.split()[0] == "learner"
    assert (exact.split()[0], float32.split()[0]) == ("exact", "float32")
    assert 0.9 < float(float32.split()[2]) < 1.1
