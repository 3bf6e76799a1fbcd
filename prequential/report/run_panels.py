"""The panels of runs and of monorepo series: their lines, and how these are called and coloured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from prequential_codecs.archive_header import OTHER

from prequential.comparison.compare import Comparison, group_labels, group_learner
from prequential.errors import CorpusError
from prequential.evaluation.breakdown import LEARNING, OCCURRENCES
from prequential.evaluation.curves import GPT, MIXER, MODEL, Curve, prefixes
from prequential.evaluation.summary import learner_label
from prequential.records.forms import LOSSES
from prequential.report.panels import MAX_FULL, N_COLOURS, Axis, Panel, Role, Series

if TYPE_CHECKING:
    from prequential.evaluation.runs import Run

PARTS = {GPT: "GPT alone", MIXER: "mixer alone"}
N_POINTS = 200  # of a line; more cannot be seen
SAME = 0.01  # curves that differ by no more than this share are drawn as one line
SAVED = Axis("bits saved")
OCCURRENCE, RATE = Axis("occurrence k of a trigram", log=True), Axis("bits/byte at the k-th", log=True)
DAY_S = 86400
DATE = Axis("date of the window's last commit (UTC)", dates=True)
MAX_LANGUAGES, MIN_SHARE = MAX_FULL, 0.02  # at most so many languages, each with this share of the bytes or more

Curves = Mapping[str, Curve]
Points = tuple[NDArray[np.float64], NDArray[np.float64]]
Record = Mapping[str, Any]


class Look(NamedTuple):
    """Labels and styles of lines by the name of their curve. A curve without an entry has its name, and its place as style."""

    labels: Mapping[str, str] = {}
    styles: Mapping[str, int] = {}

    def label(self, name: str) -> str:
        """What the line of this curve is called."""
        return self.labels.get(name, name)


PLAIN = Look()


# ---- names


def distinct(names: Iterable[str], places: Iterable[object] | None = None) -> list[str]:
    """The names; one that is repeated in the same place gets a number."""
    taken: set[tuple[object, str]] = set()
    found = list(names)
    for i, (name, place) in enumerate(zip(found, places or [None] * len(found), strict=True)):
        numbered = (f"{name} ({number})" if number > 1 else name for number in range(1, len(found) + 1))
        found[i] = next(each for each in numbered if (place, each) not in taken)
        taken.add((place, found[i]))
    return found


def run_names(labels: Iterable[str], runs: Iterable[Run]) -> list[str]:
    """The label of each run's learner, with a number if it is repeated on the same bytes."""
    return distinct(labels, [run.record["corpus"]["blake2b"] for run in runs])


def full_name(name: str, record: Record) -> str:
    """The name of a run's learner beside other programs: ours is called prequential, too."""
    return name if OTHER in record["config"] else f"prequential {name}"


def group_names(runs: Sequence[Run]) -> list[str]:
    """A name for each run, equal for runs of one configuration with different seeds."""
    labels = group_labels(runs)
    learners = {label: group_learner(run) for label, run in zip(labels, runs, strict=True)}
    names = dict(zip(learners, distinct(learners.values()), strict=True))
    return [names[label] for label in labels]


def page_look(names: Sequence[str], runs: Sequence[Run]) -> Look:
    """One style for each name on a page: first the names of the runs, then parts and baselines, the best first."""
    rates: dict[str, float] = {}
    for run in runs:
        for name, curve in run.curves.items():
            if name != MODEL:
                rates[name] = min(_final_rate(curve), rates.get(name, float("inf")))
    others = sorted(rates, key=lambda name: (rates[name], name))
    return Look(PARTS, {name: style for style, name in enumerate(dict.fromkeys([*names, *others]))})


def run_look(look: Look, name: str) -> Look:
    """The look of a page in the section of one run: there the curve "model" is the run of this name."""
    return Look({**look.labels, MODEL: name}, {**look.styles, MODEL: look.styles[name]})


# ---- curves


def learning(curves: Curves, look: Look = PLAIN) -> Panel:
    """Bits per byte up to each position: cumulative bits divided by bytes. Curves that are nearly equal are one line."""
    groups = {group[0]: group for group in _groups(curves)}
    thinned = {name: _thinned(curves[name]) for name in curves if name in groups}
    points = {name: (line.n_bytes.astype(np.float64), line.bits / line.n_bytes) for name, line in thinned.items()}
    labels = {name: " and ".join(map(look.label, group)) for name, group in groups.items()}
    return Panel("Bits per byte up to each position", _lines(curves, points, Look(labels, look.styles)))


