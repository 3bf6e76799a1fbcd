"""A stranger's folder may hold, next to an archive, hostile checkpoints and links at the path of the output."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from checkpoints import VALUES
from interruption import InterruptionError, stopping_at
from programs import HERE, script, snapshot
from seeds import MIXER, RUNTIME, seeds
from small import BOTH

import prequential
from prequential.errors import CheckpointError

# ---- checkpoints


def unclean(outcomes: dict[str, str]) -> dict[str, str]:
    return {case: said for case, said in outcomes.items() if not said.startswith("refused: ") and said != "exact"}


@pytest.mark.thorough
def test_checkpoints_of_impossible_values_and_forms_are_refused() -> None:
    assert unclean(script(HERE / "checkpoints.py")) == {}


@pytest.mark.slow
def test_checkpoints_of_impossible_values_make_no_kernel_leave_its_arrays(tmp_path: Path) -> None:
    outcomes = script(HERE / "checkpoints.py", *VALUES, NUMBA_BOUNDSCHECK="1", NUMBA_CACHE_DIR=str(tmp_path))
    assert unclean(outcomes) == {}


# ---- links at the output


PRECIOUS = b"precious"


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    (tmp_path / "victim").write_bytes(PRECIOUS)
    return tmp_path / "victim"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A stranger's folder with an archive."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "x.pq").write_bytes(seeds()["mixer"].archive)
    return tmp_path / "folder"


@pytest.mark.parametrize("seed", ["mixer", "tree"])
def test_an_output_that_is_a_link_is_refused(seed: str, folder: Path, victim: Path) -> None:
    (folder / "x.pq").write_bytes(seeds()[seed].archive)
    (folder / "x").symlink_to(victim if seed == "mixer" else folder)
    with pytest.raises(prequential.OutputError):
        prequential.decompress(folder / "x.pq", folder / "x", runtime=RUNTIME)
    assert victim.read_bytes() == PRECIOUS and {path.name for path in folder.iterdir()} == {"x", "x.pq"}


# ---- drafts of evaluations


def evaluate(folder: Path, **options: object) -> prequential.Evaluation:
    draft = prequential.DraftFolder(path=folder, keep=True, resume=bool(options.pop("resume", False)))
    config, text = replace(MIXER, schedule=BOTH.schedule), b"It was the best of times, it was the worst of times. " * 20
    return prequential.evaluate(text, config=config, runtime=RUNTIME, baselines=(), draft=draft, **options)  # type: ignore[arg-type]


def times_of(time_s: float) -> Callable[[bytes], bytes]:
    return lambda data: np.full(len(data) // 8, time_s).tobytes()


DAMAGE: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "another cost": ("costs", lambda data: b"\1" + data[1:]),
    **{f"a time of {s}": ("seconds", times_of(s)) for s in (float("nan"), -1.0, 1e300)},
}


@pytest.mark.usefixtures("no_warm_up", "always_due")
@pytest.mark.parametrize("name", DAMAGE)
def test_a_draft_with_damaged_costs_or_times_is_refused_and_stays(name: str, tmp_path: Path) -> None:
    with pytest.raises(InterruptionError):
        evaluate(tmp_path, on_progress=stopping_at(6))
    file, damage = DAMAGE[name]
    (tmp_path / file).write_bytes(damage((tmp_path / file).read_bytes()))
    before = snapshot(tmp_path)
    with pytest.raises(CheckpointError, match=r"recorded (costs|times)"):
        evaluate(tmp_path, resume=True)
    assert snapshot(tmp_path) == before
