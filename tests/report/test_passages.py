"""Passages of the text on the page: characters with the bits of their bytes, whatever bytes a record holds."""

import base64
import html
import re
from typing import Any

import pytest

from prequential.evaluation.breakdown import MAX_PASSAGES, PASSAGE_BYTES
from prequential.report.markup import join
from prequential.report.panels import LIGHT
from prequential.report.sections import LEVELS, passages


def passage(data: bytes, bits: list[float]) -> dict[str, Any]:
    return {"name": "the end", "position": 1200, "text": base64.b64encode(data).decode(), "bits": bits}


def characters(data: bytes, bits: list[float]) -> list[tuple[str, str, str]]:
    """The level, the title and the text of each character."""
    page = join(*passages({"passages": [passage(data, bits)]}))
    found = re.findall(r'<span class="h(\d)" title="([^"]*)">([^<]*)</span>', page)
    return [(level, title, html.unescape(text)) for level, title, text in found]


def test_a_character_has_the_sum_of_the_bits_of_its_bytes() -> None:
    shown = characters("aé漢".encode(), [0.25, 1.0, 2.5, 3.0, 3.0, 3.5])
    assert shown == [("0", "0.25 bits", "a"), ("3", "3.50 bits", "é"), ("5", "9.50 bits", "漢")]


def test_other_bytes_are_shown_as_numbers_and_nothing_controls_the_page() -> None:
    shown = characters(b"\xff\xc3<\x1b\n", [1.0] * 5)
    assert [text for _, _, text in shown] == ["\\xff", "\\xc3", "<", "\\x1b", "↵\n"]
    assert "<script" not in join(*passages({"passages": [passage(b"<script>", [1.0] * 8)]}))


def test_the_title_has_place_and_rate_and_each_level_has_a_colour() -> None:
    (figure,) = passages({"passages": [passage(b"ab", [1.0, 2.0])]})[2:]
    assert "The end: bytes 1,200-1,202, 1.50 bits/byte" in figure
    assert [name for name in LIGHT if name[0] == "h"] == [f"h{i}" for i in range(len(LEVELS) + 1)]
    assert [level for level, _, _ in characters(b"abcdef", [0.0, *LEVELS])] == [str(i) for i in range(len(LEVELS) + 1)]


def test_a_huge_record_shows_only_as_much_as_this_program_writes_and_an_empty_one_nothing() -> None:
    long = passage(b"a" * 10_000, [1.0] * 10_000)
    assert join(*passages({"passages": [long] * 100})).count("title=") == MAX_PASSAGES * PASSAGE_BYTES
    assert passages({}) == passages({"passages": []}) == []


@pytest.mark.parametrize("wrong", [passage(b"ab", [1.0]), passage(b"", []), passage(b"a", [1.0]) | {"text": "?"}])
def test_a_passage_without_the_bits_of_each_byte_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        passages({"passages": [wrong]})
