"""Tokens of a stream of documents in UTF-8 and their 13-grams, as 64-bit hashes, in one compiled pass.

docs/DATA.md defines tokens. Each character has a kind:

    space   separators (Z), U+0085, the zero-width space U+200B and the byte order mark U+FEFF
    mark    marks (M) and format characters (Cf), such as accents, vowel signs and joiners; part of the token before it
    single  punctuation and symbols (P, S), control characters (Cc), and every letter and number of a script that is written
            without spaces between words (SPACELESS): a token of its own
    word    all other letters and numbers

The letters in brackets are categories of Unicode 17. They are written down here, because `unicodedata` differs between versions
of Python. A code point that is not assigned has the kind of the last assigned one before it. Below 128, white space is 9 to 13
and 32, words are of A-Z a-z 0-9, and every other byte is single. A mark that follows no token begins a word. A character that is
cut by the end of its document is not valid. A token of more than 2**18 bytes is cut: each part is the longest of at most 2**18.

Hashes are not verified, and anybody can construct equal ones, because no key is secret. All arithmetic is on integers.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from prequential.errors import CorpusError
from prequential.machine.compiled import inlined, kernel
from prequential_corpora.corpus import Document

SPACE, MARK, SINGLE, WORD = range(4)
N_CODE_POINTS = 0x110000
KIND_SHIFT = 24  # an entry of the table is kind << 24 | lower-case form
# Scripts without spaces between words: code points from-to (the second excluded).
SPACELESS = (
    (0x0E00, 0x0F00),  # Thai, Lao
    (0x1000, 0x10A0), (0xA9E0, 0xAA00), (0xAA60, 0xAA80),  # Burmese
    (0x1780, 0x1800), (0x19E0, 0x1A00),  # Khmer
    (0x1950, 0x19E0), (0x1A20, 0x1AB0), (0xAA80, 0xAAE0),  # Tai Le, New Tai Lue, Tai Tham, Tai Viet
    (0x1B00, 0x1B80), (0xA980, 0xA9E0),  # Balinese, Javanese
    (0x2E80, 0x3130), (0x3190, 0xA4D0), (0xF900, 0xFB00),  # Han, kana, Bopomofo, Yi
    (0xFF65, 0xFFA0),  # half-width kana
    (0x16FE0, 0x18D80), (0x1AFF0, 0x1B300),  # Tangut, Khitan, older kana, Nushu
    (0x20000, 0x40000),  # Han
)  # fmt: skip
# Alphabets with upper case that are folded, besides A-Z: Latin, Greek, Cyrillic and Armenian; also in full width.
CASED = ((0x80, 0x590), (0x1E00, 0x2000), (0xFF21, 0xFF3B))

# Runs of one kind from 0x80 to 0x1FFFF: a length in base 16, and W (word), M (mark), S (single) or B (space).
# tests/corpora/test_overlap.py computes them again.
_RUNS = (
    "5S1B1aS1B9S1W2S1M4S2W1S1W3S2W1S3W1S17W1S1fW1S1caW4ScWeS5W7S1W1S1W11S70M5W1S8W1S5W2S1W1S6eW1S8bW1S7Md0W6S29W2S"
    "2W4S2dM1S1M1S2M1S2M1S9M23WdS6MaSbM1S1M3S2bW15MaW4S2W1M63W1S1W8M1S6M2W2M1S4MfW2S1WfS1M1W1M1eW1dM59WbM3aW9M2W4S"
    "3W1M2S16W4M1W9M1W3M1W7M10S19W5M2S28W1S7W10M2aW3aM36W3M1W12M1W7MaW2M2SaW1S10W4M37W1M1W10M9W5M6W4McW2S6W2S1W1S7M"
    "37W1dM17W2M3W1MbS4M37W1M1W12M12W4MaW9S1WbM37W1M1W1eM6W4MaW1S11W1M3bW12M7WfMdWdS5M37W1M1W1aMaW4M11W1S7W1S1W3M1S"
    "37W1M1W1eM6W4MdW11M37W2M1W10M1W5S3W1MaW4M13W1S7W4M45W1cMcW2M3dS1M2SbM8S8M62S1M2S9MbS8M30S1W17S2M6S14W1S1M1S1M"
    "1S1M4S2M31W14M1S2M5W31M8S1M64S14M17S4M4S3M1S3M2S7M3S4MdScM1S1MaS4M2S5bW1S261W3M9S27W10S60W1S26cW2S11W1B1aW5S"
    "4bW3S24WdM13W3MbS12WeM12WeM34S20M9S3M2bS5M75W2M22W1M76W20M6SaWb0S17W7M37S2bM30S55M2fS11M26S9McS3M1eWdM38W16M4S"
    "24W17M5S3eW2S40W10S3M1S15M4W1M6W1M2W3Mc6W40M1bdW1S1W3SbW3SdW3SdW5SbW3ScB4M18S2B5M1B2fS1B10MaW5SbW5S11W30S30M2S"
    "1W4S1W2SaW1S1W3S5W6S1W1S1W1S1W1S4W1SbW2S4W5S5W4S1W1S3aW2d6S3cW4eS16W276S1eW46cSe5W6S4W3M7W4S1W2S70WfS1M60W20M"
    "2fS1W1d0S1B29S6M69S2M96S5fW7340S2eW2S10dW3S5fW4M1SaM1S1fW2M50W2M25S9W2S67W2S77W1M3W1M4W1M17W5M4S4M6WaS34WcS2M"
    "32W1aM2S10W12M6W3S1W1S2W1M26W8M2S17W18M1S20W4M2fSeM24S1M1aS29W17M3W1M8W4McW1fS3M32S1M1S3M2S2M5S2M1S1M1eSbW5M2S"
    "3WcM5aW1SeW2S77W8M1S4M4d10W200S1eW1MaW1S88W21S16bW12S40W2S36W28ScW4S10M10S10M40S8fW2BfSaW7S1aW6S1aW45S40W19S3M"
    "4S100W7S30W9S39W11S2W71S83M60W1M95WaM1fW1S30W1S19eW1S2e7W1S1fW2Sa6W1S1fW1Sc1WfM28W8M10W10S1fW1S48W1S1cW6M5W10S"
    "39W7S59W10S17bWcM39W5M1S1fWd2S4bW2M3S19W2S5M9S17W10M46WbM4W1bS12W4M2aS50W3M35WfMbS1eW1M2W2MaW4M2dWbM2S1M4SeM"
    "30W3M24WfMaW4S1W2M2cW1M2SaW3M30WeM4W4S4M1S2MbW1S1W4S4bWcM6S1M2W3fM29W7S2fW11M10W5M36W2M1W12M7W6M5W1eM38W19M1W"
    "1M1WdS1fM35W12M4W5SaW4S1M51W14M2W1Se8W12M17S4W24M30W11M3S1cW20S2bWdM1W7S5dW13McW4SecWfM65S90WfM1W1M1W2McS81W"
    "10M1W1S1W1cM1WaM28W7M1W4M8S9M1WbM2eW10M3S1W12S50WaS56W60M21WfS3fW11M1WfS20W2S20W6eM31W15M1W9M3aWeM58W1M102W4M"
    "9S2M1W1M30WfMdSaW56M25W2bS470W5Sb7cWfS430W11M6W19M2cbeW12M93eW2S80W5MbS30W7M9S4WcS21dW3S127W9SafW1M1W42M4dW4S"
    "eM1d8eS2270Wc10S9cW1S2M1Sf60Mf0SaW206S50M1d7S2M3cS5M3S16M2S7M1eS4M94S3MbS3M8S2M2S1M20S40M40W60S361W1S19W1S1fW"
    "1S19W1S1fW1S19W1S1fW1S19W1S1fW1S19W1S3cW200S37M4S32M8S1MeS1M16S65M400S100W30M5fW71M30W7M18W141S1eW12M2cW4MfW"
    "1d1S1cW4MfeW2MfWc1S23W1M2W1M7W2M5W9M1d2W30M44W7M13W313S3bW1S3W1S7dW1S1c1W210SdWae3SaW406S"
)
_KIND_OF = {"B": SPACE, "M": MARK, "S": SINGLE, "W": WORD}

GRAM_TOKENS = 13
CHUNK_BYTES = 1 << 18

Keys = NDArray[np.uint64]
Indices = NDArray[np.int64]


def constants(n: int, seed: int) -> Keys:
    """(n,) odd numbers from splitmix64 (Steele et al. 2014)."""
    found = np.empty(n, np.uint64)
    for i in range(n):
        seed = (seed + 0x9E3779B97F4A7C15) % 2**64
        z = (seed ^ seed >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
        found[i] = z ^ z >> 31 | 1
    return found


_FORM = np.uint32((1 << KIND_SHIFT) - 1)
_STEP = np.uint64(0x72419DB23951DF99)
_FIRST_FACTOR, _SECOND_FACTOR = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_NONE = SPACE  # the kind of a token that has not begun
_JOIN = constants(8, seed=6)[2:6]
MIX = constants(1, seed=6)[0]
_VALUES = constants(256, seed=9)[:128]  # of the characters below 128


def mixed(keys: Keys) -> Keys:
    """A one-to-one mapping of keys that mixes all bits, so that any part of the bits can represent a key."""
    keys = (keys ^ keys >> np.uint64(32)) * MIX
    keys ^= keys >> np.uint64(29)
    return keys


@cache
def character_table() -> NDArray[np.uint32]:
    """(0x110000 + 256,): kind << 24 | lower-case form of each code point; then of each byte outside valid UTF-8, a letter."""
    codes = np.arange(N_CODE_POINTS + 256, dtype=np.uint32)
    for code in (*range(0x41, 0x5B), *(code for first, end in CASED for code in range(first, end))):
        folded = chr(code).casefold()
        # the same in every version of Python: Unicode never changes the folding of an assigned letter
        if len(folded) == 1:
            codes[code] = ord(folded)
    return (_kinds() << np.uint32(KIND_SHIFT)) | codes


def _kinds() -> NDArray[np.uint32]:
    kinds = np.full(N_CODE_POINTS + 256, WORD, np.uint32)
    kinds[:0x80] = SINGLE
    kinds[[*range(0x30, 0x3A), *range(0x41, 0x5B), *range(0x61, 0x7B)]] = WORD
    kinds[[*range(9, 14), 32]] = SPACE
    runs = [(int(n, 16), _KIND_OF[kind]) for n, kind in re.findall("([0-9a-f]+)([BMSW])", _RUNS)]
    lengths, values = np.array(runs).T
    kinds[0x80:0x20000] = np.repeat(values, lengths)
    kinds[0x20000:0x40000] = SINGLE
    kinds[0xE0000:0xE1000] = MARK  # tags and variation selectors
    return kinds


class Layout(NamedTuple):
    """The start and the end of each document in a stream; both (D,) int64, ascending."""

    offsets: Indices
    ends: Indices

    @classmethod
    def of(cls, documents: Sequence[Document], n_bytes: int) -> Self:
        """The layout of `documents` in a stream of n_bytes. Raises CorpusError if they overlap or are outside the stream."""
        offsets = np.array([d.offset for d in documents], np.int64)
        ends = offsets + np.array([d.n_bytes for d in documents], np.int64)
        wrong = (offsets < np.concatenate([[0], ends[:-1]])) | (ends < offsets) | (ends > n_bytes)
        if len(documents) and wrong.any():
            at = int(wrong.argmax())
            raise CorpusError(
                f"document {documents[at].name!r} ({offsets[at]} to {ends[at]}) overlaps another or is outside the corpus "
                f"of {n_bytes} bytes; list documents in the order of the stream"
            )
        return cls(offsets, ends)

    def inside(self, start: int, end: int, margin: int = 0) -> NDArray[np.bool_]:
        """(end - start,) bool: whether one document contains the byte and the `margin` bytes after it."""
        first, last = np.searchsorted(self.ends, start, "right"), np.searchsorted(self.offsets, end, "left")
        begin = self.offsets[first:last].clip(start) - start
        stop = (self.ends[first:last] - margin).clip(start, end) - start
        steps = np.zeros(end - start + 1, np.int8)
        some = begin < stop
        steps[begin[some]] = 1
        steps[stop[some]] -= 1  # if the next document starts here, the two steps cancel
        return steps[:-1].cumsum(dtype=np.int8).view(np.bool_)


def gram_chunks(stream: NDArray[np.uint8], layout: Layout) -> Iterator[tuple[Keys, Indices]]:
    """The n-grams of 13 tokens of one document each, in chunks: hashes (m,), none of them 0, and documents (m,), ascending."""
    n_before = GRAM_TOKENS - 1
    for keys, owners in token_chunks(stream, layout):
        whole = (owners[:-n_before] == owners[n_before:]) & (owners[n_before:] >= 0)
        yield _joined(keys)[whole], owners[n_before:][whole]


def token_chunks(stream: NDArray[np.uint8], layout: Layout) -> Iterator[tuple[Keys, Indices]]:
    """Tokens of a stream in chunks: hashes and numbers of documents, (12 + m,); the first 12 repeat the last 12 before."""
    stream = stream.view()
    stream.flags.writeable = False  # with a single type, the kernel is compiled once
    table, polynomial, state = character_table(), np.zeros(2, np.uint64), np.zeros(3, np.int64)
    n_before = GRAM_TOKENS - 1
    keys, owners = np.zeros(n_before, np.uint64), np.full(n_before, -1, np.int64)  # at first, of document -1
    new, new_owners = np.empty(CHUNK_BYTES + 1, np.uint64), np.empty(CHUNK_BYTES + 1, np.int64)
    start = 0
    while start < len(stream):
        stop = min(start + CHUNK_BYTES, len(stream))
        start, n = _tokenise(stream, *layout, start, stop, table, _VALUES, polynomial, state, new, new_owners)
        keys = np.concatenate([keys[-n_before:], mixed(new[:n])])
        owners = np.concatenate([owners[-n_before:], new_owners[:n]])
        yield keys, owners


def _joined(keys: Keys) -> Keys:
    """(m - 12,): a hash, not 0, of the 13 tokens from each on. Joins hashes of 2, 4 and 8 tokens; the last two overlap."""
    for step, factor in zip((1, 2, 4, GRAM_TOKENS - 8), _JOIN, strict=True):
        keys = keys[:-step] * factor + keys[step:]
    return np.maximum(mixed(keys), np.uint64(1))


@inlined
def _read(stream, at, end):  # type: ignore[no-untyped-def]
    """The code point at `at`, before `end`, and its number of bytes (RFC 3629). An invalid byte is 0x110000 + byte, 1."""
    first = np.int64(stream[at])
    if first < 0x80:
        return first, 1
    n, lowest, code = 0, 0, np.int64(0)
    if 0xC2 <= first < 0xE0:
        n, lowest, code = 2, 0x80, first & 0x1F
    elif 0xE0 <= first < 0xF0:
        n, lowest, code = 3, 0x800, first & 0x0F
    elif 0xF0 <= first < 0xF5:
        n, lowest, code = 4, 0x10000, first & 0x07
    valid = n > 0 and at + n <= end
    if valid:
        for i in range(1, n):
            byte = np.int64(stream[at + i])
            valid &= byte & 0xC0 == 0x80
            code = code << 6 | byte & 0x3F
    if valid and lowest <= code < N_CODE_POINTS and not 0xD800 <= code < 0xE000:
        return code, n
    return N_CODE_POINTS + first, 1


@inlined
def _value(code, values):  # type: ignore[no-untyped-def]
    """The number that stands for a character in the polynomial of a token: from a table, or by the mixer of splitmix64."""
    if code < 128:
        return values[code]
    z = np.uint64(code) * _FIRST_FACTOR
    z = (z ^ z >> np.uint64(30)) * _FIRST_FACTOR
    z = (z ^ z >> np.uint64(27)) * _SECOND_FACTOR
    return z ^ z >> np.uint64(31)


@kernel
def _tokenise(  # type: ignore[no-untyped-def]
    stream, offsets, ends, at, stop, table, values, polynomial, state, keys, owners
):
    """Fills keys and owners with the tokens that end in `stream` from `at` to `stop`; returns where to go on, and their number.

    The last character may reach beyond `stop`. A token that may continue is left for the next call: polynomial (2,) uint64, its
    hash so far and the next power; state (3,) int64, its bytes, its kind and the number of its document. At first, all are 0.
    """
    key, power = polynomial[0], polynomial[1]
    n_bytes, kind, document = state[0], state[1], state[2]
    n = 0
    while document < len(ends):
        end = ends[document]
        at = max(at, offsets[document])
        while at < min(end, stop):
            code, width = _read(stream, at, end)
            here, form = np.int64(table[code] >> np.uint32(KIND_SHIFT)), table[code] & _FORM
            goes_on = kind != _NONE and (here == MARK or (here == WORD and kind == WORD))
            if not goes_on or n_bytes + width > CHUNK_BYTES:
                if kind != _NONE:
                    keys[n], owners[n], n = key, document, n + 1
                key, power, n_bytes = np.uint64(0), np.uint64(1), 0
                kind = WORD if here == MARK else here
            key += _value(form, values) * power
            power *= _STEP
            n_bytes += width
            at += width
        if at < end:
            break
        if kind != _NONE:
            keys[n], owners[n], n = key, document, n + 1
            kind = _NONE
        document += 1
    polynomial[0], polynomial[1] = key, power
    state[0], state[1], state[2] = n_bytes, kind, document
    return max(at, stop), n
