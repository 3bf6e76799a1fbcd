"""Show runs as an HTML page, which loads nothing from elsewhere (docs/MEASURES.md)."""

import argparse
import sys
from contextlib import suppress

from prequential.cli import options
from prequential.printable import printable

PAGE = {
    "-o, --output FILE.html [report.html]": "name of the page; - is standard output",
    "-c, --stdout": "write it to stdout",
}
OPTIONS = (
    options.Group({"names: RUN ...": f"{options.RUN}; or a folder of runs: all of them", **options.FORCE}),
    options.Group(PAGE, is_choice=True),
)


def run(args: argparse.Namespace) -> int:
    from prequential.evaluation.runs import find_runs, mode_of_all
    from prequential.files import check_output, output_file, stream_output

    output = "-" if args.stdout else args.output
    overwrite = args.force or _is_own_page(output)
    if output != "-":
        check_output(output, overwrite=overwrite)
    runs = [run for name in args.names for run in find_runs(name)]
    from prequential.report.page import html_report

    page = html_report(runs).encode("utf-8", "replace")  # JSON of unknown origin can hold half a surrogate pair
    stdout = stream_output(sys.stdout.buffer, overwrite=args.force)
    with stdout if output == "-" else output_file(output, overwrite=overwrite, mode=mode_of_all(runs)) as sink:
        sink.write(page)
    if output != "-" and not args.quiet:
        print(printable(output), file=sys.stderr)
    return 0


def _is_own_page(path: str) -> bool:
    """Whether `report` wrote this file, so that it may be replaced. A link is not followed."""
    from prequential.files import open_regular
    from prequential.report.markup import MARK

    with suppress(OSError), open_regular(path, follow_links=False) as file:
        return MARK.encode() in file.read(1000)
    return False


COMMAND = options.Command("report", __doc__, "runs", options=OPTIONS, run=run, runs_of=("names",))
