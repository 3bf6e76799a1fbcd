"""Tests here import what lies beside them: the pretended device."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
