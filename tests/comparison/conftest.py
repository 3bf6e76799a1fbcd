"""Tests of this folder may import series."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
