"""Measure the loss of the text that new commits add to a git repository.

The learner is trained on the tree of the repository at --since. Its loss is measured on the text that later commits added. Each
measurement is a point of a series; the next point begins where the last point ended (docs/MEASURES.md). Trained models are scored
on such text by `heldout --test git:REPO?since=...`.
"""

from __future__ import annotations

import argparse
import os
from functools import partial
from pathlib import Path

from prequential.cli import options
from prequential.cli.heldout import show
from prequential.cli.streams import progress_bar

WINDOW = {
    "repository: REPO": "root of a git repository",
    "--since DATE|COMMIT *": "beginning of a new series; an existing series continues from its end",
    "--until DATE|COMMIT [HEAD] *": "end of the window",
    "--languages NAMES *": "use only these languages, such as Python,Rust (default: all known languages)",
    **options.CONTEXT,
    "--train-limit BYTES": "train only on the beginning of the tree",
    "--series FILE *": "append the point to this file (default: runs/REPO.series.jsonl)",
}
OF_EQUAL_NAME = ("since", "until", "languages", "context", "train_limit")
OPTIONS = (options.Group(WINDOW), options.FORMATS, *options.LEARNER)


def run(args: argparse.Namespace) -> int:
    options.refuse(args, options.given_of(args, "audit_every"), "monorepo has no audit")
    from prequential.heldout_loss.monorepo import monorepo

    name = Path(os.path.realpath(args.repository)).name.removesuffix(".git")
    series = Path(args.series or f"runs/{name or 'repo'}.series.jsonl")
    with progress_bar("", quiet=args.quiet) as watch:
        monorepo(
            args.repository,
            **{name: getattr(args, name) for name in OF_EQUAL_NAME},
            series=series,
            config=options.given_config(args),
            runtime=options.runtime(args),
            on_progress=watch,
            show=partial(show, args),  # before it is appended, which may fail
        )
    return 0


COMMAND = options.Command("monorepo", __doc__, ". --since HEAD~100", options=OPTIONS, run=run, inputs=("repository",))
