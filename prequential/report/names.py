"""What learners are called on a page, and in which colour they are drawn: each name has one colour in every picture.

A learner is called by its preset, such as -2 or -5 --pure, or by its own name.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from prequential.evaluation.curves import GPT, MIXER, MODEL
from prequential.evaluation.runs import Run
from prequential.evaluation.summary import learner_label

PARTS = {GPT: "GPT alone", MIXER: "mixer alone"}


class Look(NamedTuple):
    """Labels and styles of lines by the name of their curve. A curve without an entry has its name, and its place as style."""

    labels: Mapping[str, str] = {}
    styles: Mapping[str, int] = {}

    def label(self, name: str) -> str:
        """What the line of this curve is called."""
        return self.labels.get(name, name)


def run_names(labels: Iterable[str], runs: Iterable[Run]) -> list[str]:
    """The label of each run's learner, with a number if it is repeated on the same bytes."""
    names: list[str] = []
    digests = [run.record["corpus"]["blake2b"] for run in runs]
    for label, digest in zip(labels, digests, strict=True):
        names.append(_free(label, [name for name, other in zip(names, digests, strict=False) if other == digest]))
    return names


def group_names(runs: Sequence[Run]) -> list[str]:
    """A name for each run, equal for runs of one configuration with different seeds."""
    configs = [{**run.record["config"], **({"seed": 0} if "seed" in run.record["config"] else {})} for run in runs]
    seeds = [run.record["config"].get("seed") for run in runs]
    found = [(json.dumps(config, sort_keys=True), seed) for config, seed in zip(configs, seeds, strict=True)]
    keys = [(config, found[:i].count((config, seed))) for i, (config, seed) in enumerate(found)]  # and how often before
    labels = {key: learner_label(config) for key, config in zip(keys, configs, strict=True)}
    names = dict(zip(labels, distinct(labels.values()), strict=True))
    return [names[key] for key in keys]


def distinct(names: Iterable[str]) -> list[str]:
    """The names; a repeated one gets a number."""
    found: list[str] = []
    for name in names:
        found.append(_free(name, found))
    return found


def _free(name: str, taken: Sequence[str]) -> str:
    numbered = (f"{name} ({number})" if number > 1 else name for number in range(1, len(taken) + 2))
    return next(each for each in numbered if each not in taken)


def page_look(names: Sequence[str], runs: Sequence[Run]) -> Look:
    """One style for each name on a page: first the names of the runs, then parts and baselines, the best first."""
    rates: dict[str, float] = {}
    for run in runs:
        for name, curve in run.curves.items():
            if name != MODEL:
                rates[name] = min(float(curve.bits[-1] / curve.n_bytes[-1]), rates.get(name, float("inf")))
    others = sorted(rates, key=lambda name: (rates[name], name))
    return Look(PARTS, {name: style for style, name in enumerate(dict.fromkeys([*names, *others]))})


def run_look(look: Look, name: str) -> Look:
    """The look of a page in the section of one run: there the curve "model" is the run of this name."""
    return Look({**look.labels, MODEL: name}, {**look.styles, MODEL: look.styles[name]})
