"""Passages of the text on the page: characters with the bits of their bytes, whatever bytes a record holds."""

import base64
import html
import re
from typing import Any

import pytest

from prequential.errors import CorpusError
from prequential.report.markup import join
from prequential.report.run_panels import LIGHT
from prequential.report.sections import LEVELS, passages


def passage(data: bytes, bits: list[float]) -> dict[str, Any]:
    return {"name": "the end", "position": 1200, "text": base64.b64encode(data).decode(), "bits": bits}


def shown(data: bytes, bits: list[float]) -> list[tuple[str, str]]:
    """The level and the text of each stretch of one colour."""
    page = join(*passages([passage(data, bits)])).rpartition("<pre")[2]
    return [(level, html.unescape(text)) for level, text in re.findall(r'<span class="h(\d)">([^<]*)</span>', page)]


def test_a_character_has_the_colour_of_the_sum_of_the_bits_of_its_bytes() -> None:
    bits = [0.25, 1.0, 2.5, 3.0, 3.0, 3.5, 0.1, 0.2]
    assert shown("aé漢bc".encode(), bits) == [("0", "a"), ("3", "é"), ("5", "漢"), ("0", "bc")]


def test_other_bytes_are_shown_as_numbers_and_nothing_controls_the_page() -> None:
    assert shown(b"\xff\xc3<\x1b\n", [1.0] * 5) == [("2", "\\xff\\xc3<\\x1b↵\n")]
    assert "<script" not in join(*passages([passage(b"<script>", [1.0] * 8)]))


def test_of_several_ends_of_lines_only_the_last_one_ends_the_line() -> None:
    assert shown(b"a\n\n\nb\n", [0.1] * 6) == [("0", "a↵↵↵\nb↵\n")]


def test_the_title_has_place_and_rate_and_each_level_has_a_colour() -> None:
    assert "The end: bytes 1,200-1,202, 1.50 bits/byte" in passages([passage(b"ab", [1.0, 2.0])])[-1]
    assert [name for name in LIGHT if name[0] == "h"] == [f"h{i}" for i in range(len(LEVELS) + 1)]
    assert [level for level, _ in shown(b"abcdef", [0.0, *LEVELS])] == [str(i) for i in range(len(LEVELS) + 1)]


def test_a_passage_without_the_bits_of_each_byte_is_refused() -> None:
    with pytest.raises(CorpusError, match="2 bytes and 1 costs"):
        passages([passage(b"ab", [1.0])])
