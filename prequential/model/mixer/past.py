"""The past of the mixer: a summary of all bytes before the next one, as an array of a few integers.

`advance` updates it after each byte. The contexts (contexts.py) and the choice of weights (sets.py) are made of it. Older bytes
are read from `ring`, which holds the last bytes (a power of two of them). `indirect` and `followers` hold what followed the last
occurrences of some contexts: their entries keep the last four bytes, or the last word. `fields` holds positions after some.

Names: a word is a sequence of letters, in lower case; a gap is what stands between two words. c1 is the last byte, c2 the one
before it. A group is a byte in which all letters, or all digits, count as equal.
"""

from typing import Any

import numpy as np

from prequential.machine.compiled import Array, inlined, merged
from prequential.model.hashing import HASH_MASK, hashed, is_letter

# The entries of `past`, int64:
(
    POSITION,  # of the next byte in the stream
    LAST4,  # the last 4 bytes, the newest in the lowest bits
    LAST8,  # the 4 bytes before those
    LAST12,  # the 4 bytes before those
    LAST16,  # the 4 bytes before those
    N_BITS,  # bits that the mixer has learned from
    # words
    WORD,  # hash of the letters of the current word; 0 outside a word
    WORD2,  # the same of the word before it, and so on
    WORD3,
    WORD4,
    LENGTH,  # letters of the current word, at most 15
    LENGTH2,  # letters of the word before it, at most 7
    GAP,  # hash of the current gap; 0 inside a word
    GAP2,  # hash of the gap before
    MARK,  # the first byte after the last complete word
    MARK2,  # the first byte after the word before that
    ENDING,  # the last three letters of the current word
    SUFFIX,  # the last three letters of the word before, and so on
    SUFFIX2,
    SUFFIX3,
    VOWELS,  # 4 bits for each letter of the current word: vowel, consonant or other; or the groups of the current gap
    INITIALS,  # the first letters of the last four words
    LETTERS,  # the last letters without what stands between words, 6 bits each
    UPPER,  # capital letters of the current word: bit 0 the first one, bit 1 a later one
    PHRASE,  # hash of the letters since the last space
    PHRASE2,  # hash of those before
    # sentences and paragraphs
    SENTENCE,  # the first word of the sentence
    SENTENCE_WORDS,  # words of the sentence so far
    PARAGRAPH,  # the first word of the paragraph
    KEYWORD,  # the last word before ":" or "="
    # lines
    LINE,  # position of the first byte of the current line
    LINE_ABOVE,  # the same of the line above
    LINE_ABOVE2,  # the same of the line above that
    FIRST,  # the first byte of the line that is not blank; 0 before it is known
    FIRST_WORD,  # the first word of the line
    INDENT,  # blanks at the beginning of the line
    LINE_HASH,  # hash of the line so far
    ABOVE_RUN,  # how many of the last bytes equal the bytes above them
    # records of binary data
    CONTROLS,  # control characters since the last piece of text, at most N_CONTROLS
    PRINTED,  # how many printable characters came last, at most N_PRINTED
    RECORD,  # the length of a record in bytes; 0 before one was found
    RECORD_SINCE,  # the position at which it was found
    CANDIDATE,  # a length that bytes suggest
    VOTES,  # how many did, less those that suggested another one since
    IN_RECORDS,  # 1 if the last byte belongs to a record, else 0
    BINARY_UNTIL,  # position up to which bytes have the code words of binary data (sets.py)
    # structure
    NEST,  # open brackets, 8 bits each, the innermost in the lowest bits
    OPENED,  # the last bracket or quotation mark that is still open
    INSIDE,  # hash of what follows the last open bracket
    TAG,  # the word before the last ">", "]" or "}"
    TAGS,  # open tags <...>, 8 bits each
    TAG_NAME,  # hash of the name of the tag that is being read; 0 outside one
    # fields
    IDENTIFIER,  # hash of the current identifier: letters, digits and _; 0 outside one
    IDENTIFIER2,  # the same of the identifier before
    KEY,  # the identifier before the last ":" or "="
    VALUE,  # hash of the line since then
    TEMPLATE,  # hash of the line so far, in which all numbers are equal
    TEMPLATE2,  # the same of the line above
    TEMPLATE3,  # and of the line above that
    NUMBER,  # hash of the digits of the current number; 0 outside one
    FIELD,  # separators of fields in the line so far, at most 255
    DEPTH,  # open brackets, < N_OWNERS
    # Positions: what followed there followed the last time, too. After each, whether a byte has differed since (`follow_field`).
    BY_TEMPLATE,
    BY_TEMPLATE_DIFFERS,
    BY_WORDS,
    BY_WORDS_DIFFERS,
    BY_FIELD,
    BY_FIELD_DIFFERS,
    # other views of the last bytes
    CLASSES,  # the classes of the last six characters, 5 bits each
    FOLDED,  # the last 4 bytes in lower case
    GROUPS,  # the groups of the last 4 bytes
    COLLAPSED,  # the groups of the last bytes without repetitions: 4 of them
    COLLAPSED2,  # the 4 before those
    NIBBLES,  # the upper halves of the last 8 bytes
    # matches
    MATCH,  # position of the byte that the longest match predicts
    MATCH_LENGTH,  # of the longest match, in bytes; 0: there is none
    LONG_MATCH,  # the same for matches that were found by more bytes
    LONG_MATCH_LENGTH,
) = range(78)
# For each open bracket: hash of the identifier before it, of which the lowest 3 bits count the commas in the bracket.
OWNERS, N_OWNERS = 78, 32
PAST_SIZE = OWNERS + N_OWNERS

