"""The self-test of `doctor`: which arithmetic is exact on this machine, and whether a fixed run gives the expected digest.

The fixed run compresses the beginning of a bundled text with a small model that has all parts of a large one. Its digest covers
the blocks of the archive: coded bits, and the learner's state after each block. One different bit changes it.
"""

import hashlib
import io
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from prequential_codecs.archive import ArchiveReader
from prequential_codecs.archive_header import Header
from prequential_corpora.sources import sample_path

from prequential.errors import PrequentialError
from prequential.exact import matmul
from prequential.model.config import GPT_CONTEXTS, Config, GPTConfig, MixerConfig, ScheduleConfig
from prequential.online import coding
from prequential.online.runtime import Runtime
from prequential.online.source import digest_of

# From a machine whose archives decode on others. It changes with FORMAT_VERSION, the learner and its defaults.
EXPECTED_DIGEST = "ee166a0afebbca5f"

FIXED_N_BYTES = 8192
FIXED_CONFIG = Config(
    gpt=GPTConfig(n_layers=2, width=64, n_heads=2, contexts=GPT_CONTEXTS, context_bits=10, memory_bits=13, window=32),
    mixer=MixerConfig(table_bits=12),
    schedule=ScheduleConfig(
        first_segment_symbols=64, segment_symbols=512, row_symbols=64, n_rows=12, block_symbols=4096
    ),
)


@dataclass(frozen=True, kw_only=True)
class Check:
    """The result of one check. passed: None if it could not be made; `text` then says why."""

    name: str
    passed: bool | None
    text: str


def checks() -> Iterator[Check]:
    """Makes all checks in turn. They take some seconds, and longer if kernels must be compiled first."""
    yield from map(_of_trial, matmul.trials("cpu"))
    try:
        yield Check(name="chosen matmul", passed=True, text=f"{matmul.choose('cpu').name}: the fastest exact one")
    except PrequentialError as error:
        yield Check(name="chosen matmul", passed=False, text=str(error))
    yield fixed_run(Runtime())
    yield fixed_run(Runtime(kernels="plain"), "fixed run in plain torch")
    name, on_gpu = "fixed run on a GPU", Runtime(device="cuda")
    try:
        on_gpu.accelerator(FIXED_CONFIG)
    except PrequentialError as error:  # no device, or one that is not used
        yield Check(name=name, passed=None, text=str(error))
        return
    yield from (_of_trial(trial, " on cuda") for trial in matmul.trials("cuda"))
    yield fixed_run(on_gpu, name)


def _of_trial(trial: matmul.Trial, where: str = "") -> Check:
    rate = f"{trial.ops_per_s / 1e9:,.0f} Gop/s" if trial.exact else trial.reason
    return Check(name=f"matmul {trial.name}{where}", passed=trial.exact, text=rate)


def fixed_run(runtime: Runtime, name: str = "fixed run") -> Check:
    """Whether the fixed run gives the expected digest (16 hexadecimal digits), and its speed."""
    try:
        start_s, source = time.perf_counter(), np.fromfile(sample_path("christmas_carol"), np.uint8, FIXED_N_BYTES)
        header = Header(n_bytes=len(source), blake2b=digest_of(source), config=FIXED_CONFIG.to_dict())
        archive, digest = io.BytesIO(), hashlib.blake2b(digest_size=8)
        for _ in coding.compress(source, header, archive, runtime.learner(FIXED_CONFIG)):
            pass
    except (ImportError, PrequentialError) as error:
        return Check(name=name, passed=False, text=str(error))
    rate = f"{FIXED_N_BYTES / (time.perf_counter() - start_s) / 1e3:,.1f} kB/s"
    archive.seek(0)
    for block in ArchiveReader(archive).blocks():  # without the header, which builds of zlib deflate to different bytes
        digest.update(block.payload + block.state_digest)
    text = f"{digest.hexdigest()}, expected {EXPECTED_DIGEST}, {rate}"
    return Check(name=name, passed=digest.hexdigest() == EXPECTED_DIGEST, text=text)
