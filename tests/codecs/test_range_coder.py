"""Range coder of the static baselines: round trips, the words of the plain coder, the facts about constriction, and refusals."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_coder import Encoder as PlainEncoder
from plain_coder import plain_payload
from prequential_codecs.baselines import range_coder
from prequential_codecs.baselines.range_coder import TOTAL, RangeDecoder, RangeEncoder

from prequential.errors import CorruptArchiveError, InvalidDistributionError, PrequentialError

ALPHABETS = (2, 3, 256, 1000)
HALVES = np.full((1, 2), TOTAL // 2)
MESSAGES = st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 60), st.sampled_from(ALPHABETS))


def encoded(symbols: np.ndarray, rows: np.ndarray) -> bytes:
    encoder = RangeEncoder()
    encoder.code(symbols, rows)
    return encoder.finish()


def decoded(payload: bytes, rows: np.ndarray) -> np.ndarray:
    decoder = RangeDecoder(payload)
    symbols = decoder.code(np.empty(len(rows)), rows)
    decoder.finish()
    return symbols


def message(seed: int, n: int, V: int) -> tuple[np.ndarray, np.ndarray]:
    """Symbols (n,), half of them likely; rows (n, V), some nearly uniform, some with almost all weight on one symbol."""
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.full(V, rng.choice([0.01, 0.1, 1, 50])), size=n)
    rows = (weights * (TOTAL - V)).astype(np.int64) + 1
    rows[np.arange(n), rng.integers(0, V, n)] += TOTAL - rows.sum(axis=1)
    return np.where(rng.random(n) < 0.5, rows.argmax(axis=1) if n else 0, rng.integers(0, V, n)), rows


def assert_codes(symbols: np.ndarray, rows: np.ndarray) -> bytes:
    payload = encoded(symbols, rows)
    assert payload == plain_payload(symbols, rows)
    assert np.array_equal(decoded(payload, rows), symbols)
    return payload


@given(MESSAGES)
@settings(max_examples=100, deadline=None)
def test_words_are_those_of_the_plain_coder_near_the_ideal_length_and_decode(drawn: tuple[int, int, int]) -> None:
    symbols, rows = message(*drawn)
    ideal_bits = float((24 - np.log2(rows[np.arange(len(symbols)), symbols])).sum())
    assert 0 <= 8 * len(assert_codes(symbols, rows)) - ideal_bits < 33 + len(symbols) / 128


@pytest.mark.parametrize("V", ALPHABETS)
def test_extreme_rows_are_represented_exactly(V: int) -> None:
    rows = np.ones((V, V), dtype=np.int64)
    np.fill_diagonal(rows, TOTAL - V + 1)
    rows = np.concatenate([rows] * 3)
    for symbols in (np.arange(3 * V) % V, np.full(3 * V, V - 1), np.zeros(3 * V, dtype=np.int64)):
        assert_codes(symbols, rows)


@pytest.mark.parametrize(("last_symbol", "words"), [(2, [0x80000000, 0]), (0, [0x7FFFFFFF, 0xFFFFFFFF])])
def test_carries_change_words_already_written(last_symbol: int, words: list[int]) -> None:
    # In each row, symbol 1 has the three units around one half of the first window. So only the last symbol decides on which
    # side of it the message ends.
    rows = [[TOTAL // 2 - 1, 2, TOTAL // 2 - 1]]
    symbols = [1, *[1] * 100, last_symbol]
    probe = PlainEncoder()
    for symbol in symbols:
        probe.encode(np.array([symbol]), np.array(rows[-1:]))
        half = 2**64 if probe._words else 2**63
        below_half = (half - probe._low) // (probe._width >> 24)
        rows.append([below_half - 1, 3, TOTAL - 2 - below_half])
    payload = assert_codes(np.array(symbols), np.array(rows[:-1]))
    assert np.frombuffer(payload, dtype="<u4")[:30].tolist() == [words[0], *[words[1]] * 29]


def test_calls_types_and_layouts_do_not_change_the_words() -> None:
    symbols, rows = message(1, 30, 256)
    payload, encoder = encoded(symbols, rows), RangeEncoder()
    for start in range(0, 30, 7):
        encoder.code(symbols[start : start + 7], rows[start : start + 7])
    assert encoder.finish() == payload
    assert encoded(symbols.astype(np.uint8), rows.astype(np.int32)) == payload
    assert encoded(np.repeat(symbols, 2)[::2], np.asfortranarray(rows)) == payload
    assert np.array_equal(decoded(payload, np.asfortranarray(rows.astype(np.int32))), symbols)
    assert encoded(symbols[:0], rows[:0]) == b""


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
    rows = np.array([[TOTAL - len(row) + 1] + [1] * (len(row) - 1), row])
    for code in (
        lambda: RangeEncoder().code(np.array([0, 0]), rows),
        lambda: RangeDecoder(bytes(8)).code(np.empty(2), rows),
    ):
        with pytest.raises(InvalidDistributionError, match="row 1 " if len(row) > 1 else "shape"):
            code()


@pytest.mark.parametrize("symbols", [[2], [-1], [0, 1], 0])
def test_a_refused_symbol_does_not_change_the_message(symbols: int | list[int]) -> None:
    encoder = RangeEncoder()
    encoder.code(np.array([1]), HALVES)
    with pytest.raises(InvalidDistributionError, match=r"numbers in 0\.\.1"):
        encoder.code(np.array(symbols), HALVES)
    assert encoder.finish() == encoded(np.array([1]), HALVES)


@pytest.mark.parametrize(
    ("payload", "n_symbols", "message"),
    [
        (b"\0", 1, "whole number of 32-bit words"),
        (b"\0" * 5, 1, "whole number of 32-bit words"),
        (b"", 1, "does not end with its 1 symbols"),
        (b"\0" * 4, 0, "does not end with its 0 symbols"),
        (b"\0" * 12, 1, "does not end with its 1 symbols"),
        (b"\0" * 4 + b"\xff" * 8, 1, "does not end with its 1 symbols"),
        (b"\xff" * 8, 1, "range decoder"),  # all ones are in the gap that rounding leaves above the last symbol
    ],
)
def test_payloads_that_no_encoder_wrote_are_refused(payload: bytes, n_symbols: int, message: str) -> None:
    with pytest.raises(CorruptArchiveError, match=message):
        decoded(payload, np.repeat(HALVES, n_symbols, axis=0))


def test_panics_of_the_library_become_ordinary_errors(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(range_coder, "check_frequencies", lambda frequencies: None)
    with pytest.raises(PrequentialError, match="leakiness"):
        encoded(np.array([1]), np.array([[6, 0, TOTAL - 6]]))
    capfd.readouterr()  # the library reports its panic on standard error


def test_the_library_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    assert_codes(*message(5, 20, 256))
    assert capfd.readouterr() == ("", "")


def test_importing_codecs_loads_no_optional_library() -> None:
    program = (
        "import sys, prequential_codecs.archive, prequential_codecs.baselines.registry\n"
        "print(sorted({'constriction', 'zstandard', 'brotli', 'pyppmd', 'torch'} & sys.modules.keys()))"
    )
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert output.strip() == "[]"
