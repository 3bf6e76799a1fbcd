"""The HTML page: complete, well formed, and equal to the record. It loads nothing and escapes the text of records and folders."""

import base64
import html
import json
import math
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import prequential
from prequential.comparison.compare import Comparison, Difference, RunGroup
from prequential.comparison.differences import sentence
from prequential.comparison.evidence import Interval
from prequential.errors import CorpusError
from prequential.evaluation.breakdown import EXPLANATIONS
from prequential.evaluation.runs import RECORD, Run, read_run
from prequential.evaluation.summary import report_figures
from prequential.report.markup import SCRIPT, html_table
from prequential.report.page import conclusion, html_report, ranking_table
from prequential.report.run_panels import group_names
from prequential.report.sections import percent

VOID = {"meta", "br", "hr", "img", "input", "link"}
OWN = "prequential 2 contexts"  # in the table of sizes
EVIL = "<script>alert('1')</script>\"><img src=http://example.org/x onerror=alert(2)>&amp;"


@pytest.fixture(scope="module")
def page(runs: list[Run]) -> str:
    return html_report(runs[:1])


def changed(run: Run, folder: Path, **more: Any) -> Run:
    """A copy of the run with other values in its record."""
    target = folder / f"copy-{len(list(folder.iterdir()))}"
    shutil.copytree(run.path, target)
    (target / RECORD).write_text(json.dumps(run.record | more))
    return read_run(target)


