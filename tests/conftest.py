"""Fixtures of several folders. Tests may import the modules of this folder and of hostile/, which is also a folder of scripts."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).with_name("hostile"))]

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
def always_due() -> Iterator[None]:
    """A checkpoint after every segment."""
    from interruption import hurried

    with hurried():
        yield


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


@pytest.fixture
def one_line(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs a command in this process, which must print one line on stderr and nothing else, and fail. Returns the line."""
    from prequential.cli.main import main

    def one_line(*args: str, code: int = 1) -> str:
        capsys.readouterr()
        try:
            exit_code = main(args)
        except SystemExit as end:
            exit_code = int(end.code or 0)
        shown = capsys.readouterr()
        assert (exit_code, shown.out, shown.err.count("\n")) == (code, "", 1), (args, shown.err)
        return shown.err

    return one_line
