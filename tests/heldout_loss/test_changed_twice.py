"""A file that changes in two commits is two documents of a window: each keeps its own figures, in text, frame and record."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from git_history import git, make
from prequential_corpora.git_window import GitCorpus, open_documents, read_tree, read_window
from small import DEEPER

import prequential
from prequential.evaluation.curves import MODEL
from prequential.evaluation.trace import Trace
from prequential.heldout_loss.heldout import dynamic_trace, frozen_trace
from prequential.model.config import MixerConfig
from prequential.online.runtime import Runtime
from prequential.online.training import train

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="reads repositories through git")
MIXER = replace(DEEPER, gpt=None, mixer=MixerConfig(contexts=("1", "2", "4"), table_bits=10))
OLD = b"".join(b"value_%d = compute(%d)\n" % (i, i * i) for i in range(30))
FIRST = b"".join(b"value_%d = compute(%d)\n" % (i, i * i) for i in range(30, 60))
SECOND = bytes(np.random.default_rng(1).integers(33, 127, 500, np.uint8)) + b"\n"  # nothing of it can be learned
RUNTIME = Runtime(threads=1, kernels="fused")


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return make(tmp_path / "p", {1: {b"a.py": OLD}, 2: {b"a.py": OLD + FIRST}, 3: {b"a.py": OLD + FIRST + SECOND}})


def by_hand(repo: Path) -> dict[str, list[float]]:
    """bits/byte of the two documents under each loss, from the costs of their bytes."""
    with (
        open_documents(read_tree(repo, "2026-01-01T12:00:00")) as tree,
        open_documents(read_window(repo, "2026-01-01T12:00:00")) as window,
    ):
        learner = RUNTIME.learner(MIXER)
        train(learner, tree.bytes())
        symbols = window.bytes()
        assert symbols.tobytes() == FIRST + b"\0" + SECOND + b"\0"
        frozen = frozen_trace(learner, symbols, window.documents)
        dynamic, untrained = dynamic_trace(learner, symbols), dynamic_trace(RUNTIME.learner(MIXER), symbols)
        return {
            "frozen": rates(frozen, window),
            "dynamic": rates(dynamic, window),
            "untrained": rates(untrained, window),
        }


def rates(trace: Trace, window: GitCorpus) -> list[float]:
    return [trace.bits(MODEL, slice(d.offset, d.offset + d.n_bytes)).sum() / d.n_bytes for d in window.documents]


def test_each_of_two_changes_of_one_file_has_its_own_rates_under_every_loss(repo: Path) -> None:
    expected = by_hand(repo)
    found = prequential.monorepo(repo, since="2026-01-01T12:00:00", config=MIXER, runtime=RUNTIME)
    commits = git(repo, "rev-list", "--reverse", "HEAD").split()[1:]
    lines = [line.split() for line in str(found).splitlines() if line.startswith("added/a.py ")]
    assert {line[1]: line[-3:] for line in lines} == {
        commit[:12]: [f"{expected[loss][i]:.4f}" for loss in expected] for i, commit in enumerate(commits)
    }
    for row in found.to_frame().to_dict("records"):
        assert row["bits_per_byte"] == pytest.approx(expected[row["loss"]][row["number"]], rel=1e-12)
        assert (row["commit"], row["date"]) == (commits[row["number"]], f"2026-01-0{row['number'] + 2}T12:00:00Z")
    assert len({rate for of in expected.values() for rate in of}) == 6  # so that no rate can stand for another one
    for loss in expected:
        assert {(each["number"], each["commit"]) for each in found.record[loss]["each"]} == set(enumerate(commits))
