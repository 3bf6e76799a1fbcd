"""ByteAlphabet: symbols are bytes, and nothing is copied or paid for."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prequential.corpora.alphabet import ByteAlphabet
from prequential.errors import ConfigError

ALPHABET = ByteAlphabet()


@given(st.binary())
def test_symbols_decode_to_the_bytes_they_came_from(data: bytes) -> None:
    symbols = ALPHABET.encode(data)
    assert symbols.dtype == np.uint8
    assert symbols.tolist() == list(data)
    assert ALPHABET.decode(symbols) == data


def test_encoding_copies_nothing() -> None:
    data = bytearray(b"abc")
    symbols = ALPHABET.encode(data)
    data[1] = ord("X")
    assert symbols.tolist() == [97, 88, 99]


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.int64])
def test_symbols_of_any_integer_dtype_decode(dtype: type) -> None:
    assert ALPHABET.decode(np.array([0, 128, 255], dtype=dtype)) == b"\x00\x80\xff"


@pytest.mark.parametrize("symbol", [-1, 256])
def test_a_symbol_that_is_no_byte_is_refused(symbol: int) -> None:
    with pytest.raises(ConfigError, match=str(symbol)):
        ALPHABET.decode(np.array([65, symbol], dtype=np.int32))


def test_the_configuration_describes_the_alphabet() -> None:
    assert ByteAlphabet.from_config(ALPHABET.to_config()) == ALPHABET


@pytest.mark.parametrize("config", [{}, {"kind": "bpe"}, {"kind": "bytes", "n_merges": 3}])
def test_a_configuration_of_another_alphabet_is_refused(config: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="not a byte alphabet"):
        ByteAlphabet.from_config(config)


def test_all_256_byte_values_are_symbols_and_cost_no_table() -> None:
    assert ALPHABET.encode(bytes(range(ALPHABET.n_symbols))).tolist() == list(range(256))
    assert ALPHABET.table_bits == 0
