"""Shards that cannot be a corpus are refused in one line with the shard and, if possible, the row."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from prequential_corpora import shards
from prequential_corpora.sources import open_corpus

from prequential.errors import CorpusError

GOOD = b'{"text": "good"}\n'


def refusal(spec: str) -> str:
    with pytest.raises(CorpusError) as refused:
        open_corpus(f"shards:{spec}")
    message = str(refused.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"body": "x"}', "there is no column 'text'; choose (?column=, or data[NAME]) from ['body']"),
        (b'{"text": null}', "the text is null"),
        (b'{"text": 5}', "the text is not a string but int"),
        (b'{"text": "\xff"}', "the line is not JSON: 'utf-8' codec can't decode byte 0xff in position 10"),
        (rb'{"text": "\ud800"}', "the text contains half of a surrogate pair"),
        (b'["x"]', "the line is not a JSON object but list"),
        (b'{"text": "cut off', "the line is not JSON: "),
        (b'{"text": "x", "text": "y"}', "the line is not JSON: an object has the key 'text' twice"),
        (b'{"text": ' + b"7" * 5000 + b"}", "the line is not JSON: an integer has more than 640 digits"),
        (b"[" * 100_000, "the line is not JSON: "),
    ],
    ids=range(10),
)
def test_the_error_names_a_line_without_a_text(line: bytes, reason: str, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(GOOD)
    (tmp_path / "b.jsonl").write_bytes(GOOD + GOOD + line + b"\n" + GOOD)
    assert refusal(f"{tmp_path}").startswith(f"shard 'b.jsonl', row 2: {reason}")


def test_a_line_that_is_too_long_is_not_read_completely(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "MAX_LINE_BYTES", 1000)
    (tmp_path / "a.jsonl.zst").write_bytes(zstandard.compress(GOOD + b'{"text": "' + b"x" * 1000))
    assert (
        refusal(f"{tmp_path}")
        == "cannot read shard 'a.jsonl.zst', at row 1 or later: the line is longer than 1,000 bytes"
    )


def table(path: Path, column: pa.Array, name: str = "text") -> None:
    pq.write_table(pa.table({name: column, "n": pa.array(range(len(column)))}), path, compression="zstd")


def not_utf8(n_good: int) -> pa.Array:
    texts = pa.array([b"good"] * n_good + [b"\xc3("], pa.binary())
    return pa.Array.from_buffers(pa.string(), len(texts), texts.buffers())


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        (pa.array(["good"] * 70 + [None, "good"]), "shard 'b.parquet', row 70: the text is null"),
        (
            not_utf8(70),
            "cannot read shard 'b.parquet', at row 64 or later: 'utf-8' codec can't decode byte 0xc3 in position 0: ",
        ),
        (pa.array([5, 6]), "shard 'b.parquet', row 0: column 'text' holds int64, not strings"),
        (pa.array([b"x"]), "shard 'b.parquet', row 0: column 'text' holds binary, not strings"),
        (pa.array([["x"]]), "shard 'b.parquet', row 0: column 'text' holds list<element: string>, not strings"),
    ],
    ids=["null", "UTF-8", "numbers", "binary", "lists"],
)
def test_the_error_names_a_column_without_strings(column: pa.Array, reason: str, tmp_path: Path) -> None:
    table(tmp_path / "a.parquet", pa.array(["good"]))
    table(tmp_path / "b.parquet", column)
    assert refusal(f"{tmp_path}").startswith(reason)


def test_a_table_without_the_column_or_with_two_is_refused(tmp_path: Path) -> None:
    table(tmp_path / "a.parquet", pa.array(["x"]), "body")
    assert refusal(f"{tmp_path}").endswith("there is no column 'text'; choose (?column=, or data[NAME]) from ['body']")
    texts = pa.array(["x"])
    pq.write_table(pa.Table.from_arrays([texts, texts], names=["text", "text"]), tmp_path / "a.parquet")
    assert refusal(f"{tmp_path}") == "shard 'a.parquet', row 0: 2 columns are called 'text'; give each its own name"


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
@pytest.mark.parametrize("kind", [".jsonl", ".txt"])
def test_the_error_names_a_compressed_shard_that_is_cut_off_too_long_or_damaged(
    kind: str, suffix: str, tmp_path: Path
) -> None:
    lines = b"".join(json.dumps({"text": os.urandom(8).hex()}).encode() + b"\n" for _ in range(5000))
    whole = gzip.compress(lines) if suffix == ".gz" else zstandard.ZstdCompressor(write_checksum=True).compress(lines)
    middle = len(whole) // 2
    flipped = whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :]
    name = f"a{kind}{suffix}"
    for bad in (b"", whole[:3], whole[:-1], whole[:middle], flipped, whole + b"more", whole + whole[:30], b"no frame"):
        (tmp_path / name).write_bytes(bad)
        message = refusal(f"{tmp_path}")
        assert message.startswith((f"cannot read shard '{name}'", f"shard '{name}', row "))


def test_a_damaged_table_is_refused_by_name_or_read(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    table(path, pa.array([os.urandom(20).hex() for _ in range(300)]))
    whole = path.read_bytes()
    for bad in (b"", b"PAR1", whole[:-1], whole[: len(whole) // 2], whole[:-9] + b"\xff" * 9, b"\0" * len(whole)):
        path.write_bytes(bad)
        assert refusal(f"{tmp_path}").startswith("cannot read shard 'a.parquet', at row 0 or later: ")
    path.write_bytes(whole[:4] + b"\xff" * 200 + whole[204:])  # pages to which the table's metadata point
    assert refusal(f"{tmp_path}").startswith("cannot read shard 'a.parquet'")


def test_a_folder_without_shards_is_refused(tmp_path: Path) -> None:
    (tmp_path / "README.md").touch()
    (tmp_path / "link.txt").symlink_to("README.md")
    assert (
        "contains no shard; known are .parquet, .jsonl, .txt, .gz, .zst (links and hidden files are skipped)"
        in refusal(f"{tmp_path}")
    )
    assert refusal(f"{tmp_path}/missing").startswith("cannot read")
    assert "contains no shard" in refusal(f"{tmp_path}/README.md")


def test_shards_of_several_kinds_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(GOOD))
    (tmp_path / "b.jsonl").write_bytes(GOOD)
    corpus = open_corpus(f"shards:{tmp_path}")
    assert corpus.n_bytes == 10
    (tmp_path / "c.txt").touch()
    assert "'a.jsonl.gz' (lines) and 'c.txt' (text); name a folder of one kind" in refusal(f"{tmp_path}")


def test_a_column_of_text_shards_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").touch()
    assert "are text, without a column 'body'" in refusal(f"{tmp_path}?column=body")


def test_names_that_are_not_utf8_are_read_and_printed(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/\xff.jsonl"
    Path(os.fsdecode(path)).write_bytes(GOOD)
    corpus = open_corpus(f"shards:{tmp_path}")
    assert corpus.bytes().tobytes() == b"good\0"
    Path(os.fsdecode(path)).write_bytes(b"{}\n")
    assert refusal(f"{tmp_path}").startswith(r"shard '\\xff.jsonl', row 0: there is no column 'text'")


MEMORY = """
import resource, sys
from prequential_corpora.sources import open_corpus
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
def read(spec):
    corpus = open_corpus(spec)
    pass
    return corpus.n_bytes
read(sys.argv[1])
before = peak()
print(read(sys.argv[2]), (peak() - before) << 10)
"""


@pytest.mark.thorough
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="ru_maxrss in KiB")
@pytest.mark.parametrize("suffix", [".parquet", ".jsonl.zst"])
def test_memory_does_not_grow_with_the_shard(suffix: str, tmp_path: Path) -> None:
    for folder, n_rows in (("small", 2_000), ("large", 30_000)):
        (tmp_path / folder).mkdir()
        path, text = tmp_path / folder / f"a{suffix}", "x" * 1000
        if suffix == ".parquet":
            table(path, pa.array([f"{text}{n}" for n in range(n_rows)]))
        else:
            with zstandard.open(path, "wb") as file:
                file.write(b"".join(b'{"text": "%s%d"}\n' % (text.encode(), n) for n in range(n_rows)))
    command = [sys.executable, "-c", MEMORY, f"shards:{tmp_path}/small", f"shards:{tmp_path}/large"]
    n_bytes, grown = map(int, subprocess.run(command, capture_output=True, check=True).stdout.split())
    assert n_bytes > 30_000_000
    assert grown < 12_000_000
