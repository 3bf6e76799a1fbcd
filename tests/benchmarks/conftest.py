"""Loads the scripts of benchmarks/ as modules: they belong to no package."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.append(str(BENCHMARKS))  # some scripts import others


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"benchmarks_{name}", BENCHMARKS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


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
