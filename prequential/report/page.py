"""Runs as one HTML page: figures, the questions readers ask first, curves, and every table of the records.

The page is whole in itself: no script, no font, image or style from elsewhere, and a policy in its head that forbids the
browser to fetch any. All of it is built by `svg.element`, which escapes what records and folders say.
"""

import json
import math
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from prequential.errors import ConfigError, CorpusError
from prequential.measure.evaluation.ledger import bits_per_byte
from prequential.measure.evaluation.runs import ARCHIVE, Run
from prequential.measure.evaluation.summary import model_summary
from prequential.measure.evaluation.trace import MODEL
from prequential.measure.study.compare import Comparison, Interval, bounded_e_value, compare
from prequential.measure.watch.detectors import Finding
from prequential.model.presets import PRESETS, preset
from prequential.report import plots
from prequential.report.style import STYLE
from prequential.report.svg import Axes, Html, Series, element, join, legend, svg

NUMBER = re.compile(r"[+-]?[0-9,]+(\.[0-9]+)?%?|0: everywhere|never")
FOLDED_ROWS = 24  # longer tables are folded up

Row = Sequence[object]
Section = tuple[str, str, list[Html]]  # id, title, content


def html_report(runs: Sequence[Run]) -> str:
    """A page on runs, 1 or more: on each of them, and before that on how they compare.

    Raises CorpusError for a run whose record or curves are not whole.
    """
    articles = [_checked_article(run, number) for number, run in enumerate(runs, 1)]
    title = (
        f"{_corpus_name(runs[0])}: prequential report" if len(runs) == 1 else f"{len(runs)} runs: prequential report"
    )
    head = [element("h1", title)]
    if len(runs) > 1:
        head += [_contents(runs), *_comparison(runs)]
    return page_of(title, join(*head, *articles))


