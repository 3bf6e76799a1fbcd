"""The part of a test corpus that was seen before: in the training corpus, and earlier in the test corpus itself. Without torch.

    n-grams     13 tokens (TOKEN) of one document that also occur in one document of the training corpus
    substrings  a byte is covered if it is in 50 bytes of one document that also occur in one document elsewhere, so in an
                exact match of 50 bytes or more. Every match is verified byte by byte; an earlier one in the test corpus may
                overlap its repetition, as in LZ77. Bytes outside documents never count

If the table is too small for the test corpus, it keeps only an even sample of windows. The others are forgotten (n_forgotten_*).
So a seen part can be reported as new, but a new part is never reported as seen.
"""

import re
from codecs import getincrementaldecoder
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

from prequential.errors import ConfigError, CorpusError
from prequential_corpora.corpus import Document

# Characters that are a token of their own: of scripts without spaces between words, and signs.
ALONE = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u1950-\u19ff\u1a20-\u1aaf\u1b00-\u1b7f\ua980-\ua9ff\uaa60-\uaadf"  # Thai, Khmer
    "\u2e80-\u312f\u3190-\ua4cf\uf900-\ufaff\uff61-\uff9f\U00016fe0-\U00018d7f\U0001aff0-\U0001b2ff\U00020000-\U0003ffff"  # Han
    "\u2010-\u2bff\U0001f000-\U0001faff"  # punctuation, symbols, pictures; then those of alphabets
    "\x80-\xa9\xab\xac\xae-\xb1\xb4\xb6-\xb8\xbb\xbf\xd7\xf7\u055a-\u055f\u0589\u060c\u061b\u061f\u06d4\u0964\u0965"
)
ASCII_SIGNS = r"\x00-/:-@\[-`{-\x7f"
TOKEN = re.compile(rf"[^\s{ASCII_SIGNS}{ALONE}]+|\S")  # a word, or one character

GRAM_TOKENS = 13
CHUNK_BYTES = 1 << 18

Bytes = NDArray[np.uint8]
Flags = NDArray[np.bool_]
Keys = NDArray[np.uint64]
Indices = NDArray[np.int64]

_MIX = np.uint64(0x9E3779B97F4A7C15)
_JOIN_TOKENS = np.array([0xBF58476D1CE4E5B9, 0x94D049BB133111EB, 0xD6E8FEB86659FD93, 0x72419DB23951DF99], np.uint64)


def mixed(keys: Keys) -> Keys:
    """A one-to-one mapping of keys that mixes all bits, so that any part of the bits can represent a key."""
    keys = (keys ^ keys >> np.uint64(32)) * _MIX
    keys ^= keys >> np.uint64(29)
    return keys


class Side(NamedTuple):
    """A corpus: its bytes, and the start and the end of each document; both (D,) int64, ascending."""

    stream: Bytes
    offsets: Indices
    ends: Indices

    @classmethod
    def of(cls, stream: Bytes, documents: Sequence[Document]) -> Self:
        """Raises CorpusError for an array that is not of bytes, and for documents that overlap or are outside the stream."""
        if stream.dtype != np.uint8 or stream.ndim != 1:
            raise CorpusError(f"overlap needs bytes, (n,) uint8, not {stream.shape} {stream.dtype}")
        offsets = np.array([d.offset for d in documents], np.int64)
        ends = offsets + np.array([d.n_bytes for d in documents], np.int64)
        wrong = (offsets < np.concatenate([[0], ends[:-1]])) | (ends < offsets) | (ends > len(stream))
        if len(documents) and wrong.any():
            at = int(wrong.argmax())
            place = f"document {documents[at].name!r} ({offsets[at]} to {ends[at]}) overlaps another or is outside the corpus"
            raise CorpusError(f"{place} of {len(stream)} bytes; list documents in the order of the stream")
        return cls(np.ascontiguousarray(stream).view(np.ndarray), offsets, ends)

    def inside(self, start: int, end: int, margin: int = 0) -> Flags:
        """(end - start,) bool: whether one document contains the byte and the `margin` bytes after it."""
        first, last = np.searchsorted(self.ends, start, "right"), np.searchsorted(self.offsets, end, "left")
        begin = self.offsets[first:last].clip(start) - start
        stop = (self.ends[first:last] - margin).clip(start, end) - start
        some = begin < stop
        return _covered(begin[some], stop[some], end - start)


def _covered(starts: Indices, ends: Indices, n: int) -> Flags:
    """(n,) bool: what the stretches cover. The starts differ, and so do the ends; at most 127 stretches meet."""
    steps = np.zeros(n + 1, np.int8)
    steps[starts] += 1
    steps[ends] -= 1  # if the next one starts here, the two steps cancel
    return steps[:-1].cumsum(dtype=np.int8) > 0


