"""Makes the modules of this folder importable by name, as for the scripts in it. What the tests of several files share."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture
def no_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """An evaluation skips the warm-up, which takes a second: these tests measure no speed."""
    monkeypatch.setattr("prequential.evaluation.evaluation.warm_up", lambda *_: None)
