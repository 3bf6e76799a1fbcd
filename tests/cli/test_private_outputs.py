"""Who may read the outputs of each command: those who may read all that they were made of, and nobody else."""

import shutil
import stat
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

import pytest
from every_command import BAD, CASES, make_damaged_archive, make_repository, words_of, write_sources

from prequential.cli import main as program
from prequential.cli.main import main

pytestmark = pytest.mark.usefixtures("usual_umask", "no_warm_up")
PRIVATE, PUBLIC = 0o600, 0o644
WRITE_NOTHING = {"test", "list", "labels", "compare", "doctor"}


def test_every_command_is_in_the_table_or_writes_nothing() -> None:
    commands = {program.name_of(command) for group in program.COMMANDS.values() for command in group}
    assert commands == {case.split()[0] for case in CASES} | WRITE_NOTHING


@pytest.fixture(
    scope="module", params=[PRIVATE, pytest.param(PUBLIC, marks=pytest.mark.thorough)], ids=["private", "public"]
)
def made(
    request: pytest.FixtureRequest,
    text: bytes,
    small_config: Path,
    tmp_path_factory: pytest.TempPathFactory,
    usual_umask: None,
    no_warm_up: None,
) -> Iterator[tuple[Path, int]]:
    """A folder in which all commands have run over sources with these permissions, in the order of the table."""
    folder, mode = tmp_path_factory.mktemp("made"), int(request.param)
    with chdir(folder):
        shutil.copy(small_config, "mixer.json")
        write_sources(text, mode)
        make_damaged_archive()
        for case in CASES:
            assert main([*words_of(case), "-q"]) == (case == BAD), case
        yield folder, mode


@pytest.mark.parametrize("case", CASES)
@pytest.mark.first_quick
def test_an_output_can_be_read_by_those_who_can_read_its_sources(case: str, made: tuple[Path, int]) -> None:
    folder, mode = made
    mode = PRIVATE if case == BAD else mode  # the good beginning of a damaged archive is its owner's
    for pattern in CASES[case].split():
        tops = list(folder.glob(pattern))
        assert tops, pattern
        for path in [*tops, *(inner for top in tops for inner in top.rglob("*"))]:
            expected = mode | 0o100 | (mode & 0o444) >> 2 if path.is_dir() else mode
            assert stat.S_IMODE(path.stat().st_mode) == expected, path


@pytest.mark.parametrize("private", [".", ".git", ".git/objects"])
def test_each_folder_on_the_way_to_the_objects_of_a_repository_counts(private: str, tmp_path: Path) -> None:
    from prequential.heldout_loss.monorepo import MonorepoRequest

    with chdir(tmp_path):
        make_repository(PUBLIC)
        assert MonorepoRequest(repository="repo").mode & 0o044 == 0o044
        (Path("repo") / private).chmod(0o700)
        assert MonorepoRequest(repository="repo").mode & 0o044 == 0
