"""prequential references: codes beside the learner's, which tell what its code length is made of."""

import argparse
import hashlib
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from prequential.cli.failures import for_each
from prequential.cli.options import add_model, add_runtime, add_verbosity, config, count, n_bytes, runtime

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from prequential.measure.study.references import References

TITLES = ("code", "bits", "bits/byte", "uncounted", "bits/byte")
ABOVE_FINAL = (0.1, 0.5, 1.0)  # bits per byte
FIRST_BLOCK_BYTES = 1 << 10


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declares the subcommand."""
    parser = commands.add_parser(
        "references",
        help="explain a code length by other codes of the same corpus",
        description="Code each corpus with the GPT alone as it learns, with its last weights, with the weights that another "
        "corpus teaches, retrained at each doubling, and by counting; and split the code length in learning and data.",
    )
    parser.add_argument(
        "names", nargs="+", metavar="CORPUS", help="file, folder, sample:NAME, hf:SOURCE, shards:FOLDER or -"
    )
    parser.add_argument("--train", metavar="OTHER", help="a corpus to learn from before, for the row `frozen`")
    parser.add_argument("--limit", type=n_bytes, metavar="BYTES", help="only the beginning of each corpus")
    parser.add_argument(
        "--first-block",
        type=n_bytes,
        default=FIRST_BLOCK_BYTES,
        metavar="BYTES",
        help="of the row `blocks`: sent as it is (default: 1K)",
    )
    parser.add_argument(
        "--epochs", type=count, default=1, metavar="N", help="of the row `blocks`: passes over all before a block"
    )
    parser.add_argument(
        "--window",
        type=n_bytes,
        metavar="BYTES",
        help="the end that says what the data cost (default: an eighth, at most 64K)",
    )
    parser.add_argument(
        "--epsilon",
        type=float,
        action="append",
        metavar="BITS",
        help="bits/byte to ask for; may be repeated (default: 0.1, 0.5 and 1 above the end's)",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a line, not tables")
    add_model(parser)
    add_runtime(parser)
    add_verbosity(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Measures every corpus; returns the exit code."""
    if args.first_block < 1 or args.limit == 0 or args.window == 0:
        args.parser.error("--first-block, --limit and --window are at least 1")
    from prequential import __version__
    from prequential.errors import ConfigError
    from prequential.measure.record import environment
    from prequential.measure.study.references import measure_references
    from prequential.online.limits import check_memory

    args.pure = args.config is None  # the GPT alone in any case; a file says so itself
    learner, machine = config(args), runtime(args)
    if learner.gpt is None or learner.mixer is not None:
        args.parser.error('references are of the GPT alone: give --config a GPT, and "mixer": null')
    assert learner.gpt
    learner = replace(learner, gpt=replace(learner.gpt, contexts=()))  # its weights are to be sent

    def measure(name: str) -> None:
        check_memory(learner, args.max_memory)
        with _opened(name, args.limit) as (source, corpus), _opened(args.train, args.limit) as (other, train):
            assert source is not None
            if args.window is not None and args.window > len(source):
                raise ConfigError(f"--window {args.window} is longer than the corpus, {len(source)} bytes")
            found = measure_references(
                source,
                learner,
                machine,
                other=other,
                first_bytes=args.first_block,
                epochs=args.epochs,
                window_bytes=args.window,
                say=_say_nothing if args.quiet or not sys.stderr.isatty() else partial(_say, name),
            )
        figures = _figures(found, args.epsilon)
        if args.json:
            about = {"kind": "references", "corpus": corpus, "train": train, "config": learner.to_dict()}
            print(json.dumps({**about, **figures, "environment": environment(machine, __version__, learner)}))
        else:
            print(f"{name}, {found.split.code_bits:,.0f} bits by the GPT as it learns\n\n{_report(figures)}\n")
        sys.stdout.flush()

    return for_each(args.names, measure, verbose=args.verbose)


def _say(name: str, text: str) -> None:
    print(f"{name}: {text}", file=sys.stderr)


def _say_nothing(text: str) -> None:
    pass


@contextmanager
def _opened(
    name: str | None, limit_bytes: int | None
) -> Iterator[tuple["NDArray[np.uint8] | None", dict[str, Any] | None]]:
    """The beginning of a corpus, and what records say of it; nothing of None."""
    from prequential.corpora.sources import open_corpus

    if name is None:
        yield None, None
        return
    with open_corpus(name) as corpus:
        source = corpus.bytes()[:limit_bytes]
        digest = hashlib.blake2b(source.tobytes(), digest_size=32).hexdigest()
        yield source, {**corpus.describe(), "n_bytes": len(source), "blake2b": digest}


def _figures(found: "References", epsilons: list[float] | None) -> dict[str, Any]:
    """All that is printed, as JSON values."""
    from prequential.measure.study.references import sample_complexity, surplus_bits

    split = found.split
    wanted = epsilons or [split.final_bits_per_byte + above for above in ABOVE_FINAL]
    return {
        "references": [reference.to_record() for reference in found.references],
        "split": vars(split),
        "regret_bits": float(found.regret.bits[-1]),
        "thresholds": [
            {
                "epsilon": epsilon,
                "surplus_bits": surplus_bits(found.curve, epsilon),
                "sample_bytes": sample_complexity(found.curve, epsilon, split.window_bytes),
            }
            for epsilon in wanted
        ],
    }


def _report(figures: dict[str, Any]) -> str:
    from prequential.measure.table import format_table

    codes, split = figures["references"], figures["split"]
    n_bytes = codes[0]["n_bytes"]
    rows = [
        [
            c["name"], f"{c['counted_bits']:,}", f"{c['bits_per_byte']:.4f}",
            *((f"{c['uncounted_bits']:,}", f"{c['uncounted_bits_per_byte']:.4f}") if c["model_bytes"] else ("", "")),
        ]
        for c in codes
    ]  # fmt: skip
    parts = [
        ["code length", f"{split['code_bits']:,.0f}", f"{split['code_bits'] / n_bytes:.4f}"],
        ["= data", f"{split['data_bits']:,.0f}", f"{split['final_bits_per_byte']:.4f}"],
        ["+ learning", f"{split['learning_bits']:,.0f}", f"{split['learning_bits'] / n_bytes:.4f}"],
        ["regret to hindsight", f"{figures['regret_bits']:,.0f}", f"{figures['regret_bits'] / n_bytes:.4f}"],
    ]
    reached = [
        [
            f"{t['epsilon']:.4f}",
            f"{t['surplus_bits']:,.0f}",
            f"> {n_bytes:,}" if t["sample_bytes"] is None else f"{t['sample_bytes']:,}",
        ]
        for t in figures["thresholds"]
    ]
    return "\n\n".join(
        [
            format_table(TITLES, rows),
            "\n".join(f"{c['name']}: {c['shows']}" for c in codes),
            f"uncounted: without weights or counts, which is no code. data: what all bytes would cost at the rate of the last "
            f"{split['window_bytes']:,}.",
            format_table(("split", "bits", "bits/byte"), parts),
            format_table(("epsilon", "surplus bits", "bytes to reach it"), reached),
        ]
    )
