"""The products of reading with an int8 matrix, of one row and of a tile, on processors with and without byte products."""

import os
import platform
import subprocess
import sys

import pytest

PRODUCTS = """
from types import SimpleNamespace
import numpy as np
import torch
from prequential.exact.byte_products import PART, ROWS, TILE
from prequential.machine.compiled import kernel
from prequential.model.gpt import column
multiply = kernel(column.multiply)
rng = np.random.default_rng(4)
for n_in, n_out in ((1, 1), (16, 5), (255, 7), (256, 768), (257, 3), (1024, 256), (16384, 2)):
    drawn = (rng.integers(-127, 128, (n_in, n_out)), rng.integers(-127, 128, (TILE, n_in)))
    ends = [(np.full((n_in, n_out), a), np.full((TILE, n_in), b)) for a in (-127, 127) for b in (-127, 127)]
    for weights, x in (drawn, (drawn[0], drawn[1][:1]), *ends):
        matrix = SimpleNamespace(levels=torch.from_numpy(weights.astype(np.int8)), scale=torch.ones(n_out))
        stacked = column.stack_matrices([matrix])
        n, width = len(x), stacked.levels.shape[2] * PART
        shifted, y = np.full((n, width), 255, np.uint8), np.empty((n, n_out), np.float32)
        shifted[:, :n_in] = x + 128
        multiply(shifted, np.ones(n, np.float32), stacked, 0, np.empty((n, ROWS), np.int32), y)
        assert np.array_equal(y, (x @ weights).astype(np.float32)), (n, n_in, n_out)
print("exact")
"""


@pytest.mark.thorough
@pytest.mark.parametrize("processor", ["this one", "nehalem", "haswell"])
def test_products_of_columns_equal_int64_with_any_instructions_of_the_processor(processor, tmp_path):
    """Sizes that fill a vector or not, random and extreme operands. Only the processor `this one` may have byte products."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    if processor != "this one":
        if platform.machine() not in ("x86_64", "AMD64"):
            pytest.skip("x86 processors only")
        environment |= {"NUMBA_CPU_NAME": processor, "NUMBA_CPU_FEATURES": ""}
    child = subprocess.run([sys.executable, "-c", PRODUCTS], env=environment, capture_output=True, text=True)
    assert child.stdout.strip() == "exact", child.stderr
