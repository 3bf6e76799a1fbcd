"""Makes the modules beside it importable by name, as they are for the scripts here."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