# The entries of `indirect`.
(
    AFTER_1,  # by the last byte: the last four bytes that followed it
    SEEN_AT,  # by a byte: the position of its last occurrence
    APART,  # by a byte: the distance of its last two occurrences
    AFTER_2,  # by the last two bytes: the last four bytes that followed them
) = range(0, 1024, 256)
INDIRECT_SIZE = 768 + 65536
# The tables of `followers`, by a hash.
(
    AFTER_3,  # of the last three bytes: the last four bytes that followed them
    AFTER_4,  # of the last four bytes
    AFTER_WORD,  # of the current word or gap
    NEXT_WORD,  # of a word: the word that followed it
    NEXT_WORD2,  # of two words: the word that followed them
) = range(5)
N_FOLLOWERS, FOLLOWER_BITS = 5, 20
# The tables of `fields`, by a hash: positions after the last occurrence of a template, of words, of a number of fields in a line.
AT_TEMPLATE, AT_WORDS, AT_FIELD = range(3)
N_FIELDS = 3

BLANK, NEWLINE = 32, 10
# Classes of bytes:
(
    CONTROL, LOWER, CAPITAL, DIGIT, SPACE, LINE_END, LEADING, TRAILING, STOP, COMMA, QUOTE, OPENING, CLOSING, OPERATOR, OTHER,
) = range(15)  # fmt: skip


