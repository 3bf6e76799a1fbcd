"""Compare runs over the same corpus: on this text, with other seeds, on other texts.

The first run named is the reference. Runs that differ only in the seed form one group. Records of `heldout` or `monorepo`
over the same documents are compared, too (docs/MEASURES.md).
"""

import argparse
import os

from prequential.cli import options
from prequential.cli.streams import print_result
from prequential.errors import ConfigError

COMPARED = {
    "runs: RUN ...": f"{options.RUN}; or FILE.jsonl:NUMBER of a record (without a number: the last); two or more",
    "--group NAMES": "labels, one for each run; runs with the same label are averaged (default: those that differ only in the "
    "seed)",
}


def run(args: argparse.Namespace) -> int:
    if len({*map(os.path.realpath, args.runs)}) < len(args.runs):
        raise ConfigError(f"one of {', '.join(args.runs)} is given twice: a run does not differ from itself")
    from prequential.comparison.compare import compare

    comparison = compare(args.runs, groups=args.group)
    losses = [(getattr(each, "loss", ""), f"{each.bits_per_byte:+.4f}") for each in comparison.differences]
    figure = "\n".join(rate for loss, rate in losses if loss == losses[0][0])
    print_result(args, str(comparison), comparison.to_dict(), figure=figure, rows=comparison.to_frame)
    return 0


OPTIONS = (options.Group(COMPARED), options.FORMATS)
COMMAND = options.Command("compare", __doc__, "latest book.txt-2026", options=OPTIONS, run=run, runs_of=("runs",))
