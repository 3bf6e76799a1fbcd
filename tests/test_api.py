"""The public library: bytes and paths, documented examples, and a cheap import."""

import doctest
import inspect
import io
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy
import pandas
import pytest
from matplotlib.figure import Figure
from small import BOTH as SMALL

import prequential
from prequential import adapters
from prequential.learners import protocol
from prequential.sweeps.plans import Plan, Variant

PROJECT = Path(__file__).parents[1]
FUSED = prequential.Runtime(kernels="fused")


def test_a_path_and_its_bytes_cost_the_same_bits_and_progress_ascends_to_their_number(tmp_path: Path) -> None:
    data, seen = b"the same bytes " * 100, list[tuple[int, int]]()
    (tmp_path / "a").write_bytes(data)
    options = {"config": SMALL, "runtime": FUSED, "on_progress": lambda done, n: seen.append((done.n_bytes, n))}
    result = prequential.compress(tmp_path / "a", tmp_path / "a.pq", **options)
    from_bytes = prequential.evaluate(data, config=SMALL, runtime=FUSED, baselines=())
    assert result.code_bits == from_bytes.code_bits
    assert result.archive_bytes == (tmp_path / "a.pq").stat().st_size
    assert seen == sorted(seen) and seen[-1] == (1500, 1500)


def test_an_open_file_serves_as_archive_and_an_output_without_a_buffer_gets_every_byte() -> None:
    class Slow(io.RawIOBase):
        """Takes at most 7 bytes at a time, and nothing after the limit, as a pipe that does not wait."""

        def __init__(self, limit: int) -> None:
            self.taken, self.limit = b"", limit

        def write(self, data) -> int | None:
            part = bytes(data)[: min(7, self.limit - len(self.taken))]
            self.taken += part
            return len(part) or None

    slow, full = Slow(1 << 20), Slow(100)
    prequential.compress(b"text" * 100, slow, config=SMALL, runtime=FUSED)
    assert slow.taken == prequential.compress(b"text" * 100, config=SMALL, runtime=FUSED)
    original = Slow(1 << 20)
    assert prequential.decompress(io.BytesIO(slow.taken), original, runtime=FUSED).n_bytes == 400
    assert original.taken == b"text" * 100
    with pytest.raises(prequential.OutputError, match="takes no bytes now"):
        prequential.compress(b"text" * 100, full, config=SMALL, runtime=FUSED)


def test_importing_the_package_loads_neither_torch_nor_numpy() -> None:
    code = "import prequential, sys; print([m for m in ('torch', 'numpy', 'datasets') if m in sys.modules])"
    command = [sys.executable, "-c", code]
    assert subprocess.run(command, cwd=PROJECT, capture_output=True, check=True).stdout == b"[]\n"


TABLES = prequential.Config(gpt=None, mixer=prequential.MixerConfig(contexts=("1", "2"), table_bits=10))


def swept(folder, *configs):
    plan = Plan(variants=tuple(Variant(name=str(config.mixer), configs=(config,)) for config in configs))
    return prequential.sweep("sample:christmas_carol", plan, folder, limit=1000, runtime=FUSED)


def test_results_show_themselves(tmp_path):
    result = prequential.evaluate(b"<b>" * 900, config=TABLES, runtime=FUSED, baselines=("gzip",), verify=True)
    line, n_bytes = repr(result), result.archive_bytes
    assert f"2,700 bytes: 2 contexts, {8 * n_bytes / 2700:.4f} bits/byte" in line
    assert line.endswith(f"archive {n_bytes:,} bytes, verified>")
    assert repr(prequential.evaluate(b"abc" * 900, config=prequential.preset(1), baselines=())).count(": -1, ") == 1
    html = result._repr_html_()
    assert f"<td>{n_bytes:,}</td>" in html and "<td>gzip -9 (zlib)</td>" in html
    frame = result.to_frame()
    assert list(frame) == ["series", "n_bytes", "bits", "bits_per_byte"] and set(frame.series) == {"model", "gzip"}
    last = frame[frame.series == "model"].iloc[-1]
    assert (last.n_bytes, last.bits) == (2700, result.code_bits)
    swept(tmp_path, TABLES)
    run = prequential.read_runs(tmp_path)[0]
    assert re.fullmatch(r"<Run \S+ of christmas_carol, 1,000 bytes: 2 contexts, \d\.\d{4} bits/byte>", repr(run))
    assert (
        run._repr_html_().startswith("<p>&lt;Run ") and f"<td>{run.record['archive_bytes']:,}</td>" in run._repr_html_()
    )
    assert isinstance(run.to_frame(), pandas.DataFrame) and run.to_frame().n_bytes.max() == 1000
    kinds = result.table("byte_classes")
    assert kinds["bytes"].sum() == 2700 and abs(kinds["bits"].sum() - result.code_bits) < 1e-6
    assert abs(kinds["of bits, %"].sum() - 100) < 1e-9 and list(run.table("byte_classes")) == list(kinds)
    with pytest.raises(prequential.ConfigError, match="no table is called 'x': there are"):
        result.table("x")
    assert result.crossings == {"gzip": None} and result.archive_bytes > result.baselines[0].compressed_bytes


