"""Range coder: round trips, exact words, equality of both implementations, and refusals."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prequential_codecs.baselines.constriction_coder import Encoder as ConstrictionEncoder
from prequential_codecs.baselines.frequencies import TOTAL, ideal_code_bits
from prequential_codecs.baselines.range_coder import BACKENDS, RangeDecoder, RangeEncoder
from prequential_codecs.baselines.reference_coder import Encoder as ReferenceEncoder

from prequential.errors import (
    ConfigError,
    CorruptArchiveError,
    InvalidDistributionError,
    MissingDependencyError,
    PrequentialError,
)

ALPHABETS = (2, 3, 256, 1000)


def drawn_rows(rng: np.random.Generator, n: int, V: int) -> np.ndarray:
    """(n, V) int64 rows, some nearly uniform, some with almost all weight on one symbol."""
    weights = rng.dirichlet(np.full(V, rng.choice([0.01, 0.1, 1, 50])), size=n)
    rows = (weights * (TOTAL - V)).astype(np.int64) + 1
    rows[np.arange(n), rng.integers(0, V, n)] += TOTAL - rows.sum(axis=1)
    return rows


def extreme_rows(V: int) -> np.ndarray:
    """(V, V) int64: in row i, every symbol has 1 except symbol i, which has the rest."""
    rows = np.ones((V, V), dtype=np.int64)
    np.fill_diagonal(rows, TOTAL - V + 1)
    return rows


def encoded(symbols: np.ndarray, rows: np.ndarray, backend: str | None = None) -> bytes:
    encoder = RangeEncoder(backend)
    encoder.encode(symbols, rows)
    return encoder.finish()


def decoded(payload: bytes, rows: np.ndarray, backend: str | None = None) -> np.ndarray:
    decoder = RangeDecoder(payload, backend)
    symbols = decoder.decode(rows)
    decoder.finish()
    return symbols


messages = st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 60), st.sampled_from(ALPHABETS))


def message(seed: int, n: int, V: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    rows = drawn_rows(rng, n, V)
    likely = rng.random(n) < 0.5
    return np.where(likely, rows.argmax(axis=1) if n else 0, rng.integers(0, V, n)), rows


@pytest.mark.parametrize("backend", BACKENDS)
@given(messages)
@settings(max_examples=40, deadline=None)
def test_symbols_round_trip(backend: str, drawn: tuple[int, int, int]) -> None:
    symbols, rows = message(*drawn)
    assert np.array_equal(decoded(encoded(symbols, rows, backend), rows, backend), symbols)


@given(messages)
@settings(max_examples=100, deadline=None)
def test_both_implementations_write_the_same_words(drawn: tuple[int, int, int]) -> None:
    symbols, rows = message(*drawn)
    assert encoded(symbols, rows, "constriction") == encoded(symbols, rows, "reference")


@pytest.mark.parametrize("V", ALPHABETS)
def test_extreme_rows_are_represented_exactly(V: int) -> None:
    rows = np.concatenate([extreme_rows(V)] * 3)
    for symbols in (np.arange(3 * V) % V, np.full(3 * V, V - 1), np.zeros(3 * V, dtype=np.int64)):
        payload = encoded(symbols, rows, "constriction")
        assert payload == encoded(symbols, rows, "reference")
        assert np.array_equal(decoded(payload, rows, "constriction"), symbols)


@pytest.mark.parametrize(("last_symbol", "words"), [(2, [0x80000000, 0]), (0, [0x7FFFFFFF, 0xFFFFFFFF])])
def test_carries_change_words_already_written(last_symbol: int, words: list[int]) -> None:
    # In each row, symbol 1 has the three units around one half of the first window. So only the last symbol decides on which
    # side of it the message ends.
    rows = [[TOTAL // 2 - 1, 2, TOTAL // 2 - 1]]
    symbols = [1, *[1] * 100, last_symbol]
    probe = ReferenceEncoder()
    for symbol in symbols:
        probe.encode(np.array([symbol]), np.array(rows[-1:]))
        half = 2**64 if probe._words else 2**63
        below_half = (half - probe._low) // (probe._width >> 24)
        rows.append([below_half - 1, 3, TOTAL - 2 - below_half])
    matrix = np.array(rows[:-1])
    payload = encoded(np.array(symbols), matrix, "constriction")
    assert payload == encoded(np.array(symbols), matrix, "reference")
    assert np.frombuffer(payload, dtype="<u4")[:30].tolist() == [words[0], *[words[1]] * 29]
    assert decoded(payload, matrix, "constriction").tolist() == symbols


@given(st.binary(max_size=60), st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_both_implementations_agree_on_hostile_payloads(payload: bytes, seed: int) -> None:
    rows = drawn_rows(np.random.default_rng(seed), 20, 256)

    def outcome(backend: str) -> tuple[str, list[int]]:
        symbols: list[int] = []
        try:
            decoder = RangeDecoder(payload, backend)
            for row in rows:
                symbols += decoder.decode(row[None, :]).tolist()
            decoder.finish()
        except CorruptArchiveError:
            return "refused", symbols
        return "accepted", symbols

    assert outcome("constriction") == outcome("reference")


@given(messages)
@settings(max_examples=40, deadline=None)
def test_payload_is_within_33_bits_of_the_ideal_code_length(drawn: tuple[int, int, int]) -> None:
    symbols, rows = message(*drawn)
    excess_bits = 8 * len(encoded(symbols, rows)) - ideal_code_bits(symbols, rows)
    assert 0 <= excess_bits < 33 + len(symbols) / 128


def test_the_ideal_code_length_of_even_odds_is_one_bit_per_symbol() -> None:
    assert ideal_code_bits(np.array([0, 1, 1]), np.full((3, 2), TOTAL // 2)) == 3.0


def test_calls_can_be_split_anywhere() -> None:
    symbols, rows = message(1, 30, 256)
    encoder = RangeEncoder()
    for start in range(0, 30, 7):
        encoder.encode(symbols[start : start + 7], rows[start : start + 7])
    assert encoder.finish() == encoded(symbols, rows)


@pytest.mark.parametrize("backend", BACKENDS)
def test_array_types_and_layouts_do_not_change_the_words(backend: str) -> None:
    symbols, rows = message(2, 20, 256)
    payload = encoded(symbols, rows, backend)
    assert encoded(symbols.astype(np.uint8), rows.astype(np.int32), backend) == payload
    assert encoded(np.repeat(symbols, 2)[::2], np.asfortranarray(rows), backend) == payload
    assert np.array_equal(decoded(payload, np.asfortranarray(rows.astype(np.int32)), backend), symbols)


@pytest.mark.parametrize(
    "row",
    [
        [TOTAL, 0],
        [TOTAL + 1, -1],
        [TOTAL // 2, TOTAL // 2 - 1],
        [TOTAL // 2, TOTAL // 2 + 1],
        [TOTAL],
        [2**62, 2**62, 2**62, 2**62 + TOTAL - 1, 1],  # wraps around to TOTAL in 64 bits
    ],
)
def test_rows_that_are_not_a_distribution_are_refused(row: list[int]) -> None:
    good = [TOTAL - len(row) + 1] + [1] * (len(row) - 1)
    with pytest.raises(InvalidDistributionError):
        RangeEncoder().encode(np.array([0, 0]), np.array([good, row]))
    with pytest.raises(InvalidDistributionError):
        RangeDecoder(bytes(8)).decode(np.array([good, row]))


def test_the_error_names_the_refused_row() -> None:
    with pytest.raises(InvalidDistributionError, match=f"row 1 sums to 3, not to {TOTAL}"):
        RangeEncoder().encode(np.array([0, 0]), np.array([[TOTAL - 1, 1], [1, 2]]))


@pytest.mark.parametrize("frequencies", [np.full((1, 2), TOTAL / 2), np.full((1, 2), TOTAL // 2, dtype=np.uint32)])
def test_frequencies_of_another_type_are_refused(frequencies: np.ndarray) -> None:
    with pytest.raises(InvalidDistributionError, match="int32 or int64"):
        RangeEncoder().encode(np.array([0]), frequencies)


@pytest.mark.parametrize("symbols", [np.array([2]), np.array([-1]), np.array([0, 1]), np.array([0.0]), np.array(0)])
def test_symbols_outside_the_alphabet_are_refused(symbols: np.ndarray) -> None:
    with pytest.raises(InvalidDistributionError):
        RangeEncoder().encode(symbols, np.full((1, 2), TOTAL // 2))


def test_a_refused_call_does_not_change_the_message() -> None:
    symbols, rows = message(3, 10, 3)
    encoder = RangeEncoder()
    encoder.encode(symbols, rows)
    with pytest.raises(InvalidDistributionError):
        encoder.encode(np.array([0, 9]), rows[:2])
    assert encoder.finish() == encoded(symbols, rows)


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_symbols_make_an_empty_payload(backend: str) -> None:
    assert encoded(np.empty(0, dtype=np.int64), np.empty((0, 256), dtype=np.int64), backend) == b""


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("n_bytes", [1, 3, 5])
def test_payloads_of_incomplete_words_are_refused(backend: str, n_bytes: int) -> None:
    with pytest.raises(CorruptArchiveError, match="whole number of 32-bit words"):
        RangeDecoder(bytes(n_bytes), backend)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("extra", [b"\0\0\0\0" * 2, b"\xff\xff\xff\xff" * 2])
def test_words_after_the_last_symbol_are_refused(backend: str, extra: bytes) -> None:
    symbols, rows = message(4, 20, 256)
    with pytest.raises(CorruptArchiveError, match="does not end with its 20 symbols"):
        decoded(encoded(symbols, rows) + extra, rows, backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_empty_payload_for_a_symbol_and_a_payload_for_none_are_refused(backend: str) -> None:
    rows = np.full((1, 2), TOTAL // 2)
    with pytest.raises(CorruptArchiveError):
        decoded(b"", rows, backend)
    with pytest.raises(CorruptArchiveError):
        RangeDecoder(bytes(4), backend).finish()


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_payload_outside_the_range_of_all_symbols_is_refused(backend: str) -> None:
    # All ones are in the gap that rounding leaves above the last symbol.
    with pytest.raises(CorruptArchiveError):
        RangeDecoder(b"\xff" * 8, backend).decode(np.full((1, 2), TOTAL // 2))


def test_panics_of_the_library_become_ordinary_errors(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(PrequentialError, match="leakiness"):
        ConstrictionEncoder().encode(np.array([1]), np.array([[6, 0, TOTAL - 6]]))  # unchecked: a frequency of 0
    capfd.readouterr()  # the library reports its panic on standard error


def test_the_library_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    symbols, rows = message(5, 20, 256)
    decoded(encoded(symbols, rows, "constriction"), rows, "constriction")
    assert capfd.readouterr() == ("", "")


def test_unknown_backends_are_refused() -> None:
    with pytest.raises(ConfigError, match="choose from constriction, reference"):
        RangeEncoder("ans")


def test_the_fast_implementation_is_the_default_if_it_is_installed() -> None:
    assert isinstance(RangeEncoder()._backend, ConstrictionEncoder)


def test_plain_python_replaces_constriction_if_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    symbols, rows = message(6, 20, 256)
    payload = encoded(symbols, rows, "constriction")
    monkeypatch.delitem(sys.modules, "prequential_codecs.baselines.constriction_coder")
    monkeypatch.delattr("prequential_codecs.baselines.constriction_coder")
    monkeypatch.setitem(sys.modules, "constriction", None)
    assert encoded(symbols, rows) == payload
    with pytest.raises(MissingDependencyError):
        RangeEncoder("constriction")


def test_importing_codecs_loads_no_optional_library() -> None:
    program = (
        "import sys, prequential_codecs.archive, prequential_codecs.baselines.registry\n"
        "print(sorted({'constriction', 'zstandard', 'brotli', 'pyppmd', 'torch'} & sys.modules.keys()))"
    )
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert output.strip() == "[]"
