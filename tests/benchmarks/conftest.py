"""The scripts of benchmarks/ as fixtures."""

from types import ModuleType

import pytest
from scripts import load


@pytest.fixture(scope="session")
def peers_script() -> ModuleType:
    return load("peers")


@pytest.fixture(scope="session")
def results() -> ModuleType:
    return load("results")


@pytest.fixture(scope="session")
def estimates() -> ModuleType:
    return load("estimates")


@pytest.fixture(scope="session")
def gpu_script() -> ModuleType:
    return load("gpu")
