"""Runs over the same bytes, the best first: the conclusion in one sentence, a table, and two pictures."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from prequential.comparison.compare import Comparison, Difference, compare
from prequential.errors import ConfigError, CorpusError
from prequential.evaluation.curves import MODEL, mean_curve
from prequential.evaluation.runs import Run
from prequential.evaluation.summary import is_coded, seed_of, verified_word, what_is_measured
from prequential.report import run_panels
from prequential.report.markup import Html, element, html_table
from prequential.report.panels import Table
from prequential.report.run_panels import Look
from prequential.report.sections import corpus_name
from prequential.report.svg import html_figure

TOO_SHORT = "The text is too short for intervals."
Groups = Mapping[str, Sequence[tuple[int, Run]]]  # runs that differ only in the seed, with their numbers on the page


def rankings(runs: Sequence[Run]) -> list[Groups]:
    """The groups of each corpus by their names, the best first. Runs are numbered from 1."""
    corpora: dict[str, list[tuple[int, Run]]] = {}
    for number, run in enumerate(runs, 1):
        corpora.setdefault(run.record["corpus"]["blake2b"], []).append((number, run))
    found: list[Groups] = []
    for same in corpora.values():
        groups: dict[str, list[tuple[int, Run]]] = {}
        for name, numbered in zip(run_panels.group_names([run for _, run in same]), same, strict=True):
            groups.setdefault(name, []).append(numbered)
        found.append(dict(sorted(groups.items(), key=lambda group: _mean("bits_per_byte", group[1]))))
    return found


def _mean(field: str, group: Sequence[tuple[int, Run]]) -> float:
    return sum(run.record[field] for _, run in group) / len(group)


def compared(groups: Groups) -> Comparison | str:
    """The differences from the best group, or why there are none."""
    if len(groups) == 1:
        return "These runs differ only in the seed."
    every = [(name, run) for name, group in groups.items() for _, run in group]
    try:
        return compare([run for _, run in every], groups=[name for name, _ in every])
    except (ConfigError, CorpusError) as error:
        return f"No differences: {error}."


def conclusion(groups: Groups, found: Comparison | str) -> str:
    """Which learner needs the least, and by how much."""
    best, group = next(iter(groups.items()))
    name, run = run_panels.full_name(best, group[0][1].record), group[0][1]
    rate = f"{name} needs {_mean('bits_per_byte', group):.2f} bits/byte on {corpus_name(run)}"
    rate += (
        f", the least of {len(groups)} learners" * (len(groups) > 2) if len(groups) > 1 else f" in {len(group)} runs"
    )
    if isinstance(found, str):
        return rate
    second, half = found.differences[0], _half(found.differences[0])
    if second.is_none:
        return f"{rate}; {second.other.label} needs as much, everywhere" + (f" ({found.proof})" if found.proof else "")
    doubt = ", so either may be the better" if half and abs(second.percent) <= half else ""
    more = _more(second, _digits([second])).lstrip("+")
    return f"{rate}; {second.other.label} needs {more} more{doubt}" + (f" ({found.proof})" if found.proof else "")


def pictures(groups: Groups, look: Look) -> Iterator[Html]:
    """The learning curves, and the bits that the best saves."""
    curves = {name: mean_curve([run.curves[MODEL] for _, run in group]) for name, group in groups.items()}
    panels = (run_panels.learning(curves, look), run_panels.saved(curves, look))
    yield from (html_figure(panel) for panel in panels if panel.series)


def ranking_table(groups: Groups, found: Comparison | str) -> Html:
    """The groups, what each needs more than the best, and what to expect on another text."""
    records = [[run.record for _, run in group] for group in groups.values()]
    size = what_is_measured([is_coded(record) for group in records for record in group], "bytes")
    columns: dict[str, Sequence[object]] = {
        "learner": [element("a", name, href=f"#run-{group[0][0]}") for name, group in groups.items()],
        "bits/byte": [_mean("bits_per_byte", group) for group in groups.values()],
        **({} if isinstance(found, str) else _differences(found.differences)),
        size: [round(_mean("archive_bytes", group)) for group in groups.values()],
        "verified": [_words(map(verified_word, group)) for group in records],
    }
    if max(map(len, records)) > 1:
        columns["seeds"] = [_words(str(seed_of(record["config"])) for record in group) for group in records]
    return html_table(Table("Ranking", columns, found if isinstance(found, str) else _about(found), [0], n_narrow=3))


def _differences(found: Sequence[Difference]) -> dict[str, list[str | None]]:
    digits = _digits(found)
    return {
        "more than the best": [None, *(_more(each, digits) for each in found)],
        "on another such text": [None, *(_on_another_text(each, digits) for each in found)],
    }


def _about(found: Comparison) -> str:
    """What the intervals are for."""
    levels = [each.intervals.confidence for each in found.differences if each.intervals]
    about = f"Intervals of {levels[0]:.0%}: ± is for the mean over such texts." if levels else TOO_SHORT
    return f"{about} Data: {found.rows}." if found.rows else about


def _half(difference: Difference) -> float | None:
    """Half of the confidence interval, in percent of the best."""
    found = difference.intervals
    return None if found is None else difference.in_percent(found.mean_high_bits - difference.bits)


def _digits(differences: Sequence[Difference]) -> int:
    """Decimals that show two digits of the smallest interval: one or two, of differences below 1 % up to four."""
    least = min(filter(None, map(_half, differences)), default=0.1)
    most = 2 if min(abs(each.percent) for each in differences) >= 1 else 4
    return min(most, max(1, 1 - math.floor(math.log10(least))))


def _more(difference: Difference, digits: int) -> str:
    half = _half(difference)
    return f"{_signed(difference.percent, digits)}{'' if half is None else f' ± {half:.{digits}f}'} %"


def _on_another_text(difference: Difference, digits: int) -> str | None:
    if (found := difference.intervals) is None:
        return None
    low, high = map(difference.in_percent, (found.text_low_bits, found.text_high_bits))
    return f"{_signed(low, digits)} to {_signed(high, digits)} %"


def _signed(value: float, digits: int) -> str:
    return f"{round(value, digits) + 0.0:+.{digits}f}"  # no -0.0


def _words(words: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(words))
