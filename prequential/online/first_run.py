"""The first run after an installation: compiling kernels at the same time in two processes.

numba compiles one kernel at a time in a process, and caches it on disk: so a second process, of some 500 MB, can compile others.
"""

import io
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress

import numpy as np
from prequential_codecs.archive import ArchiveReader
from prequential_codecs.archive_header import Header

from prequential.machine.compiled import is_cached
from prequential.model.config import GPT_CONTEXTS, Config, GPTConfig, MixerConfig, ScheduleConfig
from prequential.model.learner import OnlineLearner
from prequential.model.mixer import mixing
from prequential.model.mixer.mixer import Mixer
from prequential.model.mixer.past.advance import advance
from prequential.online import coding
from prequential.online.loop import Learner

N_BYTES = 64
LEAST_WAIT_S = 5.0  # for the other process, which may take as long as this one
# What the other process compiles beside the kernel of the mixer:
OF_GPT = (
    "from prequential.online.runtime import Runtime; from prequential.online.first_run import run_once, small_config; "
    "run_once(small_config(has_gpt=True, has_mixer=False), Runtime(threads=1).learner)"  # decodes without a mixer, too
)
OF_MIXER = "from prequential.online.first_run import compile_parts; compile_parts()"
OTHER_PROCESS = "PREQUENTIAL_COMPILES"  # set in its environment: it must not start a third one


def small_config(*, has_gpt: bool, has_mixer: bool) -> Config:
    """A configuration that needs all kernels of its kind, and is quick."""
    gpt = GPTConfig(n_layers=1, width=64, n_heads=2, window=16, contexts=GPT_CONTEXTS, context_bits=8)
    return Config(
        gpt=gpt if has_gpt else None,
        mixer=MixerConfig(table_bits=8) if has_mixer else None,
        schedule=ScheduleConfig(first_segment_symbols=16, segment_symbols=16, row_symbols=16, n_rows=1),
    )


def run_once(config: Config, make: Callable[[Config], Learner]) -> None:
    """Codes N_BYTES bytes there and back, with steps of the GPT. make: makes a fresh learner of the configuration."""
    source, archive = np.zeros(N_BYTES, np.uint8), io.BytesIO()
    header = Header(n_bytes=len(source), blake2b=bytes(32), config=config.to_dict())
    for _ in coding.compress(source, header, archive, make(config)):
        pass
    archive.seek(0)
    for _ in coding.decompress(ArchiveReader(archive), io.BytesIO(), make(config)):
        pass


def compile_kernels(config: Config) -> None:
    """On a first run, compiles most kernels of a learner with a mixer, in two processes. Later it does nothing.

    Whatever the other process cannot do costs time only: a kernel that is not in the cache is compiled where it is needed.
    """
    if config.mixer is None or is_cached(mixing.code_mixed):
        return
    started = time.monotonic()
    if (other := _start_other(OF_GPT if config.gpt else OF_MIXER)) is None:
        return
    try:
        run_once(small_config(has_gpt=False, has_mixer=True), OnlineLearner)
        if config.gpt:  # without one, a short run does not need the rest
            with suppress(subprocess.TimeoutExpired):
                other.wait(max(LEAST_WAIT_S, time.monotonic() - started))
    finally:
        other.kill()
        other.wait()


def compile_parts() -> None:
    """A part of `code_mixed` that this process has before the other one needs it, and the kernel of other threads."""
    config = small_config(has_gpt=False, has_mixer=True).mixer
    assert config
    mixer = Mixer(config, np.zeros(N_BYTES, np.uint8), most_threads=2)
    now = mixer.arrays
    advance(now.past, now.ring, now.indirect, now.followers, now.fields, 0, now.learns)
    mixer.threads.compile(now)


def _start_other(program: str) -> subprocess.Popen[bytes] | None:
    """A process that runs this program; None where none can be started."""
    if not sys.executable or getattr(sys, "frozen", False) or OTHER_PROCESS in os.environ:
        return None
    program = f"import sys; sys.path[:] = {sys.path!r}; {program}"
    try:
        return subprocess.Popen(
            [sys.executable, "-c", program], env=os.environ | {OTHER_PROCESS: "1"}, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
    except OSError:
        return None
