"""Archive: round trips, overhead, and the refusal of all bytes that no writer writes."""

import io
import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prequential_codecs.archive import ArchiveReader, ArchiveWriter, Block, BlockKind, summarise
from prequential_codecs.archive_header import Header, pack_header
from prequential_codecs.byte_source import CHUNK_BYTES, varint

from prequential.errors import ConfigError, CorruptArchiveError, PrequentialError, UnsupportedVersionError
from prequential.model.presets import PRESETS, preset

DIGEST = bytes(range(32))


def raw_block(data: bytes) -> Block:
    return block_of(BlockKind.RAW, len(data), data)


def coded_block(n_bytes: int, payload: bytes) -> Block:
    return block_of(BlockKind.CODED, n_bytes, payload)


def block_of(kind: BlockKind, n: int, payload: bytes) -> Block:
    sizes = {"n_bytes": n, "n_symbols": n, "payload_bytes": len(payload)}
    return Block(kind=kind, **sizes, state_digest=b"8 bytes.", payload=payload)


BLOCKS = [coded_block(9, b"coded"), raw_block(b"raw"), coded_block(9, b"other")]


def archive_of(blocks: list[Block], **fields: object) -> bytes:
    header = Header(n_bytes=sum(block.n_bytes for block in blocks), blake2b=DIGEST, **fields)  # type: ignore[arg-type]
    sink = io.BytesIO()
    writer = ArchiveWriter(sink, header)
    for block in blocks:
        writer.write_block(block)
    writer.close()
    assert writer.n_bytes_written == len(sink.getvalue())
    return sink.getvalue()


SMALL = archive_of(BLOCKS, config={"seed": 1}, corpus={"name": "x"})


