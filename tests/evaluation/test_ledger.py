"""The ledger: its entries add up, and its units are right."""

import math

import pytest

from prequential.evaluation.ledger import Ledger, bits_per_byte

LEDGER = Ledger(
    n_bytes=1000, archive_bytes=300, header_bytes=60, payload_bytes=200, n_blocks=2, n_raw_blocks=0, code_bits=1590.0
)


def test_header_payload_and_container_add_up_to_the_archive() -> None:
    assert LEDGER.header_bytes + LEDGER.payload_bytes + LEDGER.container_bytes == LEDGER.archive_bytes


def test_the_description_length_is_the_complete_archive() -> None:
    assert LEDGER.archive_bits == 2400
    assert LEDGER.bits_per_byte == 2.4


def test_coder_overhead_compares_the_payload_with_the_ideal_code_length() -> None:
    assert LEDGER.coder_overhead_ppm == pytest.approx(1e6 * 10 / 1590)


def test_a_byte_coded_with_one_bit_costs_ln_2_nats() -> None:
    one_bit = Ledger(
        n_bytes=8, archive_bytes=1, header_bytes=0, payload_bytes=1, n_blocks=1, n_raw_blocks=0, code_bits=8.0
    )
    assert one_bit.code_nats_per_byte == pytest.approx(math.log(2))


def test_an_empty_original_costs_infinitely_many_bits_per_byte() -> None:
    assert bits_per_byte(60, 0) == math.inf
