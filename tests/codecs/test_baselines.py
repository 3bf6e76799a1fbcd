"""Baselines: round trips of every compressor, measured sizes, and a note for each one that is not installed."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prequential_codecs.baselines import registry as baselines
from prequential_codecs.baselines.classical import CLASSICAL
from prequential_codecs.baselines.compressor import Compressor
from prequential_codecs.baselines.registry import BASELINES, measure, measure_installed
from prequential_codecs.baselines.static import STATIC

from prequential.errors import ConfigError, MissingDependencyError, PrequentialError

INSTALLED = [name for name, compressor in BASELINES.items() if compressor.installed]
ENWIK6 = Path(__file__).parents[3] / "shared" / "corpora" / "text" / "enwik6"
BITS_PER_BYTE = {"gzip": 2.846, "bzip2": 2.251, "xz": 2.326, "zstd": 2.401, "brotli": 2.248, "ppmd": 1.964}


@pytest.mark.parametrize("name", INSTALLED)
@pytest.mark.parametrize("data", [b"", b"a", b"\0", b"a" * 5000, b"text\0", b"text\0\0\0", bytes(range(256)) * 9])
def test_edge_cases_round_trip(name: str, data: bytes) -> None:
    compressor = BASELINES[name]
    assert compressor.decompress(compressor.compress(data)) == data


@pytest.mark.parametrize("name", sorted(set(INSTALLED) & CLASSICAL.keys()))
@given(st.binary(max_size=2000))
@settings(max_examples=8, deadline=None)
def test_classical_compressors_round_trip(name: str, data: bytes) -> None:
    assert CLASSICAL[name].decompress(CLASSICAL[name].compress(data)) == data


@pytest.mark.parametrize("name", sorted(STATIC))
@given(st.lists(st.sampled_from([b"a", b"ab", b"\0", b"\xff", b"the ", bytes(range(256))]), max_size=40))
@settings(max_examples=15, deadline=None)
def test_static_models_round_trip(name: str, words: list[bytes]) -> None:
    data = b"".join(words)
    assert STATIC[name].decompress(STATIC[name].compress(data)) == data


@pytest.mark.parametrize("n_bytes", [2047, 2048, 2049, 4097, 64 * 2048 + 1])
def test_order2_round_trips_at_the_ends_of_its_streams(n_bytes: int) -> None:
    data = (b"the quick brown fox " * (n_bytes // 20 + 1))[:n_bytes]
    assert STATIC["order2"].decompress(STATIC["order2"].compress(data)) == data


def test_order0_reaches_the_entropy_of_its_data() -> None:
    data = (b"a" * 3 + b"b") * 25_000
    entropy_bytes = 100_000 * 0.8112781 / 8
    assert entropy_bytes < len(STATIC["order0"].compress(data)) < entropy_bytes * 1.005 + 48


def test_order2_learns_what_order0_cannot_see() -> None:
    data = bytes(range(256)) * 100
    assert len(STATIC["order0"].compress(data)) > len(data)
    assert len(STATIC["order2"].compress(data)) < len(data) / 4


def test_a_measurement_reports_the_size_of_the_real_output() -> None:
    data = b"measured " * 100
    result = measure("bzip2", data)
    assert (result.name, result.n_bytes) == ("bzip2", 900)
    assert result.compressed_bytes == len(CLASSICAL["bzip2"].compress(data))
    assert result.wall_s > 0


def test_a_size_without_a_correct_decoding_is_not_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    liar = Compressor(label="liar", compress=lambda data: b"", decompress=lambda data: b"")
    monkeypatch.setitem(baselines.BASELINES, "liar", liar)
    with pytest.raises(PrequentialError, match="liar decompresses its 3 bytes of input to other bytes"):
        measure("liar", b"abc")


def test_a_missing_library_is_skipped_with_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    package = "no_such_package_anywhere"
    absent = Compressor(label="x", compress=bytes, decompress=bytes, requires=package)
    monkeypatch.setitem(baselines.BASELINES, "absent", absent)
    results, notes = measure_installed(b"abc", ["absent", "gzip"])
    assert [result.name for result in results] == ["gzip"]
    assert notes == [
        f"skipped: baseline absent needs the package {package}, which is not installed: pip install {package}"
    ]
    with pytest.raises(MissingDependencyError):
        measure("absent", b"abc")


def test_a_baseline_that_refuses_its_own_output_is_skipped_with_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(data: bytes) -> bytes:
        raise ValueError("corrupted input data")

    monkeypatch.setitem(BASELINES, "broken", Compressor(label="broken", compress=bytes, decompress=refuses))
    results, notes = measure_installed(b"abc", ["broken", "gzip"])
    assert [result.name for result in results] == ["gzip"]
    assert notes == ["skipped: baseline broken does not decode its 3 bytes of input: corrupted input data"]


def test_an_unknown_baseline_is_refused() -> None:
    with pytest.raises(ConfigError, match="choose from gzip"):
        measure("rar", b"")


@pytest.mark.slow
@pytest.mark.skipif(not ENWIK6.exists(), reason="enwik6 is not next to the project")
@pytest.mark.parametrize("name", sorted(BITS_PER_BYTE))
def test_sizes_on_enwik6_are_those_of_the_programs(name: str) -> None:
    result = measure(name, ENWIK6.read_bytes())
    assert 8 * result.compressed_bytes / result.n_bytes == pytest.approx(BITS_PER_BYTE[name], abs=0.005)