def gram_chunks(side: Side) -> Iterator[tuple[Keys, Indices]]:
    """The n-grams of 13 tokens of one document each, in chunks: hashes (m,), none of them 0, and documents (m,), ascending."""
    keys, owners = list[int](), list[int]()
    for document, tokens in _tokens(side):
        keys += (xxh3_64_intdigest(token.encode("utf-8", "surrogateescape")) for token in tokens)
        owners += [document] * len(tokens)
        if len(keys) > CHUNK_BYTES:
            yield _grams(np.array(keys, np.uint64), np.array(owners))
            del keys[: 1 - GRAM_TOKENS], owners[: 1 - GRAM_TOKENS]
    yield _grams(np.array(keys, np.uint64), np.array(owners, np.int64))


def _grams(keys: Keys, owners: Indices) -> tuple[Keys, Indices]:
    """Joins hashes of 2, 4 and 8 tokens; the last two overlap."""
    n_before = GRAM_TOKENS - 1
    whole = owners[:-n_before] == owners[n_before:]
    for step, factor in zip((1, 2, 4, GRAM_TOKENS - 8), _JOIN_TOKENS, strict=True):
        keys = keys[:-step] * factor + keys[step:]
    return np.maximum(mixed(keys), np.uint64(1))[whole], owners[n_before:][whole]


def _tokens(side: Side) -> Iterator[tuple[int, list[str]]]:
    """The number of a document and some of its tokens, in their order. A word of more than CHUNK_BYTES may be cut."""
    for document, (start, end) in enumerate(zip(side.offsets.tolist(), side.ends.tolist(), strict=True)):
        decoder, rest = getincrementaldecoder("utf-8")("surrogateescape"), ""
        for at in range(start, end, CHUNK_BYTES):
            stop = min(at + CHUNK_BYTES, end)
            text = rest + decoder.decode(side.stream[at:stop].tobytes(), final=stop == end).casefold()
            tokens, rest = TOKEN.findall(text), ""
            if stop < end and tokens and text.endswith(tokens[-1]) and len(tokens[-1]) < CHUNK_BYTES:
                rest = tokens.pop()  # the next chunk may continue it
            yield document, tokens


WINDOW_BYTES = 50
DIRTY_SHARE = 0.2  # a document is dirty if at least this share of its 13-grams or of its bytes was seen
MOSTLY_SEEN_SHARE = 0.5  # if at least this share of the test corpus's bytes was seen, there is a warning
MAX_MEMORY_BYTES = 1 << 30
_JOIN = np.array([0xE7037ED1A0B428DB, 0x8EBC6AF09C88C6E3, 0x589965CC75374CC3], np.uint64)
_OFFSETS = (0, 8, 16, 24, 32, 40, WINDOW_BYTES - 8)  # of the words that cover a window
KEY_BYTES = 48  # of memory for each key while the table is made
_FILTER_BITS = np.uint64(22)
_LOW_HALF = np.uint64(2**32 - 1)


@dataclass(frozen=True, kw_only=True, eq=False)
class Overlap:
    """The overlap of a test corpus of n bytes in D documents. Arrays per document are (D,), in stream order.

    in_train, in_test: (n,) bool, bytes in matches of 50 bytes or more to the training corpus, or to earlier bytes of the test.
    n_bytes, seen_bytes: int64, lengths of documents, and how many of these bytes in_train covers.
    n_grams, seen_grams: int64, the 13-grams at all positions, and those that occur in the training corpus.
    n_forgotten_windows, n_forgotten_grams: positions of the test corpus that did not fit into the table; at 0, all is exact.
    """

    in_train: Flags
    in_test: Flags
    n_bytes: Indices
    seen_bytes: Indices
    n_grams: Indices
    seen_grams: Indices
    n_forgotten_windows: int
    n_forgotten_grams: int

    @property
    def dirty(self) -> Flags:
        """(D,) bool: the training corpus has 20 % or more of its 13-grams or bytes. Others are clean."""
        gram_share = self.seen_grams / np.maximum(self.n_grams, 1)
        return np.maximum(gram_share, self.seen_bytes / np.maximum(self.n_bytes, 1)) >= DIRTY_SHARE

    @property
    def novel(self) -> Flags:
        """(n,) bool: bytes that neither the training corpus nor earlier bytes of the test corpus cover."""
        return ~(self.in_train | self.in_test)

    @property
    def warning(self) -> str | None:
        """One line if most of the test corpus was seen in the training corpus, else None."""
        n_bytes = int(self.n_bytes.sum())
        covered, dirty = int(self.seen_bytes.sum()), int(self.n_bytes[self.dirty].sum())
        if n_bytes == 0 or max(covered, dirty) < MOSTLY_SEEN_SHARE * n_bytes:
            return None
        return (
            f"the test set is mostly seen: {100 * covered / n_bytes:.1f} % of its bytes lie in copies of {WINDOW_BYTES} bytes or "
            f"more from the training set, and {100 * dirty / n_bytes:.1f} % in documents that are largely in it; its loss "
            "measures memory, not prediction: use the loss of clean documents"
        )

    def to_dict(self) -> dict[str, object]:
        """Definitions, thresholds and totals as JSON values. Only the arrays have the values of single documents."""
        names = ("n_bytes", "n_grams", "seen_bytes", "seen_grams", "dirty")
        sums = {name: int(getattr(self, name).sum()) for name in names}
        return {
            "window_bytes": WINDOW_BYTES,
            "gram_tokens": GRAM_TOKENS,
            "dirty_share": DIRTY_SHARE,
            "n_documents": len(self.n_bytes),
            "n_bytes": sums["n_bytes"],
            "n_grams": sums["n_grams"],
            "train": {
                "bytes": sums["seen_bytes"],
                "byte_share": sums["seen_bytes"] / max(sums["n_bytes"], 1),
                "grams": sums["seen_grams"],
                "gram_share": sums["seen_grams"] / max(sums["n_grams"], 1),
                "dirty_documents": sums["dirty"],
                "dirty_bytes": int(self.n_bytes[self.dirty].sum()),
            },
            "novel_bytes": sums["n_bytes"] - int((self.in_train | self.in_test).sum()),
            "n_forgotten_windows": self.n_forgotten_windows,
            "n_forgotten_grams": self.n_forgotten_grams,
            "warning": self.warning,
        }


