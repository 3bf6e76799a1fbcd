"""The ledger: its entries add up, and its units are right."""

import math
from dataclasses import replace

import pytest

from prequential.evaluation.ledger import Ledger, bits_per_byte

LEDGER = Ledger(
    n_bytes=1000, archive_bytes=300, header_bytes=60, payload_bytes=200, n_blocks=2, n_raw_blocks=0, code_bits=1590.0
)


def test_the_parts_of_an_archive_add_up_and_their_units_are_right() -> None:
    assert LEDGER.header_bytes + LEDGER.payload_bytes + LEDGER.container_bytes == LEDGER.archive_bytes
    assert (LEDGER.archive_bits, LEDGER.bits_per_byte) == (2400, 2.4)
    assert LEDGER.coder_overhead_ppm == pytest.approx(1e6 * 10 / 1590)
    assert bits_per_byte(60, 0) == math.inf
    assert replace(LEDGER, code_bits=1000.0).code_nats_per_byte == pytest.approx(math.log(2))  # one bit a byte
