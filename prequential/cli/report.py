"""Show results as an HTML page, which loads nothing from elsewhere (docs/MEASURES.md).

A result is a run; a file of held-out losses, of a monorepo series, or of a forecast; or a folder: all that lies in it.
"""

import argparse
import sys
from pathlib import Path

from prequential.cli import options
from prequential.printable import printable

PAGE = {
    "-o, --output FILE.html [report.html]": "name of the page; - is standard output",
    "-c, --stdout": "write it to stdout",
}
OPTIONS = (
    options.Group({"names: RESULT ...": f"{options.RUN}; or a file of records; or a folder", **options.FORCE}),
    options.Group(PAGE, is_choice=True),
)


def run(args: argparse.Namespace) -> int:
    from prequential.files import check_output, output_file, stream_output
    from prequential.report.contents import is_own_page, read_contents

    output = "-" if args.stdout else args.output
    overwrite = args.force or is_own_page(output)
    if output != "-":
        check_output(output, overwrite=overwrite)
    found = read_contents(args.names)
    from prequential.report.page import page_of

    page = page_of(found, None if output == "-" else Path(output))
    stdout = stream_output(sys.stdout.buffer, overwrite=args.force)
    with stdout if output == "-" else output_file(output, overwrite=overwrite, mode=found.mode) as sink:
        sink.write(page)
    if output != "-" and not args.quiet:
        print(printable(output), file=sys.stderr)
    return 0


COMMAND = options.Command("report", __doc__, "runs", options=OPTIONS, run=run, runs_of=("names",))
