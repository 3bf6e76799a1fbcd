"""A resumed training gives the same model and the same code length."""

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest
from interruption import InterruptionError, stopping_at
from prequential_codecs.archive_header import Header
from test_model_store import CONFIG, DATA, EACH, ONE, TWO

from prequential.errors import CheckpointError, OutputError
from prequential.files import checkpoint_path
from prequential.model.config import Config
from prequential.online.coding import Progress
from prequential.online.runtime import Runtime
from prequential.online.training import train, training_checkpoints

pytestmark = pytest.mark.usefixtures("always_due")


def training(
    folder: Path, runtime: Runtime, config: Config, stop: int = 0, *, resume: bool = True, data=DATA
) -> tuple[Progress, bytes]:
    """The totals of a training and the digest of its learner. stop: the number of the report that interrupts it."""
    blake2b = hashlib.blake2b(data, digest_size=32).digest()
    header = Header(n_bytes=len(data), blake2b=blake2b, config=config.to_dict())
    with training_checkpoints(folder / "m", resume=resume) as checkpoints:
        learner = runtime.learner(config)
        return train(learner, data, stopping_at(stop), (checkpoints, header)), learner.digest()


@EACH
@pytest.mark.first_quick
def test_a_training_interrupted_anywhere_gives_the_same_result(tmp_path, config):
    uninterrupted = training(tmp_path, ONE, config)
    assert uninterrupted[0].n_bytes == len(DATA) and not list(tmp_path.iterdir())
    for stop in (1, 2, 5, 6, 7):
        for runtime, n_segments in ((ONE, stop), (TWO, 3)):
            with pytest.raises(InterruptionError) as caught:
                training(tmp_path, runtime, config, n_segments)
            notes = getattr(caught.value, "__notes__", [])
            assert notes == (
                ["resume=True continues from the last checkpoint"] if checkpoint_path(tmp_path / "m").exists() else []
            )
        assert training(tmp_path, ONE, config) == uninterrupted
        assert not list(tmp_path.iterdir())


def test_two_processes_cannot_train_one_model(tmp_path):
    with training_checkpoints(tmp_path / "m", resume=True):
        with (
            pytest.raises(OutputError, match="another run is writing"),
            training_checkpoints(tmp_path / "m", resume=True),
        ):
            pass
        with training_checkpoints(tmp_path / "n", resume=True):
            pass
    assert not list(tmp_path.iterdir())


def test_a_checkpoint_is_neither_overwritten_nor_used_for_another_run(tmp_path):
    with pytest.raises(InterruptionError):
        training(tmp_path, ONE, CONFIG, 4)
    saved = checkpoint_path(tmp_path / "m").read_bytes()
    with pytest.raises(OutputError, match="resume=True continues it, or delete it"):
        training(tmp_path, ONE, CONFIG, resume=False)
    with pytest.raises(CheckpointError, match="another configuration"):
        training(tmp_path, ONE, replace(CONFIG, seed=1))
    assert checkpoint_path(tmp_path / "m").read_bytes() == saved
