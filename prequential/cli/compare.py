"""Compare runs over the same corpus: on this text, with other seeds, on other texts.

The first run of `evaluate` is the reference. Runs that differ only in the seed form one group. Records of `heldout` or `monorepo`
over the same documents are compared, too (docs/MEASURES.md).
"""

import argparse
import json

from prequential.cli import options
from prequential.cli.streams import fitted

COMPARED = {
    "runs: RUN ...": f"{options.RUN}; or FILE.jsonl:NUMBER of a record (without a number: the last); two or more",
    "--group NAMES": "labels, one for each run; runs with the same label are averaged (default: those that differ only in the "
    "seed)",
    **options.JSON,
    "--confidence NUMBER [0.95]": "level of the intervals",
}


def run(args: argparse.Namespace) -> int:
    from prequential.comparison.compare import compare

    comparison = compare(args.runs, groups=args.group, confidence=args.confidence)
    print(json.dumps(comparison.to_dict(), allow_nan=False) if args.json else fitted(str(comparison)))
    return 0


COMMAND = options.Command(name="compare", text=__doc__, options=(options.Group(COMPARED),), run=run, runs_of=("runs",))
