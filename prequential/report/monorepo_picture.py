"""A series of monorepo losses as a picture: an SVG file, a matplotlib figure, or a page like that of report/page.py.

Each point stands at the date (committer's, UTC) of its window's last commit; lines between points are there for the eye.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from prequential.errors import CorpusError
from prequential.measure.evaluation.summary import model_summary
from prequential.measure.monorepo.monorepo import LOSSES
from prequential.report.page import figure_of, page_of, table_of
from prequential.report.plots import draw, new_figure
from prequential.report.style import STYLE
from prequential.report.svg import HEIGHT, N_STYLES, WIDTH, Axes, Html, Series, drawing, element, join, style_class

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OVER_TIME = Axes(x_title="date of the window's last commit (UTC)", log_x=False, dates=True)
MAX_LANGUAGES, MIN_SHARE = 6, 0.02  # of the languages those with most bytes, and no small ones
TITLE_HEIGHT, KEY_HEIGHT, KEYS_A_LINE = 26.0, 18.0, 2

Records = Sequence[Mapping[str, Any]]


class Panel(NamedTuple):
    """One plot: lines of bits/byte against seconds since 1970."""

    title: str
    series: list[Series]


def panels(records: Records) -> list[Panel]:
    """The plots of a series of 1 or more points (`read_series`): all bytes, what is new or added, languages.

    A point that has no byte of what a line shows is left out of that line. Raises CorpusError for no points.
    """
    if not records:
        raise CorpusError("the series has no points yet: there is nothing to draw")
    whole = [
        ("frozen", "frozen", "documents"),
        ("dynamic", "dynamic", "documents"),
        ("untrained", "untrained", "documents"),
        ("frozen, clean documents", "frozen", "clean"),
        ("frozen, novel bytes", "frozen", "novel"),
    ]
    lines = [
        _line(name, style, records, (r[loss][group] for r in records))
        for style, (name, loss, group) in enumerate(whole)
    ]
    kinds = list(dict.fromkeys(group["name"] for r in records for group in r["frozen"]["kinds"]))
    found = [
        Panel("All that the windows brought", lines),
        Panel("New files, and lines added to others", _parts(records, "kinds", sorted(kinds, reverse=True))),
        Panel("Languages", _parts(records, "languages", _languages(records))),
    ]
    return [Panel(title, series) for title, lines in found if (series := [line for line in lines if len(line.x)])]


def _languages(records: Records) -> list[str]:
    n_bytes: dict[str, int] = {}
    for record in records:
        for group in record["frozen"]["languages"]:
            n_bytes[group["name"]] = n_bytes.get(group["name"], 0) + group["n_bytes"]
    large = [name for name in n_bytes if n_bytes[name] >= MIN_SHARE * sum(n_bytes.values())]
    return sorted(large, key=lambda name: (-n_bytes[name], name))[:MAX_LANGUAGES]


def _parts(records: Records, which: str, names: Iterable[str]) -> list[Series]:
    """Two lines for each name: frozen, and dashed dynamic."""
    return [
        _line(f"{name}, {loss}", style + dashes * N_STYLES, records, (_named(r[loss][which], name) for r in records))
        for style, name in enumerate(names)
        for dashes, loss in enumerate(("frozen", "dynamic"))
    ]


def _named(groups: Iterable[Mapping[str, Any]], name: str) -> Mapping[str, Any] | None:
    return next((group for group in groups if group["name"] == name), None)


def _line(name: str, style: int, records: Records, groups: Iterable[Mapping[str, Any] | None]) -> Series:
    """Bits per byte of a group of each record, where it has bytes."""
    points = [
        (_seconds(r), g["bits"] / g["n_bytes"]) for r, g in zip(records, groups, strict=True) if g and g["n_bytes"]
    ]
    x, y = np.array(points, np.float64).reshape(-1, 2).T
    return Series(name, x, y, style)


def _seconds(record: Mapping[str, Any]) -> float:
    return datetime.fromisoformat(record["test"]["until_date"]).timestamp()


def heading(records: Records) -> str:
    """What the picture is of."""
    return f"{records[-1]['test']['name']}: monorepo loss, {len(records)} point{'s' if len(records) > 1 else ''}"


def svg_file(records: Records) -> str:
    """One SVG file that loads nothing, plots one below another; light or dark as the viewer is."""
    parts: list[Html] = []
    top = TITLE_HEIGHT + 8
    for panel in panels(records):
        parts.append(element("text", panel.title, x=8, y=f"{top + 16:.0f}", class_="title"))
        plot = drawing(panel.series, OVER_TIME)
        parts.append(element("g", plot, transform=f"translate(0 {top + TITLE_HEIGHT:.0f})"))
        top += TITLE_HEIGHT + HEIGHT
        for number, line in enumerate(panel.series):
            parts.append(
                _key(
                    line, 8 + number % KEYS_A_LINE * WIDTH / KEYS_A_LINE, top + 10 + number // KEYS_A_LINE * KEY_HEIGHT
                )
            )
        top += 16 + -(-len(panel.series) // KEYS_A_LINE) * KEY_HEIGHT
    style = f"{STYLE} svg {{ font-family: system-ui, sans-serif; }} .title {{ fill: var(--ink); font-weight: 600; }}"
    svg = element(
        "svg",
        element("title", heading(records)),
        element("style", Html(style)),
        element("rect", width="100%", height="100%", style="fill: var(--paper)"),
        element("text", heading(records), x=8, y=22, class_="title"),
        *parts,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {WIDTH:.0f} {top:.0f}",
        width=f"{WIDTH:.0f}",
        height=f"{top:.0f}",
    )
    return f'<?xml version="1.0" encoding="utf-8"?>\n{svg}\n'


def _key(line: Series, x: float, y: float) -> Html:
    dashes = "7 3" if line.style >= N_STYLES else None
    stroke = element("path", d=f"M{x:.0f} {y:.0f}h20", class_=style_class(line), stroke_dasharray=dashes)
    return join(stroke, element("text", line.name, x=f"{x + 25:.0f}", y=f"{y + 4:.0f}", style="font-size: 11px"))


def figure(records: Records) -> Figure:
    """The same plots as one matplotlib Figure. Raises MissingDependencyError without matplotlib."""
    found = panels(records)
    whole = new_figure(8.0, 4.2 * len(found))
    whole.suptitle(heading(records), parse_math=False)
    for plot, panel in zip(whole.subplots(len(found), squeeze=False)[:, 0], found, strict=True):
        draw(plot, panel.series, OVER_TIME, panel.title)
    return whole


def page(records: Records) -> str:
    """The plots and a table of the points as one HTML page that loads nothing."""
    figures = [figure_of(panel.title, panel.series, OVER_TIME) for panel in panels(records)]
    setting = records[-1]["setting"]
    model = "one model, trained once" if setting["fixed"] else "a model of its own for each point"
    body = [
        element("h1", heading(records)),
        element("p", f"{model_summary(setting['config'])}; {model}; frozen with {setting['context']} context."),
        element("p", MEANING),
        element("div", *figures, class_="plots"),
        table_of("Points", TITLES, [_row(record) for record in records], "bits/byte of the bytes in documents."),
    ]  # fmt: skip
    return page_of(heading(records), join(*body))


MEANING = (
    "A point is what one window of commits brought to the repository: new files whole, of edited files the added lines. Frozen: "
    "coded by a learner that had read the tree before the window and learns no more. Dynamic: it goes on learning. Untrained: "
    "the same learner without the tree. Neither model nor program is counted. Points lie at the date of the window's last "
    "commit. Of kinds and languages, dashed lines are dynamic."
)
TITLES = (
    "until", "commit", "commits", "documents", "bytes", "frozen", "dynamic", "untrained", "new, frozen", "added, frozen",
    "clean, frozen", "novel, frozen", "bytes seen in training",
)  # fmt: skip


def _row(record: Mapping[str, Any]) -> list[object]:
    window, frozen = record["test"], record["frozen"]
    kinds = [_rate(_named(frozen["kinds"], kind)) for kind in ("new", "added")]
    rates = [_rate(record[loss]["documents"]) for loss in LOSSES]
    return [
        window["until_date"], window["until"][:12], window["n_commits"], frozen["documents"]["n_documents"],
        frozen["documents"]["n_bytes"], *rates, *kinds, _rate(frozen["clean"]), _rate(frozen["novel"]),
        f"{record['overlap']['train']['byte_share']:.1%}",
    ]  # fmt: skip


def _rate(group: Mapping[str, Any] | None) -> float | None:
    return group["bits"] / group["n_bytes"] if group and group["n_bytes"] else None
