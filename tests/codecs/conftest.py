"""Makes the modules of this folder importable by name (plain_coder)."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