def _classes() -> Array:
    found = np.full(256, OTHER, np.uint8)
    for name, members in (
        (CONTROL, bytes(range(32))),
        (LOWER, b"abcdefghijklmnopqrstuvwxyz"),
        (CAPITAL, b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
        (DIGIT, b"0123456789"),
        (SPACE, b" "),
        (LINE_END, b"\n"),
        (LEADING, bytes(range(192, 256))),
        (TRAILING, bytes(range(128, 192))),
        (STOP, b".!?"),
        (COMMA, b",;:"),
        (QUOTE, b"\"'"),
        (OPENING, b"([{<"),
        (CLOSING, b")]}>"),
        (OPERATOR, b"=|*/\\"),
    ):
        found[list(members)] = name
    return found


CLASS = _classes()
GROUP = np.where(np.isin(CLASS, (LOWER, CAPITAL, DIGIT, LEADING, TRAILING)), CLASS, np.arange(256)).astype(np.uint8)
# Groups of which a sequence counts as one:
COLLAPSES = np.isin(np.arange(256), (LOWER, CAPITAL, DIGIT, LEADING, TRAILING))
VOWEL, CONSONANT, HALF_VOWEL = 1, 2, 3


@inlined
def byte_at(ring: Array, position: int) -> Any:
    return np.int64(ring[position & (ring.size - 1)])


@inlined
def byte_above(past: Array, ring: Array) -> Any:
    """The byte above the next one, one line up; 0 if that line is shorter."""
    position = past[LINE_ABOVE] + past[POSITION] - past[LINE]
    return byte_at(ring, position) if position < past[LINE] else 0


@inlined
def byte_above2(past: Array, ring: Array) -> Any:
    """The byte above the next one, two lines up; 0 if that line is shorter."""
    position = past[LINE_ABOVE2] + past[POSITION] - past[LINE]
    return byte_at(ring, position) if position < past[LINE_ABOVE] else 0


@inlined
def shifted(bits: Any, n: int, new: Any) -> Any:
    """32 bits after n new ones were appended."""
    return ((bits << n) | new) & HASH_MASK


@inlined
def place_after(tables: Array, h: Any) -> Any:
    """The entry of each table of `followers` or of `fields` for a hash."""
    return h & (tables.shape[1] - 1)


@inlined
def follower(tables: Array, table: int, h: Any) -> Any:
    """What followed the last occurrence of what has this hash."""
    return np.int64(tables[table, place_after(tables, h)])


@inlined
def word_or_gap(past: Array) -> Any:
    return past[WORD] if past[WORD] != 0 else past[GAP]


@inlined
def advance(
    past: Array, ring: Array, indirect: Array, followers: Array, fields: Array, byte: int, learns: bool
) -> None:
    """Updates all of the past after one more byte; `indirect`, `followers` and `fields` only with `learns`."""
    follow_matches(past, ring, byte)
    past[ABOVE_RUN] = min(past[ABOVE_RUN] + 1, 255) if byte_above(past, ring) == byte else 0
    if learns:
        record_followers(past, indirect, followers, byte)
    ring[past[POSITION] & (ring.size - 1)] = np.uint8(byte)
    past[POSITION] += 1
    last = past[LAST4] & 255
    advance_views(past, byte)
    if is_letter(byte):
        advance_word(past, byte)
    else:
        advance_gap(past, followers, byte, learns)
    advance_structure(past, byte)
    advance_record(past, indirect, byte, learns)
    if past[IN_RECORDS]:
        advance_line_of_record(past, byte)
    else:
        advance_line(past, byte, last)
    advance_fields(past, byte)
    advance_owners(past, byte)
    follow_fields(past, ring, fields, byte, learns)


@merged
def follow_matches(past: Array, ring: Array, byte: int) -> None:
    for match in (MATCH, LONG_MATCH):
        if past[match + 1] > 0:
            if byte_at(ring, past[match]) == byte:
                past[match + 1] = min(past[match + 1] + 1, MAX_MATCH_LENGTH)
                past[match] += 1
            else:
                past[match + 1] = 0


@merged
def record_followers(past: Array, indirect: Array, followers: Array, byte: int) -> None:
    last4 = past[LAST4]
    for place in (AFTER_1 + (last4 & 255), AFTER_2 + (last4 & 0xFFFF)):
        indirect[place] = shifted(indirect[place], 8, byte)
    for table, h in (
        (AFTER_3, hashed(last4 & 0xFFFFFF, 5)),
        (AFTER_4, hashed(last4, 7)),
        (AFTER_WORD, hashed(word_or_gap(past), 6)),
    ):
        place = place_after(followers, h)
        followers[table, place] = shifted(np.int64(followers[table, place]), 8, byte)


@merged
def advance_views(past: Array, byte: int) -> None:
    """The last bytes, and other views of them."""
    past[LAST16] = shifted(past[LAST16], 8, past[LAST12] >> 24)
    past[LAST12] = shifted(past[LAST12], 8, past[LAST8] >> 24)
    past[LAST8] = shifted(past[LAST8], 8, past[LAST4] >> 24)
    past[LAST4] = shifted(past[LAST4], 8, byte)
    past[FOLDED] = shifted(past[FOLDED], 8, byte + 32 if 65 <= byte <= 90 else byte)
    group = np.int64(GROUP[byte])
    past[GROUPS] = shifted(past[GROUPS], 8, group)
    if not (COLLAPSES[group] and group == past[COLLAPSED] & 255):
        past[COLLAPSED2] = shifted(past[COLLAPSED2], 8, past[COLLAPSED] >> 24)
        past[COLLAPSED] = shifted(past[COLLAPSED], 8, group)
    past[NIBBLES] = shifted(past[NIBBLES], 4, 0 if byte == BLANK else byte >> 4)
    kind = 4 + (byte & 15)
    if is_letter(byte):
        kind = 0
    elif CLASS[byte] == DIGIT:
        kind = 1
    elif byte == BLANK:
        kind = 2
    elif byte == NEWLINE:
        kind = 3
    past[CLASSES] = shifted(past[CLASSES], 5, kind)


@inlined
def vowel_of(letter: int) -> Any:
    """The kind of a letter in lower case, in 4 bits."""
    if letter >= 128:
        return 4 + (letter >> 6 & 1)
    if letter == 121:  # y
        return HALF_VOWEL
    if letter == 97 or letter == 101 or letter == 105 or letter == 111 or letter == 117:
        return VOWEL
    return CONSONANT


@merged
def advance_word(past: Array, byte: int) -> None:
    """One more letter."""
    is_capital = 65 <= byte <= 90
    letter = byte + 32 if is_capital else byte
    if past[WORD] == 0:
        past[GAP2], past[GAP] = past[GAP], 0
        past[UPPER] = 1 if is_capital else 0
        past[INITIALS] = shifted(past[INITIALS], 8, letter)
        past[LENGTH] = past[ENDING] = past[VOWELS] = 0
    elif is_capital:
        past[UPPER] |= 2
    past[WORD] = hashed(past[WORD], letter)
    past[LENGTH] = min(past[LENGTH] + 1, 15)
    past[ENDING] = ((past[ENDING] << 8) | letter) & 0xFFFFFF
    past[LETTERS] = shifted(past[LETTERS], 6, letter & 63)
    past[VOWELS] = shifted(past[VOWELS], 4, vowel_of(letter))
    past[PHRASE] = hashed(past[PHRASE], letter)


@merged
def advance_gap(past: Array, followers: Array, byte: int, learns: bool) -> None:
    """One more byte that is not a letter."""
    if past[WORD] != 0:
        end_word(past, followers, byte, learns)
    past[GAP] = hashed(past[GAP], BLANK if byte == NEWLINE else byte)
    past[VOWELS] = shifted(past[VOWELS], 8, np.int64(GROUP[byte]))
    if byte in (BLANK, NEWLINE):
        if past[PHRASE] != 0:
            past[PHRASE2], past[PHRASE] = hashed(past[PHRASE2] & 0xFFFF, past[PHRASE]), 0
    elif byte != 39:  # an apostrophe belongs to the word
        past[PHRASE2] = past[PHRASE] = 0
    if CLASS[byte] == STOP:
        past[SENTENCE] = past[SENTENCE_WORDS] = 0


@merged
def end_word(past: Array, followers: Array, byte: int, learns: bool) -> None:
    word = past[WORD]
    past[MARK2], past[MARK] = past[MARK], byte
    if byte == 58 or byte == 61:  # : or =
        past[KEYWORD] = word
    for start in (FIRST_WORD, SENTENCE):
        if past[start] == 0:
            past[start] = word
    past[SENTENCE_WORDS] += 1
    if learns:
        followers[NEXT_WORD, place_after(followers, past[WORD2])] = word
        followers[NEXT_WORD2, place_after(followers, hashed(past[WORD2], past[WORD3]))] = word
    past[WORD4], past[WORD3], past[WORD2], past[WORD] = past[WORD3], past[WORD2], word, 0
    past[SUFFIX3], past[SUFFIX2], past[SUFFIX] = past[SUFFIX2], past[SUFFIX], past[ENDING]
    past[LENGTH2], past[LENGTH], past[VOWELS] = min(past[LENGTH], 7), 0, 0


@merged
def advance_structure(past: Array, byte: int) -> None:
    """Brackets, quotation marks and tags."""
    kind = CLASS[byte]
    if kind == OPENING:
        past[NEST], past[OPENED], past[INSIDE] = shifted(past[NEST], 8, byte), byte, byte
    elif kind == CLOSING:
        past[NEST], past[OPENED], past[INSIDE] = past[NEST] >> 8, 0, 0
        if byte != 41:  # not )
            past[TAG] = past[WORD2]
    elif byte == NEWLINE:
        past[INSIDE] = 0
    else:
        if kind == QUOTE:
            past[OPENED] = 0 if past[OPENED] == byte else byte
        if past[INSIDE] != 0:
            past[INSIDE] = hashed(past[INSIDE], byte)
    if byte == 60:  # <
        past[TAG_NAME] = 1
    elif past[TAG_NAME] != 0:
        if past[TAG_NAME] == 1 and byte == 47:  # </
            past[TAGS], past[TAG_NAME] = past[TAGS] >> 8, 0
        elif byte == 62 or byte == BLANK:
            past[TAGS], past[TAG_NAME] = shifted(past[TAGS], 8, past[TAG_NAME] & 255), 0
        else:
            past[TAG_NAME] = hashed(past[TAG_NAME], byte)


@merged
def advance_line(past: Array, byte: int, last: int) -> None:
    """Lines and paragraphs. last: the byte before."""
    past[LINE_HASH] = hashed(past[LINE_HASH], byte)
    if byte == NEWLINE:
        past[LINE_ABOVE2], past[LINE_ABOVE], past[LINE] = past[LINE_ABOVE], past[LINE], past[POSITION]
        past[FIRST] = past[FIRST_WORD] = past[LINE_HASH] = past[INDENT] = past[ABOVE_RUN] = 0
        if last == NEWLINE:
            past[PARAGRAPH] = past[NEST] = past[OPENED] = 0
        return
    if past[FIRST] == 0:
        if byte == BLANK or byte == 9:
            past[INDENT] += 1
        else:
            past[FIRST] = byte
    if past[PARAGRAPH] == 0 and past[WORD] == 0 and past[WORD2] != 0:
        past[PARAGRAPH] = past[WORD2]


# ---- fields

MOST_COMMAS = 7


@inlined
def separates(byte: int) -> bool:
    """Whether the byte stands between two fields of a line."""
    return byte == 44 or byte == 59 or byte == 9 or byte == 124  # , ; tabulator |


@merged
def advance_fields(past: Array, byte: int) -> None:
    """Identifiers, keys with their values, templates and fields."""
    is_digit = CLASS[byte] == DIGIT
    if is_digit or is_letter(byte) or byte == 95:
        past[IDENTIFIER] = hashed(past[IDENTIFIER], byte)
    elif past[IDENTIFIER] != 0:
        past[IDENTIFIER2], past[IDENTIFIER] = past[IDENTIFIER], 0
    if byte == NEWLINE:
        past[TEMPLATE3], past[TEMPLATE2], past[TEMPLATE] = past[TEMPLATE2], past[TEMPLATE], 0
        past[FIELD] = past[VALUE] = past[NUMBER] = 0
        return
    if not is_digit or past[NUMBER] == 0:
        past[TEMPLATE] = hashed(past[TEMPLATE], 48 if is_digit else byte)
    past[NUMBER] = hashed(past[NUMBER], byte) if is_digit else 0
    past[VALUE] = hashed(past[VALUE], byte)
    if byte == 58 or byte == 61:  # : or =
        past[KEY], past[VALUE] = past[IDENTIFIER2], 0
    elif separates(byte):
        past[FIELD] = min(past[FIELD] + 1, 255)


@merged
def advance_owners(past: Array, byte: int) -> None:
    """What stands before each open bracket, and at which of its arguments the text is."""
    owner = OWNERS + past[DEPTH]
    if byte == 40 or byte == 91 or byte == 123:
        past[DEPTH] = min(past[DEPTH] + 1, N_OWNERS - 1)
        past[OWNERS + past[DEPTH]] = hashed(past[IDENTIFIER2], byte) & ~MOST_COMMAS
    elif byte == 41 or byte == 93 or byte == 125:
        past[DEPTH] = max(past[DEPTH] - 1, 0)
    elif byte == 44 and past[owner] & MOST_COMMAS < MOST_COMMAS:
        past[owner] += 1


@merged
def follow_fields(past: Array, ring: Array, fields: Array, byte: int, learns: bool) -> None:
    """Positions after equal templates, words and fields. Digits only move them on, so numbers are compared digit by digit."""
    is_number = CLASS[byte] == DIGIT
    words = hashed(hashed(past[WORD2], past[WORD3]), hashed(past[WORD], past[COLLAPSED] & 0xFFFF))
    within = byte != NEWLINE and not separates(byte)
    follow_field(past, ring, fields, AT_TEMPLATE, hashed(past[TEMPLATE], 5), byte, is_number, learns)
    follow_field(past, ring, fields, AT_WORDS, words, byte, is_number, learns)
    follow_field(past, ring, fields, AT_FIELD, past[FIELD], byte, within, learns)


@inlined
def follow_field(
    past: Array, ring: Array, fields: Array, table: int, h: Any, byte: int, within: bool, learns: bool
) -> None:
    """The position of a table moves on within a field. Else it becomes that after the last occurrence of the hash h.

    After it: 0 while all bytes since are equal; then 1 if the first other one was larger by one, 2 larger by more, 3 smaller.
    """
    at = BY_TEMPLATE + 2 * table
    if within:
        expected = byte_at(ring, past[at])
        past[at] += 1
        if past[at + 1] == 0 and expected != byte:
            past[at + 1] = 1 if byte == expected + 1 else 2 if byte > expected else 3
    else:
        past[at], past[at + 1] = follower(fields, table, h), 0
        if learns:
            fields[table, place_after(fields, h)] = past[POSITION] & HASH_MASK


# ---- records

MAX_RECORD = 4096  # bytes
MIN_VOTES, MAX_VOTES = 16, 255
STEADY = 8192  # bytes after which a record counts as a good description of the data
N_PRINTED = 16  # printable characters in sequence are text
N_CONTROLS = 512  # control characters without text are binary data
BINARY, RECORDS = 1, 2  # kinds of input; 0: text
# After as many control characters, one that is not 0 (zeros fill up texts, as in a tar) lets bytes have the code words of binary
# data, for as many bytes more: texts within binary data are short.
FEW_CONTROLS, STAYS_BINARY = 32, 4096


@merged
def advance_record(past: Array, indirect: Array, byte: int, learns: bool) -> None:
    """Whether the data are binary, and the length of their records."""
    past[PRINTED] = min(past[PRINTED] + 1, N_PRINTED) if BLANK <= byte < 127 else 0
    if past[PRINTED] == N_PRINTED:
        past[CONTROLS] = 0
    elif byte < BLANK and not 9 <= byte <= 13:
        past[CONTROLS] = min(past[CONTROLS] + 1, N_CONTROLS)
        if byte != 0 and past[CONTROLS] >= FEW_CONTROLS:
            past[BINARY_UNTIL] = past[POSITION] + STAYS_BINARY
    if learns:
        find_record(past, indirect, byte)
    past[IN_RECORDS] = 1 if past[RECORD] > 0 and past[CONTROLS] == N_CONTROLS else 0


@merged
def find_record(past: Array, indirect: Array, byte: int) -> None:
    """A byte that came three times at equal distances votes for this distance, as in the record model of paq8 (Mahoney 2007)."""
    position = past[POSITION] & HASH_MASK
    apart = (position - indirect[SEEN_AT + byte]) & HASH_MASK
    if apart == indirect[APART + byte] and 1 < apart <= MAX_RECORD:
        if apart == past[CANDIDATE]:
            past[VOTES] = min(past[VOTES] + 1, MAX_VOTES)
            if past[VOTES] >= MIN_VOTES and past[RECORD] != apart:
                past[RECORD], past[RECORD_SINCE] = apart, past[POSITION]
        elif past[VOTES] > 0:
            past[VOTES] -= 1
        else:
            past[CANDIDATE] = apart
    indirect[SEEN_AT + byte], indirect[APART + byte] = position, apart


@inlined
def input_kind(past: Array) -> Any:
    """The kind of input that contexts are chosen by: BINARY, RECORDS if their length has not changed for a while, or 0."""
    if past[POSITION] >= past[BINARY_UNTIL]:
        return 0
    return RECORDS if past[IN_RECORDS] == 1 and past[POSITION] - past[RECORD_SINCE] >= STEADY else BINARY


@merged
def advance_line_of_record(past: Array, byte: int) -> None:
    """A record counts as a line. Newlines are bytes like any other."""
    past[LINE_HASH] = hashed(past[LINE_HASH], byte)
    if past[POSITION] - past[LINE] >= past[RECORD]:
        past[LINE] = past[POSITION]
        past[FIRST] = past[FIRST_WORD] = past[LINE_HASH] = past[INDENT] = 0
    elif past[FIRST] == 0:
        past[FIRST] = byte
    past[LINE_ABOVE] = max(past[LINE] - past[RECORD], 0)
    past[LINE_ABOVE2] = max(past[LINE] - 2 * past[RECORD], 0)


# ---- matches

MIN_MATCH, MIN_LONG_MATCH = 5, 12  # bytes of a match when it is found
MAX_VERIFIED = 32  # bytes that are compared when a match is found
MAX_MATCH_LENGTH = 65535


@inlined
def find_matches(past: Array, ring: Array, matches: Array, learns: bool) -> None:
    """Looks for earlier occurrences of the last bytes where no match continues.

    matches: the position after the newest occurrence of MIN_MATCH bytes, by their hash, and in its second half that of
    MIN_LONG_MATCH bytes; with `learns`, this one is recorded. The long match replaces a shorter one.
    """
    half = matches.size // 2
    short = hashed(past[LAST4], past[LAST8] & 0xFF) & (half - 1)
    long = half + (hashed(hashed(past[LAST4], past[LAST8]), past[LAST12]) & (half - 1))
    find_match(past, ring, np.int64(matches[short]), MATCH, MIN_MATCH)
    find_match(past, ring, np.int64(matches[long]), LONG_MATCH, MIN_LONG_MATCH)
    if learns:
        matches[short] = matches[long] = past[POSITION]
    if past[LONG_MATCH_LENGTH] > past[MATCH_LENGTH]:
        past[MATCH], past[MATCH_LENGTH] = past[LONG_MATCH], past[LONG_MATCH_LENGTH]


@inlined
def find_match(past: Array, ring: Array, candidate: int, match: int, min_length: int) -> None:
    """Compares the bytes before the candidate with the last bytes, if this match does not continue."""
    position = past[POSITION]
    if past[match + 1] > 0 or candidate == 0 or position - candidate >= ring.size - MAX_VERIFIED:
        return
    length = 0
    while (
        length < MAX_VERIFIED
        and length < candidate
        and byte_at(ring, candidate - 1 - length) == byte_at(ring, position - 1 - length)
    ):
        length += 1
    if length >= min_length:
        past[match], past[match + 1] = candidate, length
