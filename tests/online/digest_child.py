"""Run as a child process of test_digest_matrix: prints one JSON line of what this process's arithmetic makes of a text.

Arguments: a folder to leave the archive in, and the folder with another process's archive, or "-". Environment variables of the
parent decide vector level and library caps.
"""

import hashlib
import io
import json
import sys
from pathlib import Path

import numpy as np

from prequential.codecs import ArchiveReader, Header
from prequential.corpora import sample_path
from prequential.errors import InexactMachineError
from prequential.model.config import Config, GPTConfig, NgramConfig, StreamConfig
from prequential.online.coding import compress, decompress
from prequential.online.runtime import KERNELS, Runtime

CONFIG = Config(
    gpt=GPTConfig(n_layers=2, width=64, n_heads=2, window=24),
    ngram=NgramConfig(contexts=("1", "3", "word2", "skip2-3"), row_bits=10),
    streams=StreamConfig(
        n_streams=16, segment_columns=16, chunk_columns=8, stripe_symbols=1024, ramp_symbols=4096, block_symbols=1024
    ),
)
N_BYTES = 3000


def archive(text: bytes, runtime: Runtime) -> bytes:
    header = Header(n_bytes=len(text), blake2b=hashlib.blake2b(text, digest_size=32).digest(), config=CONFIG.to_dict())
    sink = io.BytesIO()
    list(compress(np.frombuffer(text, np.uint8), header, sink, runtime))
    return sink.getvalue()


def original(folder: str, runtime: Runtime) -> bytes:
    sink = io.BytesIO()
    with Path(folder, "archive.pq").open("rb") as source:
        list(decompress(ArchiveReader(source), sink, runtime))
    return sink.getvalue()


def main() -> None:
    own, other = sys.argv[1:]
    text = sample_path("christmas_carol").read_bytes()[:N_BYTES]
    found: dict[str, str] = {}
    for backend in ("int8", "float32", "float64"):
        for kernels in KERNELS:
            for threads in (1, 2, 4):
                if kernels == "plain" and threads != 2:
                    continue  # threads are the same code in both; plain kernels are slow
                name = f"{backend} {kernels} {threads}"
                try:
                    data = archive(text, Runtime(backend=backend, kernels=kernels, threads=threads))
                except InexactMachineError:
                    found[name] = "refused"
                    continue
                found[name] = hashlib.sha256(data).hexdigest()
                Path(own, "archive.pq").write_bytes(data)
    decoded = None
    if other != "-":
        decoded = all(original(other, Runtime(threads=2, kernels=kernels)) == text for kernels in KERNELS)
    print(json.dumps({"archives": found, "decoded": decoded}))


main()
