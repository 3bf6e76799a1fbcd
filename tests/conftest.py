"""Fixtures of several folders. Tests may import the modules of this folder (interruption, small)."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))

# No example has a deadline: the first one may compile. `make test-all` sets HYPOTHESIS_PROFILE=thorough.
settings.register_profile("quick", max_examples=15, deadline=None)
settings.register_profile("thorough", max_examples=200, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


COMPILE = """
import prequential
small = prequential.preset(5)
text = prequential.sample_path("christmas_carol").read_bytes()[:2000]
assert prequential.decompress(prequential.compress(text, config=small)) == text
"""


def pytest_sessionstart(session: pytest.Session) -> None:
    """Kernels are compiled once, before several workers would each compile them."""
    if getattr(session.config.option, "numprocesses", None) and not hasattr(session.config, "workerinput"):
        subprocess.run([sys.executable, "-P", "-c", COMPILE], check=True)


@pytest.hookimpl(tryfirst=True)  # before the markers select
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of a test marked `first_quick`, the first case stays in the quick tier; the others are thorough."""
    seen = set()
    for item in items:
        if item.get_closest_marker("first_quick"):
            function = item.nodeid.partition("[")[0]
            if function in seen:
                item.add_marker("thorough")
            seen.add(function)


def pytest_configure() -> None:
    """Tests interrupt their child processes, which would ignore that if this process does, as one in the background may."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def always_due(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint after every segment."""
    from prequential.online import checkpoint

    monkeypatch.setattr(checkpoint, "FIRST_AFTER_S", 0.0)
    monkeypatch.setattr(checkpoint, "BYTES_PER_S", float("inf"))
    monkeypatch.setattr(checkpoint, "COST", float("inf"))


@pytest.fixture(scope="module")
def no_warm_up() -> Iterator[None]:
    """An evaluation skips the warm-up, which takes a second: these tests measure no speed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("prequential.evaluation.evaluation.warm_up", lambda *_: None)
        yield


@pytest.fixture(scope="module")
def usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)