def test_every_result_has_a_short_line_and_a_table_for_notebooks() -> None:
    ladder = "benchmarks/forecasts/enwik8-contexts/ladder.jsonl.zst"
    runs, codes = prequential.read_runs(ladder), {"online": 9.0, "entropy": 99.0}
    for result in (
        runs[0].curve,
        prequential.compare(runs[:2], groups=["a", "b"]),
        prequential.read_forecast("benchmarks/forecasts/enwik8-contexts/forecast.json"),
        prequential.Heldout(records=(), rows=({"document": "<a>", "bits": 16.0},), text="two\nlines"),
        prequential.LabelCost(config=TABLES, n_labels=2, online=numpy.ones(9), codes=codes),
    ):
        line, html = repr(result), result._repr_html_()
        assert line.startswith("<") and "\n" not in line and len(line) < 400
        assert html.startswith("<p>&lt;") and html.count("<tr") <= 70 and "<a>" not in html
        assert all(f"<th>{name}</th>" in html for name in result.to_frame())


def test_help_shows_the_names_of_types() -> None:
    for function in (prequential.evaluate, prequential.compress, prequential.heldout, prequential.sweep):
        assert "'CorpusLike'" in str(inspect.signature(function))


def test_pictures_of_results_show_their_figures(tmp_path):
    summary = swept(tmp_path, TABLES, replace(TABLES, mixer=replace(TABLES.mixer, contexts=("1", "2", "3", "4"))))
    assert sorted(summary.to_frame().bits_per_byte) == sorted(result.bits_per_byte for result in summary.results)
    run = prequential.read_runs(tmp_path)[0]
    rates = prequential.plots.costs(run, ax=Figure().subplots())
    assert rates.get_yticklabels()[0].get_text().endswith(" % of the bits")
    rows = run.record["tables"]["byte_classes"]["rows"]
    expected = [row["bits"]["model"] / row["n_bytes"] for row in rows if row["n_bytes"]]
    assert [bar.get_width() for bar in rates.containers[0]] == pytest.approx(expected)
    text = prequential.plots.text(run)
    assert repr(text).startswith("The beginning: bytes 0-") and text._repr_html_().count('<span class="h') > 100


@pytest.mark.parametrize("name", prequential.__all__)
def test_every_public_name_is_documented_with_an_example_that_holds_on_its_own(name: str) -> None:
    found = getattr(prequential, name)
    example = doctest.DocTestParser().get_doctest(found.__doc__, {}, name, None, None)
    is_error = isinstance(found, type) and issubclass(found, prequential.PrequentialError)
    assert found.__doc__ and (example.examples or is_error)
    output: list[str] = []
    result = doctest.DocTestRunner(verbose=False).run(example, out=output.append)
    assert not result.failed, "".join(output)


def test_the_pictures_are_a_module_that_can_be_imported() -> None:
    program = (
        "import sys, prequential.plots\nfrom prequential.plots import costs; assert 'matplotlib' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_reference_lists_every_public_name_once() -> None:
    pages = sorted((PROJECT / "docs" / "api").glob("*.md"))
    listed = [name for page in pages for name in re.findall(r"^::: (\S+)$", page.read_text("utf-8"), re.MULTILINE)]
    own = {f"prequential.{name}" for name in prequential.__all__}
    others = {f"prequential.adapters.{name}" for name in adapters.__all__}
    others |= {f"prequential.plots.{name}" for name in prequential.plots.__all__}
    classes = [kind for kind in vars(protocol).values() if getattr(kind, "__module__", "") == protocol.__name__]
    protocols = {f"{protocol.__name__}.{kind.__name__}" for kind in classes} - {f"{protocol.__name__}.OnlineModel"}
    assert sorted(listed) == sorted(own | others | protocols)
