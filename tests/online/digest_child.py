"""A child process of test_digest_matrix: prints one JSON line with the digests of the archives that it makes of a text.

Arguments: a folder for these archives, and the folder with another process's archives, or "-". Environment variables of the
parent set the vector level and the caps of libraries.
"""

import hashlib
import io
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from prequential_codecs.archive import ArchiveReader
from prequential_codecs.archive_header import Header
from prequential_corpora.sources import sample_path

from prequential.errors import InexactMachineError
from prequential.model.config import Config, GPTConfig, MixerConfig, ScheduleConfig
from prequential.online.coding import compress, config_of, decompress
from prequential.online.runtime import Runtime

MIXED = Config(
    gpt=GPTConfig(
        n_layers=2,
        width=64,
        n_heads=2,
        contexts=("2", "5", "word2", "after3", "other6"),
        context_bits=8,
        memory_bits=13,
        window=24,
    ),
    mixer=MixerConfig(table_bits=12, match_bits=12),
    schedule=ScheduleConfig(
        first_segment_symbols=80, segment_symbols=96, row_symbols=32, n_rows=6, history_bits=14, block_symbols=256
    ),
)
CONFIGS = {"mixed": MIXED, "pure": replace(MIXED, mixer=None)}
N_BYTES = 400


def archive(text: bytes, config: Config, runtime: Runtime) -> bytes:
    header = Header(n_bytes=len(text), blake2b=hashlib.blake2b(text, digest_size=32).digest(), config=config.to_dict())
    sink = io.BytesIO()
    list(compress(np.frombuffer(text, np.uint8), header, sink, runtime.learner(config)))
    return sink.getvalue()


def original(path: Path, runtime: Runtime) -> bytes:
    sink = io.BytesIO()
    with path.open("rb") as source:
        reader = ArchiveReader(source)
        list(decompress(reader, sink, runtime.learner(config_of(reader.header))))
    return sink.getvalue()


def runtimes(config: Config) -> Iterator[Runtime]:
    """Mixed: every backend with both kinds of kernels, and several threads. Pure, the same GPT: a few of these."""
    if config.mixer is None:
        yield Runtime(backend="int8", kernels="fused", threads=2)
        yield Runtime(backend="float64", kernels="plain", threads=1)
        return
    for backend in ("int8", "float32", "float64"):
        for threads in (1, 2, 4) if backend == "float32" else (2,):
            yield Runtime(backend=backend, kernels="fused", threads=threads)
        yield Runtime(backend=backend, kernels="plain", threads=2)


def main() -> None:
    own, other = sys.argv[1:]
    text = sample_path("christmas_carol").read_bytes()[:N_BYTES]
    found: dict[str, dict[str, str]] = {name: {} for name in CONFIGS}
    for name, config in CONFIGS.items():
        for runtime in runtimes(config):
            setting = f"{runtime.backend} {runtime.kernels} {runtime.threads}"
            try:
                data = archive(text, config, runtime)
            except InexactMachineError:
                found[name][setting] = "refused"
                continue
            found[name][setting] = hashlib.sha256(data).hexdigest()
            Path(own, f"{name}.pq").write_bytes(data)
    decoded = None
    if other != "-":
        decoded = all(
            original(Path(other, f"{name}.pq"), Runtime(threads=2, kernels=kernels)) == text
            for name, kernels in (("mixed", "fused"), ("mixed", "plain"), ("pure", "fused"))
        )
    print(json.dumps({"archives": found, "decoded": decoded}))


main()
