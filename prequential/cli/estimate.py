"""prequential estimate: the cost of a run on this machine and, roughly, on other machines, before the run."""

import argparse
import json
from functools import partial
from typing import TYPE_CHECKING

from prequential.cli import options
from prequential.cli.failures import for_each
from prequential.errors import ConfigError
from prequential.printable import printable

if TYPE_CHECKING:
    from prequential.estimation.devices import Device
    from prequential.estimation.measured_rates import MeasuredRate
    from prequential.model.config import Config
    from prequential.online.runtime import Runtime

SUMMARY = "estimate time, memory and archive size before a run"


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declares the command."""
    parser = commands.add_parser(
        "estimate",
        description="Code a short part of each corpus, and estimate the cost of the complete run from it: time, memory, "
        "and size of the archive. With -v or --json also operations by product, traffic between workers, and rough times on "
        "other machines (docs/MACHINES.md).",
    )
    parser.add_argument("names", nargs="+", metavar="CORPUS", help=options.CORPUS)
    parser.add_argument(
        "--limit", type=options.byte_count, metavar="BYTES", help="use only the beginning of the corpus"
    )
    parser.add_argument(
        "--probe",
        type=options.byte_count,
        metavar="BYTES",
        help="length of the part that is coded (default: what takes 1.2 s, without a GPT 3.6 s; 48K at most)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object a line instead of tables")
    options.add_learner(parser)
    options.add_runtime(parser)
    group = parser.add_argument_group("other machines")
    group.add_argument(
        "--workers",
        type=options.positive_integer,
        metavar="N",
        default=2,
        help="number of workers that share the steps (default: 2)",
    )
    group.add_argument(
        "--machine",
        dest="machines",
        action="append",
        default=[],
        metavar="NAME",
        help="show only this machine; can be repeated",
    )
    group.add_argument(
        "--machines", dest="devices", metavar="FILE", help="a JSON table of more machines (docs/MACHINES.md)"
    )
    group.add_argument(
        "--measured",
        metavar="FILE",
        help="a record of `make gpu-check`: also the times at the rates that it measured with this learner",
    )
    options.add_verbosity(parser)
    parser.set_defaults(run=run, inputs=("names",))


def run(args: argparse.Namespace) -> int:
    """Estimates every corpus; returns the exit code."""
    if args.limit == 0 or args.probe == 0:
        args.parser.error("--limit and --probe must be at least 1")
    config, runtime, devices = options.learner_config(args), options.runtime(args), _devices(args)
    measured = _measured(args, config)
    return for_each(args.names, partial(_estimate, args, config, runtime, devices, measured), verbose=args.verbose)


def _estimate(
    args: argparse.Namespace,
    config: "Config",
    runtime: "Runtime",
    devices: "list[Device]",
    measured: "list[MeasuredRate]",
    name: str,
) -> None:
    from dataclasses import replace

    from prequential.estimation.estimate_text import format_run_cost
    from prequential.estimation.run_cost import measure_run_cost
    from prequential.online.source import open_source
    from prequential.records.record import environment

    runtime.check(config)
    details = args.json or args.verbose or bool(args.machines or args.devices)
    with open_source(name, args.limit, in_order=True) as source:
        cost = measure_run_cost(
            source,
            config,
            runtime,
            devices=devices,
            n_workers=args.workers,
            probe_bytes=args.probe,
            details=details,
        )
        cost = replace(cost, measured=measured)
        record = cost.to_record(source.origin)
    if args.json:
        print(json.dumps({**record, "environment": environment(runtime, config)}, allow_nan=False), flush=True)
    else:
        print(f"{printable(name)}\n{format_run_cost(cost)}\n", flush=True)


def _measured(args: argparse.Namespace, config: "Config") -> "list[MeasuredRate]":
    """The rates that --measured names; none without it. A wrong file, or one without them, is a usage error."""
    from prequential.estimation.measured_rates import read_measured_rates

    try:
        return read_measured_rates(args.measured, config) if args.measured else []
    except ConfigError as error:
        options.usage_error(args, error)


def _devices(args: argparse.Namespace) -> "list[Device]":
    """The machines that the options name; an unknown name or a wrong table ends the program with a usage error."""
    from prequential.estimation.devices import built_in_devices, read_devices, select_devices

    try:
        devices = read_devices(args.devices) if args.devices else built_in_devices()
        return select_devices(devices, args.machines)
    except ConfigError as error:
        options.usage_error(args, error)
