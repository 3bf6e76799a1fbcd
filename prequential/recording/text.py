"""The text that a training run reads: a digest that does not depend on tokenizer, order or cut, and samples of what was scored.

Runs of one text under two tokenizers, or packed in two ways, score different rows. If both declare the text, they compare in
bits per byte: the digest says that the documents are equal, and stretches of GRAM bytes of scored rows, one in 256, are looked up
in it.
"""

import hashlib
from dataclasses import dataclass

import numpy as np
from prequential_corpora.corpus import Document

from prequential.online.source import CorpusLike, open_source
from prequential.recording.totals import FACTOR, GRAM, MASK
from prequential.records import digest_of

CHUNK = 1 << 22  # bytes


@dataclass(frozen=True)
class Text:
    """digest: of the documents, in whichever order. samples (n,) uint64: their sampled stretches, ascending."""

    digest: str
    n_documents: int
    n_bytes: int
    samples: np.ndarray

    @classmethod
    def of(cls, text: CorpusLike) -> "Text":
        """text: what `evaluate` takes, read once. Raises CorpusError."""
        source, total, samples = open_source(text), 0, [np.zeros(0, np.uint64)]
        documents = source.documents or [Document("", 0, source.n_bytes)]
        for document in documents:
            digest = hashlib.blake2b(digest_size=32)
            for start in range(document.offset, document.offset + document.n_bytes, CHUNK):
                end = min(start + CHUNK, document.offset + document.n_bytes)
                digest.update(np.asarray(source.symbols[start:end]).tobytes())
                samples.append(sampled(np.asarray(source.symbols[max(document.offset, start - GRAM + 1) : end])))
            total += int.from_bytes(digest.digest(), "little")
        combined = digest_of(f"{len(documents)} {total % (1 << 256)}".encode())
        n_bytes = sum(document.n_bytes for document in documents)
        return cls(combined, len(documents), n_bytes, np.unique(np.concatenate(samples)))

    def count(self, stretches: list[bytes]) -> np.ndarray:
        """(2,) int64: the samples of scored stretches of text, and those that this text does not have."""
        found = [sampled(np.frombuffer(each, np.uint8)) for each in stretches]
        hashes = np.concatenate([np.zeros(0, np.uint64), *found])
        return np.array([len(hashes), np.count_nonzero(~np.isin(hashes, self.samples))])


def sampled(data: np.ndarray) -> np.ndarray:
    """The hashes of the sampled GRAMs of bytes (n,) uint8, (m,) uint64: which ones, only their own bytes say."""
    hashes, n = (data.astype(np.uint64) + np.uint64(1)) * np.uint64(FACTOR), 1
    if len(data) < GRAM:
        return hashes[:0]
    while n < GRAM:
        hashes = hashes[:-n] * np.uint64(FACTOR**n & MASK) + hashes[n:]
        n *= 2
    return hashes[hashes >> np.uint64(56) == 0]
