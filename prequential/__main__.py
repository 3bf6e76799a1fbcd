"""`python -m prequential` is `prequential`."""

import sys

if not sys.flags.safe_path:
    del sys.path[0]  # the current folder: what lies there must not stand in for an installed package

from prequential.cli.main import main

sys.exit(main())
