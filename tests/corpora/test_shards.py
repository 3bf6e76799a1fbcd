"""Folders of shards as corpora: contents, order, description, and reading without temporary files."""

import gzip
import hashlib
import itertools
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from prequential_corpora.rows import shuffled
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
        "separator": "\0", "shuffle_seed": None, "shuffle_buffer": None, "n_rows": 4,
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


def rows_of(spec: str) -> list[bytes]:
    corpus = open_corpus(spec)
    return corpus.bytes().tobytes().split(b"\0")[:-1]


def test_a_seed_shuffles_shards_and_rows_and_its_order_never_changes(tmp_path: Path) -> None:
    folder = write_shards(tmp_path / "few", ".jsonl", [["a", "b", "c", "d"], ["e", "f", "g", "h"], ["i", "j"]])
    assert b"".join(rows_of(f"shards:{folder}?seed=7&buffer=3")) == b"ehgifabcjd"
    texts = [[f"{shard}.{row}" for row in range(50)] for shard in range(8)]
    folder = write_shards(tmp_path / "web", ".jsonl", texts)
    in_order = rows_of(f"shards:{folder}")
    shuffles = [rows_of(f"shards:{folder}?seed={seed}&buffer=100") for seed in (0, 1, 2**63 - 1)]
    assert all(sorted(rows) == sorted(in_order) for rows in shuffles)
    assert len({tuple(rows) for rows in [in_order, *shuffles]}) == 4
    corpus = open_corpus(f"shards:{folder}?seed=1&buffer=100")
    assert (corpus.describe()["shuffle_seed"], corpus.describe()["shuffle_buffer"]) == (1, 100)


@given(n=st.integers(0, 60), n_places=st.integers(1, 20), seed=st.integers(0, 2**63 - 1))
def test_no_document_is_lost_or_comes_earlier_than_the_buffer_allows(n: int, n_places: int, seed: int) -> None:
    numbers = list(shuffled(iter(range(n)), seed.to_bytes(8, "little"), n_places))
    assert sorted(numbers) == list(range(n))
    assert all(number <= place + n_places - 1 for place, number in enumerate(numbers))


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
        ("seed=x", "Expected `int .* for `seed`"),
        ("seed=-1", "Expected `int` >= 0 for `seed`"),
        ("seed=9223372036854775808", "Expected `int` <= 9223372036854775807 for `seed`"),
        ("buffer=5", "a shuffle buffer needs a seed"),
        ("seed=1&buffer=0", "Expected `int` >= 1 for `buffer`"),
        ("rows=0", "Expected `int` >= 1 for `rows`"),
        ("rows=1&rows=2", "one is given twice"),
        ("sed=1", "cannot read the options .* unknown field `sed`"),
    ],
)
def test_invalid_options_are_refused(query: str, reason: str) -> None:
    with pytest.raises(CorpusError, match=reason):
        open_corpus(f"shards:web?{query}")
