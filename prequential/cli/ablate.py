"""Measure what each feature of a learner saves, at several sizes.

The features of a configuration are switched on (or off) one by one, at several sizes of the GPT. An interval says how many bits
each saves. The options of the learner give the full configuration. Finished runs are not repeated (docs/STUDIES.md).
"""

import argparse

from prequential.cli import options
from prequential.cli.sweep import add_study, check_seeds, run_study


def add_options(parser: argparse.ArgumentParser) -> None:
    add_study(parser, {"--runs FOLDER [runs]": "folder for new run folders, and of finished ones to use again"})
    options.add(
        parser.add_argument_group("ablation"),
        {
            "--sizes SIZES [64x1,128x2]": "sizes WIDTHxLAYERS",
            "--features NAMES": "features to switch (default: all features except mlp and mixer; --dry-run lists them)",
            "--confidence P [0.9]": "level of each interval, and of all features together",
        },
    )


def run(args: argparse.Namespace) -> int:
    check_seeds(args)
    from prequential.sweeps.ablate import plan_ablation
    from prequential.sweeps.finished import corpus_key

    runtime, config = options.runtime(args), options.learner_config(args)
    with options.usage_errors(args):
        ablation = plan_ablation(
            config,
            sizes=args.sizes,
            features=args.features,
            seeds=args.seeds,
            runtime=runtime,
            confidence=args.confidence,
        )
    return run_study(args, ablation.study, runtime, corpus_key(args.source, args.limit))
