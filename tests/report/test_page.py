"""The HTML page: complete, well formed, and equal to the record. It loads nothing and escapes the text of records and folders."""

import base64
import html
import json
import math
import re
import shlex
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import prequential
from prequential.comparison.compare import Comparison, Difference, RunGroup
from prequential.comparison.prediction import Intervals
from prequential.errors import CorpusError
from prequential.evaluation.breakdown import EXPLANATIONS
from prequential.evaluation.runs import RECORD, Run, read_run
from prequential.report.markup import html_table
from prequential.report.page import command, difference_table, html_report
from prequential.report.panels import Table
from prequential.report.run_panels import group_names, learner_label, run_names

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
        if self.open and self.open[-1] in ("td", "th"):
            self.cells[-1][-1] += data

    def values(self, name: str) -> list[str]:
        return [value or "" for key, value in self.attributes if key == name]


def text_of(page: str) -> str:
    return html.unescape(re.sub(r"<[^>]*>", " ", page))


def assert_loads_nothing(text: str) -> None:
    parsed = Page(text)
    ids = parsed.values("id")
    assert len(ids) == len(set(ids))
    assert {label for value in parsed.values("aria-labelledby") for label in value.split()} <= set(ids)
    assert {link.removeprefix("#") for link in parsed.values("href")} <= set(ids)
    assert not set(parsed.tags) & {"script", "link", "img", "iframe", "object", "embed", "base", "form", "use", "image"}
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
    text = base64.b64encode(EVIL.encode()).decode()
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
        passages=[{"name": EVIL, "position": 0, "text": text, "bits": [1.0] * len(EVIL)}],
        config=record["config"] | {EVIL: EVIL},
    )
    found = html_report([run, run])
    assert_loads_nothing(found)
    assert not re.search("<script|<img", found)
    assert html.unescape(found).count(EVIL) > 15


@pytest.mark.parametrize("missing", ["archive_bytes", "config", "ledger", "environment"])
def test_an_incomplete_record_is_refused_with_its_name(runs: list[Run], tmp_path: Path, missing: str) -> None:
    with pytest.raises(CorpusError, match=rf"copy-0.* is not a complete record: '{missing}' is not"):
        changed(runs[0], tmp_path, **{missing: None})
    record = {name: value for name, value in runs[0].record.items() if name != missing}
    (tmp_path / "copy-0" / RECORD).write_text(json.dumps(record))
    with pytest.raises(CorpusError, match="copy-0"):
        html_report([read_run(tmp_path / "copy-0")])


# ---- the sections of a run


def test_the_headline_shows_the_rate_the_archive_and_the_verification(
    runs: list[Run], page: str, tmp_path: Path
) -> None:
    record, head = runs[0].record, text_of(page).partition("Learning curves")[0]
    for shown in (f"{record['bits_per_byte']:.4f} bits/byte", f"{record['archive_bytes']:,}", "every byte compared"):
        assert shown in head
    run = changed(runs[0], tmp_path, verified=False, verify_wall_s=None, verify_bytes_per_s=None)
    text = text_of(html_report([run]))
    assert "not verified" in text
    assert not re.search("every byte (compared|matched)", text)


def test_curves_and_comparison_come_first_and_how_to_repeat_the_run_below(page: str) -> None:
    places = [page.index(f'id="run-1-{name}"') for name in ("curves", "sizes", "passages", "repetition")]
    assert places == sorted(places)
    assert page.index("<svg") < page.index("<table")
    assert "best of 1 configurations and 2 seeds" in page[places[-1] :]
    assert "costs 1.0 bits" in page[places[-1] :]


def test_tables_have_human_names_explanations_and_captions_outside_of_what_scrolls(runs: list[Run], page: str) -> None:
    assert page.count('class="scroll"') > 5
    assert all("caption" not in part.partition("</table>")[0] for part in page.split('class="scroll"')[1:])
    shown = text_of(page)
    assert all(EXPLANATIONS[name] in shown for name in runs[0].record["tables"])
    heads = re.findall(r'<th scope="col"[^>]*>([^<]*)</th>', page)
    assert {"kind of byte", "of bytes", "of bits", "occurrence k"} <= set(heads)
    assert not [name for name in heads if "_" in name]


def test_a_column_has_one_precision() -> None:
    columns = {"x": "abc", "y": [1, 2000, 3], "z": [0.25, 123.456, None], "w": [3.0, 3, 0.5]}
    cells = Page(html_table(Table("t", columns))).cells[1:]
    assert cells == [["a", "1", "0.25", "3.0000"], ["b", "2,000", "123.46", "3.0000"], ["c", "3", "–", "0.5000"]]


