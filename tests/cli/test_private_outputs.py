"""Who may read the outputs of each command: those who may read all that they were made of, and nobody else."""

import shutil
from contextlib import chdir
from pathlib import Path

import pytest
from every_command import BAD, CASES, make_damaged_archive, words_of, write_sources
from programs import mode_of

from prequential.cli.main import COMMANDS, main

PRIVATE, PUBLIC = 0o600, 0o644
WRITE_NOTHING = {"test", "list", "labels", "compare", "doctor"}


@pytest.mark.first_quick
@pytest.mark.parametrize("mode", [PRIVATE, pytest.param(PUBLIC, marks=pytest.mark.thorough)])
@pytest.mark.usefixtures("usual_umask", "no_warm_up")
def test_the_outputs_of_every_command_can_be_read_by_those_who_can_read_its_sources(
    mode: int, text: bytes, small_config: Path, tmp_path: Path
) -> None:
    commands = {command.name for group in COMMANDS.values() for command in group}
    assert commands == {case.split()[0] for case in CASES} | WRITE_NOTHING
    with chdir(tmp_path):
        shutil.copy(small_config, "mixer.json")
        write_sources(text, mode)
        make_damaged_archive()
        for case, patterns in CASES.items():
            assert main([*words_of(case), "-q"]) == (case == BAD), case
            files = PRIVATE if case == BAD else mode  # the good beginning of a damaged archive is its owner's
            for pattern in patterns.split():
                tops = list(tmp_path.glob(pattern))
                assert tops, pattern
                for path in [*tops, *(inner for top in tops for inner in top.rglob("*"))]:
                    assert mode_of(path) == (files | 0o100 | (files & 0o444) >> 2 if path.is_dir() else files), path
