"""`python -m prequential` is `prequential`."""

import sys

from prequential.cli.main import main

sys.exit(main())
