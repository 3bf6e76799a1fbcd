"""Every primitive is tested in two implementations: definition and compiled loops. Tests may import this folder's modules."""

import sys
from pathlib import Path
from types import ModuleType

import pytest

from prequential.exact import fused, plain

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session", params=[plain, fused], ids=["plain", "fused"])
def ops(request: pytest.FixtureRequest) -> ModuleType:
    return request.param