def intervals(curves: Curves, look: Look = PLAIN) -> Panel:
    """Bits per byte of each interval between two log-spaced positions (those of the baselines), drawn at its end."""
    ends = prefixes(max(int(curve.n_bytes[-1]) for curve in curves.values()))
    points = {}
    for name, curve in curves.items():
        marks = np.concatenate(([0], ends[ends <= curve.n_bytes[-1]]))
        points[name] = marks[1:].astype(np.float64), np.diff(curve.at(marks)) / np.diff(marks)
    return Panel("Bits per byte of successive intervals, two per doubling", _lines(curves, points, look))


def saved(curves: Curves, look: Look = PLAIN) -> Panel:
    """Bits that the model saves against each other curve, up to each position of that curve."""
    model, others = curves[MODEL], {name: _thinned(curve) for name, curve in curves.items() if name != MODEL}
    points = {
        name: (other.n_bytes.astype(np.float64), other.bits - model.at(other.n_bytes)) for name, other in others.items()
    }
    title = f"Bits that {look.label(MODEL)} saves against others"
    return Panel(title, _lines(curves, points, look), y=SAVED, references=(0.0,))


def saved_by_groups(comparison: Comparison, look: Look = PLAIN) -> Panel:
    """Bits that each group of runs saves against the reference, up to each position."""
    best = sorted(comparison.differences, key=lambda found: found.bits)
    full = {found.other.label for found in best[:MAX_FULL]}
    series = []
    for place, found in enumerate(comparison.differences, 1):
        line, name = _thinned(Curve(n_bytes=found.n_bytes[1:], bits=-found.running_bits[1:])), found.other.label
        series.append(_series(name, place, (line.n_bytes.astype(np.float64), line.bits), look, name in full))
    return Panel(f"Bits saved against {comparison.groups[0].label}", series, y=SAVED, references=(0.0,))


def tail(table: Record, title: str = "Cost at the k-th occurrence", look: Look = PLAIN) -> Panel:
    """Bits per byte against the occurrence k, of the rows of a table of evaluation/breakdown.py that have a mean_k."""
    rows = [row for row in table["rows"] if row.get("mean_k") and row["n_bytes"]]
    series = []
    for place, part in enumerate(rows[0]["bits"] if rows else ()):
        costs = [(row["mean_k"], row["bits"][part] / row["n_bytes"]) for row in rows if row["bits"][part] > 0]
        if costs:
            series.append(_series(part, place, tuple(np.array(costs, np.float64).T), look, place < MAX_FULL))
    return Panel(title, series, OCCURRENCE, RATE)


def panels_for_files(run: Run) -> dict[str, Panel]:
    """The panels that `report --plots` writes, by file name. Raises CorpusError if the curves cannot be read."""
    name, tables = learner_label(run.record["config"]), run.record["tables"]
    look = run_look(page_look([name], [run]), name)
    found = {"learning": learning(run.curves, look), "regret": saved(run.curves, look)}
    # a record may name anything
    found |= {name: tail(tables[name], look=look) for name in (OCCURRENCES, LEARNING) if name in tables}
    return {name: panel for name, panel in found.items() if panel.series}


def _groups(curves: Curves) -> list[list[str]]:
    """The names of curves that are nearly equal together: those of the first curve, of its parts, then the best first."""
    first = MODEL if MODEL in curves else next(iter(curves))
    thinned = {name: _thinned(curve) for name, curve in curves.items()}
    groups: list[list[str]] = []
    for name in sorted(curves, key=lambda name: (name != first, name not in (GPT, MIXER), _final_rate(curves[name]))):
        leaders = ((group, thinned[group[0]]) for group in groups[:MAX_FULL])  # others are grey
        shown = (group for group, a in leaders if (np.abs(a.bits - thinned[name].at(a.n_bytes)) <= SAME * a.bits).all())
        if same := next(shown, None):
            same.append(name)
        else:
            groups.append([name])
    return groups


def _final_rate(curve: Curve) -> float:
    return float(curve.bits[-1] / curve.n_bytes[-1])


