"""Make runs from logs of training runs.

It knows the standard output of nanoGPT, modded-nanogpt, nanochat, llm.c and torchtitan, JSON lines, trainer_state.json, CSV as
Weights & Biases and TensorBoard export it, event files of TensorBoard and .wandb files; --pattern reads any other. Order and
repeats of the data are unknown, and every page says so. prequential.Recorder measures a run while it trains (docs/RECORDING.md).
"""

import argparse

from prequential.cli import options
from prequential.cli.streams import print_result
from prequential.errors import ConfigError

LOG = {
    "--bytes-per-token NUMBER ! *": "mean bytes per token of this text",
    "--tokens-per-step N *": "needed if the log counts steps",
    "--tokens NAME": "column with the tokens so far, or the steps (default: by its name)",
    "--loss NAME": "column with the mean loss since the last line, in nats (default: by its name)",
    "--pattern REGEX *": "for lines of another program, with groups (?P<step>...) or tokens, and loss or heldout",
    "--heldout-curve *": "integrate the held-out loss, where no training loss is logged",
    "--steps N *": "only the first N steps",
    "--limit BYTES": "only the first bytes",
    "--name NAME *": "name of the model (default: of the file, or of its folder if that is a log.txt, a digest or the like)",
    "--data NAME *": "name of the data; runs with equal names and lengths can be compared",
}
OPTIONS = {
    "logs: LOG ...": "one or more files",
    **LOG,
    "--parameters N": "parameters of the model, which a forecast of a larger one needs",
    **options.RUNS,
    **options.JSON,
}


def run(args: argparse.Namespace) -> int:
    from prequential.evaluation.summary import format_report
    from prequential.recording.imported import import_log

    if args.name and len(args.logs) > 1:
        raise ConfigError("--name is of one log; several get the names of their files")
    names = [option.split()[0].removeprefix("--").replace("-", "_") for option in LOG]
    arguments = {"n_parameters": args.parameters} if args.parameters else {}
    for log in args.logs:
        run = import_log(log, args.runs, **{name: getattr(args, name) for name in names}, arguments=arguments)
        figure = f"{run.record['bits_per_byte']:.4f}"
        print_result(args, format_report(run.record, folder=run.path), run.record, figure=figure)
    return 0


EXAMPLE = "log.txt --tokens-per-step 524288 --bytes-per-token 4.4"
COMMAND = options.Command("import", __doc__, EXAMPLE, options=(options.Group(OPTIONS),), run=run, inputs=("logs",))
