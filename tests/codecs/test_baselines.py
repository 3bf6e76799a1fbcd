"""Baselines: round trips of every compressor, sizes near what theory says, and a note for each one that fails."""

import shutil
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prequential_codecs import baselines as registry
from prequential_codecs.baselines import (
    BASELINES,
    Compressor,
    measure,
    measure_each,
)
from prequential_corpora.sources import sample_path

from prequential.errors import PrequentialError

EDGES = [b"", b"a", b"\0", b"aaaa", b"a" * 5000, b"text\0", b"text\0\0\0", bytes(range(256)) * 9]
WORDS = st.lists(st.sampled_from([b"a", b"ab", b"\0", b"\xff", b"the ", bytes(range(256))]), max_size=40).map(b"".join)


def size(name: str, data: bytes) -> int:
    """The compressed size in bytes, after a check of the round trip."""
    compressed = BASELINES[name].compress(data)
    assert BASELINES[name].decompress(compressed) == data
    return len(compressed)


@pytest.mark.parametrize("name", BASELINES)
def test_edge_cases_round_trip(name: str) -> None:
    for data in EDGES:
        size(name, data)


@pytest.mark.parametrize("name", BASELINES)
@given(st.binary(max_size=1000) | WORDS)
@settings(max_examples=20, deadline=None)
@pytest.mark.first_quick
def test_every_baseline_round_trips(name: str, data: bytes) -> None:
    size(name, data)


def test_a_measurement_reports_the_size_of_the_real_output() -> None:
    data = b"measured " * 100
    result = measure("bzip2", data)
    assert (result.name, result.n_bytes) == ("bzip2", 900)
    assert result.compressed_bytes == size("bzip2", data)
    assert result.wall_s > 0


def refuses(data: bytes) -> bytes:
    raise ValueError("corrupted input data")


@pytest.mark.parametrize(
    ("compressor", "note"),
    [
        (Compressor(label="x", compress=bytes, decompress=refuses), "does not decode its 3 bytes of input: corrupted"),
        (
            Compressor(label="x", compress=bytes, decompress=lambda data: b""),
            "decompresses its 3 bytes of input to other",
        ),
    ],
)
def test_a_size_without_a_correct_decoding_is_skipped_with_a_note(
    compressor: Compressor, note: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(registry.BASELINES, "broken", compressor)
    results, notes = measure_each(b"abc", ["broken", "gzip"])
    assert [result.name for result in results] == ["gzip"]
    assert len(notes) == 1 and notes[0].startswith(f"skipped: baseline broken {note}")
    with pytest.raises(PrequentialError):
        measure("broken", b"abc")


# ---- sizes of the command-line programs at the settings of the labels; GNU gzip has a deflate of its own


# For files above 64 MiB, the dictionary of the baseline xz grows and that of the program does not. pigz compresses blocks of so
# many KiB separately, which costs bytes. The tolerances are of the size. Measured: gzip 0.0002 on the sample, 0.0012 on enwik6,
# 0.0007 on book1; zstd 1.5.4 against 1.5.7 0 on the sample, 0.0001 on enwik6, 0.0015 on book1.
PROGRAMS = [
    ("bzip2", "bzip2 -9 -c", 0.0),
    ("xz", "xz -9e -T1 -c", 0.0),
    ("zstd", "zstd -22 --ultra --long=27 --no-check -q -c", 0.002),
    ("brotli", "brotli -q 11 -c", 0.0),
    ("gzip", "pigz -9 -n -b 4096 -c", 0.0),
    ("gzip", "gzip -9n -c", 0.002),
]


def program_size(command: str) -> int:
    """The number of bytes that a program writes to standard output for the sample. Skips the test if it is not installed."""
    words = command.split()
    if shutil.which(words[0]) is None:
        pytest.skip(f"{words[0]} is not installed")
    return len(subprocess.run([*words, str(sample_path("christmas_carol"))], stdout=subprocess.PIPE, check=True).stdout)


@pytest.mark.parametrize(("name", "command", "tolerance"), PROGRAMS)
def test_a_baseline_has_the_size_of_the_program(name: str, command: str, tolerance: float) -> None:
    assert program_size(command) == pytest.approx(
        len(BASELINES[name].compress(sample_path("christmas_carol").read_bytes())), rel=tolerance
    )
