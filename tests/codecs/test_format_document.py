"""docs/FORMAT.md agrees with the program: its examples, tables and dictionary are compared with those of the program."""

import hashlib
import io
import re
from pathlib import Path

import numba
import pytest
from prequential_codecs import archive
from prequential_codecs.archive import ArchiveReader, ArchiveWriter, Block, BlockKind
from prequential_codecs.archive_header import HEADER_DICTIONARY, Header
from prequential_codecs.bit_coder import DECODE, ENCODE, LOW, N_WORDS, WIDTH, BitCoder, code_bit

# Interpreted, numpy would warn of the carry that must wrap.
compiled_code_bit = numba.njit(error_model="numpy")(code_bit)
DOCUMENT = (Path(__file__).parents[2] / "docs" / "FORMAT.md").read_text(encoding="utf-8")
DECISIONS = [(1, 1), (1, 1), (1, 16384), (0, 4096), (1, 2)]  # bit, frequency of a one
PAYLOAD = bytes.fromhex("ffffffff 0288fdfb")
ORIGINAL = b"abcabd"
SIZES = {"n_bytes": 3, "n_symbols": 3}
BLOCKS = [
    Block(kind=BlockKind.RAW, **SIZES, payload_bytes=3, state_digest=bytes(range(8)), payload=b"abc"),
    Block(kind=BlockKind.CODED, **SIZES, payload_bytes=8, state_digest=bytes(range(8, 16)), payload=PAYLOAD),
]
HEADER = Header(
    n_bytes=len(ORIGINAL),
    blake2b=hashlib.blake2b(ORIGINAL, digest_size=32).digest(),
    config={"seed": 0},
    corpus={"name": "x"},
)


def fenced(name: str) -> str:
    block = re.search(rf"```{name}\n(.*?)\n```", DOCUMENT, re.DOTALL)
    assert block is not None
    return block[1]


def test_the_coder_has_the_states_of_the_example_and_writes_its_words() -> None:
    coder = BitCoder(ENCODE)
    for bit, frequency in DECISIONS:
        assert compiled_code_bit(bit, frequency, coder.state, coder.words) == bit
        low, width, n_words = (int(coder.state[i]) for i in (LOW, WIDTH, N_WORDS))
        words = " ".join(f"{word:08x}" for word in coder.words[:n_words].tolist())
        assert f"| {bit} | {frequency} | {low:x} | {width:x} | {words}".rstrip() + " |" in DOCUMENT
    assert coder.payload() == PAYLOAD
    assert f"`{PAYLOAD.hex(' ')}`" in DOCUMENT


def test_the_words_of_the_example_decode_to_its_bits() -> None:
    coder = BitCoder(DECODE, PAYLOAD)
    decoded = [compiled_code_bit(0, frequency, coder.state, coder.words) for _, frequency in DECISIONS]
    assert decoded == [bit for bit, _ in DECISIONS]
    coder.check_end()


def test_the_dictionary_is_that_of_the_document() -> None:
    assert fenced("dictionary").replace("\n", "").encode() == HEADER_DICTIONARY


def test_the_archive_of_the_document_is_read_as_described() -> None:
    reader = ArchiveReader(io.BytesIO(bytes.fromhex(fenced("archive"))))
    assert reader.header == HEADER
    assert list(reader.blocks()) == BLOCKS


def test_a_writer_writes_the_bytes_of_the_document(monkeypatch: pytest.MonkeyPatch) -> None:
    documented = bytes.fromhex(fenced("archive"))
    # Other builds of zlib may deflate the description differently, which the format allows. So the header is given.
    header_bytes = ArchiveReader(io.BytesIO(documented)).header_bytes
    monkeypatch.setattr(archive, "pack_header", lambda header: documented[:header_bytes])
    sink = io.BytesIO()
    writer = ArchiveWriter(sink, HEADER)
    for block in BLOCKS:
        writer.write_block(block)
    writer.close()
    assert sink.getvalue() == documented
