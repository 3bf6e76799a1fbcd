"""compress and decompress: a round trip restores every byte at every size, and damaged archives are refused."""

import hashlib
import io
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prequential_codecs.archive import ArchiveReader
from prequential_codecs.archive_header import Header
from small import BOTH, CONFIGS

from prequential.errors import CorruptArchiveError
from prequential.online.coding import compress, config_of, decompress
from prequential.online.runtime import Runtime

TEXT = (
    b"It was the best of times, it was the worst of times, it was the age of wisdom, it was the age of foolishness. "
    * 20
)
ONE = Runtime(threads=1)


def archive_of(data, config=BOTH):
    header = Header(n_bytes=len(data), blake2b=hashlib.blake2b(data, digest_size=32).digest(), config=config.to_dict())
    sink = io.BytesIO()
    progress = list(compress(np.frombuffer(data, np.uint8), header, sink, ONE.learner(config)))
    return sink.getvalue(), progress


def decode(reader, sink):
    for _ in decompress(reader, sink, ONE.learner(config_of(reader.header))):
        pass


def original_of(archive):
    sink = io.BytesIO()
    decode(ArchiveReader(io.BytesIO(archive)), sink)
    return sink.getvalue()


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
@pytest.mark.first_quick
def test_a_text_is_restored_from_a_smaller_archive(config):
    archive, _ = archive_of(TEXT, config)
    assert original_of(archive) == TEXT
    assert len(archive) < 0.8 * len(TEXT)


# around every boundary: window (8), row (16), segment (32, and what a block leaves of it), four rows (64), block (300)
SIZES = sorted({0, 1, 2, 3} | {n + d for n in (8, 16, 32, 64, 288, 300, 332, 600) for d in (-1, 0, 1)})


@pytest.mark.parametrize("n_bytes", SIZES)
@pytest.mark.first_quick
def test_sizes_around_every_boundary_are_restored(n_bytes):
    archive, _ = archive_of(TEXT[:n_bytes])
    assert original_of(archive) == TEXT[:n_bytes]


@given(data=st.binary(max_size=700))
def test_any_bytes_are_restored(data):
    archive, _ = archive_of(data)
    assert original_of(archive) == data


def test_incompressible_blocks_are_stored_raw_and_cost_little():
    noise = np.random.default_rng(5).bytes(900)
    archive, progress = archive_of(noise)
    assert progress[-1].n_raw_blocks == progress[-1].n_blocks > 1
    assert len(archive) < len(noise) + progress[-1].header_bytes + 30 * progress[-1].n_blocks + 20
    assert original_of(archive) == noise


@pytest.mark.thorough
def test_the_learner_learns_from_raw_blocks():
    """Noise, then text: the coded blocks after a raw one decode, so both sides learned the same from it."""
    data = np.random.default_rng(6).bytes(600) + TEXT[:900]
    archive, progress = archive_of(data)
    assert 0 < progress[-1].n_raw_blocks < progress[-1].n_blocks
    assert original_of(archive) == data


def test_payload_is_within_a_hundredth_of_a_percent_and_64_bits_a_block_of_the_ideal():
    _, progress = archive_of(TEXT)
    last = progress[-1]
    assert last.code_bits <= 8 * last.payload_bytes <= last.code_bits * 1.0001 + 64 * last.n_blocks


def test_a_decoder_in_another_state_stops_at_the_first_block_before_it_writes():
    """The same as on a machine that computes other bits: the configuration has another seed, and all checksums are right."""
    header = Header(n_bytes=len(TEXT), blake2b=bytes(32), config=BOTH.to_dict())
    archive, _ = archive_of(TEXT)
    reader = ArchiveReader(io.BytesIO(archive))
    reader.header = replace(header, config=replace(BOTH, seed=1).to_dict())
    sink = io.BytesIO()
    with pytest.raises(CorruptArchiveError, match="block 0"):
        decode(reader, sink)
    assert sink.getvalue() == b""
