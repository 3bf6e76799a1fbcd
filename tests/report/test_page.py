"""The page of a run: whole in itself, well formed, true to the record, deaf to what strangers name, and fit for a browser."""

import base64
import contextlib
import fcntl
import html
import json
import math
import os
import re
import select
import shlex
import shutil
import struct
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import prequential
from prequential.errors import CorpusError
from prequential.measure.evaluation.runs import RECORD, Run, new_run_folder, read_run
from prequential.measure.record import evaluation_record
from prequential.report.page import command, html_report

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
VOID = {"meta", "br", "hr", "img", "input", "link"}
EVIL = "<script>alert('1')</script>\"><img src=http://example.org/x onerror=alert(2)>&amp;"
PLAIN = prequential.Runtime(kernels="plain")


def make_run(root: Path, contexts: tuple[str, ...], seed: int = 0) -> Run:
    mixer = prequential.MixerConfig(contexts=contexts, table_bits=10)
    config = prequential.Config(gpt=None, mixer=mixer, seed=seed)
    with new_run_folder(root) as folder:
        result = prequential.evaluate(
            "sample:christmas_carol",
            config=config,
            limit_bytes=6000,
            baselines=["gzip", "ppmd", "order0"],
            verify=True,
            folder=folder.draft,
            n_seeds=2,
            runtime=PLAIN,
        )
        return read_run(folder.finish(root, evaluation_record(result, PLAIN, "0.0"), result.curves))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    root = tmp_path_factory.mktemp("runs")
    return [make_run(root, ("1", "2")), make_run(root, ("1", "2", "3"), seed=7)]


@pytest.fixture(scope="module")
def page(runs: list[Run]) -> str:
    return html_report(runs[:1])


def changed(run: Run, folder: Path, **more: Any) -> Run:
    """A copy of the run whose record says something else."""
    target = folder / f"copy-{len(list(folder.iterdir()))}"
    shutil.copytree(run.path, target)
    (target / RECORD).write_text(json.dumps(run.record | more))
    return read_run(target)


