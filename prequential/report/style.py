"""Colours and styles of pages and of SVG files, light and dark. The rules are in page.css and plot.css."""

import re
from importlib.resources import files

LIGHT = {
    "ink": "#1a1a1a", "soft": "#5c5c5c", "rule": "#d9d9d9", "paper": "#fff", "tint": "#f4f5f7", "link": "#0b57a4",
    "s0": "#000", "s1": "#0072b2", "s2": "#c44e00", "s3": "#007f5c", "s4": "#b4558c", "s5": "#8f6b00", "s6": "#2f8ec4",
    "s7": "#7050a8", "rest": "#b3b3b3",
    "h0": "#fff", "h1": "#fdf0df", "h2": "#fbdcb4", "h3": "#f8bf83", "h4": "#f39c5b", "h5": "#e8743b",
}  # fmt: skip
DARK = {
    "ink": "#e8e8e8", "soft": "#a8a8a8", "rule": "#3d4045", "paper": "#15171a", "tint": "#1f2226", "link": "#7db8f0",
    "s0": "#fff", "s1": "#5aaeea", "s2": "#ff9457", "s3": "#3fc79a", "s4": "#ea93c4", "s5": "#e3bd4f", "s6": "#9ad4f7",
    "s7": "#b79ae8", "rest": "#5c6066",
    "h0": "#15171a", "h1": "#2a2118", "h2": "#43301c", "h3": "#61401f", "h4": "#854f21", "h5": "#ab5a22",
}  # fmt: skip
N_LEVELS = sum(re.fullmatch("h[0-9]", name) is not None for name in LIGHT)  # of the cost of a character
LINE_COLOURS = tuple(colour for name, colour in LIGHT.items() if re.fullmatch("s[0-9]", name))


def _rules(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _variables(colours: dict[str, str]) -> str:
    return " ".join(f"--{name}: {colour};" for name, colour in colours.items())


def _with_light_values(rules: str) -> str:
    """The rules with each colour also as a plain light value, for SVG programs that do not know CSS variables."""
    return re.sub(r"([\w-]+): var\(--(\w+)\);", lambda match: f"{match[1]}: {LIGHT[match[2]]}; {match[0]}", rules)


_COLOURS = f"""
:root {{ color-scheme: light dark; {_variables(LIGHT)} }}
@media screen and (prefers-color-scheme: dark) {{ :root {{ {_variables(DARK)} }} }}
"""
_LINES = "".join(
    f".s{i} {{ stroke: var(--s{i}); }}\nsvg .t{i} {{ fill: var(--s{i}); }}\n" for i in range(len(LINE_COLOURS))
)
_LEVELS = "".join(f".h{i} {{ background: var(--h{i}); }}\n" for i in range(N_LEVELS))
PAGE_STYLE = _COLOURS + _LEVELS + _rules("page.css") + _rules("plot.css") + _LINES
SVG_FILE_STYLE = _COLOURS + _with_light_values(_rules("plot.css") + _LINES)
