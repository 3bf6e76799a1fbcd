"""Every primitive is tested in both implementations: the definition and the compiled loops."""

from types import ModuleType

import pytest
from hypothesis import settings

from prequential.exact import fused, plain

settings.register_profile("no deadline", deadline=None)  # the first call of a compiled loop may compile it
settings.load_profile("no deadline")


@pytest.fixture(scope="session", params=[plain, fused], ids=["plain", "fused"])
def ops(request: pytest.FixtureRequest) -> ModuleType:
    return request.param