def test_the_entries_of_the_ledger_sum_to_the_total_cost_or_the_page_says_so(
    runs: list[Run], page: str, tmp_path: Path
) -> None:
    record = runs[0].record
    rows = {row[0]: row for row in Page(page).cells}
    assert math.fsum(entry["bits"] for entry in record["ledger"]) == record["total_bits"]
    for entry in [*record["ledger"], {"entry": "total cost", "bits": record["total_bits"]}]:
        assert rows[entry["entry"]][1] == f"{entry['bits']:,.2f}"
    run = changed(runs[0], tmp_path, total_bits=record["total_bits"] + 8)
    assert "do not sum to the total cost: 8.000000 bits are missing" in text_of(html_report([run]))


def test_every_baseline_is_in_the_table_with_its_crossing(runs: list[Run], tmp_path: Path) -> None:
    run = changed(runs[0], tmp_path, crossings={"gzip": 0, "ppmd": None, "order0": 1234})
    rows = {row[0]: row for row in Page(html_report([run])).cells if len(row) == 6}
    labels = {baseline["name"]: baseline["label"] for baseline in run.record["baselines"]}
    crossings = {name: rows[label][4] for name, label in labels.items()}
    assert crossings == {"gzip": "0: everywhere", "ppmd": "never", "order0": "1,234"}
    sizes = [int(row[1].replace(",", "")) for name, row in rows.items() if name in {*labels.values(), OWN}]
    assert sizes == sorted(sizes)
    assert len(sizes) == 4


def test_breakdowns_show_their_sums(runs: list[Run], page: str) -> None:
    code_bits = f"{runs[0].record['code_bits']:,.2f}"
    totals = [row for row in Page(page).cells if row and row[0] == "all"]
    assert len(totals) == sum(len(table["rows"]) > 1 for table in runs[0].record["tables"].values())
    assert all(row[1:3] == ["6,000", code_bits] for row in totals)


# ---- how to repeat a run


@pytest.mark.parametrize(
    ("limit", "answer"), [(None, "The full input"), (6000, "At most the first 6,000 bytes"), (10**6, "The full input")]
)
def test_the_limit_distinguishes_the_full_input_from_a_subset(
    runs: list[Run], tmp_path: Path, limit: int | None, answer: str
) -> None:
    assert answer in text_of(html_report([changed(runs[0], tmp_path, limit_bytes=limit)]))


@pytest.mark.parametrize(("level", "pure", "seed"), [(1, False, 0), (5, True, 0), (5, False, 3)])
def test_the_command_repeats_the_corpus_and_the_model(runs: list[Run], level: int, pure: bool, seed: int) -> None:
    words = shlex.split(command(runs[0].record))
    assert words[:2] == ["prequential", "evaluate"]
    assert words[-1] == "sample:christmas_carol"
    assert words[words.index("--limit") + 1] == "6000"
    assert "--config" in words
    assert words[words.index("--seeds-tried") + 1] == "2"
    config = json.loads(json.dumps(prequential.preset(level, pure=pure, seed=seed).to_dict()))
    words = shlex.split(command(runs[0].record | {"config": config}))
    assert (f"-{level}" in words, "--pure" in words, "--seed" in words) == (True, pure, bool(seed))


HOSTILE_NAMES = (
    "a'; touch x", "a\n'$(touch x)'", "\x1b'`touch x`", "$'\\'; touch x #", '\t"; touch x', "-rf", "a\\", "é\n'|touch x",
)  # fmt: skip


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_no_shell_runs_anything_from_a_corpus_name(runs: list[Run], shell: str, tmp_path: Path) -> None:
    for name in HOSTILE_NAMES:
        corpus = runs[0].record["corpus"] | {"kind": "file", "name": name}
        line = command(runs[0].record | {"corpus": corpus}).replace("prequential evaluate", r"printf '%s\0'", 1)
        done = subprocess.run([shell, "-c", line], cwd=tmp_path, capture_output=True, check=True)
        assert done.stdout.split(b"\0")[-2] == name.encode()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("corpus", "source"),
    [
        ({"kind": "sample", "name": "christmas_carol"}, "sample:christmas_carol"),
        ({"kind": "tree", "name": "src"}, "src"),
        ({"kind": "shards", "name": "web"}, "CORPUS"),  # as a path it would be read as a folder: other bytes
        ({"kind": "dataset", "name": "owner/texts"}, "CORPUS"),
        ({}, "FILE"),
    ],
)
def test_the_command_never_names_other_bytes(runs: list[Run], corpus: dict[str, str], source: str) -> None:
    record = runs[0].record | {"corpus": {"n_bytes": 10, "blake2b": "00", **corpus}}
    assert shlex.split(command(record).splitlines()[0])[-1] == source


# ---- several runs


