"""Fixtures of ladders with a planted law."""

from typing import Any

import pytest
from planted_ladder import TARGET, make_ladder

from prequential.forecasting.forecast import forecast_record
from prequential.sweeps.ladder import Ladder


@pytest.fixture(scope="session")
def ladder(tmp_path_factory: pytest.TempPathFactory) -> Ladder:
    """A ladder with the planted law and a little noise."""
    return make_ladder(tmp_path_factory.mktemp("ladder"), noise=0.002)


@pytest.fixture(scope="session")
def registered(ladder: Ladder) -> dict[str, Any]:
    """The registered forecast of TARGET by that ladder."""
    return forecast_record(ladder, TARGET)
