"""open_corpus on files and standard input: bytes, descriptions, temporary files and refusals."""

import hashlib
import mmap
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from prequential_corpora import corpus as corpus_module
from prequential_corpora.corpus import CHUNK_N_BYTES, Document, read_chunks, spool
from prequential_corpora.sources import open_corpus, sample_path
from pytest import MonkeyPatch

from prequential.errors import CorpusError, OutputError

SPOOL_STDIN = """
from prequential_corpora.sources import open_corpus
corpus = open_corpus("-")
print(corpus.kind, corpus.n_bytes, corpus.bytes().tobytes().hex()[:100], *corpus.documents, sep="|")
"""


@given(data=st.binary(max_size=200))
@example(data=bytes(range(256)) * (CHUNK_N_BYTES // 256) + b"tail")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_file_gives_its_bytes(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(data)
    corpus = open_corpus(path)
    assert corpus.bytes().tobytes() == data
    assert corpus.bytes().dtype == np.uint8 and not corpus.bytes().flags.writeable
    # It is in the archive's header, and equal bytes with equal names must give equal archives.
    assert corpus.describe() == {"kind": "file", "name": "data"}
    assert (corpus.kind, corpus.name, corpus.n_bytes) == ("file", "data", len(data))
    assert corpus.documents == [Document("data", 0, len(data))]


@pytest.mark.parametrize("small_n_bytes", [0, 100])
def test_a_copy_of_a_file_outlives_the_corpus_and_the_file(
    tmp_path: Path, monkeypatch: MonkeyPatch, small_n_bytes: int
) -> None:
    monkeypatch.setattr(corpus_module, "SMALL_N_BYTES", small_n_bytes)
    path, spool_dir = tmp_path / "data", tmp_path / "spool"
    path.write_bytes(b"abc")
    spool_dir.mkdir()
    monkeypatch.setenv("TMPDIR", str(spool_dir))
    corpus = open_corpus(str(path))
    assert corpus.data == path
    whole, beginning = corpus.bytes(), corpus.bytes(2)
    assert path.read_bytes() == b"abc"
    path.write_bytes(b"")
    assert (whole.tobytes(), beginning.tobytes()) == (b"abc", b"ab")
    assert list(spool_dir.iterdir()) == []
    assert isinstance(getattr(whole.base, "obj", None), mmap.mmap) == (small_n_bytes == 0)


@pytest.mark.parametrize("data", [b"ab", b"abcd"])
def test_a_file_that_changes_its_length_while_open_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "data"
    path.write_bytes(b"abc")
    corpus = open_corpus(path)
    path.write_bytes(data)
    with pytest.raises(CorpusError, match="it had 3 bytes"):
        corpus.bytes()


@pytest.mark.skipif(not Path("/proc/version").is_file(), reason="Linux")
def test_a_file_of_a_false_length_is_refused() -> None:
    with pytest.raises(CorpusError, match="has a false length; to read from a pipe, pass -"):
        open_corpus("/proc/version")


def test_a_missing_file_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"^cannot read '.*no\\nsuch': No such file or directory$"):
        open_corpus(tmp_path / "no\nsuch")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes are a POSIX thing")
def test_a_named_pipe_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(CorpusError, match="neither a file nor a folder"):
        open_corpus(tmp_path / "pipe")


def test_a_path_object_is_always_a_path(tmp_path: Path, monkeypatch: MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("-", "sample:x", "hf:x"):
        Path(name).write_bytes(b"abc")
        corpus = open_corpus(Path(name))
        assert corpus.kind == "file"
        corpus = open_corpus(f"./{name}")
        assert corpus.kind == "file"


@pytest.mark.parametrize("data", [b"", b"abc", bytes(3 * CHUNK_N_BYTES + 1)])
def test_standard_input_is_written_to_a_temporary_file_that_is_deleted(tmp_path: Path, data: bytes) -> None:
    command, env = [sys.executable, "-c", SPOOL_STDIN], {**os.environ, "TMPDIR": str(tmp_path)}
    output = subprocess.run(command, input=data, capture_output=True, check=True, env=env).stdout.decode().splitlines()
    document = Document("-", 0, len(data))
    assert output == [f"stdin|{len(data)}|{data.hex()[:100]}|{document}"]
    assert list(tmp_path.iterdir()) == []


class Broken:
    def read(self, n_bytes: int) -> bytes:
        raise OSError(5, "Input/output error")


def test_a_spool_that_cannot_be_completed_is_deleted(tmp_path: Path, monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with pytest.raises(CorpusError, match="cannot read 'standard input': Input/output error"):
        spool(read_chunks(Broken(), "standard input"))
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(tempfile, "NamedTemporaryFile", lambda **_: Path("/dev/full").open("wb"))  # noqa: SIM115
    with pytest.raises(OutputError, match=r"cannot spool to .*: No space left"):
        spool([b"abc"])


# ---- samples of the package


def test_every_sample_is_the_file_that_the_readme_describes() -> None:
    for path in sample_path("christmas_carol").parent.glob("*.txt"):
        data = path.read_bytes()
        row = f"| `{path.name}` | {len(data):,} | `{hashlib.sha256(data).hexdigest()}` |"
        assert row in path.with_name("README.md").read_text().splitlines()


def test_the_error_for_an_unknown_sample_lists_all_names() -> None:
    with pytest.raises(CorpusError, match=r"there is no sample 'nope'; choose from .*christmas_carol"):
        open_corpus("sample:nope")
