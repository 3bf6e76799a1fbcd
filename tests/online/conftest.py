"""Tests in this folder may import its other modules, such as the simulated device."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
