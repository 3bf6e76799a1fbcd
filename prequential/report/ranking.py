"""Runs over the same bytes, the best first: the conclusion in one sentence, a table, and two pictures."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

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


class Rival(NamedTuple):
    """A run on a page, which counts its runs from 1. Runs that differ only in the seed have one name."""

    name: str
    run: Run
    number: int


class Ranking(NamedTuple):
    """The rivals by their names, the best first. compared: the differences from the best; None: `why` says why not."""

    groups: Mapping[str, Sequence[Rival]]
    compared: Comparison | None
    why: str = ""

    @property
    def best(self) -> str:
        """The name of the first group."""
        return next(iter(self.groups))


def rivals_of(runs: Sequence[Run]) -> list[list[Rival]]:
    """The runs of each corpus, with the numbers that they have on the page."""
    corpora: dict[str, list[tuple[Run, int]]] = {}
    for number, run in enumerate(runs, 1):
        corpora.setdefault(run.record["corpus"]["blake2b"], []).append((run, number))
    named = ((run_panels.group_names([run for run, _ in same]), same) for same in corpora.values())
    return [[Rival(name, *run) for name, run in zip(names, same, strict=True)] for names, same in named]


def rank(rivals: Sequence[Rival]) -> Ranking:
    """The ranking of runs over the same bytes by their bits/byte: the mean of each group."""
    groups: dict[str, list[Rival]] = {}
    for rival in rivals:
        groups.setdefault(rival.name, []).append(rival)
    ordered = dict(sorted(groups.items(), key=lambda group: _rate(group[1])))
    if len(ordered) == 1:
        return Ranking(ordered, None, "These runs differ only in the seed.")
    every = [rival for group in ordered.values() for rival in group]
    try:
        return Ranking(ordered, compare([each.run for each in every], groups=[each.name for each in every]))
    except (ConfigError, CorpusError) as error:
        return Ranking(ordered, None, f"No differences: {error}.")


def _rate(group: Sequence[Rival]) -> float:
    return sum(rival.run.record["bits_per_byte"] for rival in group) / len(group)


def conclusion(ranking: Ranking) -> str:
    """Which learner needs the least, and by how much."""
    group = ranking.groups[ranking.best]
    rate = f"{ranking.best} needs {_rate(group):.2f} bits/byte on {corpus_name(group[0].run)}"
    rate += f", the least of {len(ranking.groups)} learners" if len(ranking.groups) > 1 else f" in {len(group)} runs"
    if ranking.compared is None:
        return rate
    second, note = ranking.compared.differences[0], ranking.compared.proof
    half = _half(second)
    doubt = ", so either may be the better" if half is not None and abs(second.percent) <= half else ""
    more = _more(second, _digits([second])).lstrip("+")
    return f"{rate}; {second.other.label} needs {more} more{doubt}" + (f" ({note})" if note else "")


def shown(ranking: Ranking, look: Look) -> Iterator[Html]:
    """The table, the learning curves, and the bits that the best saves."""
    yield html_table(ranking_table(ranking))
    curves = {name: mean_curve([each.run.curves[MODEL] for each in group]) for name, group in ranking.groups.items()}
    panels = (run_panels.learning(curves, look), run_panels.saved(curves, look))
    yield from (html_figure(panel) for panel in panels if panel.series)


def ranking_table(ranking: Ranking) -> Table:
    """The groups, what each needs more than the best, and what to expect on another text."""
    groups = [[rival.run.record for rival in group] for group in ranking.groups.values()]
    size = what_is_measured([is_coded(record) for group in groups for record in group], "bytes")
    names = {name: group[0].number for name, group in ranking.groups.items()}
    columns: dict[str, Sequence[object]] = {
        "learner": [element("a", name, href=f"#run-{number}") for name, number in names.items()],
        "bits/byte": [*map(_rate, ranking.groups.values())],
        **(_differences(ranking.compared) if ranking.compared else {}),
        size: [round(sum(record["archive_bytes"] for record in group) / len(group)) for group in groups],
        "verified": [_words(map(verified_word, group)) for group in groups],
    }
    if max(map(len, groups)) > 1:
        columns["seeds"] = [_words(str(seed_of(record["config"])) for record in group) for group in groups]
    return Table("Ranking", columns, _about(ranking.compared) if ranking.compared else ranking.why, [0])


def _differences(compared: Comparison) -> dict[str, list[str | None]]:
    digits = _digits(compared.differences)
    return {
        "more than the best": [None, *(_more(each, digits) for each in compared.differences)],
        "on another such text": [None, *(_on_another_text(each, digits) for each in compared.differences)],
    }


def _about(compared: Comparison) -> str:
    """What the differences are, and what their intervals are for."""
    found = [each.intervals for each in compared.differences if each.intervals]
    populations = {
        f"At {each.confidence:.0%}, ± holds {each.mean_of}; the next column, {each.text_of}." for each in found
    }
    rows = f"Their figures are {compared.proof}; {compared.rows}." if compared.rows else ""
    texts = [
        "Differences are of ideal code lengths; with one seed each, exact for this text.",
        *sorted(populations),
        f"To name the best of {compared.n_runs} runs costs {compared.choice_bits:.2f} more bits.",
        rows,
    ]
    return " ".join(filter(None, texts))


def _half(difference: Difference) -> float | None:
    """Half of the confidence interval, in percent of the best."""
    found = difference.intervals
    return None if found is None else difference.in_percent(found.mean_high_bits - difference.bits)


def _digits(differences: Sequence[Difference]) -> int:
    """Decimals that show two digits of the smallest interval, from one to four."""
    least = min(filter(None, map(_half, differences)), default=0.1)
    return min(4, max(1, 1 - math.floor(math.log10(least))))


def _more(difference: Difference, digits: int) -> str:
    half = _half(difference)
    margin = "" if half is None else f" ± {half:.{digits}f}"
    return f"{_signed(difference.percent, digits)}{margin} %"


def _on_another_text(difference: Difference, digits: int) -> str | None:
    if (found := difference.intervals) is None:
        return None
    low, high = map(difference.in_percent, (found.text_low_bits, found.text_high_bits))
    return f"{_signed(low, digits)} to {_signed(high, digits)} %"


def _signed(value: float, digits: int) -> str:
    return f"{round(value, digits) + 0.0:+.{digits}f}"  # no -0.0


def _words(words: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(words))
