"""The speed of measuring overlap, and the share of planted duplicates that it finds, on real text. Prints one JSON line.

    python benchmarks/overlap.py TEXT [TEXT ...] [--train-bytes 2000000] [--test-bytes 8000000]

The concatenated texts are cut at line ends into documents of about 4 kB. The first train-bytes are the training set and the next
test-bytes the test set. Then copies of training documents are mixed with as many new documents. There are four kinds of copies:
exact, with 5 % of their units replaced, wrapped again in lines of 45 bytes (which leaves few matches of 50 bytes), and both.
Units are words, or characters where less than 5 % of the characters are spaces. A copy is found if Overlap.dirty marks it. A new
document that is marked counts as `repeated` if at least a fifth of its bytes occurs in the training set, compared byte by byte
(licences, a book that occurs twice). Otherwise it is a false alarm.
"""

import argparse
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from prequential_corpora.corpus import Document
from prequential_corpora.overlap.overlap import DIRTY_SHARE, Overlap, measure_overlap

from prequential.machine.facts import machine, versions

DOCUMENT_BYTES = 4000
LINE_BYTES = 45
EDITED_SHARE = 0.05
SPACED_SHARE = 0.05
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


def units_of(text: bytes) -> tuple[list[str], str]:
    """What an editor replaces, and what is between two of them: words and a space, or characters and nothing."""
    decoded = text.decode("utf-8", "surrogateescape")
    if decoded.count(" ") + decoded.count("\n") < SPACED_SHARE * len(decoded):
        return list(decoded), ""
    return decoded.split(" "), " "


def edited(text: bytes, rng: np.random.Generator) -> bytes:
    """The text with EDITED_SHARE of its units replaced by other ones of it; words also get an x. White space is unchanged."""
    units, space = units_of(text)
    for i in np.flatnonzero(rng.random(len(units)) < EDITED_SHARE):
        units[i] = units[rng.integers(len(units))] + "x" * len(space)
    return space.join(units).encode("utf-8", "surrogateescape")


def wrapped(text: bytes) -> bytes:
    """The same words or characters in lines of at most LINE_BYTES bytes; a longer word has its own line."""
    _, space = units_of(text)
    words = text.decode("utf-8", "surrogateescape").split()
    lines, line, width = [], "", 0
    for unit in words if space else "".join(words):
        n_bytes = len(unit.encode("utf-8", "surrogateescape"))
        if line and width + len(space) + n_bytes > LINE_BYTES:
            lines.append(line)
            line, width = unit, n_bytes
        else:
            line, width = (line + space + unit, width + len(space) + n_bytes) if line else (unit, n_bytes)
    return "\n".join([*lines, line]).encode("utf-8", "surrogateescape")


def planted(train: Sequence[bytes], new: Sequence[bytes]) -> dict[str, float]:
    """The shares of planted documents that are found, by kind, and the shares of new documents that are marked."""
    rng = np.random.default_rng(0)
    originals = [train[i] for i in rng.permutation(len(train))[:N_PLANTED]]
    kinds: dict[str, Callable[[bytes], bytes]] = {
        "exact": lambda text: text,
        "edited": lambda text: edited(text, rng),
        "wrapped": wrapped,
        "edited_wrapped": lambda text: wrapped(edited(text, rng)),
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
