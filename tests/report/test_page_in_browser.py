"""The HTML page in Chromium, light and dark: no errors, requests or overflow; its height; its charts in usual and wide fonts.

One browser is open at a time. Skipped where there is none.
"""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from prequential_codecs.baselines import BASELINES

from prequential.evaluation.curves import Curve
from prequential.evaluation.runs import Run
from prequential.report import run_panels
from prequential.report.markup import element, html_document
from prequential.report.page import html_report
from prequential.report.run_panels import Axis, Panel, Series
from prequential.report.svg import html_figure

playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
if BROWSER is None:
    pytest.skip("no chromium, chromium-browser or google-chrome on PATH", allow_module_level=True)

OPTIONS = "no-sandbox disable-gpu disable-background-networking disable-component-update disable-sync disable-quic no-first-run"
FONT_FOLDERS = ("/usr/share/fonts", "/usr/local/share/fonts")
# Files of the fonts that a browser may use; "wide" is wider than the usual ones. None: those of this machine.
FONTS = {
    "this machine": None,
    "DejaVu": ("DejaVuSans.ttf", "DejaVuSansMono.ttf"),
    "Liberation": ("LiberationSans-Regular.ttf", "LiberationMono-Regular.ttf"),
    "Noto": ("NotoSans-Regular.ttf",),
    "wide": ("DejaVuSansMono-Bold.ttf",),
    "none": (),
}
WIDTHS = (390, 660, 1400)  # of a phone, just above narrow, and of a screen
MEASURE = """() => {
  const boxes = found => [...found].map(each => each.getBoundingClientRect()).filter(box => box.width)
  const touch = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom
  const shown = each => each.checkVisibility() && !each.closest('details:not([open])')
  const charts = [...document.querySelectorAll('.plot')].filter(shown)
  const texts = each => [...each.querySelectorAll('.drawing span')].filter(shown)
  const place = each => { const box = document.createRange(); box.selectNodeContents(each); return box.getBoundingClientRect() }
  return {
    width: innerWidth,
    content: document.documentElement.scrollWidth,
    colour: getComputedStyle(document.body).color,
    height: document.documentElement.scrollHeight,
    letters: charts.flatMap(texts).map(text => parseFloat(getComputedStyle(text).fontSize)),
    touching: charts.flatMap(each => texts(each).flatMap((a, i) => texts(each).slice(i + 1).filter(b =>
      touch(a.getBoundingClientRect(), b.getBoundingClientRect())).map(b => `${a.textContent} and ${b.textContent}`))),
    cut: charts.flatMap(each => texts(each).filter(text => {
      const [all, seen, box] = [place(text), each.getBoundingClientRect(), text.getBoundingClientRect()]
      return all.width && (all.left < seen.left || all.right > seen.right || text.matches('.name') && all.right > box.right + 1)
    })).map(text => text.textContent),
    heights: charts.flatMap(each => boxes(each.querySelectorAll('.y')).filter(box => box.height).map(box => {
      const lines = boxes(each.querySelectorAll('line.grid')).filter(line => line.width > line.height)
      return Math.min(...lines.map(line => Math.abs(line.top + line.height / 2 - box.top - box.height / 2)))
    })),
    areas: boxes(document.querySelectorAll('.drawing > svg')).map(box => box.width),
    hidden: [...document.querySelectorAll('.scroll')].filter(each => shown(each) && each.scrollWidth > each.clientWidth).length,
    figures: charts.map(each => each.getBoundingClientRect().width),
    main: document.querySelector('main') ? document.querySelector('main').clientWidth : 0,
    cards: boxes(document.querySelectorAll('.figures li')).slice(0, 4).map(box => [Math.round(box.left), Math.round(box.top)]),
  }
}"""
SCREEN = 900  # pixels of height, at a width of 1400
BLANK = 10_000  # bytes of a picture that shows next to nothing


def font_settings(names: tuple[str, ...], folder: Path) -> Path:
    """A file for FONTCONFIG_FILE that restricts the fonts to these files. Skips the test if one is not installed."""
    fonts = folder / "fonts"
    fonts.mkdir()
    for name in names:
        found = next(chain.from_iterable(Path(each).rglob(name) for each in FONT_FOLDERS), None)
        if found is None:
            pytest.skip(f"the font {name} is not installed")
        (fonts / name).symlink_to(found)
    settings = folder / "fonts.conf"
    settings.write_text(f"<fontconfig><dir>{fonts}</dir><cachedir>{folder / 'cache'}</cachedir></fontconfig>")
    return settings


