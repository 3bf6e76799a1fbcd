"""What the tests draw: curves, a table, and two runs."""

from pathlib import Path

import numpy as np
import pytest

import prequential
from prequential.evaluation.curves import Curve
from prequential.evaluation.runs import Run, read_run


@pytest.fixture
def curves() -> dict[str, Curve]:
    """The model, a part of it and a baseline, all over 80,000 bytes."""
    positions = np.arange(1, 5001) * 16
    gzip = Curve(n_bytes=np.array([1024, 4096, 80_000]), bits=np.array([2048.0, 16_384.0, 400_000.0]))
    parts = {name: Curve(n_bytes=positions, bits=rate * positions) for name, rate in (("model", 3.0), ("gpt", 4.0))}
    return {**parts, "gzip": gzip}


def make_run(root: Path, contexts: tuple[str, ...], seed: int = 0) -> Run:
    """A verified run of a small mixer over the beginning of the bundled sample."""
    fused = prequential.Runtime(kernels="fused")
    mixer = prequential.MixerConfig(contexts=contexts, table_bits=10)
    config = prequential.Config(gpt=None, mixer=mixer, seed=seed)
    result = prequential.evaluate(
        "sample:christmas_carol",
        config=config,
        limit=6000,
        baselines=["gzip", "ppmd", "bzip2"],
        verify=True,
        runtime=fused,
    )
    return read_run(result.declaring(n_seeds=2).save(root).path)


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    """Two runs over the same bytes with different models."""
    root = tmp_path_factory.mktemp("runs")
    return [make_run(root, ("1", "2")), make_run(root, ("1", "2", "3"), seed=7)]