class Pipe(io.RawIOBase):
    """A stream that cannot seek, delivers a few bytes at a time, and records the size of the largest request."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.largest_read = 0

    def read(self, n_bytes: int = -1) -> bytes:
        self.largest_read = max(self.largest_read, n_bytes)
        taken, self.data = self.data[: min(n_bytes, 7)], self.data[min(n_bytes, 7) :]
        return taken


def read_all(archive: bytes) -> list[Block]:
    return list(ArchiveReader(io.BytesIO(archive)).blocks())


def intact_blocks_before_refusal(archive: bytes) -> tuple[int, str]:
    n_intact = 0
    with pytest.raises(CorruptArchiveError) as refusal:
        for _ in ArchiveReader(io.BytesIO(archive)).blocks():
            n_intact += 1
    return n_intact, str(refusal.value)


block_lists = st.lists(
    st.binary(min_size=1, max_size=300).map(raw_block)
    | st.binary(max_size=300).map(lambda payload: coded_block(len(payload) + 1, payload)),
    max_size=6,
)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    # Text that UTF-8 can hold: no lone surrogates.
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abé", max_size=3), inner, max_size=3),
    max_leaves=10,
)


@given(block_lists)
@settings(max_examples=60, deadline=None)
def test_blocks_round_trip(blocks: list[Block]) -> None:
    assert read_all(archive_of(blocks)) == blocks


@given(st.dictionaries(st.text("xyz", max_size=4), json_values, max_size=4), st.integers(0, 2**63 - 1))
@settings(max_examples=60, deadline=None)
def test_headers_round_trip(config: dict[str, object], n_bytes: int) -> None:
    header = Header(n_bytes=n_bytes, blake2b=DIGEST, config=config, corpus={"name": "größe"})
    assert ArchiveReader(io.BytesIO(pack_header(header))).header == header


def test_reading_works_on_a_pipe() -> None:
    assert list(ArchiveReader(Pipe(SMALL)).blocks()) == BLOCKS  # type: ignore[arg-type]


def test_summary_lists_header_and_blocks_without_payloads(tmp_path: Path) -> None:
    path = tmp_path / "a.pq"
    path.write_bytes(SMALL)
    summary = summarise(path)
    assert summary.header == ArchiveReader(io.BytesIO(SMALL)).header
    assert list(summary.blocks) == [replace(block, payload=b"") for block in BLOCKS]
    assert (summary.payload_bytes, summary.archive_bytes) == (13, len(SMALL))
    path.write_bytes(archive_of([]))
    assert summarise(path).blocks == ()


def test_the_overhead_of_a_block_is_below_30_bytes_and_of_the_end_below_20() -> None:
    sizes = [len(archive_of([raw_block(bytes(100_000))] * n)) for n in (1, 2, 3)]
    assert all(after - before < 100_000 + 30 for before, after in pairwise(sizes))
    assert len(archive_of([])) - len(pack_header(Header(n_bytes=0, blake2b=DIGEST))) < 20


def test_every_flipped_bit_is_refused() -> None:
    for bit in range(8 * len(SMALL)):
        damaged = bytearray(SMALL)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises((CorruptArchiveError, UnsupportedVersionError)):
            read_all(bytes(damaged))


def test_every_truncation_is_refused() -> None:
    for n_bytes in range(len(SMALL)):
        with pytest.raises(CorruptArchiveError):
            read_all(SMALL[:n_bytes])


def test_an_archive_cut_off_between_blocks_gives_its_intact_blocks_and_is_refused() -> None:
    end_bytes = len(archive_of([])) - len(pack_header(Header(n_bytes=0, blake2b=DIGEST))) + 2 * 3
    n_intact, message = intact_blocks_before_refusal(SMALL[:-end_bytes])
    assert n_intact == 3
    assert "block 3 (original bytes from 21): the archive ends early" in message


def test_the_error_names_the_damaged_block_and_its_range_of_the_original() -> None:
    position = SMALL.index(b"raw")
    n_intact, message = intact_blocks_before_refusal(SMALL[:position] + b"R" + SMALL[position + 1 :])
    assert (n_intact, message) == (1, "block 1 (original bytes 9-12): checksum mismatch")


def test_a_declared_size_is_not_allocated_before_its_bytes_arrive() -> None:
    header = pack_header(Header(n_bytes=2**40, blake2b=DIGEST))
    pipe = Pipe(header + b"\2" + varint(2**26) + varint(1) + varint(2**26) + bytes(8) + b"few")
    with pytest.raises(CorruptArchiveError, match="ends early"):
        list(ArchiveReader(pipe).blocks())  # type: ignore[arg-type]
    assert pipe.largest_read <= CHUNK_BYTES


@pytest.mark.parametrize(
    ("sizes", "reason"),
    [
        ((2**26 + 1, 1, 1), "original bytes are outside"),
        ((0, 1, 0), "original bytes are outside"),
        ((100, 2**26 + 1, 1), "symbols are outside"),
        ((100, 1, 117), "coded bytes are too many"),
        ((1001, 1, 1), "exceeds the 1000 bytes"),
    ],
)
def test_sizes_outside_the_limits_are_refused_before_the_payload_is_read(
    sizes: tuple[int, int, int], reason: str
) -> None:
    head = b"\2" + b"".join(map(varint, sizes)) + bytes(8)
    message = intact_blocks_before_refusal(pack_header(Header(n_bytes=1000, blake2b=DIGEST)) + head)[1]
    assert reason in message


@pytest.mark.parametrize(
    "config", [{"a": float("nan")}, {"a": 2**63}, {"a": {1, 2}}, {"a": "x" * 70_000}, {"a": "\ud800"}]
)
def test_a_config_that_no_reader_accepts_is_not_written(config: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        ArchiveWriter(io.BytesIO(), Header(n_bytes=0, blake2b=DIGEST, config=config))


@pytest.mark.parametrize(
    ("kind", "n", "n_payload"),
    [(BlockKind.RAW, 0, 0), (BlockKind.RAW, 5, 5), (BlockKind.CODED, 4, 21), (BlockKind.RAW, 2, 3)],
)
def test_a_block_that_no_reader_accepts_is_not_written(kind: BlockKind, n: int, n_payload: int) -> None:
    sink = io.BytesIO()
    writer = ArchiveWriter(sink, Header(n_bytes=4, blake2b=DIGEST))
    with pytest.raises(CorruptArchiveError):
        writer.write_block(block_of(kind, n, bytes(n_payload)))
    assert len(sink.getvalue()) == writer.header_bytes


def test_an_archive_that_does_not_cover_its_original_cannot_be_closed() -> None:
    writer = ArchiveWriter(io.BytesIO(), Header(n_bytes=4, blake2b=DIGEST))
    with pytest.raises(PrequentialError, match="0 of 4"):
        writer.close()


@pytest.mark.parametrize("level", PRESETS)
def test_the_description_of_a_preset_is_compressed_to_less_than_a_tenth(level: int) -> None:
    config = preset(level).to_dict()
    corpus = {"kind": "file", "name": "enwik6"}
    header = Header(n_bytes=10**6, blake2b=DIGEST, config=config, corpus=corpus)
    text_bytes = len(json.dumps({"config": config, "corpus": corpus}, separators=(",", ":")))
    assert len(pack_header(header)) - len(pack_header(Header(n_bytes=10**6, blake2b=DIGEST))) < text_bytes / 10