def test_several_runs_are_compared_before_anything_else(runs: list[Run]) -> None:
    text = html_report(runs)
    assert_loads_nothing(text)
    saved = runs[0].record["code_bits"] - runs[1].record["code_bits"]
    row = next(row for row in Page(text).cells if len(row) == 7 and row[0] == "3 contexts")
    assert float(row[1].replace(",", "")) == pytest.approx(saved, abs=0.005)
    assert text.index("Bits saved against 2 contexts") < text.index("<table") < text.index('id="run-1"')


def test_a_name_has_one_colour_on_a_page_and_no_other_name_has_it(runs: list[Run]) -> None:
    found: dict[str, set[str]] = {}
    for colour, name in re.findall(r'class="name t(\d)">[^<]*<title>([^<]*)<', html_report(runs)):
        found.setdefault(name, set()).add(colour)
    assert all(len(each) == 1 for each in found.values())
    full = [min(found[name]) for name in ("2 contexts", "3 contexts, seed 7", "ppmd", "gzip", "order0")]
    assert len(set(full)) == len(full)


def test_runs_are_named_by_their_presets(runs: list[Run], tmp_path: Path) -> None:
    presets = [(2, False, 0), (2, False, 3), (5, True, 0), (2, False, 0)]
    configs = [prequential.preset(level, pure=pure, seed=seed).to_dict() for level, pure, seed in presets]
    other = {"learner": {"name": "Mine", "arguments": {}, "n_symbols": 256, "run_symbols": 1}}
    copies = [changed(runs[0], tmp_path, config=json.loads(json.dumps(config))) for config in [*configs, other]]
    labels = [learner_label(run.record["config"]) for run in copies]
    assert run_names(labels, copies) == ["-2", "-2 --seed 3", "-5 --pure", "-2 (2)", "Mine"]
    assert group_names(copies) == ["-2", "-2", "-5 --pure", "-2 (2)", "Mine"]


def test_other_learners_are_named_by_their_arguments() -> None:
    def label(**arguments: object) -> str:
        return learner_label({"learner": {"name": "mine", "arguments": arguments, "n_symbols": 300}})

    assert [label(tok="8k"), label(tok="/models/16k/", lr=0.1)] == ["mine, tok=8k", "mine, tok=16k, lr=0.1"]
    assert label(seed=3) == "mine"  # runs of a group differ in it
    assert len(label(**{f"a{i}": "x" * 1000 for i in range(1000)})) < 150


def test_runs_over_other_bytes_are_named_and_not_compared(runs: list[Run], tmp_path: Path) -> None:
    other = changed(runs[1], tmp_path, corpus=runs[1].record["corpus"] | {"blake2b": "00" * 32, "name": "elsewhere"})
    text = html_report([runs[0], other])
    assert "say nothing about the models" in text
    assert "has the same bytes: 2 contexts on christmas_carol, 3 contexts, seed 7 on elsewhere." in text
    assert "Bits saved against" not in text
    three = html_report([runs[0], other, runs[1]])
    assert "has the same bytes: 3 contexts, seed 7 on elsewhere." in three
    assert "Bits saved against 2 contexts" in three


def test_runs_that_differ_only_in_the_seed_are_not_called_different(runs: list[Run], tmp_path: Path) -> None:
    twin = changed(runs[0], tmp_path, config=runs[0].record["config"] | {"seed": 5})
    text = html_report([runs[0], twin])
    assert "differ only in the seed" in text
    assert "Bits saved against" not in text


def test_both_intervals_are_shown_as_bits_saved_and_named() -> None:
    a, b = (
        RunGroup(label=x, runs=(x,), seeds=(0,), config={}, bits=(bits,), archive_bits=(8,), curves=())
        for x, bits in (("first", 5000.0), ("second", 4000.0))
    )
    both = Intervals(
        mean_low_bits=-1300, mean_high_bits=-700, text_low_bits=-1500.4, text_high_bits=200.2, mean_of="the mean",
        text_of="the difference on another text", confidence=0.95, n_cells=64, cell_bytes=1024,
    )  # fmt: skip
    difference = Difference(
        reference=a, other=b, bits=-1000.0, intervals=both, crossing_byte=0,
        n_bytes=np.array([0, 65536]), running_bits=np.array([0.0, -1000.0]),
    )  # fmt: skip
    table = difference_table(Comparison(corpus={"n_bytes": 65536}, groups=(a, b), differences=(difference,)))
    assert table.columns["confidence interval"] == ["700 to 1,300"]
    assert table.columns["prediction interval"] == ["-200 to 1,500"]
    assert (
        "At 95%, the confidence interval holds the mean; the prediction interval, the difference on another text."
        in table.caption
    )
