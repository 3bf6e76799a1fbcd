"""Styles of the HTML page and of SVG files: light and dark, from 400 px of width upwards, and in print."""

import re

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


def _variables(colours: dict[str, str]) -> str:
    return " ".join(f"--{name}: {colour};" for name, colour in colours.items())


COLOURS = f"""
:root {{ color-scheme: light dark; {_variables(LIGHT)} }}
@media screen and (prefers-color-scheme: dark) {{ :root {{ {_variables(DARK)} }} }}
"""

PLOT_RULES = """
svg text { font-size: 13px; fill: var(--soft); }
svg .name { font-size: 12px; }
svg path { fill: none; }
.grid { stroke: var(--rule); stroke-width: 1; }
.zero { stroke: var(--soft); stroke-width: 1.5; }
.line { stroke-width: 1.8; stroke-linejoin: round; stroke-linecap: round; }
.own { stroke-width: 2.8; }
.rest { stroke: var(--rest); stroke-width: 1.1; }
.dot { stroke-width: 8; }
.leader { stroke-width: .7; opacity: .6; }
""" + "\n".join(
    f".s{i} {{ stroke: var(--s{i}); }}\nsvg .t{i} {{ fill: var(--s{i}); }}" for i in range(len(LINE_COLOURS))
)

PAGE_RULES = (
    """
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 68rem; padding: 1rem; color: var(--ink); background: var(--paper);
  font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; line-height: 1.2; }
h2 { font-size: 1.35rem; line-height: 1.25; margin-top: 2.5rem; }
h3 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
p, dd { max-width: 46rem; }
a { color: var(--link); }
nav ul { display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; padding: 0; list-style: none; }
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
.table { margin: .5rem 0 1.5rem; }
.table figcaption { font-weight: 400; color: var(--soft); font-size: .9rem; max-width: 46rem; padding-bottom: .3rem; }
figure > svg { display: block; width: 100%; height: auto; }
figure > small { color: var(--soft); }
.scroll { overflow-x: auto; }
.scroll:focus-visible { outline: 2px solid var(--link); }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; overflow-wrap: normal;
  margin: 0; }
th, td { text-align: left; padding: .22rem .9rem .22rem 0; border-bottom: 1px solid var(--rule); vertical-align: top; }
thead th { border-bottom: 2px solid var(--soft); vertical-align: bottom; }
tbody th { font-weight: 400; min-width: 6.5rem; }
td:not(.n) { min-width: 6rem; }
td.n, th.n { text-align: right; }
td.n { white-space: nowrap; }
tr.own > * { font-weight: 700; }
.scale span, .passage span { color: var(--ink); }
.scale span { padding: .1rem .5rem; white-space: nowrap; }
.passage { line-height: 1.7; background: none; border: 1px solid var(--rule); }
.passage span { padding: .1em 0; }
"""
    + "\n".join(f".h{i} {{ background: var(--h{i}); }}" for i in range(N_LEVELS))
    + """
@media print, (forced-colors: active) {
  .h3 { text-decoration: underline dotted; }
  .h4 { text-decoration: underline; }
  .h5 { text-decoration: underline double; }
}
@media print {
  body { max-width: none; padding: 0; font-size: 10pt; }
  nav { display: none; }
  .scroll { overflow: visible; }
  .plots { grid-template-columns: 1fr 1fr; }
  figure, tr, li, dt { break-inside: avoid; }
  h2, h3, dt, figcaption { break-after: avoid; }
  .line, .figures li, pre, .scale span, .passage span { -webkit-print-color-adjust: exact; print-color-adjust: exact; }
}
"""
)

FILE_RULES = """
svg { font-family: system-ui, sans-serif; }
.paper { fill: var(--paper); }
svg .title { fill: var(--ink); font-weight: 600; }
svg .note { font-size: 12px; }
"""


def _with_light_values(rules: str) -> str:
    """The rules with each colour also as a plain light value, for SVG programs that do not know CSS variables."""
    return re.sub(r"([\w-]+): var\(--(\w+)\);", lambda match: f"{match[1]}: {LIGHT[match[2]]}; {match[0]}", rules)


PAGE_STYLE = COLOURS + PAGE_RULES + PLOT_RULES
SVG_FILE_STYLE = COLOURS + _with_light_values(PLOT_RULES + FILE_RULES)
