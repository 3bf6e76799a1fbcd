"""The sections of the HTML page that show one run: headline, curves, sizes, ledger, breakdowns, findings."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from prequential.measure.evaluation.ledger import bits_per_byte
from prequential.measure.evaluation.runs import Run
from prequential.measure.evaluation.summary import learner_name, model_summary, recorded_findings
from prequential.report import run_panels
from prequential.report.markup import Html, element, join
from prequential.report.svg import html_figure
from prequential.report.tables import Row, first_byte, flattened, foldable_table, html_table, value_table, words

Record = Mapping[str, Any]


def corpus_name(run: Run) -> str:
    """The name of the run's corpus, for headings."""
    return str(run.record["corpus"].get("name") or "bytes")


def headline(run: Run, heading_id: str) -> list[Html]:
    """The heading of a run, its main figures, and what they mean."""
    record = run.record
    n_bytes, size = record["corpus"]["n_bytes"], record["archive_bytes"]
    meaning = (
        "The model coded each byte after it had learned only from the bytes before it. The archive of these "
        f"{n_bytes:,} bytes takes {size:,} bytes, header and container included: {size / n_bytes:.1%} of the original. "
        f"{_best_baseline(record)}"
    )
    origin = f"{model_summary(record['config'])}; {record['time']}; run {run.path.resolve().name}"
    figures = (element("li", element("strong", value), element("span", text)) for value, text in _figures(record))
    return [
        element("h2", f"{corpus_name(run)}: {record['bits_per_byte']:.4f} bits/byte", id=heading_id),
        element("p", origin),
        element("ul", *figures, class_="figures"),
        element("p", meaning),
    ]


def _figures(record: Record) -> Iterator[tuple[str, str]]:
    """The main figures, each with its explanation."""
    yield f"{record['bits_per_byte']:.4f}", "bits/byte of the complete archive"
    yield f"{record['archive_bytes']:,}", f"bytes of archive for {record['corpus']['n_bytes']:,}"
    if record["verified"]:
        yield "verified", f"decoded again in {record['verify_wall_s']:,.1f} s, every byte compared"
    else:
        yield "not verified", "this run did not decode the archive"
    cpu = record["environment"]["machine"]["cpu"]
    yield f"{record['bytes_per_s'] / 1e3:,.2f} kB/s", f"{record['wall_s']:,.1f} s on {cpu}"


def _best_baseline(record: Record) -> str:
    if not record["baselines"]:
        return "No other compressor was measured."
    best = min(record["baselines"], key=lambda baseline: baseline["compressed_bytes"])
    more = best["compressed_bytes"] / record["archive_bytes"] - 1
    return (
        f"The best of the {len(record['baselines'])} other compressors, {best['label']}, needs "
        f"{best['bits_per_byte']:.4f} bits/byte, {abs(more):.1%} {'more' if more >= 0 else 'less'}."
    )


def curves(run: Run) -> Html:
    """The learning curves and the regret, with an explanation."""
    found = run.curves
    panels = (run_panels.learning, run_panels.intervals, run_panels.windows, run_panels.regret)
    figures = (html_figure(panel) for panel in (make(found) for make in panels) if panel.series)
    text = (
        "The lines of the model and its parts show ideal code length, known at the end of each segment. The lines of other "
        "compressors show real sizes of log-spaced prefixes, each compressed separately. Where regret is below 0, the model "
        "is ahead."
    )
    return join(element("p", text), element("div", *figures, class_="plots"))


def sizes(record: Record) -> Html:
    """The size of the archive and those of the baselines, smallest first."""
    own = record["archive_bytes"]
    name = learner_name(record["config"])
    rows: list[Row] = [(name, own, record["bits_per_byte"], None, None, record["wall_s"])]
    rows += [
        (
            baseline["label"],
            size := baseline["compressed_bytes"],
            bits_per_byte(size, record["corpus"]["n_bytes"]),
            f"{size / own - 1:+.1%}",
            first_byte(record["crossings"].get(baseline["name"])),
            baseline["wall_s"],
        )
        for baseline in record["baselines"]
    ]
    columns = ("compressor", "bytes", "bits/byte", "against the archive", "model ahead from byte", "seconds")
    caption = (
        "Compressed sizes of all bytes. Each result was decoded and compared. From the given byte to the end, the model's "
        "ideal code length is below the other's size."
    )
    table = html_table("Sizes", columns, sorted(rows, key=_size), caption, is_bold=lambda row: row[0] == name)
    return join(table, *(element("p", note) for note in record["notes"]))


