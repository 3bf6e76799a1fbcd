"""Folders of shards as corpora: contents, order, description, and reading without temporary files."""

import gzip
import hashlib
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from prequential_corpora import shards
from prequential_corpora.sources import open_corpus

from prequential.errors import CorpusError

TEXTS = [["first", "zwölf\nlines"], ["", "last"]]
CORPUS = b"first\0zw\xc3\xb6lf\nlines\0\0last\0"
COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".zst": lambda data: zstandard.ZstdCompressor().compress(data),
}


def write_shards(folder: Path, suffix: str, texts: list[list[str]] = TEXTS, column: str = "text") -> Path:
    """Writes one shard for each list of texts, named 00, 01 and so on, in the format of the suffix."""
    folder.mkdir(exist_ok=True)
    for number, rows in enumerate(texts):
        path = folder / f"{number:02}{suffix}"
        if suffix == ".parquet":
            pq.write_table(pa.table({"n": list(range(len(rows))), column: pa.array(rows, pa.string())}), path)
        else:
            lines = "".join(json.dumps({"n": n, column: text}) + "\n" for n, text in enumerate(rows))
            path.write_bytes(COMPRESS[path.suffix if path.suffix in COMPRESS else ""](lines.encode()))
    return folder


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl", ".jsonl.zst", ".json.gz", ".ndjson"])
def test_the_corpus_is_the_rows_of_all_shards_each_followed_by_nul(suffix: str, tmp_path: Path) -> None:
    corpus = open_corpus(f"shards:{write_shards(tmp_path / 'web', suffix)}")
    data = corpus.bytes().tobytes()
    assert data == CORPUS
    assert (corpus.kind, corpus.name, corpus.n_bytes) == ("shards", "web", len(CORPUS))
    texts = [data[d.offset : d.offset + d.n_bytes].decode() for d in corpus.documents]
    assert texts == list(itertools.chain(*TEXTS))


@pytest.mark.parametrize("suffix", [".txt", ".txt.zst", ".zst", ".gz"])
def test_a_text_shard_is_one_document_of_any_bytes(suffix: str, tmp_path: Path) -> None:
    contents = {"a": bytes(range(256)), "b": b"", "sub/c": b"x" * (3 << 20)}
    for name, data in contents.items():
        path = tmp_path / f"{name}{suffix}"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(COMPRESS[path.suffix if path.suffix in COMPRESS else ""](data))
    corpus = open_corpus(f"shards:{tmp_path}")
    data = corpus.bytes()
    assert data.tobytes() == b"".join(part + b"\0" for part in contents.values())
    assert [d.name for d in corpus.documents] == [name + suffix for name in contents]
    documents = [data[d.offset : d.offset + d.n_bytes].tobytes() for d in corpus.documents]
    assert documents == list(contents.values())


def test_all_frames_and_members_of_a_shard_are_read(tmp_path: Path) -> None:
    """Zeros may follow the members: tapes and disks fill blocks with them, and gzip reads such files."""
    for suffix, end in ((".gz", bytes(5000)), (".zst", b"")):
        (tmp_path / f"x{suffix}").write_bytes(COMPRESS[suffix](b"one ") + COMPRESS[suffix](b"two") + end)
    corpus = open_corpus(f"shards:{tmp_path}")
    assert corpus.bytes().tobytes() == b"one two\0one two\0"


