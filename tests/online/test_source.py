"""The bytes that are coded: opened once, described once, and refused if they change meanwhile."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import prequential
from prequential.errors import CorpusError
from prequential.model.config import Config, MixerConfig, ScheduleConfig
from prequential.online.runtime import Runtime
from prequential.online.source import HashedSymbols, digest_of, open_source

SMALL = Config(
    gpt=None,
    mixer=MixerConfig(contexts=("1", "2"), table_bits=8, match_bits=8),
    schedule=ScheduleConfig(history_bits=14, block_symbols=1024),
)
RUNTIME = Runtime(threads=1, kernels="fused")
TEXT = b"It was the best of times, it was the worst of times. " * 100


def test_a_source_describes_the_beginning_that_is_coded(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(TEXT)
    with open_source(tmp_path / "a", 100) as source:
        assert (source.n_bytes, source.whole_bytes, source.name) == (100, len(TEXT), "a")
        assert source.blake2b == digest_of(np.frombuffer(TEXT[:100], np.uint8))
        assert source.record()["n_bytes"] == 100
        assert [document.n_bytes for document in source.documents] == [100]
    with open_source(TEXT) as source:
        assert source.header(SMALL).blake2b == digest_of(np.frombuffer(TEXT, np.uint8))
        assert source.origin == {}


def test_what_is_hashed_is_every_byte_also_those_before_a_jump() -> None:
    data = np.frombuffer(TEXT, np.uint8)
    symbols = HashedSymbols(data)
    assert bytes(symbols[1024:2048]) == TEXT[1024:2048]  # as after an interruption
    assert bytes(symbols[2048 : len(TEXT)]) == TEXT[2048:]
    symbols.check(digest_of(data), "a")
    with pytest.raises(CorpusError, match="'a' changed while it was read"):
        symbols.check(bytes(32), "a")


def test_a_file_that_changes_while_it_is_coded_is_an_error_and_leaves_no_output(tmp_path: Path) -> None:
    path, output = tmp_path / "a", tmp_path / "a.pq"
    path.write_bytes(TEXT)

    with pytest.raises(CorpusError, match="'a' changed while it was read"):
        prequential.compress(path, output, config=SMALL, runtime=RUNTIME, on_progress=changing(path))
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_a_folder_without_files_is_coded_with_a_note(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "a").mkdir()
    prequential.compress(tmp_path / "a", config=SMALL, runtime=RUNTIME)
    assert caplog.messages == ["'a' has no files: the archive restores an empty folder"]
    (tmp_path / "a" / "file").touch()
    prequential.compress(tmp_path / "a", config=SMALL, runtime=RUNTIME)
    assert len(caplog.messages) == 1


def test_an_evaluation_codes_the_bytes_that_it_has_copied(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(TEXT)
    found = prequential.evaluate(
        path, config=SMALL, runtime=RUNTIME, baselines=(), verify=True, on_progress=changing(path)
    )
    assert path.read_bytes() != TEXT
    assert found.header.blake2b == digest_of(np.frombuffer(TEXT, np.uint8))
    expected = prequential.evaluate(TEXT, config=SMALL, runtime=RUNTIME, baselines=())
    assert (found.ledger.code_bits, found.tables) == (expected.ledger.code_bits, expected.tables)


def changing(path: Path) -> Callable[[prequential.Progress, int], None]:
    """A function that overwrites a part of the file while the beginning is coded."""

    def change(done: prequential.Progress, n_bytes: int) -> None:
        if done.n_bytes < 2048:
            with path.open("r+b") as file:  # of the same length
                file.seek(4096)
                file.write(b"other bytes")
                os.fsync(file.fileno())

    return change
