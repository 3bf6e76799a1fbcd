"""Make a run from the log of a training run.

The log is a trainer_state.json of transformers, CSV, as Weights & Biases and TensorBoard export it, or JSON lines. Order and
repeats of the data are unknown, and every page says so. prequential.Recorder measures a run while it trains (docs/RECORDING.md).
"""

import argparse
import json

from prequential.cli import options
from prequential.cli.streams import fitted

LOG = {
    "--tokens NAME !": "column with the tokens so far (or the steps)",
    "--loss NAME !": "column with the mean loss since the last line, in nats",
    "--bytes-per-token NUMBER !": "mean bytes per token of this text",
    "--tokens-per-step N": "needed if --tokens names a column of steps",
    "--name NAME": "name of the model (default: the file)",
    "--data NAME": "name of the data; runs with equal names and lengths can be compared",
}
OPTIONS = {
    "log: FILE": "trainer_state.json, CSV with a line of names, or JSON lines",
    **LOG,
    "--parameters N": "parameters of the model, which a forecast of a larger one needs",
    **options.RUNS,
    **options.JSON,
}


def run(args: argparse.Namespace) -> int:
    from prequential.evaluation.summary import format_report
    from prequential.recording.imported import import_log

    names = [option.split()[0].removeprefix("--").replace("-", "_") for option in LOG]
    arguments = {"n_parameters": args.parameters} if args.parameters else {}
    run = import_log(args.log, args.runs, **{name: getattr(args, name) for name in names}, arguments=arguments)
    if args.json or not args.quiet:
        print(json.dumps(run.record) if args.json else fitted(format_report(run.record, folder=run.path)))
    return 0


EXAMPLE = "log.csv --tokens tokens --loss loss --bytes-per-token 4.2"
COMMAND = options.Command("import", __doc__, EXAMPLE, options=(options.Group(OPTIONS),), run=run, inputs=("log",))
