"""The bytes that are coded: opened once, described once, and refused if they change meanwhile."""

import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pyarrow
import pytest

import prequential
from prequential.errors import ConfigError, CorpusError, PrequentialError
from prequential.model.config import Config, MixerConfig, ScheduleConfig
from prequential.online.runtime import Runtime
from prequential.online.source import digest_of, open_source

SMALL = Config(
    gpt=None,
    mixer=MixerConfig(contexts=("1", "2"), table_bits=8, match_bits=8),
    schedule=ScheduleConfig(history_bits=14, block_symbols=1024),
)
RUNTIME = Runtime(threads=1, kernels="fused")
TEXT = b"It was the best of times, it was the worst of times. " * 100


def test_a_source_describes_the_beginning_that_is_coded(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(TEXT)
    source = open_source(tmp_path / "a", 100)
    assert (source.n_bytes, source.whole_bytes, source.name) == (100, len(TEXT), "a")
    assert source.blake2b == digest_of(np.frombuffer(TEXT[:100], np.uint8))
    assert [document.n_bytes for document in source.documents] == [100]
    source = open_source(TEXT)
    assert source.header(SMALL.to_dict()).blake2b == digest_of(np.frombuffer(TEXT, np.uint8))
    assert source.origin == {}


def test_an_archive_holds_the_bytes_that_were_copied(tmp_path: Path) -> None:
    path, output = tmp_path / "a", tmp_path / "a.pq"
    path.write_bytes(TEXT)

    prequential.compress(path, output, config=SMALL, runtime=RUNTIME, on_progress=changing(path))
    assert path.read_bytes() != TEXT
    assert prequential.decompress(output.read_bytes(), runtime=RUNTIME) == TEXT


def test_an_evaluation_codes_the_bytes_that_it_has_copied(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(TEXT)
    found = prequential.evaluate(
        path, config=SMALL, runtime=RUNTIME, baselines=(), verify=True, on_progress=changing(path)
    )
    assert path.read_bytes() != TEXT
    assert found.corpus["blake2b"] == digest_of(np.frombuffer(TEXT, np.uint8)).hex()
    expected = prequential.evaluate(TEXT, config=SMALL, runtime=RUNTIME, baselines=())
    assert (found.code_bits, found.tables) == (expected.code_bits, expected.tables)


def changing(path: Path) -> Callable[[prequential.Progress, int], None]:
    """A function that overwrites a part of the file while the beginning is coded."""

    def change(done: prequential.Progress, n_bytes: int) -> None:
        if done.n_bytes < 2048:
            with path.open("r+b") as file:  # of the same length
                file.seek(4096)
                file.write(b"other bytes")
                os.fsync(file.fileno())

    return change


# ---- what functions take as a corpus


class Column:
    """As a Series of pandas."""

    def __init__(self, *values: object) -> None:
        self.values = values

    def to_list(self) -> list[object]:
        return list(self.values)


def found(corpus: Any) -> tuple[bytes, list[tuple[str, int, int]]]:
    source = open_source(corpus)
    return source.symbols.tobytes(), [tuple(document) for document in source.documents]


def test_a_name_a_path_bytes_an_array_and_an_open_file_are_the_same_corpus(tmp_path: Path) -> None:
    path, data = tmp_path / "a", b"some text"
    path.write_bytes(data)
    corpora = [
        path,
        str(path),
        data,
        bytearray(data),
        memoryview(data),
        np.frombuffer(data, np.uint8),
        io.BytesIO(data),
    ]
    with path.open("rb") as file:
        assert {found(each)[0] for each in [*corpora, file]} == {data}


def test_documents_in_a_list_a_column_or_a_stream_are_texts_or_bytes_with_an_end_after_each() -> None:
    expected = b"a\0" + "bé".encode() + b"\0", [("0", 0, 1), ("1", 2, 3)]
    assert found(["a", "bé"]) == found((b"a", "bé".encode())) == found(Column("a", "bé")) == expected
    assert found(iter(["a", "bé"])) == found(pyarrow.chunked_array([["a"], ["bé"]])) == expected
    source = open_source(["abc", "d"], 2)
    assert source.documents == [("0", 0, 2)] and source.whole_bytes == 6


def test_a_column_of_a_data_frame_is_a_corpus() -> None:
    frame = pandas.DataFrame({"text": ["one", "two", None]})
    assert found(frame["text"].dropna())[0] == b"one\0two\0"
    with pytest.raises(ConfigError, match=r"document 2: the text is (null|not a string but float)"):
        found(frame["text"])
    with pytest.raises(ConfigError, match=r"source is an object of type DataFrame: give .* a column of a data frame"):
        prequential.compress(frame)


@pytest.mark.parametrize(
    ("corpus", "part"),
    [
        ("It was the best of times", "cannot read 'It was the best of times': No such file"),
        ([__file__], "a list holds documents, and '.*' is the name of a file"),
        ([Path("a")], "document 0: the text is not a string but PosixPath"),
        (["a", 5], "document 1: the text is not a string but int"),
        (["\ud800"], "document 0: the text contains half of a surrogate pair"),
        (io.StringIO("text"), 'open it with mode "rb"'),
    ],
)
def test_what_would_be_misread_is_refused_by_name(corpus: Any, part: str) -> None:
    with pytest.raises(PrequentialError, match=part):
        found(corpus)


def test_a_closed_file_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a")
    with (tmp_path / "a").open("rb") as file:
        pass
    with pytest.raises(CorpusError, match="the open file cannot be read"):
        found(file)