def page_of(title: str, body: Html) -> str:
    policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
    # The page's encoding and this policy come before anything a record says.
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
{element("title", title)}
<style>{STYLE}</style>
</head>
<body>
{element("main", body)}
</body>
</html>
"""


def _checked_article(run: Run, number: int) -> Html:
    try:
        return _article(run, number)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise CorpusError(f"{str(run.path)!r} is no whole run: {type(error).__name__}: {error}") from error


def _article(run: Run, number: int) -> Html:
    sections: list[Section] = [
        ("questions", "What readers ask first", [_questions(run)]),
        ("curves", "How it learned", [_curves(run)]),
        ("sizes", "Against other compressors", [_sizes(run.record)]),
        ("ledger", "Where the bits stand: the ledger", [_ledger(run.record)]),
        *([("tables", "Where the bits went", list(_tables(run.record["tables"])))] if run.record["tables"] else []),
        ("findings", "What the run noticed of itself", [_findings(run.record)]),
        ("configuration", "Configuration", [_json(run.record["config"])]),
        ("environment", "Where it was made", [_pairs(run.record["environment"])]),
    ]
    return element(
        "article", *_headline(run, number), *_sections(sections, f"run-{number}"), aria_labelledby=f"run-{number}"
    )


def _sections(sections: Sequence[Section], prefix: str) -> Iterator[Html]:
    for name, title, content in sections:
        yield element(
            "section", element("h3", title, id=f"{prefix}-{name}"), *content, aria_labelledby=f"{prefix}-{name}"
        )


def _headline(run: Run, number: int) -> list[Html]:
    record = run.record
    n_bytes, size = record["corpus"]["n_bytes"], record["archive_bytes"]
    figures = [
        (f"{record['bits_per_byte']:.4f}", "bits/byte, the whole archive"),
        (f"{size:,}", f"bytes of archive for {n_bytes:,}"),
        ("verified" if record["verified"] else "not verified", _verified(record)),
        (
            f"{record['bytes_per_s'] / 1e3:,.2f} kB/s",
            f"{record['wall_s']:,.1f} s on {record['environment']['machine']['cpu']}",
        ),
    ]
    meaning = (
        f"Coded from the first byte to the last, each under a model that had learned from those before it only, these "
        f"{n_bytes:,} bytes took an archive of {size:,}, header and container included: {size / n_bytes:.1%} of the original. "
        f"{_against_best(record)}"
    )
    return [
        element("h2", f"{_corpus_name(run)}: {record['bits_per_byte']:.4f} bits/byte", id=f"run-{number}"),
        element("p", f"{model_summary(record['config'])}; {record['time']}; run {_name(run)}"),
        element("ul", *(element("li", element("strong", a), element("span", b)) for a, b in figures), class_="figures"),
        element("p", meaning),
    ]


def _against_best(record: Mapping[str, Any]) -> str:
    if not record["baselines"]:
        return "No other compressor was measured."
    best = min(record["baselines"], key=lambda baseline: baseline["compressed_bytes"])
    more = best["compressed_bytes"] / record["archive_bytes"] - 1
    words = "more" if more >= 0 else "less"
    return (
        f"The best of the {len(record['baselines'])} others, {best['label']}, needs {best['bits_per_byte']:.4f} bits/byte, "
        f"{abs(more):.1%} {words}."
    )


def _verified(record: Mapping[str, Any]) -> str:
    if not record["verified"]:
        return "the archive was not decoded in this run"
    return f"decoded again in {record['verify_wall_s']:,.1f} s, every byte compared"


def _questions(run: Run) -> Html:
    """Answers from the record alone: what it does not know, it says."""
    record = run.record
    corpus, config = record["corpus"], record["config"]
    answers = [
        (
            "Do the probabilities sum to one?",
            "Yes, exactly: each bit of a byte is coded under two whole frequencies, of a zero and of a one, each at least 1, "
            f"that sum to 65,536. {_proof(record)}",
        ),
        ("The full file or a subset?", _extent(record)),
        (
            "Bytes or tokens?",
            f"Bytes of the raw input: bits/byte divides by their number, {corpus['n_bytes']:,}.",
        ),
        ("Is the model counted? Tokenizer, dictionary?", _counted(record)),
        ("Was the seed picked?", f"The seed is {config['seed']}. {_choice(record)}"),
        (
            "Has someone else reproduced it?",
            "A record cannot tell. The archive decodes on any machine, and the same command gives the same "
            "archive, byte for byte:",
        ),
    ]
    commands = f"{command(record)}\nprequential test {_quoted(f'{_name(run)}/{ARCHIVE}')}"
    pairs = [join(element("dt", question), element("dd", answer)) for question, answer in answers]
    return join(element("dl", *pairs), element("pre", element("code", commands)), element("p", _provenance(record)))


def _proof(record: Mapping[str, Any]) -> str:
    if record["verified"]:
        return "The archive was decoded by a program that saw nothing but the archive, and every byte came back."
    return "Whether the archive decodes was not tried in this run; the last command below does."


def _extent(record: Mapping[str, Any]) -> str:
    corpus = record["corpus"]
    what = f"{corpus['n_bytes']:,} bytes of {_describe(corpus)}, BLAKE2b {corpus['blake2b']}"
    if "limit_bytes" not in record:
        return f"{what}. The record does not tell whether the input went on after them."
    if record["limit_bytes"] is None or record["limit_bytes"] > corpus["n_bytes"]:
        return f"The full input: {what}."
    return f"Not more than the first {record['limit_bytes']:,} bytes: {what}."


def _describe(corpus: Mapping[str, Any]) -> str:
    return f"the {corpus['kind']} {corpus.get('name')}" if "kind" in corpus else "data given in memory"


def _counted(record: Mapping[str, Any]) -> str:
    bits = {entry["entry"]: entry["bits"] for entry in record["ledger"]}
    beside = record["total_bits"] - record["archive_bits"]
    weights = bits.get("pre-trained weights", 0.0)
    trained = f"Weights of {weights:,.0f} bits were there before the first byte; they are in the total cost alone."
    learned = "Nothing is trained beforehand: weights and tables start from the seed and learn from the bytes as these are coded."
    return (
        f"{trained if weights else learned} {_tokenizer(bits)} The decoder's source, {record['decoder_bytes']:,} bytes zipped, "
        f"is not in the {record['bits_per_byte']:.4f} bits/byte; it is in the total cost, {beside:,.0f} bits above the archive's."
    )


def _tokenizer(bits: Mapping[str, float]) -> str:
    if bits.get("alphabet"):
        return f"The alphabet's table is in the archive: {bits['alphabet']:,.0f} bits."
    return "There is no tokenizer and no dictionary."


def _choice(record: Mapping[str, Any]) -> str:
    n_configs, n_seeds = record["n_configs"], record["n_seeds"]
    if n_configs * n_seeds == 1:
        return "As declared, one configuration and one seed were tried: nothing was picked."
    return (
        f"As declared, it is the best of {n_configs:,} configurations and {n_seeds:,} seeds. To say which costs "
        f"{math.log2(n_configs) + math.log2(n_seeds):.1f} bits, which are in the total cost."
    )


def _provenance(record: Mapping[str, Any]) -> str:
    environment = record["environment"]
    commit = environment.get("git_commit")
    text = f"Made with prequential {environment['versions']['prequential']}"
    if not commit:
        return f"{text}."
    changed = ", with files that differ from it" if commit.endswith("-dirty") else ""
    return f"{text}, commit {commit.removesuffix('-dirty')}{changed}."


def command(record: Mapping[str, Any]) -> str:
    """The command line that makes this run again, as a shell takes it.

    --limit is always named: where the whole was read it changes nothing. A configuration that is no preset is to be saved from
    the page as config.json.
    """
    corpus = record["corpus"]
    prefix = {"sample": "sample:", "dataset": "hf:"}.get(corpus.get("kind"), "")
    name = str(corpus.get("name") or "FILE")
    source = name if name.startswith(prefix) else prefix + name
    declared = [
        f"{option} {record[key]}"
        for option, key in (("--configs-tried", "n_configs"), ("--seeds-tried", "n_seeds"))
        if record[key] != 1
    ]
    limit = f"--limit {corpus['n_bytes']}"
    return " ".join(
        ["prequential evaluate", *_learner(record["config"]), limit, *declared, "--verify --", _quoted(source)]
    )


def _learner(config: Mapping[str, Any]) -> list[str]:
    """The options that choose this configuration."""
    for level in PRESETS:
        for pure in (False, True):
            try:
                known = preset(level, pure=pure, seed=config["seed"])
            except ConfigError:
                continue
            if json.loads(json.dumps(known.to_dict())) == config:
                return [f"-{level}", *(["--pure"] if pure else []), *([f"--seed {known.seed}"] if known.seed else [])]
    return ["--config config.json"]


def _quoted(text: str) -> str:
    return shlex.quote(text) if text.isprintable() else f"$'{ascii(text)[1:-1]}'"


def _curves(run: Run) -> Html:
    curves = run.curves
    drawings = [
        ("Bits/byte of all so far", plots.learning(curves), plots.LEARNING),
        ("Bits/byte of each stretch, two to a doubling", plots.stretches(curves), plots.LEARNING),
        ("Bits/byte of 64 equal windows", plots.windows(curves), plots.WINDOWS),
        ("Regret: bits the model spent more than another", plots.regrets(curves), plots.REGRET),
    ]
    text = (
        "The model's line, and those of its parts, are of ideal code length, known at the end of every segment. Another "
        "compressor's are of its real size at log-spaced prefixes, each compressed by itself. Where regret lies below 0, the "
        "model is ahead."
    )
    return join(
        element("p", text), element("div", *(figure_of(*drawing) for drawing in drawings if drawing[1]), class_="plots")
    )


def figure_of(title: str, series: Sequence[Series], axes: Axes) -> Html:
    drawing = svg(series, axes, f"{title}: {axes.y_title} against {axes.x_title}; {_ends(series)}")
    return element("figure", element("figcaption", title), drawing, legend(series))


def _ends(series: Sequence[Series]) -> str:
    """Where the lines end, for those who do not see them."""
    return "; ".join(f"{line.name} ends at {line.y[-1]:,.4g}" for line in series)


def _sizes(record: Mapping[str, Any]) -> Html:
    n_bytes, own = record["corpus"]["n_bytes"], record["archive_bytes"]
    rows: list[Row] = [("prequential", own, record["bits_per_byte"], None, None, record["wall_s"])]
    rows += [
        (
            baseline["label"],
            baseline["compressed_bytes"],
            bits_per_byte(baseline["compressed_bytes"], n_bytes),
            f"{baseline['compressed_bytes'] / own - 1:+.1%}",
            _from_byte(record["crossings"].get(baseline["name"])),
            baseline["wall_s"],
        )
        for baseline in record["baselines"]
    ]
    titles = ("compressor", "bytes", "bits/byte", "more than the archive", "the model is below from byte", "seconds")
    caption = (
        "Sizes of the whole, decoded again. From the byte named on, the model's ideal code length stays below the other's "
        "size to the end."
    )
    table = table_of("Sizes", titles, sorted(rows, key=_second), caption, is_own=lambda row: row[0] == "prequential")
    return join(table, *(element("p", note) for note in record["notes"]))


def _second(row: Row) -> Any:
    return row[1]


def _from_byte(byte: int | None) -> str:
    return "never" if byte is None else "0: everywhere" if byte == 0 else f"{byte:,}"


def _ledger(record: Mapping[str, Any]) -> Html:
    n_bytes, total = record["corpus"]["n_bytes"], record["total_bits"]
    entries = [(entry["entry"], entry["bits"]) for entry in record["ledger"]]
    rows = [(name, f"{bits:,.2f}", f"{bits / n_bytes:.4f}", f"{bits / total:.2%}") for name, bits in entries]
    rows.append(("total cost", f"{total:,.2f}", f"{total / n_bytes:.4f}", "100.00%"))
    gap = total - math.fsum(bits for _, bits in entries)
    caption = (
        f"The entries add up to the total cost, {total:,.2f} bits. The archive alone is {record['archive_bits']:,} bits; "
        f"the coder's overhead is {record['coder_overhead_ppm']:.1f} millionths of the ideal code length."
    )
    if abs(gap) > 1e-6:
        caption = f"The entries of this record do not add up: {gap:,.6f} bits are missing. {caption.partition('. ')[2]}"
    return table_of(
        "Ledger", ("entry", "bits", "bits/byte", "share"), rows, caption, is_own=lambda row: row[0] == "total cost"
    )


def _findings(record: Mapping[str, Any]) -> Html:
    findings = [str(Finding(**finding)) for finding in record.get("findings", ())]
    if not findings:
        return element("p", "Nothing unusual: no spike, divergence, plateau, slowdown or growth of memory.")
    return element("ul", *(element("li", finding) for finding in findings))


def _json(value: object) -> Html:
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return element("details", element("summary", "as JSON, for --config"), element("pre", element("code", text)))


def _pairs(value: Mapping[str, Any]) -> Html:
    return table_of("Environment", ("what", "value"), list(_leaves(value)), "")


def _leaves(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, object]]:
    for name, inner in value.items():
        if isinstance(inner, Mapping):
            yield from _leaves(inner, f"{prefix}{_words(name)}, ")
        else:
            yield f"{prefix}{_words(name)}", inner


def _tables(tables: Mapping[str, Any]) -> Iterator[Html]:
    """Every table of measure/evaluation/breakdown.py, or of its kind: rows, drawn where they follow occurrences, and what stands beside."""
    for name, table in tables.items():
        title = _words(name).capitalize()
        yield _folded(title, _flat_rows(table["rows"]))
        if tail := plots.tail(table):
            figure = figure_of(f"{title}: bits/byte at the k-th, and fitted power laws", tail, plots.TAIL)
            yield element("div", figure, class_="plots")
        beside = {key: value for key, value in table.items() if key != "rows"}
        for key in [key for key, value in beside.items() if _is_table(value)]:
            yield _folded(f"{title}: {_words(key)}", [{"of": of, **row} for of, row in beside.pop(key).items() if row])
        if beside:
            yield table_of(f"{title}: more", ("what", "value"), list(_leaves(beside)), "")


def _is_table(value: object) -> bool:
    """Rows by name; what has no row is None."""
    return isinstance(value, Mapping) and all(row is None or isinstance(row, Mapping) for row in value.values())


def _flat_rows(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, object]]:
    """A column for each value: bits of every part, and bits/byte of it; and a last row with the sums."""
    flat = [{**dict(_leaves(row)), **_rates(row)} for row in rows]
    if len(rows) > 1 and all("bits" in row for row in rows):
        bits = {part: math.fsum(row["bits"][part] for row in rows) for part in rows[0]["bits"]}
        whole = {"name": "all", "n_bytes": sum(row["n_bytes"] for row in rows), "bits": bits}
        flat.append({**dict(_leaves(whole)), **_rates(whole)})
    return flat


def _rates(row: Mapping[str, Any]) -> dict[str, float]:
    return {f"bits/byte, {part}": bits / row["n_bytes"] for part, bits in row.get("bits", {}).items() if row["n_bytes"]}


def _folded(title: str, rows: Sequence[Mapping[str, object]]) -> Html:
    titles = list(dict.fromkeys(name for row in rows for name in row))
    cells = [[row.get(name) for name in titles] for row in rows]
    table = table_of(title, titles, cells, "", is_own=lambda row: row[0] == "all")
    if len(rows) <= FOLDED_ROWS:
        return table
    return element("details", element("summary", f"{title}: {len(rows):,} rows"), table)


def table_of(
    title: str,
    titles: Sequence[str],
    rows: Sequence[Row],
    caption: str,
    *,
    is_own: Callable[[Row], bool] = lambda row: False,
) -> Html:
    """Rows under titles; a column whose cells are all numbers stands to the right; scrolls by itself where it is too wide."""
    right = ["n" if all(_is_number(row[i]) for row in rows) else None for i in range(len(titles))]
    head = element("tr", *(element("th", title, scope="col", class_=right[i]) for i, title in enumerate(titles)))
    body = [
        element(
            "tr",
            element("th", _cell(row[0]), scope="row", class_=right[0]),
            *(element("td", _cell(value), class_=right[i]) for i, value in enumerate(row[1:], 1)),
            class_="own" if is_own(row) else None,
        )
        for row in rows
    ]
    text = join(element("strong", title), f". {caption}" if caption else "")
    table = element("table", element("caption", text), element("thead", head), element("tbody", *body))
    return element("div", table, class_="scroll", tabindex=0, role="region", aria_label=title)


def _is_number(value: object) -> bool:
    if isinstance(value, str):
        return NUMBER.fullmatch(value) is not None
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _cell(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.2f}" if abs(value) >= 100 else f"{value:.4f}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _words(name: str) -> str:
    return name.removeprefix("n_").replace("_", " ")


def _corpus_name(run: Run) -> str:
    return str(run.record["corpus"].get("name") or "bytes")


def _name(run: Run) -> str:
    return run.path.resolve().name


def _contents(runs: Sequence[Run]) -> Html:
    links = [
        element("li", element("a", f"{_corpus_name(run)}, {name}", href=f"#run-{i}"))
        for i, (run, name) in enumerate(zip(runs, plots.names(runs), strict=True), 1)
    ]
    return element("nav", element("ul", *links), aria_label="Runs")


def _comparison(runs: Sequence[Run]) -> Iterator[Html]:
    """The runs side by side; differences only where the bytes are the same."""
    first = runs[0].record
    names = plots.names(runs)
    same = [_digest(run) == _digest(runs[0]) for run in runs]
    rows = [
        (
            name,
            _corpus_name(run),
            model_summary(run.record["config"]),
            run.record["archive_bytes"],
            run.record["bits_per_byte"],
            f"{run.record['archive_bytes'] / first['archive_bytes'] - 1:+.2%}" if is_same else None,
            run.record["verified"],
        )
        for name, run, is_same in zip(names, runs, same, strict=True)
    ]
    titles = ("run", "corpus", "model", "archive bytes", "bits/byte", "more than the first", "verified")
    caption = (
        ""
        if all(same)
        else "Not all are of the same bytes: bits/byte of different corpora say nothing about the models."
    )
    yield element("h2", "Comparison", id="comparison")
    yield table_of("Runs", titles, rows, caption)
    models = {name: run.curves[MODEL] for name, run in zip(names, runs, strict=True)}
    drawings = [figure_of("Bits/byte of all so far", plots.learning(models), plots.LEARNING)]
    try:
        comparison = compare(runs)
    except (ConfigError, CorpusError) as error:
        yield element("p", f"No differences: {error}.")
    else:
        yield _groups(comparison)
        yield _differences(comparison)
        drawings.append(figure_of("Difference to the reference", plots.differences(comparison), plots.DIFFERENCE))
    yield element("div", *drawings, class_="plots")


def _groups(comparison: Comparison) -> Html:
    titles = ("group", "runs", "seeds", "ideal bits, mean", "archive bits, mean")
    rows = [
        (group.label, ", ".join(group.runs), ", ".join(map(str, group.seeds)), group.mean_bits, group.mean_archive_bits)
        for group in comparison.groups
    ]
    caption = f"The best of {comparison.n_runs} runs costs {comparison.choice_bits:.2f} bits more: those of the choice."
    return table_of("Groups: runs that differ in the seed alone", titles, rows, caption)


def _differences(comparison: Comparison) -> Html:
    titles = ("difference", "bits", "bits/byte", "percent", "interval, bits", "e-value", "below for good from byte")
    rows = [
        (
            f"{found.other.label} - {found.reference.label}",
            found.bits,
            found.bits_per_byte,
            f"{found.percent:+.2f}%",
            _interval(found.interval),
            bounded_e_value(found.log2_e),
            _from_byte(found.crossing_byte),
        )
        for found in comparison.differences
    ]
    populations = sorted({found.interval.population for found in comparison.differences if found.interval})
    caption = (
        "Of ideal code length, negative where fewer bits are needed; of one corpus and one seed each it is exact. "
    )
    caption += "The e-value speaks against the reference as what the data follow."
    return table_of("Differences", titles, rows, " ".join([caption, *(f"Intervals are of: {p}." for p in populations)]))


def _interval(interval: Interval | None) -> str | None:
    if interval is None:
        return None
    return f"{interval.low_bits:,.0f} to {interval.high_bits:,.0f} ({interval.bootstrap.confidence:.0%})"


def _digest(run: Run) -> tuple[Any, Any]:
    return run.record["corpus"]["blake2b"], run.record["corpus"]["n_bytes"]