class KeyTable:
    """Keys, sorted, each with its first position and a flag, in limited memory.

    chunks: keys and their positions, ascending. n_keys: at most so many keys will come. If these need more than max_memory_bytes,
    the table takes only keys whose low half is below a limit, and none after it is full. `position` and `seen` are by place.
    """

    def __init__(self, chunks: Iterable[tuple[Keys, Indices]], n_keys: int, max_memory_bytes: int) -> None:
        room = max_memory_bytes // KEY_BYTES
        limit = np.uint64(min(2**32, 2**32 * room // max(n_keys, 1)))
        kept = [(np.zeros(1, np.uint64), np.zeros(1, np.int64))]  # no key is 0: so no table is empty
        for keys, positions in chunks:
            taken = np.flatnonzero((keys & _LOW_HALF) < limit)[:room]
            kept.append((keys[taken], positions[taken]))
            room -= len(taken)
        all_keys, all_positions = (np.concatenate(parts) for parts in zip(*kept, strict=True))
        del kept
        self._keys, first = np.unique(all_keys, return_index=True)
        self.position: Indices = all_positions[first]
        self.seen: Flags = np.zeros(len(first), np.bool_)
        self._filter = np.zeros(1 << int(_FILTER_BITS), np.bool_)
        self._filter[self._keys >> np.uint64(64) - _FILTER_BITS] = True

    def find(self, keys: Keys) -> Indices:
        """The places (m,) of keys (m,); -1 for a key that is not in the table."""
        places = np.full(len(keys), -1, np.int64)
        likely = np.flatnonzero(self._filter[keys >> np.uint64(64) - _FILTER_BITS])
        at = np.searchsorted(self._keys, keys[likely])
        at[at == len(self._keys)] = 0
        there = self._keys[at] == keys[likely]
        places[likely[there]] = at[there]
        return places


def measure_overlap(
    train: Bytes,
    train_documents: Sequence[Document],
    test: Bytes,
    test_documents: Sequence[Document],
    *,
    max_memory_bytes: int = MAX_MEMORY_BYTES,
) -> Overlap:
    """The overlap of `test` (n,) with `train` (m,) and with itself. Both are uint8, may be memory-mapped, and may be empty.

    max_memory_bytes: the limit of the table. With 48 bytes for each byte of `test` the result is exact. In addition, the
    measurement needs 3 bytes for each byte of `test`, and 50 MB. Raises ConfigError for less than 1 KiB, CorpusError for arrays
    that are not bytes and for documents out of order or outside the stream.
    """
    if max_memory_bytes < 1024:
        raise ConfigError(f"the overlap table needs at least 1024 bytes of memory, not {max_memory_bytes}")
    train_side, test_side = Side.of(train, train_documents), Side.of(test, test_documents)
    in_train, in_test, n_forgotten_windows = _match_windows(train_side, test_side, max_memory_bytes)
    n_grams, seen_grams, n_forgotten_grams = _match_grams(train_side, test_side, max_memory_bytes)
    places = zip(test_side.offsets, test_side.ends, strict=True)
    return Overlap(
        in_train=in_train,
        in_test=in_test,
        n_bytes=test_side.ends - test_side.offsets,
        seen_bytes=np.array([np.count_nonzero(in_train[start:end]) for start, end in places], np.int64),
        n_grams=n_grams,
        seen_grams=seen_grams,
        n_forgotten_windows=n_forgotten_windows,
        n_forgotten_grams=n_forgotten_grams,
    )


def repeated_bytes(stream: Bytes, max_memory_bytes: int = MAX_MEMORY_BYTES) -> tuple[Flags, int]:
    """(n,) bool: the bytes of `stream` in matches of 50 bytes or more to earlier bytes; and how many windows were forgotten."""
    whole, nothing = Side.of(stream, [Document("", 0, len(stream))]), Side.of(np.zeros(0, np.uint8), [])
    _, repeated, n_forgotten = _match_windows(nothing, whole, max_memory_bytes)
    return repeated, n_forgotten


def _match_windows(train: Side, test: Side, max_memory_bytes: int) -> tuple[Flags, Flags, int]:
    """(n,) bytes of test that train covers, (n,) bytes that earlier bytes of test cover, and the number of forgotten windows."""
    table = KeyTable(_window_chunks(test), len(test.stream), max_memory_bytes)
    for keys, starts in _window_chunks(train):
        places = table.find(keys)
        new = (places >= 0) & ~table.seen[places]
        places, starts = places[new], starts[new]
        table.seen[places[_same(test.stream, table.position[places], train.stream, starts)]] = True
    (in_train, in_test), n_forgotten = np.zeros((2, len(test.stream)), np.bool_), 0
    for keys, starts in _window_chunks(test):
        places = table.find(keys)
        n_forgotten += int((places < 0).sum())
        places, starts = places[places >= 0], starts[places >= 0]
        first = table.position[places]
        same = _same(test.stream, first, test.stream, starts)
        _cover(in_test, starts[same & (first < starts)])
        _cover(in_train, starts[same & table.seen[places]])
    return in_train, in_test, n_forgotten


def _window_chunks(side: Side) -> Iterator[tuple[Keys, Indices]]:
    """Hashes (m,) and offsets (m,) of the windows of 50 bytes that are inside one document, in chunks."""
    margin = WINDOW_BYTES - 1
    for start in range(0, len(side.stream) - margin, CHUNK_BYTES):
        data = side.stream[start : start + CHUNK_BYTES + margin]
        inside = side.inside(start, start + len(data) - margin, margin)
        yield _window_keys(data)[inside], start + np.flatnonzero(inside)


def _window_keys(data: Bytes) -> Keys:
    """(m - 49,): a hash, not 0, of the 50 bytes from each byte on. Joins hashes of 8, 16 and 32 bytes; the last two overlap."""
    keys = mixed(_words(data).astype(np.uint64))
    for step, factor in zip((8, 16, WINDOW_BYTES - 32), _JOIN, strict=True):
        keys = keys[:-step] * factor + keys[step:]
    return np.maximum(mixed(keys), np.uint64(1))


def _words(stream: Bytes) -> NDArray[np.uint64]:
    """(m - 7,): the little-endian number of the 8 bytes that start at each byte; a view."""
    return np.ndarray((max(len(stream) - 7, 0),), "<u8", stream, strides=(1,))


def _same(a: Bytes, at_a: Indices, b: Bytes, at_b: Indices) -> Flags:
    """(m,) bool: whether the windows of a and b at these offsets contain the same bytes."""
    words_a, words_b = _words(a), _words(b)
    same = np.ones(len(at_a), np.bool_)
    for offset in _OFFSETS:
        same &= words_a[at_a + offset] == words_b[at_b + offset]
    return same


def _cover(covered: Flags, starts: Indices) -> None:
    """Marks the windows that start at `starts`, which are ascending and in one chunk."""
    if not len(starts):
        return
    first, end = int(starts[0]), int(starts[-1]) + WINDOW_BYTES
    covered[first:end] |= _covered(starts - first, starts - first + WINDOW_BYTES, end - first)


def _match_grams(train: Side, test: Side, max_memory_bytes: int) -> tuple[Indices, Indices, int]:
    """For each document of test: its 13-grams, and those in train; and the number of forgotten ones."""
    table = KeyTable(gram_chunks(test), len(test.stream), max_memory_bytes)
    for keys, _ in gram_chunks(train):
        places = table.find(keys)
        table.seen[places[places >= 0]] = True
    counts, n_forgotten = np.zeros((2, len(test.ends)), np.int64), 0
    for keys, owners in gram_chunks(test):
        places = table.find(keys)
        known = places >= 0
        n_forgotten += len(known) - int(known.sum())
        counts[0] += np.bincount(owners, minlength=counts.shape[1])
        counts[1] += np.bincount(owners[known][table.seen[places[known]]], minlength=counts.shape[1])
    return counts[0], counts[1], n_forgotten