class Page(HTMLParser):
    """Tags must be balanced; keeps ids, attributes, and the text of every element by its tag."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.cells: list[list[str]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag == "tr":
            self.cells.append([])
        if tag in ("td", "th"):
            self.cells[-1].append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("td", "th"):
            self.cells[-1][-1] += data

    def values(self, name: str) -> list[str]:
        return [value or "" for key, value in self.attributes if key == name]


def text_of(page: str) -> str:
    return html.unescape(re.sub(r"<[^>]*>", " ", page))


def assert_whole_in_itself(text: str) -> None:
    parsed = Page(text)
    ids = parsed.values("id")
    assert len(ids) == len(set(ids))
    assert {label for value in parsed.values("aria-labelledby") for label in value.split()} <= set(ids)
    assert {link.removeprefix("#") for link in parsed.values("href")} <= set(ids)
    assert not set(parsed.tags) & {"script", "link", "img", "iframe", "object", "embed", "base", "form", "use", "image"}
    assert not {"src", "srcset", "action", "data", "xlink:href", "background"} & {name for name, _ in parsed.attributes}
    assert not [name for name, _ in parsed.attributes if name.startswith("on")]
    assert "url(" not in text
    assert "@import" not in text


def test_a_page_is_well_formed_and_loads_nothing(page: str) -> None:
    assert_whole_in_itself(page)
    assert "http://" not in page
    assert "https://" not in page
    assert "default-src 'none'" in page


def test_the_headline_has_the_rate_the_archive_and_whether_it_was_verified(runs: list[Run], page: str) -> None:
    record, head = runs[0].record, text_of(page).partition("What readers ask first")[0]
    assert f"{record['bits_per_byte']:.4f} bits/byte" in head
    assert f"{record['archive_bytes']:,}" in head
    assert " verified " in head
    assert "every byte compared" in head


def test_a_run_that_was_not_verified_says_so(runs: list[Run], tmp_path: Path) -> None:
    run = changed(runs[0], tmp_path, verified=False, verify_wall_s=None, verify_bytes_per_s=None)
    text = text_of(html_report([run]))
    assert "not verified" in text
    assert "every byte compared" not in text
    assert "every byte came back" not in text


def test_the_questions_are_answered_before_the_first_plot(page: str) -> None:
    first = text_of(page.partition("<figure")[0])
    for question in (
        "sum to one?",
        "full file or a subset?",
        "Bytes or tokens?",
        "Tokenizer",
        "seed picked?",
        "reproduced",
    ):
        assert question in first
    assert "best of 1 configurations and 2 seeds" in first
    assert "costs 1.0 bits" in first


@pytest.mark.parametrize(
    ("limit", "answer"),
    [(None, "The full input"), (6000, "Not more than the first 6,000 bytes"), (10**6, "The full input")],
)
def test_a_record_that_tells_the_limit_tells_full_from_subset(
    runs: list[Run], tmp_path: Path, limit: int | None, answer: str
) -> None:
    assert answer in text_of(html_report([changed(runs[0], tmp_path, limit_bytes=limit)]))


def test_the_command_makes_the_same_corpus_and_learner_again(runs: list[Run]) -> None:
    words = shlex.split(command(runs[0].record))
    assert words[:2] == ["prequential", "evaluate"]
    assert words[-1] == "sample:christmas_carol"
    assert words[words.index("--limit") + 1] == "6000"
    assert "--config" in words
    assert words[words.index("--seeds-tried") + 1] == "2"


@pytest.mark.parametrize(("level", "pure", "seed"), [(1, False, 0), (5, True, 0), (5, False, 3)])
def test_the_command_names_a_preset_where_there_is_one(runs: list[Run], level: int, pure: bool, seed: int) -> None:
    config = json.loads(json.dumps(prequential.preset(level, pure=pure, seed=seed).to_dict()))
    words = shlex.split(command(runs[0].record | {"config": config}))
    assert f"-{level}" in words
    assert ("--pure" in words) == pure
    assert ("--seed" in words) == bool(seed)


def test_a_name_cannot_add_to_the_command(runs: list[Run]) -> None:
    corpus = runs[0].record["corpus"] | {"kind": "file", "name": "a'; rm -rf b $(c) `d`"}
    assert shlex.split(command(runs[0].record | {"corpus": corpus}))[-1] == corpus["name"]


def test_the_ledgers_entries_add_up_to_the_total_it_shows(runs: list[Run], page: str) -> None:
    record = runs[0].record
    rows = {row[0]: row for row in Page(page).cells}
    assert math.fsum(entry["bits"] for entry in record["ledger"]) == record["total_bits"]
    assert rows["total cost"][1] == f"{record['total_bits']:,.2f}"
    for entry in record["ledger"]:
        assert rows[entry["entry"]][1] == f"{entry['bits']:,.2f}"


def test_a_ledger_that_does_not_add_up_is_called_so(runs: list[Run], tmp_path: Path) -> None:
    run = changed(runs[0], tmp_path, total_bits=runs[0].record["total_bits"] + 8)
    assert "do not add up: 8.000000 bits are missing" in text_of(html_report([run]))


def test_every_baseline_stands_in_the_table_with_its_crossing(runs: list[Run], tmp_path: Path) -> None:
    run = changed(runs[0], tmp_path, crossings={"gzip": 0, "ppmd": None, "order0": 1234})
    rows = {row[0]: row for row in Page(html_report([run])).cells}
    found = {name: row[4] for name, row in rows.items() if len(row) == 6}
    labels = {baseline["name"]: baseline["label"] for baseline in run.record["baselines"]}
    assert found[labels["gzip"]] == "0: everywhere"
    assert found[labels["ppmd"]] == "never"
    assert found[labels["order0"]] == "1,234"
    sizes = [int(row[1].replace(",", "")) for name, row in rows.items() if name in {*labels.values(), "prequential"}]
    assert sizes == sorted(sizes)


def test_tables_are_shown_with_their_sums_and_the_tail_is_drawn(runs: list[Run], tmp_path: Path) -> None:
    rows = [{"name": str(k), "n_bytes": 100, "bits": {"model": 400.25 / k}, "mean_k": float(k)} for k in (1, 2, 4)]
    fits = {"model": {"exponent": -1.0, "factor": 4.0}}
    run = changed(runs[0], tmp_path, tables={"trigram_occurrences": {"rows": rows, "fits": fits}})
    text = html_report([run])
    assert_whole_in_itself(text)
    total = next(row for row in Page(text).cells if row[0] == "all")
    assert total[1:3] == ["300", f"{400.25 * 1.75:,.2f}"]
    assert "model: 4 k^-1.000" in text


def test_the_tables_of_a_real_run_cover_every_bit(runs: list[Run], page: str) -> None:
    code_bits = f"{runs[0].record['code_bits']:,.2f}"
    totals = [row for row in Page(page).cells if row and row[0] == "all"]
    assert len(totals) == sum(len(table["rows"]) > 1 for table in runs[0].record["tables"].values())
    assert all(row[1:3] == ["6,000", code_bits] for row in totals)


def test_what_a_stranger_named_is_text_and_nothing_else(runs: list[Run], tmp_path: Path) -> None:
    record = runs[0].record
    finding = {"kind": "spike", "position": 1, "block": 0, "message": EVIL, "cause": EVIL}
    run = changed(
        runs[0],
        tmp_path,
        corpus=record["corpus"] | {"name": EVIL, "kind": EVIL, "blake2b": EVIL},
        time=EVIL,
        notes=[EVIL],
        findings=[finding],
        baselines=[baseline | {"label": EVIL} for baseline in record["baselines"]],
        ledger=[{"entry": EVIL, "bits": record["total_bits"]}],
        tables={EVIL: {"rows": [{"name": EVIL, EVIL: EVIL}], EVIL: EVIL}},
        environment=record["environment"] | {EVIL: EVIL, "git_commit": EVIL},
        config=record["config"] | {EVIL: EVIL},
    )
    text = html_report([run, run])
    assert_whole_in_itself(text)
    assert "<script" not in text
    assert "<img" not in text
    assert html.unescape(text).count(EVIL) > 15


@pytest.mark.parametrize("missing", ["archive_bytes", "config", "ledger", "environment"])
def test_a_record_that_is_not_whole_is_refused_by_name(runs: list[Run], tmp_path: Path, missing: str) -> None:
    run = changed(runs[0], tmp_path, **{missing: None})
    with pytest.raises(CorpusError, match=r"copy-0' is no whole run"):
        html_report([run])


def test_several_runs_are_compared(runs: list[Run]) -> None:
    text = html_report(runs)
    assert_whole_in_itself(text)
    rows = {row[0]: row for row in Page(text).cells}
    bits = [run.record["code_bits"] for run in runs]
    difference = bits[1] - bits[0]
    assert float(rows["B - A"][1].replace(",", "")) == pytest.approx(difference, abs=0.005)
    assert "Difference to the reference" in text


def test_runs_over_different_bytes_get_no_difference(runs: list[Run], tmp_path: Path) -> None:
    other = changed(runs[1], tmp_path, corpus=runs[1].record["corpus"] | {"blake2b": "00" * 32})
    text = html_report([runs[0], other])
    assert "say nothing about the models" in text
    assert "are not comparable" in text
    assert "Difference to the reference" not in text


def test_the_same_run_gives_the_same_page(runs: list[Run], page: str) -> None:
    assert html_report([read_run(runs[0].path)]) == page


LAUNCH = """
import os, sys
read, write = map(int, sys.argv[1:3])
os.dup2(read, 3), os.dup2(write, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


class Browser:
    """A headless Chromium, spoken to through the two pipes of --remote-debugging-pipe: JSON, each message ended by a NUL."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._to, self._from, self._unread, self._n = to_browser, from_browser, b"", 0
        self.session: str | None = None
        self.events: list[dict[str, Any]] = []

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """The result of a command; events that come meanwhile are kept."""
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
            assert ready, "the browser does not answer"
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
    ends = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 20) for pair in pipes for end in pair]  # clear of 3 and 4
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


def seen(page: str, folder: Path, scheme: str = "light") -> dict[str, Any]:
    """What a browser makes of a page: what it fetched besides, its complaints, and at each width (width, width of the content,
    colour of the text, levels of the picture)."""
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
def test_the_browser_would_notice_a_page_that_fetches_complains_overflows_or_is_blank(tmp_path: Path) -> None:
    bad = "<script>console.error(1)</script><img src='other.png' alt=''><div style='width:1500px;height:9px'></div>"
    found = seen(f"<!doctype html><title>bad</title><body>{bad}", tmp_path)
    assert found["fetched"] == {(tmp_path / "other.png").as_uri()}
    assert found["complaints"] != []
    assert all(content >= 1500 for _, content, _, _ in found["shown"])
    assert seen("<!doctype html><title>blank</title>", tmp_path)["shown"][0][3] < 20


def n_levels(png: bytes) -> int:
    """How many different bytes the filtered lines of a PNG have: a blank page has a handful."""
    data, position = b"", 8
    while position < len(png):
        length, kind = struct.unpack(">I4s", png[position : position + 8])
        data += png[position + 8 : position + 8 + length] if kind == b"IDAT" else b""
        position += 12 + length
    return len(set(zlib.decompress(data)))
