"""Small valid archives, made by the program. Fuzzers start from them, and crafted archives are made of their parts.

Learners and texts are as small as the configuration allows, so that decoding takes milliseconds.
"""

import tempfile
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

import prequential

RUNTIME = prequential.Runtime(threads=1)
TEXT = b"the cat sat on the mat, the cat sat on the hat"
NOISE = np.random.default_rng(4).bytes(30)
MAX_MEMORY_BYTES = 64 << 20  # each of these learners takes 10 MB

SCHEDULE = prequential.ScheduleConfig(
    first_segment_symbols=16, segment_symbols=16, row_symbols=8, n_rows=4, history_bits=14, block_symbols=24
)
MIXER = prequential.Config(
    gpt=None, mixer=prequential.MixerConfig(contexts=("1", "2"), table_bits=6, match_bits=4), schedule=SCHEDULE
)
PURE = prequential.Config(
    gpt=prequential.GPTConfig(
        n_layers=1, width=16, n_heads=2, mlp_factor=1, contexts=("2", "after2"), context_bits=4, memory_bits=13, window=4,
        vector_step=0.5, warmup_updates=1,
    ),
    mixer=None,
    schedule=replace(SCHEDULE, block_symbols=40),
)  # fmt: skip
FILES = {"a.txt": b"one\n", "folder/b": b"two, and two", "folder/c": b""}


@dataclass(frozen=True)
class Seed:
    """A valid archive and its original; for a folder, its stream (prequential_corpora/tree.py)."""

    archive: bytes
    original: bytes


@cache
def seeds() -> dict[str, Seed]:
    """Every seed by name."""
    long = replace(MIXER, schedule=replace(SCHEDULE, block_symbols=1 << 12))
    made = {
        "mixer": _made(TEXT, MIXER),
        "other": _made(TEXT.upper(), MIXER),
        "mixed": _made(TEXT[:24] + NOISE[:24] + TEXT[:24], MIXER),  # a raw block between coded ones
        "raw": _made(NOISE, MIXER),
        "empty": _made(b"", MIXER),
        "zeros": _made(bytes(300), long),
        "pure": _made(b"aaab" * 10 + b"a", PURE),
        "both": _made(b"ab" * 20, replace(PURE, mixer=MIXER.mixer)),
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, data in FILES.items():
            path = Path(folder, "tree", name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        archive = prequential.compress(Path(folder, "tree"), config=long, runtime=RUNTIME)
    made["tree"] = Seed(archive, prequential.decompress(archive, runtime=RUNTIME))
    return made


def _made(data: bytes, config: prequential.Config) -> Seed:
    return Seed(prequential.compress(data, config=config, runtime=RUNTIME), data)


def tree_archive(stream: bytes) -> bytes:
    """An archive of any bytes that declares them to be the stream of a folder."""
    from forge import Draft

    draft = Draft.of(_made(stream, replace(MIXER, schedule=replace(SCHEDULE, block_symbols=1 << 20))).archive)
    return draft.described({**draft.description, "corpus": {"kind": "tree", "name": "folder"}}).sealed()
