"""A stranger's folder may hold, next to an archive, hostile checkpoints and links at the path of the output."""

from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from bounds import CONFIGS
from checkpoints import FORMS, VALUES
from forge import Draft, Part
from limits import bounded
from prequential_codecs.archive_summary import survey
from programs import program, script
from seeds import RUNTIME, seeds

import prequential
from prequential.errors import PrequentialError

# ---- checkpoints


def unclean(found: dict[str, str]) -> dict[str, str]:
    return {case: said for case, said in found.items() if not said.startswith("refused: ") and said != "exact"}


def test_checkpoints_of_impossible_values_are_refused() -> None:
    assert unclean(script("checkpoints.py", *VALUES)) == {}


@pytest.mark.slow
def test_checkpoints_of_impossible_values_make_no_kernel_leave_its_arrays(tmp_path: Path) -> None:
    found = script("checkpoints.py", *VALUES, NUMBA_BOUNDSCHECK="1", NUMBA_CACHE_DIR=str(tmp_path))
    assert unclean(found) == {}


@pytest.mark.thorough
def test_checkpoints_of_impossible_forms_are_refused() -> None:
    assert unclean(script("checkpoints.py", *FORMS)) == {}


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


def test_an_output_that_is_a_link_is_refused(folder: Path, victim: Path) -> None:
    (folder / "x").symlink_to(victim)
    with pytest.raises(prequential.OutputError):
        prequential.decompress(folder / "x.pq", folder / "x", runtime=RUNTIME)
    assert victim.read_bytes() == PRECIOUS


def damaged_with_a_raw_block() -> bytes:
    """An archive of three blocks: the first is damaged, the second is raw and intact."""
    draft = Draft.of(seeds()["mixed"].archive)
    archive = bytearray(draft.sealed())
    archive[len(draft.header()) + len(draft.blocks[0].record()) - 1] ^= 1
    return bytes(archive)


def test_saving_intact_blocks_does_not_write_through_a_link(folder: Path, victim: Path) -> None:
    (folder / "x.pq").write_bytes(damaged_with_a_raw_block())
    (folder / "x.from-24").symlink_to(victim)
    program(folder, "decompress", "--keep-going", "x.pq")
    assert victim.read_bytes() == PRECIOUS


# ---- the survey of damaged archives


def test_a_survey_of_many_records_of_one_payload_is_fast(tmp_path: Path) -> None:
    draft, n_bytes = Draft.of(seeds()["raw"].archive), 1 << 20
    draft.blocks = [Part(1, n_bytes, n_bytes, bytes(8), bytes(n_bytes))]
    draft.n_bytes = 1  # so that a sequential reader stops at the block
    draft.entries = [(0, n_bytes)] * 10_000 + [(len(draft.blocks[0].record()) + 4, n_bytes)]
    draft.n_blocks = len(draft.entries)
    (tmp_path / "a.pq").write_bytes(draft.sealed())
    with bounded(4.0), suppress(PrequentialError):
        survey(tmp_path / "a.pq")


@pytest.mark.thorough
def test_surveys_of_damaged_archives_are_true(tmp_path: Path) -> None:
    """A block that is reported intact is undamaged, and a damaged archive is not reported as complete."""
    rng, path = Random(1), tmp_path / "a.pq"
    good = seeds()["mixed"].archive
    heads = {(i * 24, (i + 1) * 24): block for i, block in enumerate(Draft.of(good).blocks)}
    for _ in range(1000):
        data = bytearray(good)
        for _ in range(rng.choice((1, 1, 2, 5))):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        if rng.random() < 0.2:
            del data[rng.randrange(len(data)) :]
        path.write_bytes(data)
        try:
            with bounded():
                found = survey(path)
        except (prequential.CorruptArchiveError, prequential.UnsupportedVersionError):
            continue
        assert (found.fault is None) == (bytes(data) == good)
        for block in found.blocks:
            if block.head:
                assert heads[block.start, block.stop].state_digest == block.head.state_digest