def _lines(curves: Curves, points: Mapping[str, Points], look: Look) -> list[Series]:
    """A series for each curve that has points. Those of MAX_FULL groups are full."""
    full = {name for group in _groups(curves)[:MAX_FULL] for name in group}
    return [
        _series(name, place, points[name], look, name in full)
        for place, name in enumerate(curves)
        if name in points and len(points[name][0])
    ]


def _series(name: str, place: int, points: Points, look: Look, full: bool) -> Series:
    role = Role.OWN if name == MODEL else Role.NAMED
    # grey lines have no dashes
    return Series(look.label(name), *points, look.styles.get(name, place) if full else 0, role if full else Role.GREY)


def _thinned(curve: Curve) -> Curve:
    """At most N_POINTS of the curve's points, log-spaced, the first and the last included."""
    wanted = np.geomspace(curve.n_bytes[0], curve.n_bytes[-1], N_POINTS)
    chosen = np.unique(np.minimum(np.searchsorted(curve.n_bytes, wanted), len(curve.n_bytes) - 1))
    return Curve(n_bytes=curve.n_bytes[chosen], bits=curve.bits[chosen])


# ---- monorepo series


def monorepo(records: Sequence[Record]) -> dict[str, Panel]:
    """The panels of a series (`read_series`): documents (all), kinds (new files, added lines), languages; dynamic is dashed.

    A line omits the points at which it has no bytes. Raises CorpusError if the series is empty.
    """
    if not records:
        raise CorpusError("the series has no points yet: there is nothing to draw")
    wholes = {loss: (loss, "documents") for loss in LOSSES} | {
        "frozen, clean documents": ("frozen", "clean"),
        "frozen, novel bytes": ("frozen", "novel"),
    }
    kinds = dict.fromkeys(group["name"] for record in records for group in record["frozen"]["kinds"])
    whole = [
        _over_time(name, style, records, [record[loss][group] for record in records])
        for style, (name, (loss, group)) in enumerate(wholes.items())
    ]
    new_and_added = _part_lines(records, "kinds", sorted(kinds, reverse=True))
    panels = {
        "documents": ("All documents of the windows", whole),
        "kinds": ("New files, and lines added to existing files", new_and_added),
        "languages": ("Languages", _part_lines(records, "languages", _main_languages(records))),
    }
    found = {key: Panel(title, [line for line in lines if len(line.x)], DATE) for key, (title, lines) in panels.items()}
    return {key: panel for key, panel in found.items() if panel.series}


def _main_languages(records: Sequence[Record]) -> list[str]:
    """Names of the languages with the most bytes, at most MAX_LANGUAGES, without those below MIN_SHARE."""
    n_bytes = Counter[str]()
    for record in records:
        n_bytes.update({group["name"]: group["n_bytes"] for group in record["frozen"]["languages"]})
    large = [name for name in n_bytes if n_bytes[name] >= MIN_SHARE * sum(n_bytes.values())]
    return sorted(large, key=lambda name: (-n_bytes[name], name))[:MAX_LANGUAGES]


def _part_lines(records: Sequence[Record], part: str, names: Sequence[str]) -> list[Series]:
    """Two lines for each name: frozen, and dynamic with dashes. Of many names the dynamic lines are grey."""
    lines, is_few = [], 2 * len(names) <= MAX_FULL
    for style, name in enumerate(names):
        for dashes, loss in enumerate(("frozen", "dynamic")):
            groups = [named(record[loss][part], name) for record in records]
            role = Role.NAMED if is_few or loss == "frozen" else Role.GREY
            lines.append(_over_time(f"{name}, {loss}", style + dashes * N_COLOURS, records, groups, role))
    return lines


def named(groups: Iterable[Record], name: str) -> Record | None:
    """The group of this name, if there is one."""
    return next((group for group in groups if group["name"] == name), None)


def _over_time(
    name: str, style: int, records: Sequence[Record], groups: Sequence[Record | None], role: Role = Role.NAMED
) -> Series:
    """Bits per byte of one group in each record, at the dates where the group has bytes."""
    found = [
        (datetime.fromisoformat(record["test"]["until_date"]).timestamp() / DAY_S, group["bits"] / group["n_bytes"])
        for record, group in zip(records, groups, strict=True)
        if group and group["n_bytes"]
    ]
    x, y = np.array(found, np.float64).reshape(-1, 2).T
    return Series(name, x, y, style, role)
