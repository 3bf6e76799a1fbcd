"""The fixed run of doctor gives the same digest with every backend and every kernel."""

import pytest
import torch

from prequential.online.runtime import Runtime
from prequential.online.selftest import Check, checks, fixed_run


@pytest.mark.parametrize(("kernels", "backend"), [("fused", "float32"), ("plain", "float64")])
@pytest.mark.first_quick
def test_the_fixed_run_gives_the_expected_digest(kernels: str, backend: str) -> None:
    assert fixed_run(Runtime(kernels=kernels, backend=backend)).passed is True


@pytest.mark.first_quick
def test_another_digest_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prequential.online.selftest.EXPECTED_DIGEST", "0" * 16)
    assert fixed_run(Runtime(kernels="fused")).passed is False


@pytest.mark.slow  # compiles every kernel
def test_no_check_fails_on_this_machine_except_for_inexact_backends() -> None:
    failed: list[Check] = [check for check in checks() if check.passed is not True]
    without = [] if torch.cuda.is_available() else ["fixed run on a GPU"]
    assert [check.name for check in failed if not check.name.startswith("matmul ")] == without
