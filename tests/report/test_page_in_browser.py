"""The HTML page in Chromium, light and dark: no errors, requests or overflow; its height, its charts. Skipped without one."""

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

import numpy as np
import pytest
from prequential_codecs.baselines.registry import BASELINES

from prequential.evaluation.curves import Curve
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
MEASURE = """
(() => {
  const boxes = found => [...found].map(each => each.getBoundingClientRect()).filter(box => box.width)
  const letters = [...document.querySelectorAll('svg[role=img] text')].filter(text => text.getBoundingClientRect().width)
  const drawings = document.querySelectorAll('svg[role=img]')
  const touch = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom
  const touching = [...drawings].flatMap(each => {
    const shown = boxes(each.querySelectorAll('text'))
    return shown.flatMap((a, i) => shown.slice(i + 1).filter(b => touch(a, b)))
  })
  return {
    width: innerWidth,
    content: document.documentElement.scrollWidth,
    colour: getComputedStyle(document.body).color,
    height: document.documentElement.scrollHeight,
    letters: letters.map(text => parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a),
    margins: [Math.min(...boxes(letters).map(b => b.left)), innerWidth - Math.max(...boxes(letters).map(b => b.right))],
    touching: touching.length,
    cut: [...document.querySelectorAll('.scroll')].filter(
      each => !each.closest('details:not([open])') && each.scrollWidth > each.clientWidth).length,
    figures: boxes(document.querySelectorAll('.plot')).map(box => box.width),
    main: document.querySelector('main') ? document.querySelector('main').clientWidth : 0,
    cards: boxes(document.querySelectorAll('.figures li')).slice(0, 4).map(box => [Math.round(box.left), Math.round(box.top)]),
  }
})()
"""
SCREEN = 900  # pixels of height, at a width of 1400


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

    "shown" has for each width what MEASURE finds, and "levels", `n_levels` of the screenshot.
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
            shown.append(found | {"levels": n_levels(picture)})
    sent = [e["params"]["request"]["url"] for e in chromium.events if e.get("method") == "Network.requestWillBeSent"]
    return {
        "fetched": set(sent) - {path.as_uri()},
        "complaints": [event for event in chromium.events if event.get("method") in COMPLAINTS],
        "shown": shown,
    }


@pytest.fixture(scope="module")
def full_runs(runs: list[Run], tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    """Four runs with as much on their pages as a run has by default: all baselines, a GPT and a mixer."""
    made = []
    for number, run in enumerate(runs * 2):
        rates = {name: 2.5 + i / 4 + number / 100 for i, name in enumerate(BASELINES)} | {"gpt": 2.4, "mixer": 2.1}
        model = run.curves["model"]
        curves = {
            name: Curve(n_bytes=model.n_bytes, bits=np.multiply(rate, model.n_bytes, dtype=np.float64))
            for name, rate in rates.items()
        }
        (baseline, *_) = run.record["baselines"]
        sizes = [
            {"name": name, "label": BASELINES[name].label, "compressed_bytes": int(750 * rates[name])}
            for name in BASELINES
        ]
        more = {"baselines": [baseline | size for size in sizes], "config": run.record["config"] | {"seed": number}}
        path = tmp_path_factory.mktemp("full") / run.name
        record = (
            run.record | more | {"parts": {name: 6000 * rates.get(name, 2.0) for name in ("model", "gpt", "mixer")}}
        )
        made.append(Run(path, record))
        vars(made[-1])["curves"] = {"model": model, **curves}
    return made


@needs_browser
@pytest.mark.parametrize(("scheme", "ink"), [("light", "rgb(26, 26, 26)"), ("dark", "rgb(232, 232, 232)")])
def test_a_browser_shows_the_page_without_errors_requests_or_overflow(
    full_runs: list[Run], tmp_path: Path, scheme: str, ink: str
) -> None:
    found = seen(html_report(full_runs[:1]), tmp_path, scheme)
    assert (found["fetched"], found["complaints"]) == (set(), [])
    for width, shown in zip((400, 1400), found["shown"], strict=True):
        assert (shown["width"], shown["colour"]) == (width, ink)
        assert shown["content"] <= width
        assert shown["levels"] > 60


@needs_browser
@pytest.mark.parametrize(("n_runs", "n_screens"), [(1, 3), (4, 6)])
def test_a_page_of_one_run_takes_three_screens_and_of_four_runs_six(
    full_runs: list[Run], tmp_path: Path, n_runs: int, n_screens: int
) -> None:
    narrow, wide = seen(html_report(full_runs[:n_runs]), tmp_path)["shown"]
    assert SCREEN < wide["height"] <= n_screens * SCREEN
    for shown in (narrow, wide):
        assert min(shown["letters"]) >= 12  # of charts
        assert shown["touching"] == 0  # ticks and names of lines
        assert shown["cut"] == 0  # tables that are not folded
        assert min(shown["margins"]) >= 0
        assert set(shown["figures"]) == {shown["main"]}  # charts use the complete width
        if n_runs == 1:
            lefts, tops = zip(*shown["cards"], strict=True)
            assert (len(set(lefts)), len(set(tops))) == (2, 2)


@needs_browser
def test_the_check_detects_a_page_that_fetches_complains_overflows_or_is_blank(tmp_path: Path) -> None:
    bad = "<script>console.error(1)</script><img src='other.png' alt=''><div style='width:1500px;height:9px'></div>"
    found = seen(f"<!doctype html><title>bad</title><body>{bad}", tmp_path)
    assert found["fetched"] == {(tmp_path / "other.png").as_uri()}
    assert found["complaints"] != []
    assert all(shown["content"] >= 1500 for shown in found["shown"])
    assert seen("<!doctype html><title>blank</title>", tmp_path)["shown"][0]["levels"] < 20
