"""Random states that `load_state` accepts lead no kernel out of its arrays."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from bounds import CONFIGS

PROJECT = Path(__file__).parents[2]
COUNT = int(os.environ.get("PREQUENTIAL_RANDOM_STATES", "900"))  # 13 minutes beside another test


@pytest.mark.slow
def test_random_states_lead_no_kernel_out_of_its_arrays(tmp_path: Path) -> None:
    child = subprocess.run(
        [sys.executable, str(PROJECT / "tests/hostile/bounds.py"), f"--count={COUNT}", "--seed=2"],
        env={
            **os.environ,
            "PYTHONPATH": str(PROJECT),
            "OMP_NUM_THREADS": "1",
            "NUMBA_BOUNDSCHECK": "1",
            "NUMBA_CACHE_DIR": str(tmp_path),
        },
        capture_output=True,
        text=True,
        timeout=3600,
    )
    assert child.returncode == 0, f"ended with {child.returncode}: {child.stderr}"
    found = json.loads(child.stdout)
    assert found["failures"] == {}
    assert sum(n for outcome, n in found["outcomes"].items() if "round trip: exact" in outcome) > 0.9 * COUNT
    for name in CONFIGS:
        assert found["outcomes"][f"{name}, resumed encoder: done"] > 0.9 * (COUNT // len(CONFIGS))
