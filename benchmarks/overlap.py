"""The speed of measuring overlap, and the share of planted duplicates that it finds, on real text. Prints one JSON line.

    python benchmarks/overlap.py TEXT [TEXT ...] [--train-bytes 2000000] [--test-bytes 8000000]

The concatenated texts are cut at line ends into documents of about 4 kB. The first train-bytes are the training set and the next
test-bytes the test set. Then copies of training documents are mixed with as many new documents. There are three kinds of copies:
exact, with 5 % of their words replaced, and rewrapped at 60 columns. A copy is found if Overlap.dirty marks it. A new document
that is marked counts as `repeated` if at least a fifth of its bytes occurs in the training set, compared byte by byte (licences,
a book that occurs twice). Otherwise it is a false alarm.
"""

import argparse
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from prequential.corpora.corpus import Document
from prequential.corpora.overlap.overlap import DIRTY_SHARE, Overlap, measure_overlap
from prequential.measure.machine import machine, versions

DOCUMENT_BYTES = 4000
COLUMNS = 60
EDITED_SHARE = 0.05
N_PLANTED = 400


def cut(text: bytes) -> list[bytes]:
    """Documents of about DOCUMENT_BYTES, cut at line ends."""
    documents, start = [], 0
    while start < len(text):
        end = text.find(b"\n", min(start + DOCUMENT_BYTES, len(text) - 1)) + 1 or len(text)
        documents.append(text[start:end])
        start = end
    return documents


def overlap_of(train: Sequence[bytes], test: Sequence[bytes]) -> Overlap:
    """The overlap of two lists of documents."""

    def stream(texts: Sequence[bytes]) -> tuple[np.ndarray, list[Document]]:
        ends = np.cumsum([0, *map(len, texts)]).tolist()
        documents = [Document(str(i), at, len(text)) for i, (at, text) in enumerate(zip(ends, texts, strict=False))]
        return np.frombuffer(b"".join(texts), np.uint8), documents

    return measure_overlap(*stream(train), *stream(test))


def edited(text: bytes, rng: np.random.Generator) -> bytes:
    """The text with EDITED_SHARE of its words replaced by other words of it. White space is unchanged."""
    words = text.split(b" ")
    for i in np.flatnonzero(rng.random(len(words)) < EDITED_SHARE):
        words[i] = words[rng.integers(len(words))] + b"x"
    return b" ".join(words)


def wrapped(text: bytes) -> bytes:
    """The same words in lines of at most COLUMNS bytes; a longer word has its own line."""
    lines, line = [], b""
    for word in text.split():
        if line and len(line) + 1 + len(word) > COLUMNS:
            lines.append(line)
            line = word
        else:
            line = line + b" " + word if line else word
    return b"\n".join([*lines, line])


def planted(train: Sequence[bytes], new: Sequence[bytes]) -> dict[str, float]:
    """The shares of planted documents that are found, by kind, and the shares of new documents that are marked."""
    rng = np.random.default_rng(0)
    originals = [train[i] for i in rng.permutation(len(train))[:N_PLANTED]]
    kinds: dict[str, Callable[[bytes], bytes]] = {
        "exact": lambda text: text,
        "edited": lambda text: edited(text, rng),
        "wrapped": wrapped,
    }
    found = {}
    for name, change in kinds.items():
        dirty = overlap_of(train, [*map(change, originals), *new[:N_PLANTED]]).dirty
        found[name] = float(dirty[: len(originals)].mean())
    overlap = overlap_of(train, new)
    is_repeated = overlap.seen_byte_share >= DIRTY_SHARE
    found["repeated"] = float((overlap.dirty & is_repeated).mean())
    found["false_alarms"] = float((overlap.dirty & ~is_repeated).mean())
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", nargs="+", type=Path)
    parser.add_argument("--train-bytes", type=int, default=2_000_000)
    parser.add_argument("--test-bytes", type=int, default=8_000_000)
    args = parser.parse_args()
    text = b"".join(path.read_bytes() for path in args.texts)[: args.train_bytes + args.test_bytes]
    train, test = cut(text[: args.train_bytes]), cut(text[args.train_bytes :])
    overlap_of(train[:1], test[:1])  # compiles the kernels
    times = []
    for _ in range(3):
        wall_s, cpu_s = time.perf_counter(), time.process_time()
        overlap_of(train, test)
        times.append((time.process_time() - cpu_s, time.perf_counter() - wall_s))
    cpu_s, wall_s = min(times)
    print(
        json.dumps(
            {
                "texts": [path.name for path in args.texts],
                "train_bytes": args.train_bytes,
                "test_bytes": len(text) - args.train_bytes,
                "mb_per_cpu_s": len(text) / 1e6 / cpu_s,
                "mb_per_wall_s": len(text) / 1e6 / wall_s,
                **planted(train, test),
                "machine": machine(),
                "versions": versions(),
            }
        )
    )


if __name__ == "__main__":
    main()
