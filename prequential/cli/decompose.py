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
from prequential.cli.streams import for_each
from prequential.printable import format_table, printable

if TYPE_CHECKING:
    from prequential.model.config import Config
    from prequential.online.runtime import Runtime

ROWS = {
    "code_bits": "prequential code length",
    "data_bits": "= data, at the expected final rate",
    "learning_bits": "+ learning (epiplexity, estimated)",
    "hindsight_bits": "hindsight, under the last weights",
    "regret_bits": "regret to hindsight",
    "weights_bits": "the last weights, as int8 levels",
}
DATA = "data: the cost of all bytes at the final rate of the expected curve, a smooth fit to the costs of all segments."
HINDSIGHT = "hindsight is a code only together with the last weights."
WORDS = (
    "learning: the prequential estimate of epiplexity (Finzi et al. 2026), close to excess description length (Donoway et al. "
    "2026). It holds for this learner and is not the least over sizes and durations. It assumes one pass over the data. Its "
    "final loss is the end of the expected curve, with the weights as they learned, not averaged weights."
)
REPEATS = "This run also counts repeated rows: it is no single pass."


def add_options(parser: argparse.ArgumentParser) -> None:
    options.add_corpora(parser)
    epsilon = "threshold in bits/byte; can be repeated (default: 0.1, 0.5 and 1 above the rate at the end)"
    options.add(parser, options.LIMIT | {"--epsilon BITS ...": epsilon} | options.JSON)
    options.add_learner(parser)


def run(args: argparse.Namespace) -> int:
    from prequential.evaluation.runs import is_run

    if any(map(is_run, args.names)):
        given = [*options.given_learner_options(args), *options.given_of(args, "limit")]
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
    from prequential.decomposition.decompose import curve_record, expected_curve
    from prequential.evaluation.curves import MODEL
    from prequential.evaluation.runs import read_run
    from prequential.evaluation.summary import is_reported, model_summary, proof

    run = read_run(name)
    about = {each: run.record[each] for each in ("corpus", "config", "coding") if each in run.record}
    found = curve_record(expected_curve(run.curves[MODEL]), args.epsilon or None)
    if args.json:
        print(json.dumps({"kind": "decomposition", "run": name, **about, **found}), flush=True)
        return
    what = proof(run.record) if is_reported(run.record) else "ideal code length"
    title = f"{name}, {found['code_bits']:,.0f} bits ({what}) by {model_summary(run.record['config'])}, as it learned"
    repeats = [REPEATS] if run.record.get("reported", {}).get("counts_repeats") else []
    print(f"{printable(title)}\n\n{_tables(found, *repeats)}\n", flush=True)


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
        found = decompose(source.symbols[:], config, runtime, on_stage=say)
        corpus = source.record()
    record = decomposition_record(found, args.epsilon or None)
    if args.json:
        about = {"kind": "decomposition", "corpus": corpus, "config": config.to_dict()}
        print(json.dumps({**about, **record, "environment": environment(runtime, config)}), flush=True)
        return
    gpt = config.gpt
    assert gpt
    shape = f"GPT {gpt.n_layers} x {gpt.width}, window {gpt.window}, without contexts"
    title = f"{printable(name)}, {record['code_bits']:,.0f} bits (ideal code length) by the {shape}, as it learns"
    print(f"{title}\n\n{_tables(record)}\n", flush=True)


def _tables(record: dict[str, Any], *notes: str) -> str:
    """The parts of the code length and the thresholds."""
    from prequential.decomposition.decompose import MIN_CELLS

    n_bytes, interval = record["n_bytes"], (f"{record['level']:.0%} from", "to")
    rows = [_part_row(n_bytes, record[name], title) for name, title in ROWS.items() if name in record]
    parts = [
        "\n".join([DATA, WORDS, *([HINDSIGHT] if "hindsight_bits" in record else []), *notes]),
        format_table(("part", "bits", "bits/byte", *interval), rows),
        format_table(
            ("epsilon", "surplus bits", *interval),
            [[f"{each['epsilon']:.4f}", *_figures(each["surplus_bits"])] for each in record["thresholds"]],
        ),
    ]
    if record["learning_bits"]["low"] is None:
        parts.append(f"no intervals: {record['n_cells']} cells, {MIN_CELLS} are needed")
    return "\n\n".join(parts)


def _part_row(n_bytes: int, bits: dict[str, Any] | float, title: str) -> list[str]:
    figure: dict[str, Any] = bits if isinstance(bits, dict) else {"point": bits, "low": None, "high": None}
    point, *ends = _figures(figure)
    return [title, point, f"{figure['point'] / n_bytes:.4f}", *ends]


def _figures(figure: dict[str, Any]) -> list[str]:
    """The point and both ends of an interval; an end that is not known is empty."""
    return ["" if figure[name] is None else f"{figure[name]:,.0f}" for name in ("point", "low", "high")]
