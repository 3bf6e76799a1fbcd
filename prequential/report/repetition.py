"""How to repeat a run, from its record alone: the bytes, the choice, the commands, and the program that made it."""

import json
import math
import shlex
from collections.abc import Mapping
from typing import Any

from prequential_codecs.archive_header import GIVEN, OTHER, name_of_given

from prequential.evaluation.runs import ARCHIVE, Run
from prequential.model.presets import name_of
from prequential.report.markup import Html, element, join

Record = Mapping[str, Any]


def repetition(run: Run) -> Html:
    """What was read and chosen, and the commands that repeat the run and test its archive."""
    record, is_other = run.record, OTHER in run.record["config"]
    test = f"\nprequential test {shlex.quote(f'{run.path.resolve().name}/{ARCHIVE}')}"
    own = "The archive decodes on any machine, and the same command makes the same archive, byte for byte:"
    other = f"Proof: {record.get('coding', 'not said')}. The command, where the learner's module can be imported:"
    return join(
        element("p", _extent(record)),
        element("p", f"{_given(record)}{_selection(record)}"),
        element("p", other if is_other else own),
        element("pre", element("code", command(record) + ("" if is_other else test))),
        element("p", _origin(record)),
    )


def _extent(record: Record) -> str:
    corpus = record["corpus"]
    source = f"the {corpus['kind']} {corpus.get('name')}" if "kind" in corpus else "data given in memory"
    content = f"{corpus['n_bytes']:,} bytes of {source}, BLAKE2b {corpus['blake2b']}"
    if "limit_bytes" not in record:
        return f"{content}. The record does not say whether the input continued after them."
    if record["limit_bytes"] is None or record["limit_bytes"] > corpus["n_bytes"]:
        return f"The full input: {content}."
    return f"At most the first {record['limit_bytes']:,} bytes: {content}."


def _given(record: Record) -> str:
    if OTHER in record["config"]:
        return "The learner's source, what it knew before and its tokenizer are not counted. "
    if GIVEN not in record["config"]:
        return ""
    return (
        f"Before the first byte the learner had read {name_of_given(record['config'][GIVEN])}, which is not counted. "
    )


def _selection(record: Record) -> str:
    n_configs, n_seeds = record["n_configs"], record["n_seeds"]
    if n_configs * n_seeds == 1:
        return "The user declared that one configuration and one seed were tried: nothing was selected."
    return (
        f"The user declared it as the best of {n_configs:,} configurations and {n_seeds:,} seeds. To name the selected one "
        f"costs {math.log2(n_configs) + math.log2(n_seeds):.1f} bits, which the total cost includes."
    )


def _origin(record: Record) -> str:
    environment = record["environment"]
    commit = environment.get("git_commit") or ""
    changed = ", with files that differ from it" if commit.endswith("-dirty") else ""
    where = f", commit {commit.removesuffix('-dirty')}{changed}" if commit else ""
    return f"Made with prequential {environment['versions']['prequential']}{where}."


def command(record: Record) -> str:
    """The shell command that repeats the run.

    A configuration that is not a preset is expected in the file config.json. Data sets, shards, standard input and git windows
    appear as CORPUS: the record has their digest, but not every option that they were opened with.
    """
    corpus = record["corpus"]
    name = str(corpus.get("name") or "FILE")
    source = {"file": name, "tree": name, "sample": f"sample:{name}", None: name}.get(corpus.get("kind"), "CORPUS")
    tried = {"--configs-tried": record["n_configs"], "--seeds-tried": record["n_seeds"]}
    declared = [f"{option} {n}" for option, n in tried.items() if n != 1]
    options = [*_model_options(record["config"]), f"--limit {corpus['n_bytes']}", *declared]
    return " ".join(["prequential evaluate", *options, "--verify --", shlex.quote(source)])


def _model_options(config: Record) -> list[str]:
    if other := config.get(OTHER):
        values = [shlex.quote(f"{name}={json.dumps(value)}") for name, value in other["arguments"].items()]
        return ["--learner", shlex.quote(other["name"]), *(f"--learner-arg {value}" for value in values)]
    if GIVEN in config:
        own = {name: value for name, value in config.items() if name != GIVEN}
        return [*_model_options(own), "--given GIVEN"]
    name = name_of(config)
    return [name] if name else ["--config config.json"]
