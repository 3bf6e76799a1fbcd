"""A stranger's folder may hold, next to an archive, hostile checkpoints and links at the path of the output."""

from pathlib import Path

import pytest
from bounds import CONFIGS
from checkpoints import VALUES
from forge import Draft
from programs import program, script
from seeds import RUNTIME, seeds

import prequential

# ---- checkpoints


def unclean(found: dict[str, str]) -> dict[str, str]:
    return {case: said for case, said in found.items() if not said.startswith("refused: ") and said != "exact"}


@pytest.mark.thorough
def test_checkpoints_of_impossible_values_and_forms_are_refused() -> None:
    assert unclean(script("checkpoints.py")) == {}


@pytest.mark.slow
def test_checkpoints_of_impossible_values_make_no_kernel_leave_its_arrays(tmp_path: Path) -> None:
    found = script("checkpoints.py", *VALUES, NUMBA_BOUNDSCHECK="1", NUMBA_CACHE_DIR=str(tmp_path))
    assert unclean(found) == {}


@pytest.mark.slow
def test_random_states_lead_no_kernel_of_two_threads_that_mix_out_of_its_arrays(tmp_path: Path) -> None:
    options = ("--count=60", "--mixing=2", "--configs", "mixer", "large mixer", "both")
    found = script("bounds.py", *options, NUMBA_BOUNDSCHECK="1", NUMBA_CACHE_DIR=str(tmp_path))
    assert found["failures"] == {}
    assert sum(n for outcome, n in found["outcomes"].items() if "round trip: exact" in outcome) > 54


@pytest.mark.slow
def test_random_states_lead_no_kernel_out_of_its_arrays(tmp_path: Path) -> None:
    count = 900  # 13 minutes beside another test
    found = script("bounds.py", f"--count={count}", "--seed=2", NUMBA_BOUNDSCHECK="1", NUMBA_CACHE_DIR=str(tmp_path))
    assert found["failures"] == {}
    assert sum(n for outcome, n in found["outcomes"].items() if "round trip: exact" in outcome) > 0.9 * count
    for name in CONFIGS:
        assert found["outcomes"][f"{name}, resumed encoder: done"] > 0.9 * (count // len(CONFIGS))


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


def damaged_in_its_second_block() -> bytes:
    draft = Draft.of(seeds()["mixed"].archive)
    archive = bytearray(draft.sealed())
    archive[len(draft.header()) + len(draft.blocks[0].record()) + 4 + len(draft.blocks[1].record()) - 1] ^= 1
    return bytes(archive)


def test_saving_the_good_beginning_does_not_write_through_a_link(folder: Path, victim: Path) -> None:
    (folder / "x.pq").write_bytes(damaged_in_its_second_block())
    (folder / "x.from-0").symlink_to(victim)
    program(folder, "decompress", "x.pq")
    assert victim.read_bytes() == PRECIOUS