@pytest.mark.parametrize("kind", [pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())])
def test_string_columns_of_every_layout_are_read(kind: pa.DataType, tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": pa.array(["a", "ö", "a"]).cast(kind)}), tmp_path / "x.parquet")
    corpus = open_corpus(f"shards:{tmp_path}")
    assert corpus.bytes().tobytes() == "a\0ö\0a\0".encode()


def test_column_and_separator_can_be_selected(tmp_path: Path) -> None:
    folder = write_shards(tmp_path, ".jsonl", column="body")
    corpus = open_corpus(f"shards:{folder}?column=body&separator=--%0A")
    assert corpus.bytes().tobytes() == CORPUS.replace(b"\0", b"--\n")


def test_the_description_identifies_the_shards_and_their_order(tmp_path: Path) -> None:
    folder = write_shards(tmp_path / "web", ".jsonl")
    (folder / "README.md").write_text("no shard")
    corpus = open_corpus(f"shards:{folder}")
    description = json.loads(json.dumps(corpus.describe()))
    listed = hashlib.blake2b(digest_size=32)
    for path in sorted(folder.glob("*.jsonl")):
        contents = hashlib.blake2b(path.read_bytes(), digest_size=32).hexdigest()
        listed.update(f"{path.name}\0{path.stat().st_size}\0{contents}\n".encode())
    assert description == {
        "kind": "shards", "name": "web", "n_shards": 2, "n_skipped": 1, "shards_blake2b": listed.hexdigest(), "column": "text",
        "separator": "\0", "n_rows": 4,
    }  # fmt: skip


def test_hidden_files_and_files_in_hidden_folders_are_left_out_and_counted(tmp_path: Path) -> None:
    folder = write_shards(tmp_path / ".web", ".jsonl")  # the named folder itself may be hidden
    write_shards(folder / ".ipynb_checkpoints", ".jsonl")
    (folder / "._00.jsonl").write_bytes(b"\0\5\x16\7")
    corpus = open_corpus(f"shards:{folder}")
    assert corpus.bytes().tobytes() == CORPUS
    assert (corpus.describe()["n_shards"], corpus.describe()["n_skipped"]) == (2, 3)
    (folder / ".one.txt").write_bytes(b"named")
    corpus = open_corpus(f"shards:{folder}/.one.txt")
    assert corpus.bytes().tobytes() == b"named\0"


def test_with_a_limit_of_rows_later_shards_are_not_opened(tmp_path: Path) -> None:
    folder = write_shards(tmp_path / "web", ".jsonl")
    (folder / "02.jsonl").write_text("no JSON")
    corpus = open_corpus(f"shards:{folder}?rows=3")
    assert corpus.bytes().tobytes() == CORPUS[: -len("last\0")]
    assert (corpus.describe()["n_shards"], corpus.describe()["n_rows"]) == (2, 3)


def test_blank_lines_do_not_matter(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"text": "a"}\r\n\n \t\r\n{"text": "b"}\n\n')
    corpus = open_corpus(f"shards:{tmp_path}")
    assert corpus.bytes().tobytes() == b"a\0b\0"


def test_a_zstd_shard_may_have_the_largest_window_that_zstd_makes_and_frames_to_skip(tmp_path: Path) -> None:
    """As `zstd --long=31` makes it. It takes memory for the window only as far as there are bytes."""
    long = zstandard.ZstdCompressionParameters(window_log=31, enable_ldm=True)
    writer = zstandard.ZstdCompressor(compression_params=long).compressobj()
    frame = writer.compress(b"text" * 100) + writer.flush()
    assert zstandard.get_frame_parameters(frame).window_size == 1 << 31
    skipped = b"\x50\x2a\x4d\x18\x03\0\0\0abc"
    (tmp_path / "a.txt.zst").write_bytes(
        skipped + frame + skipped + zstandard.compress(b"") + zstandard.compress(b"end")
    )
    corpus = open_corpus(f"shards:{tmp_path}?separator=")
    assert corpus.bytes().tobytes() == b"text" * 100 + b"end"


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("rows=0", "Expected `int` >= 1 for `rows`"),
        ("rows=1&rows=2", "one is given twice"),
        ("row=1", "cannot read the options .* unknown field `row`"),
    ],
)
def test_invalid_options_are_refused(query: str, reason: str) -> None:
    with pytest.raises(CorpusError, match=reason):
        open_corpus(f"shards:web?{query}")


# ---- shards that cannot be a corpus are refused in one line with the shard and, if possible, the row

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
open_corpus(sys.argv[1])
before = peak()
print(open_corpus(sys.argv[2]).n_bytes, (peak() - before) << 10)
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
