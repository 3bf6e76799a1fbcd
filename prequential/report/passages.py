"""Passages of the text, each character coloured by its bits."""

import base64
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from prequential.evaluation.breakdown import MAX_PASSAGES, PASSAGE_BYTES
from prequential.report.markup import Html, element
from prequential.report.style import LIGHT

LEVELS = (0.5, 1.0, 2.0, 4.0, 8.0)  # bits from which on a character has the next colour (h0 to h5 of report/style.py)
NEWLINE = "↵\n"  # so that the cost of an end of line can be seen


def passages(record: Mapping[str, Any]) -> list[Html]:
    """The passages of a record, with the scale of their colours; none if the record has none.

    Raises ValueError unless each byte of a passage has its bits.
    """
    found = record.get("passages", [])[:MAX_PASSAGES]
    if not found:
        return []
    text = (
        "Each character has the colour of the bits that its bytes cost when the model first read them. With a mouse, its title "
        "shows them. In print, costly characters are underlined. \\x and two digits are a byte that is not UTF-8."
    )
    edges = (0, *LEVELS)
    names = [f"{low:g}-{high:g}" for low, high in zip(edges, LEVELS, strict=False)] + [f"{LEVELS[-1]:g} or more"]
    scale = (element("span", name, class_=f"h{level}") for level, name in enumerate(names))
    return [element("p", text), element("p", "Bits: ", *scale, class_="scale"), *map(_passage, found)]


class ColouredText:
    """Passages for a notebook: HTML with the colours in it, or as text a line for each passage."""

    def __init__(self, passages: Sequence[Mapping[str, Any]]) -> None:
        self.passages = list(passages)

    def _repr_html_(self) -> str:
        colours = "".join(f".pq .h{level} {{background: {LIGHT[f'h{level}']}; color: #16181d}}" for level in range(6))
        page = ".pq pre {white-space: pre-wrap; line-height: 1.6}"
        return str(
            element("div", element("style", colours + page), *passages({"passages": self.passages}), class_="pq")
        )

    def __repr__(self) -> str:
        return "\n".join(_title(passage) for passage in self.passages)


def _title(passage: Mapping[str, Any]) -> str:
    first, bits = passage["position"], passage["bits"]
    mean = sum(bits) / len(bits)
    return f"{passage['name'].capitalize()}: bytes {first:,}-{first + len(bits):,}, {mean:.2f} bits/byte"


def _passage(passage: Mapping[str, Any]) -> Html:
    data = base64.b64decode(passage["text"], validate=True)[:PASSAGE_BYTES]
    bits = passage["bits"][:PASSAGE_BYTES]
    if not data or len(data) != len(bits):
        raise ValueError(f"a passage has {len(data)} bytes and {len(bits)} costs")
    text = (_character(shown, sum(bits[start:end])) for shown, start, end in _characters(data))
    return element(
        "figure", element("figcaption", _title({**passage, "bits": bits})), element("pre", *text, class_="passage")
    )


def _characters(data: bytes) -> Iterator[tuple[str, int, int]]:
    """Each character of UTF-8 text, or byte that is none, as it is shown, with the places where its bytes begin and end."""
    start = 0
    for letter in data.decode("utf-8", "surrogateescape"):
        raw = letter.encode("utf-8", "surrogateescape")
        is_byte = "\udc80" <= letter <= "\udcff"
        yield f"\\x{raw[0]:02x}" if is_byte else letter, start, start + len(raw)
        start += len(raw)


def _character(shown: str, bits: float) -> Html:
    level = int(np.searchsorted(LEVELS, bits, side="right"))
    return element("span", NEWLINE if shown == "\n" else shown, class_=f"h{level}", title=f"{bits:.2f} bits")
