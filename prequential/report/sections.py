"""The sections of the HTML page that show one run: headline, curves, sizes, ledger, findings, configuration."""

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from prequential_codecs.archive_header import OTHER

from prequential.evaluation.curves import MODEL
from prequential.evaluation.ledger import bits_per_byte
from prequential.evaluation.runs import Run
from prequential.evaluation.summary import is_coded, model_summary, recorded_findings
from prequential.report import run_panels
from prequential.report.markup import Html, element, join
from prequential.report.names import Look
from prequential.report.svg import html_figure
from prequential.report.tables import Row, first_byte, folded, html_table

Record = Mapping[str, Any]


def corpus_name(run: Run) -> str:
    """The name of the run's corpus, for headings."""
    return str(run.record["corpus"].get("name") or "bytes")


def headline(run: Run, name: str, heading_id: str) -> list[Html]:
    """The heading of a run of the learner `name`, its main figures, and what they mean."""
    record = run.record
    n_bytes, size = record["corpus"]["n_bytes"], record["archive_bytes"]
    proof, included = ("archive", ", header and container included") if is_coded(record) else ("code length", "")
    meaning = (
        f"The model coded each byte after it had learned only from the bytes before it. The {proof} of these "
        f"{n_bytes:,} bytes takes {size:,} bytes{included}: {size / n_bytes:.1%} of the original. {_best_baseline(record)}"
    )
    origin = f"{model_summary(record['config'])}; {record['time']}; run {run.path.resolve().name}"
    figures = (element("li", element("strong", value), element("span", text)) for value, text in _figures(record))
    return [
        element("h2", f"{name} on {corpus_name(run)}: {record['bits_per_byte']:.4f} bits/byte", id=heading_id),
        element("p", origin),
        element("ul", *figures, class_="figures"),
        element("p", meaning),
    ]


def _figures(record: Record) -> Iterator[tuple[str, str]]:
    """The main figures, each with its explanation."""
    proof = "archive" if is_coded(record) else "code length"
    yield f"{record['bits_per_byte']:.4f}", f"bits/byte of the complete {proof}"
    yield f"{record['archive_bytes']:,}", f"bytes of {proof} for {record['corpus']['n_bytes']:,}"
    if not is_coded(record):
        yield "no proof", "no archive was written: only the code length was computed"
    elif record["verified"]:
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


def curves(run: Run, look: Look) -> Html:
    """The learning curves and the bits saved, with an explanation."""
    found = run.curves
    panels = (run_panels.learning, run_panels.saved, run_panels.intervals, run_panels.windows)
    figures = (html_figure(panel) for panel in (make(found, look) for make in panels) if panel.series)
    text = (
        f"The thick line is this run, {look.label(MODEL)}. Its line and those of its parts show ideal code length, known at the "
        "end of each segment. The lines of other compressors show real sizes of log-spaced prefixes, each compressed "
        "separately. The best have colours. Bits saved above 0: this run needs fewer bits than the other."
    )
    return join(element("div", *figures, class_="plots"), element("p", text))


def sizes(record: Record, name: str) -> Html:
    """The size of the archive of the learner `name` and those of the baselines, smallest first."""
    own = record["archive_bytes"]
    own_name = name if OTHER in record["config"] else f"prequential {name}"
    rows: list[Row] = [(own_name, own, record["bits_per_byte"], None, None, float(record["wall_s"]))]
    rows += [
        (
            baseline["label"],
            size := baseline["compressed_bytes"],
            bits_per_byte(size, record["corpus"]["n_bytes"]),
            f"{size / own - 1:+.1%}",
            first_byte(record["crossings"].get(baseline["name"])),
            float(baseline["wall_s"]),
        )
        for baseline in record["baselines"]
    ]
    proof = "archive" if is_coded(record) else "code length"
    columns = ("compressor", "bytes", "bits/byte", f"against the {proof}", "model ahead from byte", "seconds")
    caption = (
        "Compressed sizes of all bytes. Each result of a compressor was decoded and compared. From the given byte to the end, "
        f"the model's {proof} is smaller than the other's file (of a static model: the ideal code length)."
    )
    table = html_table("Sizes", columns, sorted(rows, key=_size), caption, is_bold=lambda row: row is rows[0])
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
        f"{check} The {'archive' if is_coded(record) else 'code length'} alone takes {record['archive_bits']:,} bits. "
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
    return folded("JSON for --config", element("pre", element("code", text)))
