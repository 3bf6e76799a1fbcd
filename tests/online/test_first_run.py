"""The other process of a first run compiles what the first one uses, for the same types."""

import os
import subprocess
import sys

import pytest

PARTS_THEN_RUN = """
from prequential.model.learner import OnlineLearner
from prequential.model.mixer.past.advance import advance
from prequential.online.first_run import compile_parts, run_once, small_config
compile_parts()
before = advance.signatures
run_once(small_config(has_gpt=False, has_mixer=True), OnlineLearner)
print(len(before), advance.signatures == before)
"""


@pytest.mark.thorough
def test_the_part_that_the_other_process_compiles_is_the_one_that_mixing_calls(tmp_path):
    """With other types, mixing would compile the part again, and first runs would take longer without a word."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", PARTS_THEN_RUN], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout == "1 True\n", done.stderr
