"""doctor's fixed run: the digest that every machine, backend and kernel must give."""

import pytest

from prequential.measure.selftest import EXPECTED_DIGEST, checks, fixed_digest
from prequential.online.runtime import Runtime


@pytest.mark.parametrize("backend", ["float32", "float64"])
def test_the_fixed_run_gives_the_expected_digest(backend: str) -> None:
    assert fixed_digest(Runtime(kernels="plain", backend=backend)) == EXPECTED_DIGEST


def test_compiled_kernels_give_the_expected_digest() -> None:
    assert fixed_digest(Runtime(kernels="fused")) == EXPECTED_DIGEST


def test_a_different_machine_state_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prequential.measure.selftest.EXPECTED_DIGEST", "0" * 16)
    fixed_run = list(checks())[-1]
    assert fixed_run.name == "fixed run"
    assert fixed_run.passed is False
