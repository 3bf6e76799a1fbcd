"""The code of order 0: the words of the plain coder, the facts about constriction, and refusals."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_coder import plain_payload
from prequential_codecs.baselines import TOTAL, decode, encode

from prequential.errors import CorruptArchiveError

HALVES = np.full(2, TOTAL // 2)
MESSAGES = st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 60), st.sampled_from((2, 3, 256)))


def message(seed: int, n: int, V: int) -> tuple[np.ndarray, np.ndarray]:
    """Symbols (n,), half of them likely, and frequencies (V,), nearly uniform or with almost all weight on one symbol."""
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.full(V, rng.choice([0.01, 0.1, 1, 50])))
    frequencies = (weights * (TOTAL - V)).astype(np.int64) + 1
    frequencies[rng.integers(0, V)] += TOTAL - frequencies.sum()
    return np.where(rng.random(n) < 0.5, frequencies.argmax(), rng.integers(0, V, n)), frequencies


def assert_codes(symbols: np.ndarray, frequencies: np.ndarray) -> bytes:
    payload = encode(symbols, frequencies)
    assert payload == plain_payload(symbols, np.tile(frequencies, (len(symbols), 1)))
    assert np.array_equal(decode(payload, len(symbols), frequencies), symbols)
    return payload


@given(MESSAGES)
@settings(max_examples=60, deadline=None)
def test_words_are_those_of_the_plain_coder_near_the_ideal_length_and_decode(drawn: tuple[int, int, int]) -> None:
    symbols, frequencies = message(*drawn)
    ideal_bits = float((24 - np.log2(frequencies[symbols])).sum())
    assert 0 <= 8 * len(assert_codes(symbols, frequencies)) - ideal_bits < 33 + len(symbols) / 128


@pytest.mark.parametrize("V", [2, 3, 256])
def test_extreme_frequencies_are_represented_exactly(V: int) -> None:
    frequencies = np.ones(V, np.int64)
    frequencies[V // 2] = TOTAL - V + 1
    for symbols in (np.arange(3 * V) % V, np.full(3 * V, V - 1), np.zeros(3 * V, np.int64)):
        assert_codes(symbols, frequencies)


@pytest.mark.parametrize(
    ("payload", "n_symbols", "reason"),
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
def test_payloads_that_no_encoder_wrote_are_refused(payload: bytes, n_symbols: int, reason: str) -> None:
    with pytest.raises(CorruptArchiveError, match=reason):
        decode(payload, n_symbols, HALVES)


def test_the_library_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    assert_codes(*message(5, 20, 256))
    assert capfd.readouterr() == ("", "")


def test_importing_codecs_loads_no_optional_library() -> None:
    program = (
        "import sys, prequential_codecs.archive, prequential_codecs.baselines\n"
        "print(sorted({'constriction', 'zstandard', 'brotli', 'pyppmd', 'torch'} & sys.modules.keys()))"
    )
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert output.strip() == "[]"
