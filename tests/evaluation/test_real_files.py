"""Real files of several kinds: the ledger accounts for every bit, and a second run agrees in every bit (docs/RESULTS.md)."""

from pathlib import Path

import numpy as np
import pytest

import prequential

CORPORA = Path(__file__).parents[3] / "shared" / "corpora"
FILES = ("text/enwik6", "text/book1", "code/uv-new-2026-06.tar", "binary/geo", "logs/HDFS_2k.log")

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not CORPORA.is_dir(), reason="the real corpora are missing")]


@pytest.mark.parametrize("name", FILES)
def test_every_bit_is_accounted_for_and_the_same_in_a_second_run(name, tmp_path):
    first, again = (
        prequential.evaluate(
            CORPORA / name,
            limit_bytes=100_000,
            baselines=("gzip", "xz"),
            draft=prequential.DraftFolder(path=(tmp_path / which).mkdir() or tmp_path / which),
        )
        for which in "ab"
    )
    segments = np.diff(first.curve.bits, prepend=0.0)
    assert segments.sum() == sum(segments.tolist()[::-1]) == first.code_bits
    entries = [each.bits for each in first.ledger]
    archives = [(tmp_path / which / "archive.pq").read_bytes() for which in "ab"]
    assert (sum(entries), sum(entries[:4])) == (first.total_bits, 8 * len(archives[0]))
    assert archives[0] == archives[1] and first.ledger == again.ledger
    assert all(again.curves[part].bits.tolist() == curve.bits.tolist() for part, curve in first.curves.items())
    assert (first.tables, first.crossings) == (again.tables, again.crossings)
