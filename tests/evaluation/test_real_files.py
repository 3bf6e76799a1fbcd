"""Real files of several kinds: the ledger accounts for every bit, and a second run agrees in every bit."""

from pathlib import Path

import numpy as np
import pytest

import prequential
from prequential.evaluation.record import evaluation_record
from prequential.evaluation.runs import new_run_folder, read_run

CORPORA = Path(__file__).parents[3] / "shared" / "corpora"
FILES = ("text/enwik6", "text/book1", "code/uv-new-2026-06.tar", "binary/geo", "logs/HDFS_2k.log")
N_BYTES = 100_000

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not CORPORA.is_dir(), reason="the real corpora are missing")]


def evaluated(root, name):
    runtime = prequential.Runtime()
    with new_run_folder(root) as folder:
        result = prequential.evaluate(
            CORPORA / name,
            config=prequential.preset(5),
            limit_bytes=N_BYTES,
            baselines=("gzip", "xz"),
            draft=prequential.DraftFolder(path=folder.draft),
        )
        return result, read_run(folder.finish(root, evaluation_record(result, runtime), result.curves))


@pytest.mark.parametrize("name", FILES)
def test_every_bit_is_accounted_for_and_the_same_in_a_second_run(name, tmp_path):
    result, run = evaluated(tmp_path, name)
    ledger, segments = result.ledger, np.diff(run.curves["model"].bits, prepend=0.0)
    assert segments.sum() == sum(segments.tolist()[::-1]) == ledger.code_bits == run.record["code_bits"]
    assert ledger.archive_bytes == run.archive.stat().st_size
    entries = {row["entry"]: row["bits"] for row in run.record["ledger"]}
    assert sum(entries.values()) == run.record["total_bits"] == ledger.total_bits
    assert sum(list(entries.values())[:4]) == 8 * run.archive.stat().st_size
    _, again = evaluated(tmp_path, name)
    assert again.archive.read_bytes() == run.archive.read_bytes()
    for part, curve in run.curves.items():
        assert again.curves[part].bits.tolist() == curve.bits.tolist()
    measured = ("ledger", "parts", "crossings", "tables", "archive_bits")
    assert {n: again.record[n] for n in measured} == {n: run.record[n] for n in measured}
