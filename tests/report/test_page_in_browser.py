"""The HTML page in Chromium, light and dark: no errors, requests or overflow, and charts whose texts do not touch.

Skipped where there is no browser.
"""

import shutil
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from prequential_codecs.baselines import BASELINES

from prequential.evaluation.curves import Curve
from prequential.evaluation.runs import Run
from prequential.report.markup import element, html_document
from prequential.report.page import html_report
from prequential.report.run_panels import Panel, Series
from prequential.report.svg import html_figure

playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
if BROWSER is None:
    pytest.skip("no chromium, chromium-browser or google-chrome on PATH", allow_module_level=True)

OPTIONS = "no-sandbox disable-gpu disable-background-networking disable-component-update disable-sync disable-quic no-first-run"
WIDTHS = (390, 660, 1400)  # of a phone, just above narrow, and of a screen
MEASURE = """() => {
  const touch = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom
  const shown = each => each.checkVisibility() && !each.closest('details:not([open])')
  const texts = each => [...each.querySelectorAll('.drawing span')].filter(shown)
  const charts = [...document.querySelectorAll('.plot')].filter(shown)
  const place = each => { const box = document.createRange(); box.selectNodeContents(each); return box.getBoundingClientRect() }
  return {
    content: document.documentElement.scrollWidth,
    colour: getComputedStyle(document.body).color,
    texts: charts.flatMap(texts).length,
    touching: charts.flatMap(each => texts(each).flatMap((a, i) => texts(each).slice(i + 1).filter(b =>
      touch(a.getBoundingClientRect(), b.getBoundingClientRect())).map(b => `${a.textContent} and ${b.textContent}`))),
    cut: charts.flatMap(each => texts(each).filter(text => {
      const [all, seen, box] = [place(text), each.getBoundingClientRect(), text.getBoundingClientRect()]
      return all.width && (all.left < seen.left || all.right > seen.right || text.matches('.name') && all.right > box.right + 1)
    })).map(text => text.textContent),
  }
}"""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=BROWSER, args=[f"--{option}" for option in OPTIONS.split()])
        yield browser
        browser.close()


class Seen(NamedTuple):
    """What MEASURE finds at each of WIDTHS; addresses of other requests; errors and messages on the console."""

    shown: list[dict[str, Any]]
    fetched: set[str]
    complaints: list[str]


def seen(chromium: Any, page: str, folder: Path, scheme: str = "light") -> Seen:
    path, shown, fetched, complaints = folder / "report.html", [], set[str](), list[str]()
    path.write_text(page, encoding="utf-8")
    with chromium.new_context(color_scheme=scheme) as context:
        tab = context.new_page()
        tab.on("request", lambda request: fetched.add(request.url))
        tab.on("console", lambda message: complaints.append(message.text))
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.goto(path.as_uri())
        for width in WIDTHS:
            tab.set_viewport_size({"width": width, "height": 900})
            shown.append(tab.evaluate(MEASURE))
    return Seen(shown, fetched - {path.as_uri()}, complaints)