def _size(row: Row) -> Any:
    return row[1]


def ledger(record: Record) -> Html:
    """The entries of the total cost, and whether they sum to it."""
    n_bytes, total = record["corpus"]["n_bytes"], record["total_bits"]
    entries = [(entry["entry"], entry["bits"]) for entry in record["ledger"]]
    rows = [(name, f"{bits:,.2f}", f"{bits / n_bytes:.4f}", f"{bits / total:.2%}") for name, bits in entries]
    rows.append(("total cost", f"{total:,.2f}", f"{total / n_bytes:.4f}", "100.00%"))
    missing = total - math.fsum(bits for _, bits in entries)
    if abs(missing) > 1e-6:
        check = f"The entries of this record do not sum to the total cost: {missing:,.6f} bits are missing."
    else:
        check = f"The entries sum to the total cost, {total:,.2f} bits."
    caption = (
        f"{check} The archive alone takes {record['archive_bits']:,} bits. "
        f"The coder's overhead is {record['coder_overhead_ppm']:.1f} millionths of the ideal code length."
    )
    columns = ("entry", "bits", "bits/byte", "share")
    return html_table("Ledger", columns, rows, caption, is_bold=lambda row: row[0] == "total cost")


def findings(record: Record) -> Html:
    """What the health watch found during the run."""
    found = [str(finding) for finding in recorded_findings(record)]
    if not found:
        return element("p", "Nothing unusual: no spike, divergence, plateau, slowdown or memory growth.")
    return element("ul", *(element("li", finding) for finding in found))


def configuration(record: Record) -> Html:
    """The configuration as JSON, folded."""
    text = json.dumps(record["config"], indent=2, ensure_ascii=False)
    return element("details", element("summary", "JSON for --config"), element("pre", element("code", text)))


# ---- breakdowns


def breakdowns(tables: Mapping[str, Any]) -> Iterator[Html]:
    """Every table of measure/evaluation/breakdown.py: its rows, its plot if the rows follow occurrences, and its other values."""
    for name, table in tables.items():
        title = words(name).capitalize()
        yield foldable_table(title, _rows_with_sum(table["rows"]))
        panel = run_panels.tail(table, f"{title}: bits/byte at the k-th, and fitted power laws")
        if panel.series:
            yield element("div", html_figure(panel), class_="plots")
        yield from _other_values(title, {key: value for key, value in table.items() if key != "rows"})


def _other_values(title: str, values: dict[str, Any]) -> Iterator[Html]:
    for key in [key for key, value in values.items() if _is_table(value)]:
        rows = [{"of": name, **row} for name, row in values.pop(key).items() if row]
        yield foldable_table(f"{title}: {words(key)}", rows)
    if values:
        yield value_table(f"{title}: other values", values)


def _is_table(value: object) -> bool:
    """Whether a value maps names to rows; a row may be None."""
    return isinstance(value, Mapping) and all(row is None or isinstance(row, Mapping) for row in value.values())


def _rows_with_sum(rows: Sequence[Record]) -> list[dict[str, object]]:
    """Flat rows with the bits and the bits/byte of every part. If all rows have bits, a last row "all" has the sums."""
    flat = [_flat_row(row) for row in rows]
    if len(rows) > 1 and all("bits" in row for row in rows):
        bits = {part: math.fsum(row["bits"][part] for row in rows) for part in rows[0]["bits"]}
        flat.append(_flat_row({"name": "all", "n_bytes": sum(row["n_bytes"] for row in rows), "bits": bits}))
    return flat


def _flat_row(row: Record) -> dict[str, object]:
    bits = row.get("bits", {})
    rates = {f"bits/byte, {part}": value / row["n_bytes"] for part, value in bits.items() if row["n_bytes"]}
    return {**dict(flattened(row)), **rates}
