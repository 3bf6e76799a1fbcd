"""The HTML page in Chromium: no errors, no requests and no overflow, in light and dark. Skipped without a browser."""

import base64
import contextlib
import fcntl
import json
import os
import select
import shutil
import struct
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from prequential.evaluation.runs import Run
from prequential.report.page import html_report

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

LAUNCH = """
import os, sys
read, write = map(int, sys.argv[1:3])
os.dup2(read, 3), os.dup2(write, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


class Browser:
    """A headless Chromium, controlled through the two pipes of --remote-debugging-pipe. A message is JSON and ends with NUL."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._to, self._from, self._unread, self._n = to_browser, from_browser, b"", 0
        self.session: str | None = None
        self.events: list[dict[str, Any]] = []

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """The result of a command. Events that arrive before it are kept."""
        self._n += 1
        message = {"id": self._n, "method": method, "params": params}
        message |= {"sessionId": self.session} if self.session else {}
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while (answer := self._read()).get("id") != self._n:
            self.events.append(answer)
        assert "error" not in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def wait(self, method: str) -> None:
        while not any(event.get("method") == method for event in self.events):
            self.events.append(self._read())

    def _read(self) -> dict[str, Any]:
        deadline = time.monotonic() + 60
        while b"\0" not in self._unread:
            ready, _, _ = select.select([self._from], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, "the browser does not answer within 60 seconds"
            data = os.read(self._from, 1 << 20)
            assert data, "the browser has ended"
            self._unread += data
        message, _, self._unread = self._unread.partition(b"\0")
        answer: dict[str, Any] = json.loads(message)
        return answer


@contextlib.contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    assert BROWSER is not None
    pipes = [os.pipe(), os.pipe()]
    ends = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 20) for pair in pipes for end in pair]  # not 3 and 4
    for pair in pipes:
        for end in pair:
            os.close(end)
    child_reads, to_browser, from_browser, child_writes = ends
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--no-first-run"]
    command = [BROWSER, *options, f"--user-data-dir={profile}", "about:blank"]
    process = subprocess.Popen(
        [sys.executable, "-c", LAUNCH, str(child_reads), str(child_writes), *command],
        pass_fds=(child_reads, child_writes),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(child_reads)
    os.close(child_writes)
    try:
        chromium = Browser(to_browser, from_browser)
        target = chromium.call("Target.createTarget", url="about:blank")["targetId"]
        chromium.session = chromium.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        yield chromium
    finally:
        process.terminate()
        process.wait(30)
        os.close(to_browser)
        os.close(from_browser)


needs_browser = pytest.mark.skipif(BROWSER is None, reason="no chromium, chromium-browser or google-chrome on PATH")
COMPLAINTS = {"Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled"}
MEASURE = "[innerWidth, document.documentElement.scrollWidth, getComputedStyle(document.body).color]"


def n_levels(png: bytes) -> int:
    """The number of different bytes in the filtered lines of a PNG. A blank page has only a few."""
    data, position = b"", 8
    while position < len(png):
        length, kind = struct.unpack(">I4s", png[position : position + 8])
        data += png[position + 8 : position + 8 + length] if kind == b"IDAT" else b""
        position += 12 + length
    return len(set(zlib.decompress(data)))


def seen(page: str, folder: Path, scheme: str = "light") -> dict[str, Any]:
    """How a browser shows a page: "fetched" has the addresses of other requests, "complaints" the errors and console messages.

    "shown" has for each width (width, width of the content, colour of the text, `n_levels` of the screenshot).
    """
    path = folder / "report.html"
    path.write_text(page, encoding="utf-8")
    shown = []
    with browser(folder / "profile") as chromium:
        for domain in ("Network", "Log", "Runtime", "Page"):
            chromium.call(f"{domain}.enable")
        chromium.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        chromium.call("Page.navigate", url=path.as_uri())
        chromium.wait("Page.loadEventFired")
        for width in (400, 1400):
            chromium.call(
                "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False
            )
            found = chromium.call("Runtime.evaluate", expression=MEASURE, returnByValue=True)["result"]["value"]
            picture = base64.b64decode(chromium.call("Page.captureScreenshot", format="png")["data"])
            assert struct.unpack(">II", picture[16:24]) == (width, 900)
            shown.append((*found, n_levels(picture)))
    sent = [e["params"]["request"]["url"] for e in chromium.events if e.get("method") == "Network.requestWillBeSent"]
    return {
        "fetched": set(sent) - {path.as_uri()},
        "complaints": [event for event in chromium.events if event.get("method") in COMPLAINTS],
        "shown": shown,
    }


@needs_browser
@pytest.mark.parametrize(("scheme", "ink"), [("light", "rgb(26, 26, 26)"), ("dark", "rgb(232, 232, 232)")])
def test_a_browser_shows_the_page_without_errors_requests_or_overflow(
    runs: list[Run], tmp_path: Path, scheme: str, ink: str
) -> None:
    found = seen(html_report(runs), tmp_path, scheme)
    assert (found["fetched"], found["complaints"]) == (set(), [])
    for width, (inner, content, colour, levels) in zip((400, 1400), found["shown"], strict=True):
        assert (inner, colour) == (width, ink)
        assert content <= width
        assert levels > 60


@needs_browser
def test_the_check_detects_a_page_that_fetches_complains_overflows_or_is_blank(tmp_path: Path) -> None:
    bad = "<script>console.error(1)</script><img src='other.png' alt=''><div style='width:1500px;height:9px'></div>"
    found = seen(f"<!doctype html><title>bad</title><body>{bad}", tmp_path)
    assert found["fetched"] == {(tmp_path / "other.png").as_uri()}
    assert found["complaints"] != []
    assert all(content >= 1500 for _, content, _, _ in found["shown"])
    assert seen("<!doctype html><title>blank</title>", tmp_path)["shown"][0][3] < 20