@pytest.fixture(scope="module")
def full_runs(runs: list[Run], tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    """Four runs with as many lines as a run has by default: all baselines, a GPT and a mixer."""
    made = []
    for number, run in enumerate(runs * 2):
        model = run.curves["model"]
        rates = {name: 2.1 + i / 4 + number / 100 for i, name in enumerate(("mixer", "gpt", *BASELINES))}
        lines = {name: Curve(n_bytes=model.n_bytes, bits=rate * model.n_bytes) for name, rate in rates.items()}
        record = run.record | {"config": run.record["config"] | {"seed": number}}
        made.append(Run(tmp_path_factory.mktemp("full") / run.name, record))
        vars(made[-1])["curves"] = {"model": model, **lines}
    return made


@pytest.mark.parametrize("n_runs", [1, 4])
@pytest.mark.parametrize(("scheme", "ink"), [("light", "rgb(26, 26, 26)"), ("dark", "rgb(232, 232, 232)")])
def test_a_browser_shows_the_page_without_errors_requests_overflow_or_texts_that_touch(
    chromium: Any, full_runs: list[Run], tmp_path: Path, scheme: str, ink: str, n_runs: int
) -> None:
    page = seen(chromium, html_report(full_runs[:n_runs]), tmp_path, scheme)
    assert (page.fetched, page.complaints) == (set(), [])
    for width, shown in zip(WIDTHS, page.shown, strict=True):
        assert shown["content"] <= width and shown["colour"] == ink
        assert shown["texts"] > 10
        assert (shown["touching"], shown["cut"]) == ([], [])


def test_no_range_of_values_and_no_name_makes_the_texts_of_a_chart_touch(chromium: Any, tmp_path: Path) -> None:
    names = ("W" * 40, "prequential 12 cont", "漢字" * 9, "zstd", "x")
    ranges = product((-1e-5, 123_456.7, -999_999.0), (1.0, 123.0, 1e5, 2e5), (1.5, 4.0, 20.0, 30.0, 99.0, 300.0, 1e4))
    figures = []
    for size, low, ratio in ranges:
        lines = [(name, size * np.array([1.0, 1.1 + i / 100]), i) for i, name in enumerate(names)]
        series = [Series(name, np.array([low, ratio * low]), y, i) for name, y, i in lines]
        figures.append(html_figure(Panel(f"{low:g} to {ratio * low:g}", series, "bytes")))
    for width, shown in zip(
        WIDTHS, seen(chromium, html_document("charts", element("div", *figures)), tmp_path).shown, strict=True
    ):
        assert (shown["content"] <= width, shown["touching"]) == (True, [])
        assert set(shown["cut"]) <= {names[0], names[2]}


@pytest.fixture
def tab(chromium: Any, full_runs: list[Run], tmp_path: Path) -> Iterator[Any]:
    """A page of two runs."""
    (tmp_path / "two.html").write_text(html_report(full_runs[:2]), encoding="utf-8")
    with chromium.new_context(viewport={"width": 1400, "height": 2000}) as context:
        tab = context.new_page()
        tab.goto((tmp_path / "two.html").as_uri())
        yield tab


def test_the_charts_of_some_runs_are_aligned(tab: Any) -> None:
    boxes = [tab.locator(".plots .drawing > svg").nth(i).bounding_box() for i in range(3)]
    assert len({(box["x"], box["width"]) for box in boxes}) == 1


def test_the_pointer_shows_values_and_a_name_hides_its_line(tab: Any, full_runs: list[Run]) -> None:
    place = tab.locator(".drawing > svg").nth(1).bounding_box()
    end = place["x"] + place["width"] - 1, place["y"] + 9
    tab.mouse.move(*end)
    shown = tab.locator(".box").inner_text().splitlines()
    rates = sorted((run.record["code_bits"] / run.record["corpus"]["n_bytes"] for run in full_runs[:2]), reverse=True)
    assert shown[0].startswith("bytes of the original: 5,9")
    assert [float(line.split()[0]) for line in shown[1:]] == pytest.approx(rates, abs=0.01)
    tab.locator(".drawing").nth(1).locator(".name").first.click()
    tab.mouse.move(*end)
    assert len(tab.locator(".box").inner_text().splitlines()) == 2
    tab.locator("summary").first.click()
    letter = tab.locator(".passage span").first
    letter.hover()
    assert "bits: " in tab.locator(".box").inner_text()


def test_a_table_is_sorted_and_copied(tab: Any) -> None:
    figure, context = tab.locator("figure.table").first, tab.context
    rates = figure.locator("tbody td:nth-child(2)")
    first = rates.all_inner_texts()
    head = figure.locator("thead th").nth(1)
    for order in (first, first[::-1]):
        head.click()
        assert rates.all_inner_texts() == order
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    figure.locator(".copy").click()
    lines = tab.evaluate("navigator.clipboard.readText()").splitlines()
    assert lines[0].startswith("learner,bits/byte,more than the best,seconds,")
    assert [line.split(",")[1] for line in lines[1:]] == first[::-1]


def test_print_opens_everything(tab: Any) -> None:
    closed = "document.querySelectorAll('details:not([open])').length"
    assert tab.evaluate(closed) > 2
    assert tab.evaluate(f"dispatchEvent(new Event('beforeprint')) && {closed}") == 0
    assert tab.evaluate(f"dispatchEvent(new Event('afterprint')) && {closed}") > 2


def test_no_other_script_runs(chromium: Any, full_runs: list[Run], tmp_path: Path) -> None:
    page = html_report(full_runs[:1]).replace("</main>", "<script>document.title = 'mine'</script></main>")
    assert any("violates" in complaint for complaint in seen(chromium, page, tmp_path).complaints)


def test_the_checks_detect_what_is_wrong_with_a_page(chromium: Any, full_runs: list[Run], tmp_path: Path) -> None:
    bad = "<script>console.error(1)</script><img src='other.png' alt=''><div style='width:1500px;height:9px'></div>"
    page = seen(chromium, f"<!doctype html><title>bad</title><body>{bad}", tmp_path)
    assert page.fetched == {(tmp_path / "other.png").as_uri()}
    assert "1" in page.complaints
    assert all(shown["content"] >= 1500 for shown in page.shown)
    style = ".drawing .name { top: 9px !important; width: 3rem; padding-left: 2rem; }</style>"
    near = html_report(full_runs[:1]).replace("</style>", style)
    assert all(shown["touching"] and shown["cut"] for shown in seen(chromium, near, tmp_path).shown)
