"""Styles of the HTML page and of SVG files: light and dark, from 400 px of width upwards, and in print."""

import re

LIGHT = {
    "ink": "#1a1a1a", "soft": "#5c5c5c", "rule": "#d9d9d9", "paper": "#fff", "tint": "#f4f5f7", "link": "#0b57a4",
    "s0": "#000", "s1": "#0072b2", "s2": "#c44e00", "s3": "#007f5c", "s4": "#b4558c", "s5": "#8f6b00", "s6": "#2f8ec4",
    "s7": "#7050a8", "s8": "#6b6b6b",
}  # fmt: skip
DARK = {
    "ink": "#e8e8e8", "soft": "#a8a8a8", "rule": "#3d4045", "paper": "#15171a", "tint": "#1f2226", "link": "#7db8f0",
    "s0": "#fff", "s1": "#5aaeea", "s2": "#ff9457", "s3": "#3fc79a", "s4": "#ea93c4", "s5": "#e3bd4f", "s6": "#9ad4f7",
    "s7": "#b79ae8", "s8": "#a6a6a6",
}  # fmt: skip
LINE_COLOURS = tuple(colour for name, colour in LIGHT.items() if re.fullmatch("s[0-9]", name))


def _variables(colours: dict[str, str]) -> str:
    return " ".join(f"--{name}: {colour};" for name, colour in colours.items())


COLOURS = f"""
:root {{ color-scheme: light dark; {_variables(LIGHT)} }}
@media screen and (prefers-color-scheme: dark) {{ :root {{ {_variables(DARK)} }} }}
"""

PLOT_RULES = """
svg text { font-size: 13px; fill: var(--soft); }
svg path { fill: none; }
.grid { stroke: var(--rule); stroke-width: 1; }
.zero { stroke: var(--soft); stroke-width: 1.5; }
.line { stroke-width: 1.8; stroke-linejoin: round; stroke-linecap: round; }
.own { stroke-width: 2.6; }
""" + "\n".join(f".s{i} {{ stroke: var(--s{i}); }}" for i in range(len(LINE_COLOURS)))

PAGE_RULES = """
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 68rem; padding: 1rem; color: var(--ink); background: var(--paper);
  font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; line-height: 1.2; }
h2 { font-size: 1.35rem; line-height: 1.25; margin-top: 2.5rem; }
h3 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
p, dd { max-width: 46rem; }
a { color: var(--link); }
nav ul { padding-left: 1.2rem; }
dl, dd { margin: 0; }
dt { font-weight: 600; margin-top: .6rem; }
code, pre { font: .875rem/1.45 ui-monospace, monospace; }
pre { background: var(--tint); padding: .6rem .8rem; white-space: pre-wrap; border-radius: .4rem; }
summary { cursor: pointer; }
.figures { display: flex; flex-wrap: wrap; gap: .75rem; margin: 1rem 0; padding: 0; list-style: none; }
.figures li { background: var(--tint); border-radius: .4rem; padding: .5rem .9rem; }
.figures strong { display: block; font-size: 1.6rem; line-height: 1.2; font-variant-numeric: tabular-nums; }
.figures span { color: var(--soft); font-size: .9rem; }
.plots { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 27rem), 1fr)); gap: 1.5rem; }
figure { margin: 0; min-width: 0; }
figcaption { font-weight: 600; }
figure > svg { display: block; width: 100%; height: auto; }
.legend { display: flex; flex-wrap: wrap; gap: .1rem 1rem; margin: .3rem 0 0; padding: 0; list-style: none; font-size: .875rem; }
.key { width: 28px; height: 10px; margin-right: .35rem; }
.scroll { overflow-x: auto; }
.scroll:focus-visible { outline: 2px solid var(--link); }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; overflow-wrap: normal;
  margin: .5rem 0 1rem; }
caption { text-align: left; color: var(--soft); padding-bottom: .3rem; }
th, td { text-align: left; padding: .22rem .9rem .22rem 0; border-bottom: 1px solid var(--rule); vertical-align: top; }
thead th { border-bottom: 2px solid var(--soft); vertical-align: bottom; }
tbody th { font-weight: 400; }
td.n, th.n { text-align: right; }
td.n { white-space: nowrap; }
tr.own > * { font-weight: 700; }
@media print {
  body { max-width: none; padding: 0; font-size: 10pt; }
  nav { display: none; }
  .scroll { overflow: visible; }
  .plots { grid-template-columns: 1fr 1fr; }
  figure, tr, li, dt { break-inside: avoid; }
  h2, h3, dt { break-after: avoid; }
  .line, .figures li, pre { -webkit-print-color-adjust: exact; print-color-adjust: exact; }
}
"""

FILE_RULES = """
svg { font-family: system-ui, sans-serif; }
.paper { fill: var(--paper); }
svg .title { fill: var(--ink); font-weight: 600; }
svg .key { font-size: 11px; }
"""


def _with_light_values(rules: str) -> str:
    """The rules with each colour also as a plain light value, for SVG programs that do not know CSS variables."""
    return re.sub(r"([\w-]+): var\(--(\w+)\);", lambda match: f"{match[1]}: {LIGHT[match[2]]}; {match[0]}", rules)


PAGE_STYLE = COLOURS + PAGE_RULES + PLOT_RULES
SVG_FILE_STYLE = COLOURS + _with_light_values(PLOT_RULES + FILE_RULES)
