"""On real files of several kinds: every bit is accounted for, and a re-run agrees in all of them."""

from pathlib import Path

import numpy as np
import pytest

import prequential
from prequential.measure.evaluation.runs import new_run_folder, read_run
from prequential.measure.record import evaluation_record

CORPORA = Path(__file__).parents[4] / "shared" / "corpora"
FILES = ("text/enwik6", "text/book1", "code/uv-new-2026-06.tar", "binary/geo", "logs/HDFS_2k.log")
N_BYTES = 100_000

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not CORPORA.is_dir(), reason="the real corpora are not here")]


def evaluated(root, name):
    runtime = prequential.Runtime()
    with new_run_folder(root) as folder:
        result = prequential.evaluate(
            CORPORA / name, preset=3, limit_bytes=N_BYTES, baselines=("gzip", "xz"), folder=folder.draft
        )
        return result, read_run(folder.finish(root, evaluation_record(result, runtime, "0"), result.curves))


@pytest.mark.parametrize("name", FILES)
def test_every_bit_is_accounted_for_and_comes_again(name, tmp_path):
    result, run = evaluated(tmp_path, name)
    ledger, segments = result.ledger, np.diff(run.curves["model"].bits, prepend=0.0)
    assert segments.sum() == sum(segments.tolist()[::-1]) == ledger.code_bits == run.record["code_bits"]
    assert ledger.archive_bytes == run.archive.stat().st_size
    entries = {row["entry"]: row["bits"] for row in run.record["ledger"]}
    assert sum(entries.values()) == run.record["total_bits"] == ledger.total_bits
    assert sum(list(entries.values())[:5]) == 8 * run.archive.stat().st_size
    _, again = evaluated(tmp_path, name)
    assert again.archive.read_bytes() == run.archive.read_bytes()
    for part, curve in run.curves.items():
        assert again.curves[part].bits.tolist() == curve.bits.tolist()
    measured = ("ledger", "parts", "crossings", "tables", "archive_bits")
    assert {n: again.record[n] for n in measured} == {n: run.record[n] for n in measured}
