"""One text gives one archive under all vector levels, library caps, matmul backends, kernels and threads, in child processes.

Each process also decodes the archives of the previous process, which ran under other settings.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

# one fixture for all, in one worker
pytestmark = [pytest.mark.thorough, pytest.mark.xdist_group("digest matrix")]

# The level of torch's own kernels, and the cap of oneDNN and MKL: each alone, because they concern different kernels, and both.
SETTINGS = (
    ("default", "none"), ("avx2", "none"), ("avx512", "none"), ("default", "AVX2"), ("default", "SSE41"), ("avx2", "SSE41"),
)  # fmt: skip
if "AVX512" not in torch.backends.cpu.get_cpu_capability():  # a process that is told to use it would end by SIGILL
    SETTINGS = tuple(setting for setting in SETTINGS if setting[0] != "avx512")
MKL = {"none": None, "AVX2": "AVX2", "SSE41": "SSE4_2"}


def environment(level: str, cap: str) -> dict[str, str]:
    changed = {"ATEN_CPU_CAPABILITY": level}
    if cap != "none":
        changed |= {"ONEDNN_MAX_CPU_ISA": cap, "MKL_ENABLE_INSTRUCTIONS": str(MKL[cap])}
    root = str(Path(__file__).parents[2])
    return {**os.environ, **changed, "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], dict]:
    results, other = {}, "-"
    for level, cap in SETTINGS:
        own = tmp_path_factory.mktemp(f"{level}-{cap}")
        child = subprocess.run(
            [sys.executable, str(Path(__file__).parent / "digest_child.py"), str(own), other],
            env=environment(level, cap), capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        assert child.returncode == 0, child.stderr
        results[level, cap] = json.loads(child.stdout)
        other = str(own)
    return results


@pytest.mark.parametrize("config", ["mixed", "pure"])
def test_all_settings_give_one_archive(results, config):
    digests = {digest for r in results.values() for digest in r["archives"][config].values()} - {"refused"}
    assert len(digests) == 1, results


def test_float_backends_are_exact_under_every_setting(results):
    for setting, r in results.items():
        for config, digests in r["archives"].items():
            for name, digest in digests.items():
                assert digest != "refused" or name.startswith("int8"), (setting, config, name)


def test_every_archive_decodes_under_other_settings(results):
    assert [r["decoded"] for r in results.values()] == [None] + [True] * (len(results) - 1)
