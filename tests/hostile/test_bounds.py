"""Random states that `load_state` accepts lead no kernel out of its arrays."""

import os
from pathlib import Path

import pytest
from bounds import CONFIGS
from programs import script

COUNT = int(os.environ.get("PREQUENTIAL_RANDOM_STATES", "900"))  # 13 minutes beside another test


@pytest.mark.slow
def test_random_states_lead_no_kernel_out_of_its_arrays(tmp_path: Path) -> None:
    checks = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    found = script("bounds.py", f"--count={COUNT}", "--seed=2", **checks)
    assert found["failures"] == {}
    assert sum(n for outcome, n in found["outcomes"].items() if "round trip: exact" in outcome) > 0.9 * COUNT
    for name in CONFIGS:
        assert found["outcomes"][f"{name}, resumed encoder: done"] > 0.9 * (COUNT // len(CONFIGS))
