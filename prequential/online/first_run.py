"""The first run after an installation: compiling the kernels, those of GPT and mixer at the same time in two processes.

numba compiles one kernel at a time in a process. A kernel that was compiled once is loaded from a cache on disk, so a second
process can compile some of them for this one.
"""

import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from prequential.codecs.archive import ArchiveReader
from prequential.codecs.archive_header import Header
from prequential.model.config import GPT_CONTEXTS, Config, GPTConfig, MixerConfig, ScheduleConfig
from prequential.online import coding
from prequential.online.loop import Learner

N_BYTES = 64
LIMIT_S = 300  # for the other process


def small_config(*, has_gpt: bool, has_mixer: bool) -> Config:
    """A configuration that needs all kernels of its kind, and is quick."""
    gpt = GPTConfig(n_layers=1, width=64, n_heads=2, window=16, contexts=GPT_CONTEXTS, context_bits=8)
    return Config(
        gpt=gpt if has_gpt else None,
        mixer=MixerConfig(table_bits=8) if has_mixer else None,
        schedule=ScheduleConfig(first_segment_symbols=16, segment_symbols=16, row_symbols=16, n_rows=1),
    )


def run_once(encoder: Learner, decoder: Learner, config: Config) -> None:
    """Codes N_BYTES bytes there and back, with steps of the GPT. Learners: fresh ones of the configuration."""
    source, archive = np.zeros(N_BYTES, np.uint8), io.BytesIO()
    header = Header(n_bytes=len(source), blake2b=bytes(32), config=config.to_dict())
    for _ in coding.compress(source, header, archive, encoder):
        pass
    archive.seek(0)
    for _ in coding.decompress(ArchiveReader(archive), io.BytesIO(), decoder):
        pass


def compile_kernels(config: Config) -> None:
    """Compiles the kernels of a learner with GPT and mixer, if the cache has neither. Otherwise, or if it fails, does nothing.

    Without it, each kernel is compiled where it is first needed.
    """
    from prequential.exact import fused
    from prequential.model.mixer import mixing

    if (
        config.gpt is None
        or config.mixer is None
        or _is_cached(mixing.code_mixed)
        or _is_cached(fused.fill_frequencies)
    ):
        return
    own = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import compile_gpt_kernels; compile_gpt_kernels()"
    try:
        other = subprocess.Popen(
            [sys.executable, "-c", own], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
    except OSError:
        return
    try:
        from prequential.model.learner import OnlineLearner

        small = small_config(has_gpt=False, has_mixer=True)
        run_once(OnlineLearner(small), OnlineLearner(small), small)
        other.wait(LIMIT_S)
    except subprocess.TimeoutExpired:
        pass
    finally:
        other.kill()
        other.wait()


def compile_gpt_kernels() -> None:
    """The kernels of a GPT, including those that decode without a mixer."""
    from prequential.online.runtime import Runtime

    config, runtime = small_config(has_gpt=True, has_mixer=False), Runtime(threads=1, device="cpu")
    run_once(runtime.learner(config), runtime.learner(config), config)


def _is_cached(kernel: Any) -> bool:
    """Whether the cache has this kernel; True if kernels are interpreted."""
    if not hasattr(kernel, "stats"):
        return True
    function = kernel.py_func
    return any(
        Path(kernel.stats.cache_path).glob(f"{function.__module__.rpartition('.')[2]}.{function.__qualname__}-*.nbi")
    )
