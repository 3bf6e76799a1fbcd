"""Makes the modules of this folder importable by name, as for the scripts in it."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
