"""What each character is for a token: part of a word, a mark, a token of its own, or white space; and its lower-case form.

    space   separators (Z), U+0085, the zero-width space U+200B and the byte order mark U+FEFF
    mark    marks (M) and format characters (Cf), such as accents, vowel signs and joiners
    single  punctuation and symbols (P, S), control characters (Cc), and every letter and number of a script that is written
            without spaces between words (SPACELESS)
    word    all other letters and numbers

The letters in brackets are general categories of Unicode 17. They are written down here, because Python's `unicodedata` differs
between versions of Python, and so would the tokens. A code point that Unicode has not assigned has the kind of the last assigned
one before it. Below 128, white space is 9 to 13 and 32, words are of A-Z a-z 0-9, and every other byte is single.
"""

import re
from functools import cache

import numpy as np
from numpy.typing import NDArray

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
# tests/corpora/test_overlap_scripts.py computes them again.
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


@cache
def character_table() -> NDArray[np.uint32]:
    """(0x110000 + 256,): kind << 24 | lower-case form of each code point; then of each byte that is not part of valid UTF-8.

    Such a byte is a letter of its own, so that words of old encodings of one byte per letter stay words.
    """
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
