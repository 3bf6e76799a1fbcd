"""docs/FORMAT.md says what the program does: its examples, tables and dictionary are the program's own."""

import hashlib
import io
import re
from pathlib import Path

import numpy as np
import pytest

from prequential.codecs import (
    BACKENDS,
    ArchiveReader,
    ArchiveWriter,
    Block,
    BlockKind,
    Header,
    RangeDecoder,
    RangeEncoder,
    archive,
)
from prequential.codecs.archive_header import HEADER_DICTIONARY
from prequential.codecs.reference_coder import Encoder

DOCUMENT = (Path(__file__).parents[2] / "docs" / "FORMAT.md").read_text(encoding="utf-8")
ROWS = np.tile(np.array([8388608, 4194304, 4194303, 1]), (6, 1))
SYMBOLS = np.array([0, 1, 2, 3, 3, 0])
PAYLOAD = bytes.fromhex("dfffff5f 0218c0fc")
ORIGINAL = b"abcabd"
BLOCKS = [
    Block(kind=BlockKind.RAW, n_bytes=3, n_symbols=3, state_digest=bytes(range(8)), payload=b"abc"),
    Block(kind=BlockKind.CODED, n_bytes=3, n_symbols=6, state_digest=bytes(range(8, 16)), payload=PAYLOAD),
]
HEADER = Header(
    n_bytes=len(ORIGINAL),
    blake2b=hashlib.blake2b(ORIGINAL, digest_size=32).digest(),
    config={"seed": 0},
    corpus={"name": "x"},
)


def fenced(name: str) -> str:
    found = re.search(rf"```{name}\n(.*?)\n```", DOCUMENT, re.DOTALL)
    assert found is not None
    return found[1]


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_coder_writes_the_words_of_the_example(backend: str) -> None:
    encoder = RangeEncoder(backend)
    encoder.encode(SYMBOLS, ROWS)
    assert encoder.finish() == PAYLOAD
    assert f"`{PAYLOAD.hex(' ')}`" in DOCUMENT


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_words_of_the_example_decode_to_its_symbols(backend: str) -> None:
    assert np.array_equal(RangeDecoder(PAYLOAD, backend).decode(ROWS), SYMBOLS)


def test_the_coder_passes_through_the_states_of_the_example() -> None:
    coder = Encoder()
    for symbol in SYMBOLS:
        coder.encode(np.array([symbol]), ROWS[:1])
        words = " ".join(f"{word:08x}" for word in coder._words)
        assert f"| {symbol} | {coder._low:x} | {coder._width:x} | {words}".rstrip() + " |" in DOCUMENT


def test_the_dictionary_is_the_one_of_the_document() -> None:
    assert fenced("dictionary").replace("\n", "").encode() == HEADER_DICTIONARY


def test_the_archive_of_the_document_reads_as_described() -> None:
    reader = ArchiveReader(io.BytesIO(bytes.fromhex(fenced("archive"))))
    assert reader.header == HEADER
    assert list(reader.blocks()) == BLOCKS


def test_a_writer_writes_the_bytes_of_the_document(monkeypatch: pytest.MonkeyPatch) -> None:
    documented = bytes.fromhex(fenced("archive"))
    # Other builds of zlib may deflate the description differently, which the format allows; so the header is given.
    header_bytes = ArchiveReader(io.BytesIO(documented)).header_bytes
    monkeypatch.setattr(archive, "pack_header", lambda header: documented[:header_bytes])
    sink = io.BytesIO()
    writer = ArchiveWriter(sink, HEADER)
    for block in BLOCKS:
        writer.write_block(block)
    writer.close()
    assert sink.getvalue() == documented
