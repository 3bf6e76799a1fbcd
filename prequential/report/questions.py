"""The frequently asked questions about a run, answered from its record alone."""

import json
import math
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from prequential_codecs.archive_header import GIVEN, OTHER, name_of_given

from prequential.evaluation.runs import ARCHIVE, Run
from prequential.model.presets import name_of
from prequential.report.markup import Html, element, join

Record = Mapping[str, Any]


def questions(run: Run) -> Html:
    """The questions with their answers, and the commands that repeat the run and test its archive."""
    record = run.record
    pairs = (join(element("dt", question), element("dd", answer)) for question, answer in _answers(record))
    test = f"\nprequential test {shlex.quote(f'{run.path.resolve().name}/{ARCHIVE}')}"
    commands = command(record) + ("" if OTHER in record["config"] else test)
    return join(element("dl", *pairs), element("pre", element("code", commands)), element("p", _origin(record)))


def _answers(record: Record) -> Iterator[tuple[str, str]]:
    config, is_other = record["config"], OTHER in record["config"]
    decoded = "The decoder read only the archive, and every byte matched the input."
    not_decoded = "This run did not decode the archive. The last command below does."
    exact = (
        "Yes, exactly. Each bit of a byte is coded with two integer frequencies, one for 0 and one for 1. "
        f"Each is at least 1, and their sum is 65,536. {decoded if record['verified'] else not_decoded}"
    )
    checked = (
        "Each distribution of the learner was checked, and became integer frequencies of a fixed sum. In some runs, drawn at "
        "random, later symbols were changed, and its predictions did not move."
    )
    yield "Do the probabilities sum to one?", checked if is_other else exact
    yield "Is this the full file or a subset?", _extent(record)
    yield "Bytes or tokens?", f"bits/byte divides by the bytes of the raw input, {record['corpus']['n_bytes']:,}."
    not_counted = "No: the learner's source, what it knew before and its tokenizer are not counted."
    yield "Are the model, a tokenizer or a dictionary counted?", not_counted if is_other else _counted(record)
    seed = "The learner has no seed that this program knows." if is_other else f"The seed is {config['seed']}."
    yield "Was the seed selected?", f"{seed} {_selection(record)}"
    if is_other:
        proof = record.get("coding", "not said")
        yield "What proves the figure?", f"{proof}. The command, where its module can be imported:"
    else:
        again = "The archive decodes on any machine, and the same command makes the same archive, byte for byte:"
        yield "Has anyone else reproduced it?", f"A record cannot say. {again}"


def _extent(record: Record) -> str:
    corpus = record["corpus"]
    source = f"the {corpus['kind']} {corpus.get('name')}" if "kind" in corpus else "data given in memory"
    content = f"{corpus['n_bytes']:,} bytes of {source}, BLAKE2b {corpus['blake2b']}"
    if "limit_bytes" not in record:
        return f"{content}. The record does not say whether the input continued after them."
    if record["limit_bytes"] is None or record["limit_bytes"] > corpus["n_bytes"]:
        return f"The full input: {content}."
    return f"At most the first {record['limit_bytes']:,} bytes: {content}."


def _counted(record: Record) -> str:
    before = "Nothing is trained beforehand: weights and tables start from the seed and learn from each byte after it is coded."
    if GIVEN in record["config"]:
        given = name_of_given(record["config"][GIVEN])
        before = f"Before the first byte the learner had read {given}, which is not counted."
    return (
        f"{before} There is no tokenizer and no dictionary. "
        f"The {record['bits_per_byte']:.4f} bits/byte do not include the decoder's source, {record['decoder_bytes']:,} bytes "
        f"zipped. The total cost includes it: {record['total_bits'] - record['archive_bits']:,.0f} bits above the archive's."
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
