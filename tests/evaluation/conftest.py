"""A small evaluation of both parts, and its run folder."""

import pytest

import prequential
from prequential.evaluation.runs import read_run

FUSED = prequential.Runtime(kernels="fused")
CONFIG = prequential.Config(
    gpt=prequential.GPTConfig(n_layers=1, width=32, n_heads=2, window=16),
    mixer=prequential.MixerConfig(contexts=("1", "2", "4"), table_bits=10),
)


def evaluate_into(root):
    result = prequential.evaluate(
        "sample:christmas_carol", config=CONFIG, limit=3000, runtime=FUSED, baselines=("gzip", "xz")
    )
    return result, result.save(root).path


@pytest.fixture(scope="session")
def run(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    result, path = evaluate_into(root)
    return root, result, read_run(path)


@pytest.fixture
def again(tmp_path):
    """The run folder of a second evaluation."""
    return read_run(evaluate_into(tmp_path)[1])
