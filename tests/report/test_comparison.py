"""The table of differences shows both intervals, as bits saved, and says what each is for."""

import numpy as np
import pytest

from prequential.comparison.compare import Comparison, Difference, RunGroup
from prequential.comparison.prediction import LongMemory
from prequential.report.comparison import _difference_table


@pytest.fixture
def compared() -> Comparison:
    a, b = (
        RunGroup(label=x, runs=(x,), seeds=(0,), config={}, bits=(bits,), archive_bits=(8,), curves=())
        for x, bits in (("first", 5000.0), ("second", 4000.0))
    )
    found = LongMemory(
        mean_low_bits=-1300,
        mean_high_bits=-700,
        text_low_bits=-1500.4,
        text_high_bits=200.2,
        mean_of="the expected difference",
        text_of="the difference on another text",
        confidence=0.95,
        n_cells=64,
        cell_bytes=1024,
    )
    difference = Difference(
        reference=a,
        other=b,
        bits=-1000.0,
        interval=None,
        long_memory=found,
        log2_e=3.0,
        crossing_byte=0,
        n_bytes=np.array([0, 65536]),
        running_bits=np.array([0.0, -1000.0]),
        known=np.array([True, True]),
    )
    return Comparison(corpus={"n_bytes": 65536}, groups=(a, b), differences=(difference,))


def test_both_intervals_are_shown_as_bits_saved_and_named(compared) -> None:
    text = str(_difference_table(compared))
    for part in (
        "<th>confidence interval</th>",
        "700 to 1,300",
        "-200 to 1,500",
        "At 95%, the confidence interval holds the expected difference; the prediction interval, the difference on another text.",
    ):
        assert part in text.replace(' scope="col"', "")
    assert text.index("700 to 1,300") < text.index("-200 to 1,500")
