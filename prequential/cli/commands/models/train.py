"""prequential train: a learner that has read a corpus, kept in a folder."""

import argparse
import json
import sys
from typing import Any

from prequential.cli.failures import for_each
from prequential.cli.options import add_model, add_runtime, add_verbosity, config, n_bytes, runtime
from prequential.cli.progress import progress_bar


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declares the subcommand."""
    parser = commands.add_parser(
        "train",
        help="let a learner read a corpus, and keep it",
        description="Let a learner read a corpus from its first byte to its last, say what that cost, and store what it has "
        "become: a folder for `heldout` and `export`, and for `load_model` in Python (docs/MODELS.md).",
    )
    parser.add_argument("name", metavar="CORPUS", help="file, folder, sample:NAME, hf:SOURCE, shards:FOLDER or -")
    parser.add_argument("-o", "--output", metavar="MODEL", required=True, help="the new folder")
    parser.add_argument("--limit", type=n_bytes, metavar="BYTES", help="only the beginning of the corpus")
    parser.add_argument(
        "--resume",
        action="store_true",
        help="go on from MODEL.checkpoint, if an interrupted run left it (docs/RUNS.md)",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object, not a line")
    add_model(parser)
    add_runtime(parser)
    add_verbosity(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Trains and stores; returns the exit code."""
    from prequential import __version__
    from prequential.codecs.archive_header import Header
    from prequential.corpora.sources import open_corpus
    from prequential.files import check_new_folder
    from prequential.measure.heldout.trained import describe
    from prequential.online.flops import check_work
    from prequential.online.limits import check_memory
    from prequential.online.model_store import save_model
    from prequential.online.training import insured, train

    learned, machine = config(args), runtime(args)

    def train_on(name: str) -> None:
        check_new_folder(args.output)
        check_memory(learned, args.max_memory, machine)
        check_work(learned)
        with insured(args.output, resume=args.resume) as checkpoints, open_corpus(name) as corpus:
            symbols = corpus.bytes()[: args.limit]
            about = describe(corpus, symbols)
            header = Header(
                n_bytes=len(symbols),
                blake2b=bytes.fromhex(about["blake2b"]),
                config=learned.to_dict(),
                corpus=corpus.describe(),
            )
            learner = machine.learner(learned)
            with progress_bar(name, quiet=args.quiet) as show:
                done = train(learner, symbols, show, (checkpoints, header))
            trained_on = {
                **about,
                "limit_bytes": args.limit,
                "code_bits": done.code_bits,
                "prequential": __version__,
            }
            digest = save_model(args.output, learner, trained_on)
        record = {"kind": "training", "model": args.output, "digest": digest, "trained_on": trained_on}
        print(json.dumps({**record, "config": learned.to_dict()}) if args.json else _line(record))
        sys.stdout.flush()

    return for_each([args.name], train_on, verbose=args.verbose)


def _line(record: dict[str, Any]) -> str:
    corpus = record["trained_on"]
    return (
        f"{corpus['name']}: {corpus['n_bytes']:,} bytes read at {corpus['code_bits'] / corpus['n_bytes']:.4f} bits/byte "
        f"(prequential); model {record['digest'][:16]} in {record['model']}"
    )
