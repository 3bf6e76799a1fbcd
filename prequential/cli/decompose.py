"""Split a code length into the cost of learning and the rest.

The learner is the GPT alone. Its code length is compared with the code length under its last weights. For a run folder, also of
a training loop, only the curve is split (docs/MEASURES.md).
"""

import argparse
import json
import sys
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from prequential.cli import options
from prequential.cli.streams import fitted, for_each
from prequential.printable import format_table, printable

if TYPE_CHECKING:
    from prequential.model.config import Config
    from prequential.online.runtime import Runtime

ROWS = {
    "code_bits": "prequential code length",
    "data_bits": "= data, at the expected final rate",
    "learning_bits": "+ learning (epiplexity, estimated)",
    "hindsight_bits": "hindsight, without the last weights",
    "regret_bits": "regret to hindsight",
    "weights_bits": "the last weights, as int8 levels",
}
REPEATS = "This run also counts repeated rows, so it reads some data more than once."


def add_options(parser: argparse.ArgumentParser) -> None:
    options.add_corpora(parser)
    orders = "also learn N shuffled orders of the text: their mean curve tells learning from changes of the text"
    epsilon = "also print the surplus over this rate, in bits/byte; repeatable"
    options.add(parser, options.LIMIT | {"--orders N": orders, "--epsilon BITS ...": epsilon} | options.JSON)
    options.add_learner(parser)


def run(args: argparse.Namespace) -> int:
    from prequential.evaluation.runs import is_run

    if any(map(is_run, args.names)):
        given = [*options.given_learner_options(args), *options.given_of(args, "limit", "orders")]
        options.refuse(args, given, "a run folder has its learner and its bytes")
    config, runtime = _gpt_config(args), options.runtime(args)
    return for_each(args.names, partial(_split, args, config, runtime), verbose=args.verbose)


def _split(args: argparse.Namespace, config: "Config", runtime: "Runtime", name: str) -> None:
    from prequential.evaluation.runs import is_run

    if not is_run(name):
        _measure(args, config, runtime, name)
        return
    _show_run(args, name)


def _show_run(args: argparse.Namespace, name: str) -> None:
    """Splits the learning curve of a run folder. Nothing is learned, so there is no hindsight."""
    from prequential.decomposition.expected import curve_record, expected_curve
    from prequential.evaluation.curves import MODEL
    from prequential.evaluation.runs import read_run
    from prequential.evaluation.summary import is_reported, model_summary, proof

    run = read_run(name)
    about = {each: run.record[each] for each in ("corpus", "config", "coding") if each in run.record}
    found = curve_record(expected_curve(run.curves[MODEL]), args.epsilon)
    if args.json:
        print(json.dumps({"kind": "decomposition", "run": name, **about, **found}), flush=True)
        return
    what = proof(run.record) if is_reported(run.record) else "ideal code length"
    title = f"{name}, {found['code_bits']:,.0f} bits ({what}) by {model_summary(run.record['config'])}, as it learned"
    repeats = [REPEATS] if run.record.get("reported", {}).get("counts_repeats") else []
    print(fitted(f"{printable(title)}\n\n{_tables(found, *repeats)}\n"), flush=True)


def _gpt_config(args: argparse.Namespace) -> "Config":
    """The GPT of the options, without mixer and contexts, so that its weights can be sent; or a usage error."""
    args.pure = args.config is None  # a preset is taken without its mixer; a file must have none
    config = options.learner_config(args)
    if config.gpt is None or config.mixer is not None:
        args.parser.error('decompose uses the GPT alone: give a --config with a GPT and with "mixer": null')
    assert config.gpt
    return replace(config, gpt=replace(config.gpt, contexts=()))


def _measure(args: argparse.Namespace, config: "Config", runtime: "Runtime", name: str) -> None:
    from prequential.decomposition.decompose import decompose, decomposition_record
    from prequential.online.source import open_source
    from prequential.records.schema import environment

    def say(stage: str) -> None:
        if not args.quiet and sys.stderr.isatty():
            print(f"{printable(name)}: {stage}", file=sys.stderr)

    runtime.check(config)
    with open_source(name, args.limit) as source:
        found = decompose(source.symbols[:], config, runtime, n_orders=args.orders or 0, on_stage=say)
        corpus = source.record()
    record = decomposition_record(found, args.epsilon)
    if args.json:
        about = {"kind": "decomposition", "corpus": corpus, "config": config.to_dict()}
        print(json.dumps({**about, **record, "environment": environment(runtime, config)}), flush=True)
        return
    gpt = config.gpt
    assert gpt
    shape = f"GPT {gpt.n_layers} x {gpt.width}, window {gpt.window}, without contexts"
    title = f"{printable(name)}, {record['code_bits']:,.0f} bits (ideal code length) by the {shape}, as it learns"
    print(fitted(f"{title}\n\n{_tables(record)}\n"), flush=True)


def _tables(record: dict[str, Any], *notes: str) -> str:
    """The parts of the code length, the surplus at each threshold, and what follows."""
    n_bytes, interval = record["n_bytes"], (f"{record['level']:.0%} from", "to")
    rows = [_part_row(n_bytes, record[name], title) for name, title in ROWS.items() if name in record]
    rows += [_surplus_row(n_bytes, each) for each in record["thresholds"]]
    return "\n\n".join([format_table(("part", "bits", "bits/byte", *interval), rows), *notes, _conclusion(record)])


def _surplus_row(n_bytes: int, threshold: dict[str, Any]) -> list[str]:
    """Of a rate that is never reached only what this text shows of the surplus is known."""
    title, *figures = _part_row(n_bytes, threshold["surplus_bits"], f"surplus over {threshold['epsilon']:g} bits/byte")
    return [title, *figures] if threshold["is_reached"] else [title, f"> {figures[0]}", f"> {figures[1]}", "", ""]


def _conclusion(record: dict[str, Any]) -> str:
    from prequential.decomposition.expected import MIN_CELLS

    if changes := record["changes"]:
        where = ", ".join(f"{each['byte']:,} ({each['bits_per_byte']:+.2f} bits/byte)" for each in changes)
        remedy = "give --orders 4" if "hindsight_bits" in record else "shuffle it"
        return f"warning: the text changes at byte {where}: split it there, or {remedy}, before you trust the parts."
    learning, rate = record["learning_bits"], record["final_bits_per_byte"]
    if learning["low"] is None:
        return f"Give a longer text: {record['n_cells']} cells are too few for intervals, {MIN_CELLS} are needed."
    low, high = (learning[end] / record["code_bits"] for end in ("low", "high"))
    paid = f"{max(low, 0):.0%} to {high:.0%} of the bits paid for learning" if high > 0 else "No bits paid for learning"
    return f"{paid}; expect {rate['low']:.2f} to {rate['high']:.2f} bits/byte of more such text."


def _part_row(n_bytes: int, bits: dict[str, Any] | float, title: str) -> list[str]:
    figure: dict[str, Any] = bits if isinstance(bits, dict) else {"point": bits, "low": None, "high": None}
    point, *ends = _figures(figure)
    return [title, point, f"{figure['point'] / n_bytes:.4f}", *ends]


def _figures(figure: dict[str, Any]) -> list[str]:
    """The point and both ends of an interval; an end that is not known is empty."""
    return ["" if figure[name] is None else f"{figure[name]:,.0f}" for name in ("point", "low", "high")]