class Page(HTMLParser):
    """A parsed page: its tags, which must be balanced, its attributes, and the text of every table cell by row."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.cells: list[list[str]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag == "tr":
            self.cells.append([])
        if tag in ("td", "th"):
            self.cells[-1].append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if {"td", "th"} & set(self.open):
            self.cells[-1][-1] += data

    def values(self, name: str) -> list[str]:
        return [value or "" for key, value in self.attributes if key == name]


def text_of(page: str) -> str:
    return html.unescape(re.sub(r"<[^>]*>", " ", page))


def first_line(page: str) -> str:
    found = re.search("<h1>(.*?)</h1>", page)
    assert found and "<body>\n<main>" + found[0] in page
    return text_of(found[1])


def assert_loads_nothing(text: str) -> None:
    parsed = Page(text)
    ids = parsed.values("id")
    assert len(ids) == len(set(ids))
    assert {link.removeprefix("#") for link in parsed.values("href")} <= set(ids)
    assert parsed.tags.count("script") == text.count(f"<script>{SCRIPT}</script>") == 1
    assert not set(parsed.tags) & {"link", "img", "iframe", "object", "embed", "base", "form", "use", "image"}
    assert not {"src", "srcset", "action", "data", "xlink:href", "background"} & {name for name, _ in parsed.attributes}
    assert not [name for name, _ in parsed.attributes if name.startswith("on")]
    assert "url(" not in text
    assert "@import" not in text


# ---- the whole page


def test_a_page_is_well_formed_loads_nothing_and_is_the_same_every_time(runs: list[Run], page: str) -> None:
    assert_loads_nothing(page)
    assert not re.search("https?://", page)
    assert "default-src 'none'" in page
    assert html_report([read_run(runs[0].path)]) == page


def test_text_from_records_is_never_markup(runs: list[Run], tmp_path: Path) -> None:
    record = runs[0].record
    finding = {"kind": "spike", "position": 1, "block": 0, "message": EVIL, "cause": EVIL}
    passage = base64.b64encode(EVIL.encode()).decode()
    run = changed(
        runs[0],
        tmp_path,
        corpus=record["corpus"] | {"name": EVIL, "kind": EVIL, "blake2b": EVIL},
        notes=[EVIL],
        findings=[finding],
        baselines=[baseline | {"label": EVIL} for baseline in record["baselines"]],
        ledger=[{"entry": EVIL, "bits": record["total_bits"]}],
        tables={EVIL: {"rows": [{"name": EVIL, EVIL: EVIL}], EVIL: EVIL}},
        environment=record["environment"] | {EVIL: EVIL, "git_commit": EVIL},
        passages=[{"name": EVIL, "position": 0, "text": passage, "bits": [1.0] * len(EVIL)}],
        config=record["config"] | {EVIL: EVIL},
    )
    text = html_report([run, run])
    assert_loads_nothing(text)
    assert not re.search("<script|<img", text.replace(f"<script>{SCRIPT}", ""))
    assert html.unescape(text).count(EVIL) > 15


def test_an_incomplete_record_is_refused_with_its_name(runs: list[Run], tmp_path: Path) -> None:
    run = changed(runs[0], tmp_path)
    del run.record["ledger"]
    with pytest.raises(CorpusError, match=r"copy-0.* has no 'ledger'"):
        html_report([run])


# ---- the sections of a run


def test_the_first_line_is_the_conclusion_with_the_figures_of_the_record(
    runs: list[Run], page: str, tmp_path: Path
) -> None:
    record = runs[0].record
    best = min(record["baselines"], key=lambda baseline: baseline["compressed_bytes"])
    more = record["archive_bytes"] / best["compressed_bytes"] - 1
    rate = f"prequential 2 contexts needs {record['bits_per_byte']:.2f} bits/byte on christmas_carol"
    assert first_line(page) == f"{rate}, {percent(abs(more))} {'more' if more > 0 else 'less'} than {best['name']}"
    assert "<title>christmas_carol: " in page
    parts = {"model": 900.0, "gpt": 1500.0, "mixer": 1000.0}
    assert first_line(html_report([changed(runs[0], tmp_path, parts=parts, baselines=[])])) == (
        f"{rate}; without its GPT 11 % more"
    )
    assert [percent(share) for share in (0.00218, 0.0123, 0.1249, 12.5)] == ["0.22 %", "1.2 %", "12 %", "1,250 %"]


def test_a_code_length_without_a_decoder_is_called_not_proved_in_the_first_line(
    runs: list[Run], tmp_path: Path
) -> None:
    record = runs[0].record
    for coding in ("reported by a training loop", "code length, no archive"):
        rates = {"n_tokens": 9, "bits_per_token": 2.0, "nats_per_token": 1.4, "tokens_per_byte": 0.5}
        run = changed(runs[0], tmp_path, coding=coding, reported={"source": "x"}, **rates)
        assert f"({coding}; not proved)" in first_line(html_report([run]))
    label = "hf:mine, weights not counted"
    static = record["baselines"][0] | {"name": "hf:mine", "label": label, "compressed_bytes": 9}
    text = html_report([changed(runs[0], tmp_path, baselines=[*record["baselines"], static])])
    assert first_line(text).endswith("more than hf:mine (reported, not proved)")
    assert f"{label} (reported, not proved)" in [row[0] for row in Page(text).cells]


def test_the_figures_of_the_text_report_stand_beside_the_sizes(runs: list[Run], page: str) -> None:
    rows = {row[0]: row[1] for row in Page(page).cells if len(row) == 2}
    figures = report_figures(runs[0].record)
    assert rows == {name: figures[name] for name in figures if name in rows} | {"figure": "value"}
    assert {"archive", "description length", "speed", "verified"} <= set(rows)


def test_what_one_acts_on_is_shown_and_the_rest_is_folded(page: str) -> None:
    shown = re.sub("<details.*?</details>", "", page, flags=re.DOTALL)
    assert (shown.count("<table"), shown.count('role="img"')) == (2, 2)
    titles = ["Learning curves", "What the text costs", "Where the bits went", "Total cost"]
    assert re.findall("<h2>(.*?)</h2>", shown) == titles


def test_a_column_has_one_precision_and_one_without_values_is_left_out() -> None:
    columns = {"x": "abc", "y": [1, 2000, 3], "z": [0.25, 123.456, None], "none": [None] * 3, "w": [3.0, 3, 0.5]}
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    cells = Page(html_table("t", rows)).cells[1:]
    assert cells == [["a", "1", "0.25", "3.0000"], ["b", "2,000", "123.46", "3.0000"], ["c", "3", "–", "0.5000"]]


def test_the_entries_of_the_ledger_sum_to_the_total_cost(runs: list[Run], page: str) -> None:
    record = runs[0].record
    rows = {row[0]: row for row in Page(page).cells}
    assert math.fsum(entry["bits"] for entry in record["ledger"]) == record["total_bits"]
    for entry in [*record["ledger"], {"entry": "total cost", "bits": record["total_bits"]}]:
        assert rows[entry["entry"]][1] == f"{entry['bits']:,.2f}"


def test_every_baseline_is_in_the_table_with_its_crossing(runs: list[Run], tmp_path: Path) -> None:
    run = changed(runs[0], tmp_path, crossings={"gzip": 1024, "ppmd": None, "bzip2": 1234})
    rows = {row[0]: row for row in Page(html_report([run])).cells if len(row) == 6}
    labels = {baseline["name"]: baseline["label"] for baseline in run.record["baselines"]}
    crossings = {name: rows[label][5] for name, label in labels.items()}
    assert crossings == {"gzip": "1,024", "ppmd": "never", "bzip2": "1,234"}
    sizes = [int(row[3].replace(",", "")) for name, row in rows.items() if name in {*labels.values(), OWN}]
    assert sizes == sorted(sizes)
    assert len(sizes) == 4


def test_breakdowns_show_the_rows_of_the_record(runs: list[Run], page: str) -> None:
    tables, cells = runs[0].record["tables"], {row[0]: row for row in Page(page).cells}
    assert all(EXPLANATIONS[name] in text_of(page) for name in tables)
    for row in (row for table in tables.values() for row in table["rows"]):
        assert cells[row["name"]][1] == f"{row['n_bytes']:,}"


# ---- several runs


def test_several_runs_begin_with_the_best_one_and_a_ranking(runs: list[Run]) -> None:
    text = html_report(runs)
    assert_loads_nothing(text)
    best, other = sorted(runs, key=lambda run: run.record["bits_per_byte"])
    more = 100 * (other.record["code_bits"] / best.record["code_bits"] - 1)
    rate = f"needs {best.record['bits_per_byte']:.2f} bits/byte on christmas_carol"
    found = re.fullmatch(
        rf"prequential 3 contexts {rate}; 2 contexts needs ([0-9.]+)( ± [0-9.]+)? % more(, so .*)?", first_line(text)
    )
    assert found and float(found[1]) == pytest.approx(more, abs=0.06)
    rows = Page(text).cells[:3]
    assert [row[0] for row in rows] == ["learner", "3 contexts", "2 contexts"]
    assert [row[1] for row in rows] == ["bits/byte", *(f"{run.record['bits_per_byte']:.4f}" for run in (best, other))]
    assert rows[2][2].startswith(f"+{found[1]}")
    assert text.index("Bits that 3 contexts saves") < text.index('id="run-1"')
    assert re.sub("<details.*</details>", "", text, flags=re.DOTALL).count("<table") == 1


def test_groups_of_runs_are_named_by_their_presets(runs: list[Run], tmp_path: Path) -> None:
    presets = [(2, False, 0), (2, False, 3), (5, True, 0), (2, False, 0)]
    configs = [prequential.preset(level, pure=pure, seed=seed).to_dict() for level, pure, seed in presets]
    other = {"learner": {"name": "Mine", "arguments": {}, "n_symbols": 256, "run_symbols": 1}}
    copies = [changed(runs[0], tmp_path, config=json.loads(json.dumps(config))) for config in [*configs, other]]
    assert group_names(copies) == ["-2", "-2", "-5 --pure", "-2 (2)", "Mine"]


def test_runs_over_other_bytes_are_named_and_not_compared(runs: list[Run], tmp_path: Path) -> None:
    other = changed(runs[1], tmp_path, corpus=runs[1].record["corpus"] | {"blake2b": "00" * 32, "name": "elsewhere"})
    text = html_report([runs[0], other])
    assert "say nothing about the models" in text
    assert "<h2>prequential" not in text
    assert "<h2>prequential 3 contexts needs" in html_report([runs[0], other, runs[1]])


def test_runs_that_differ_only_in_the_seed_are_not_called_different(runs: list[Run], tmp_path: Path) -> None:
    twin = changed(runs[0], tmp_path, config=runs[0].record["config"] | {"seed": 5})
    text = html_report([runs[0], twin])
    assert "differ only in the seed" in text
    assert first_line(text).endswith("bits/byte on christmas_carol in 2 runs")
    assert [row[-1] for row in Page(text).cells[:2]] == ["seeds", "0, 5"]


def test_a_run_that_costs_the_same_everywhere_is_not_called_worse(runs: list[Run], tmp_path: Path) -> None:
    mixer = runs[0].record["config"]["mixer"] | {"table_bits": 9}
    text = html_report([runs[0], changed(runs[0], tmp_path, config=runs[0].record["config"] | {"mixer": mixer})])
    assert first_line(text).endswith(" needs as much, everywhere")


@pytest.mark.parametrize(("percent", "doubt"), [(2.0, ""), (1.0, ": seeds could make this difference")])
def test_the_answers_of_a_comparison_are_a_column_and_sentences(runs: list[Run], percent: float, doubt: str) -> None:
    a, b = (
        RunGroup(label=x, runs=(x,), seeds=(0,), config={"gpt": {}}, bits=(bits,), curves=())
        for x, bits in (("first", 5000.0), ("second", 5000.0 + 50 * percent))
    )
    texts = Interval(low_percent=-1.0, high_percent=5.0, p_value=0.2, over="this text alone")
    difference = Difference(
        reference=a, other=b, bits=50 * percent, parts_percent=(percent,) * 8, seeds=None, texts=texts, n_documents=0,
        n_effective=math.inf, crossing_byte=0,
        n_bytes=np.array([0, 65536]), running_bits=np.array([0.0, 100.0]),
    )  # fmt: skip
    compared = Comparison(corpus={"n_bytes": 65536}, groups=(a, b), differences=(difference,))
    groups = {"first": [(1, runs[0])], "second": [(2, runs[1])]}
    table = ranking_table(groups, compared)
    assert [row[2] for row in Page(table).cells[1:]] == ["–", f"+{percent:.2f} %"]
    assert f"<div>{sentence(difference)}</div>" in table
    assert conclusion(groups, compared).endswith(f"; second needs {percent:.2f} % more{doubt}")
