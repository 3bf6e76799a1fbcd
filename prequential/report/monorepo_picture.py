"""A series of monorepo losses as panels: for an SVG file, a matplotlib figure, or an HTML page.

Each point is drawn at the committer's date (UTC) of the last commit in its window. The points of a line are connected only for
better reading.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from prequential.errors import CorpusError
from prequential.evaluation.summary import model_summary
from prequential.records.forms import LOSSES
from prequential.report import svg
from prequential.report.markup import element, join
from prequential.report.page import html_document
from prequential.report.svg import MAX_FULL, N_COLOURS, Axes, Panel, Series, html_figure
from prequential.report.tables import html_table

if TYPE_CHECKING:
    pass

OVER_TIME = Axes(x_title="date of the window's last commit (UTC)", log_x=False, dates=True)
MAX_LANGUAGES, MIN_SHARE = MAX_FULL, 0.02  # at most so many languages, each with this share of the bytes or more

Records = Sequence[Mapping[str, Any]]
Group = Mapping[str, Any]


def panels(records: Records) -> list[Panel]:
    """The plots of a series (`read_series`): all documents, new files and added lines, languages.

    A line omits the points at which it has no bytes. Raises CorpusError if the series is empty.
    """
    if not records:
        raise CorpusError("the series has no points yet: there is nothing to draw")
    kinds = dict.fromkeys(group["name"] for record in records for group in record["frozen"]["kinds"])
    series_of = {
        "All documents of the windows": _document_lines(records),
        "New files, and lines added to existing files": _part_lines(records, "kinds", sorted(kinds, reverse=True)),
        "Languages": _part_lines(records, "languages", _main_languages(records)),
    }
    found = (Panel(title, [s for s in series if len(s.x)], OVER_TIME) for title, series in series_of.items())
    return [panel for panel in found if panel.series]


def _document_lines(records: Records) -> list[Series]:
    lines = [
        ("frozen", "frozen", "documents"),
        ("dynamic", "dynamic", "documents"),
        ("untrained", "untrained", "documents"),
        ("frozen, clean documents", "frozen", "clean"),
        ("frozen, novel bytes", "frozen", "novel"),
    ]
    return [
        _line(name, style, records, (record[loss][group] for record in records))
        for style, (name, loss, group) in enumerate(lines)
    ]


def _main_languages(records: Records) -> list[str]:
    """Names of the languages with the most bytes, at most MAX_LANGUAGES, without those below MIN_SHARE."""
    n_bytes: dict[str, int] = {}
    for record in records:
        for group in record["frozen"]["languages"]:
            n_bytes[group["name"]] = n_bytes.get(group["name"], 0) + group["n_bytes"]
    large = [name for name in n_bytes if n_bytes[name] >= MIN_SHARE * sum(n_bytes.values())]
    return sorted(large, key=lambda name: (-n_bytes[name], name))[:MAX_LANGUAGES]


def _part_lines(records: Records, part: str, names: Sequence[str]) -> list[Series]:
    """Two lines for each name: frozen, and dynamic with dashes. Of many names the dynamic lines are grey."""
    is_few = 2 * len(names) <= MAX_FULL
    return [
        _line(
            f"{name}, {loss}",
            style + dashes * N_COLOURS,
            records,
            (_named(record[loss][part], name) for record in records),
            full=is_few or loss == "frozen",
        )
        for style, name in enumerate(names)
        for dashes, loss in enumerate(("frozen", "dynamic"))
    ]


def _named(groups: Iterable[Group], name: str) -> Group | None:
    return next((group for group in groups if group["name"] == name), None)


def _line(name: str, style: int, records: Records, groups: Iterable[Group | None], *, full: bool = True) -> Series:
    """Bits per byte of one group in each record, at the dates where the group has bytes."""
    points = [
        (_seconds(record), group["bits"] / group["n_bytes"])
        for record, group in zip(records, groups, strict=True)
        if group and group["n_bytes"]
    ]
    x, y = np.array(points, np.float64).reshape(-1, 2).T
    return Series(name, x, y, style, full)


def _seconds(record: Mapping[str, Any]) -> float:
    return datetime.fromisoformat(record["test"]["until_date"]).timestamp()


def heading(records: Records) -> str:
    """The title of the picture: the repository and the number of points."""
    return f"{records[-1]['test']['name']}: monorepo loss, {len(records)} point{'s' if len(records) > 1 else ''}"


def svg_file(records: Records) -> str:
    """The plots as one SVG document that loads nothing. Raises CorpusError if the series is empty."""
    found = panels(records)
    return svg.svg_file(heading(records), found)


def page(records: Records) -> str:
    """The plots and a table of the points as one HTML page that loads nothing. Raises CorpusError if the series is empty."""
    figures = [html_figure(panel) for panel in panels(records)]
    setting = records[-1]["setting"]
    model = "one model, trained once" if setting["fixed"] else "a separate model for each point"
    body = [
        element("h1", heading(records)),
        element("p", f"{model_summary(setting['config'])}; {model}; frozen with {setting['context']} context."),
        element("p", MEANING),
        element("div", *figures, class_="plots"),
        html_table("Points", COLUMNS, [_row(record) for record in records], "Losses are bits/byte of the bytes in documents."),
    ]  # fmt: skip
    return html_document(heading(records), join(*body))


MEANING = (
    "Each point is one window of commits: its new files in full, and the added lines of edited files. Frozen: coded by a "
    "learner that had read the tree before the window and no longer learns. Dynamic: the same learner continues to learn. "
    "Untrained: the same learner without the tree. Neither the model nor the program is counted. Each point is drawn at the "
    "date of the window's last commit. In the plots of kinds and languages, dashed lines are dynamic. A dot is a single "
    "point."
)
COLUMNS = (
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


def _rate(group: Group | None) -> float | None:
    return group["bits"] / group["n_bytes"] if group and group["n_bytes"] else None