@pytest.fixture(scope="module", params=["this machine"])
def chromium(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A browser with the fonts of FONTS that the parameter names."""
    with pytest.MonkeyPatch.context() as patch:
        if (names := FONTS[request.param]) is not None:
            patch.setenv("FONTCONFIG_FILE", str(font_settings(names, tmp_path_factory.mktemp("fonts"))))
        with playwright.sync_playwright() as started:
            options = [f"--{option}" for option in OPTIONS.split()]
            browser = started.chromium.launch(executable_path=BROWSER, args=options)
            yield browser
            browser.close()


quick = ("this machine", "wide")
every_font = pytest.mark.parametrize(
    "chromium",
    [pytest.param(name, marks=[] if name in quick else [pytest.mark.thorough]) for name in FONTS],
    indirect=True,
)


@dataclass
class Seen:
    """How a browser shows a page: what MEASURE finds at each of WIDTHS, with the `picture_bytes` of what is on the screen.

    fetched: addresses of other requests. complaints: errors and messages on the console.
    """

    shown: list[dict[str, Any]] = field(default_factory=list)
    fetched: set[str] = field(default_factory=set)
    complaints: list[str] = field(default_factory=list)


def seen(chromium: Any, page: str, folder: Path, scheme: str = "light") -> Seen:
    path, found = folder / "report.html", Seen()
    path.write_text(page, encoding="utf-8")
    with chromium.new_context(color_scheme=scheme) as context:
        tab = context.new_page()
        tab.on("request", lambda request: found.fetched.add(request.url))
        tab.on("console", lambda message: found.complaints.append(message.text))
        tab.on("pageerror", lambda error: found.complaints.append(str(error)))
        tab.goto(path.as_uri())
        for width in WIDTHS:
            tab.set_viewport_size({"width": width, "height": SCREEN})
            found.shown.append(tab.evaluate(MEASURE) | {"picture_bytes": len(tab.screenshot())})
    found.fetched.remove(path.as_uri())
    return found


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


@pytest.mark.parametrize(("scheme", "ink"), [("light", "rgb(26, 26, 26)"), ("dark", "rgb(232, 232, 232)")])
def test_a_browser_shows_the_page_without_errors_requests_or_overflow(
    chromium: Any, full_runs: list[Run], tmp_path: Path, scheme: str, ink: str
) -> None:
    found = seen(chromium, html_report(full_runs[:1]), tmp_path, scheme)
    assert (found.fetched, found.complaints) == (set(), [])
    for width, shown in zip(WIDTHS, found.shown, strict=True):
        assert (shown["width"], shown["colour"]) == (width, ink)
        assert shown["content"] <= width
        assert shown["picture_bytes"] > 2 * BLANK


@every_font
@pytest.mark.parametrize(("n_runs", "n_screens"), [(1, 3), (4, 6)])
def test_a_page_of_one_run_takes_three_screens_and_of_four_runs_six(
    chromium: Any, full_runs: list[Run], tmp_path: Path, n_runs: int, n_screens: int
) -> None:
    found = seen(chromium, html_report(full_runs[:n_runs]), tmp_path).shown
    assert found[-1]["height"] <= n_screens * SCREEN
    for shown in found:
        assert shown["content"] <= shown["width"]
        assert min(shown["letters"]) >= 12  # of charts
        assert (shown["touching"], shown["cut"]) == ([], [])  # ticks and names of lines
        assert max(shown["heights"], default=0) <= 1  # from a tick to its line
        assert set(shown["figures"]) == {shown["main"]}  # charts use the complete width
        if n_runs == 1:
            lefts, tops = zip(*shown["cards"], strict=True)
            assert (len(set(lefts)), len(set(tops))) == (2, 2)
    assert not any(shown["hidden"] for shown in found)  # parts of tables that are not folded


@every_font
def test_no_range_of_values_and_no_name_makes_the_texts_of_a_chart_touch(chromium: Any, tmp_path: Path) -> None:
    names = ("W" * 40, "prequential 12 cont", "漢字" * 9, "zstd", "x")
    figures = [
        html_figure(Panel(f"{low:g} to {ratio * low:g}", [
            Series(name, np.array([low, ratio * low]), size * np.array([1.0, 1.1 + i / 100]), i)
            for i, name in enumerate(names)
        ], Axis("bytes", log=True)))
        for size in (-1e-5, 123_456.7, -999_999.0)
        for low in (1.0, 123.0, 1e5, 2e5)
        for ratio in (1.5, 4.0, 20.0, 30.0, 99.0, 300.0, 1e4)
    ]  # fmt: skip
    for shown in seen(chromium, html_document("charts", element("div", *figures)), tmp_path).shown:
        assert shown["content"] <= shown["width"]
        assert shown["touching"] == []
        assert set(shown["cut"]) <= {f"{names[0][:18]}…", names[2][:18] + "…"}
        assert min(shown["areas"]) >= 0.3 * shown["main"]


def test_a_link_in_the_ranking_opens_the_run(chromium: Any, full_runs: list[Run], tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(html_report(full_runs), encoding="utf-8")
    with chromium.new_context() as context:
        tab = context.new_page()
        tab.goto(path.as_uri())
        shown = tab.locator("article .figures")
        assert not any(each.is_visible() for each in shown.all())
        tab.locator("a[href='#run-1']").click()
        assert [each.is_visible() for each in shown.all()].count(True) == 1


def test_the_check_detects_a_page_that_fetches_complains_overflows_or_is_blank(chromium: Any, tmp_path: Path) -> None:
    bad = "<script>console.error(1)</script><img src='other.png' alt=''><div style='width:1500px;height:9px'></div>"
    found = seen(chromium, f"<!doctype html><title>bad</title><body>{bad}", tmp_path)
    assert found.fetched == {(tmp_path / "other.png").as_uri()}
    assert "1" in found.complaints
    assert all(shown["content"] >= 1500 for shown in found.shown)
    blank = seen(chromium, "<!doctype html><title>blank</title>", tmp_path).shown
    assert max(shown["picture_bytes"] for shown in blank) < BLANK


def test_the_check_detects_texts_that_touch_or_are_cut(chromium: Any, curves: dict[str, Curve], tmp_path: Path) -> None:
    page = html_document("chart", html_figure(run_panels.learning(curves)))
    assert [(shown["touching"], shown["cut"]) for shown in seen(chromium, page, tmp_path).shown] == [([], [])] * 3
    near = page.replace("</style>", ".drawing .name { top: 9px !important; width: 3rem; padding-left: 2rem; }</style>")
    for shown in seen(chromium, near, tmp_path).shown:
        assert "model and gpt" in shown["touching"]
        assert "model" in shown["cut"]
