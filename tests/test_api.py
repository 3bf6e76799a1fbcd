"""The public library: bytes and paths, documented examples, and a cheap import."""

import doctest
import io
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import prequential
from prequential import adapters
from prequential.learners import protocol
from prequential.sweeps.plans import Plan, Variant

PROJECT = Path(__file__).parents[1]
FUSED = prequential.Runtime(kernels="fused")
SMALL = prequential.Config(
    gpt=prequential.GPTConfig(n_layers=1, width=32, n_heads=2, window=16),
    mixer=prequential.MixerConfig(contexts=("1", "2"), table_bits=8, match_bits=8),
    schedule=prequential.ScheduleConfig(history_bits=14, block_symbols=1024),
)


@settings(max_examples=10, deadline=None)
@given(st.binary(max_size=1500) | st.binary(max_size=12).map(lambda part: part * 100))
def test_compressed_data_are_restored(data: bytes) -> None:
    archive = prequential.compress(data, config=SMALL, runtime=FUSED)
    assert prequential.decompress(archive, runtime=FUSED) == data


def test_a_path_and_its_bytes_cost_the_same_bits(tmp_path: Path) -> None:
    data = b"the same bytes " * 100
    (tmp_path / "a").write_bytes(data)
    result = prequential.compress(tmp_path / "a", tmp_path / "a.pq", config=SMALL, runtime=FUSED)
    from_bytes = prequential.evaluate(data, config=SMALL, runtime=FUSED, baselines=())
    assert result.ledger.code_bits == from_bytes.ledger.code_bits
    assert result.ledger.archive_bytes == (tmp_path / "a.pq").stat().st_size


def test_the_curve_ends_with_the_complete_corpus_and_its_code_length() -> None:
    result = prequential.evaluate(b"abcdefgh" * 500, config=SMALL, runtime=FUSED, baselines=())
    assert result.curve.n_bytes[-1] == 4000
    assert result.curve.bits[-1] == result.ledger.code_bits
    assert (result.curve.n_bytes[1:] > result.curve.n_bytes[:-1]).all()


def test_progress_is_called_with_ascending_bytes_up_to_the_total() -> None:
    seen: list[tuple[int, int]] = []
    prequential.compress(
        b"x" * 2000, config=SMALL, runtime=FUSED, on_progress=lambda done, n_bytes: seen.append((done.n_bytes, n_bytes))
    )
    assert seen == sorted(seen)
    assert seen[-1] == (2000, 2000)


def test_an_open_file_serves_as_archive_and_as_output() -> None:
    packed, original = io.BytesIO(), io.BytesIO()
    prequential.compress(b"text" * 100, packed, config=SMALL, runtime=FUSED)
    packed.seek(0)
    result = prequential.decompress(packed, original, runtime=FUSED)
    assert (original.getvalue(), result.n_bytes) == (b"text" * 100, 400)


def test_an_output_without_a_buffer_gets_every_byte() -> None:
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
    with pytest.raises(prequential.OutputError, match="takes no bytes now"):
        prequential.compress(b"text" * 100, full, config=SMALL, runtime=FUSED)


def test_an_original_with_another_digest_is_refused_although_every_block_is_intact() -> None:
    from prequential_codecs.archive import ArchiveReader, ArchiveWriter
    from prequential_codecs.archive_header import Header

    reader = ArchiveReader(io.BytesIO(prequential.compress(b"text" * 100, config=SMALL, runtime=FUSED)))
    forged = io.BytesIO()
    writer = ArchiveWriter(forged, Header(n_bytes=400, blake2b=bytes(32), config=SMALL.to_dict()))
    for block in reader.blocks():
        writer.write_block(block)
    writer.close()
    with pytest.raises(prequential.CorruptArchiveError, match="digest"):
        prequential.decompress(forged.getvalue(), runtime=FUSED)


def test_a_model_above_the_memory_limit_is_not_built() -> None:
    archive = prequential.compress(b"text" * 100, config=SMALL, runtime=FUSED)
    with pytest.raises(prequential.ConfigError, match="memory"):
        prequential.decompress(archive, runtime=replace(FUSED, max_memory_bytes=1000))


def test_an_empty_corpus_cannot_be_evaluated() -> None:
    with pytest.raises(prequential.CorpusError, match="empty"):
        prequential.evaluate(b"", config=SMALL, runtime=FUSED)


def test_importing_the_package_loads_neither_torch_nor_numpy() -> None:
    code = "import prequential, sys; print([m for m in ('torch', 'numpy') if m in sys.modules])"
    command = [sys.executable, "-c", code]
    environment = {"PYTHONPATH": str(PROJECT)}
    assert subprocess.run(command, env=environment, capture_output=True, check=True).stdout == b"[]\n"


def test_results_show_themselves(tmp_path):
    pandas = pytest.importorskip("pandas")
    small = prequential.Config(gpt=None, mixer=prequential.MixerConfig(contexts=("1", "2"), table_bits=10))
    fused = prequential.Runtime(kernels="fused")
    result = prequential.evaluate(b"<b>" * 900, config=small, runtime=fused, baselines=("gzip",), verify=True)
    line, n_bytes = repr(result), result.ledger.archive_bytes
    assert f"2,700 bytes: 2 mixed contexts in 2**10 buckets, {8 * n_bytes / 2700:.4f} bits/byte" in line
    assert line.endswith(f"archive {n_bytes:,} bytes, verified>")
    assert repr(prequential.evaluate(b"abc" * 900, config=prequential.preset(1), baselines=())).count(": -1, ") == 1
    html = result._repr_html_()
    assert f"<td>{n_bytes:,}</td>" in html and "<td>gzip -9 (zlib)</td>" in html
    frame = result.to_frame()
    assert list(frame) == ["series", "n_bytes", "bits", "bits_per_byte"] and set(frame.series) == {"model", "gzip"}
    last = frame[frame.series == "model"].iloc[-1]
    assert (last.n_bytes, last.bits) == (2700, result.ledger.code_bits)
    plan = Plan(variants=(Variant(name="small", configs=(small,)),))
    prequential.sweep("sample:christmas_carol", plan, tmp_path, limit_bytes=1000, runtime=fused)
    run = prequential.read_runs(tmp_path)[0]
    assert isinstance(run.to_frame(), pandas.DataFrame) and run.to_frame().n_bytes.max() == 1000
    kinds = result.table("byte_classes")
    assert kinds["bytes"].sum() == 2700 and abs(kinds["bits"].sum() - result.ledger.code_bits) < 1e-6
    assert abs(kinds["of bits, %"].sum() - 100) < 1e-9 and list(run.table("byte_classes")) == list(kinds)
    with pytest.raises(prequential.ConfigError, match="no table is called 'x': there are"):
        result.table("x")
    assert result.crossings() == {"gzip": None} and result.ledger.archive_bytes > result.baselines[0].compressed_bytes


def test_pictures_of_results_show_their_figures(tmp_path):
    pytest.importorskip("matplotlib")
    small = prequential.Config(gpt=None, mixer=prequential.MixerConfig(contexts=("1", "2"), table_bits=10))
    fused = prequential.Runtime(kernels="fused")
    wide = replace(small, mixer=replace(small.mixer, contexts=("1", "2", "3", "4")))
    plan = Plan(variants=tuple(Variant(name=str(c.mixer.contexts), configs=(c,)) for c in (small, wide)))
    summary = prequential.sweep("sample:christmas_carol", plan, tmp_path, limit_bytes=1000, runtime=fused)
    (plot,) = prequential.plots.front(summary).axes
    drawn = sorted(y for line in plot.lines for y in line.get_ydata())
    assert (
        drawn == sorted(result.bits_per_byte for result in summary.results)
        and plot.get_xlabel() == "operations per byte"
    )
    assert sorted(summary.to_frame().bits_per_byte) == drawn
    record = prequential.read_runs(tmp_path)[0].record
    shares, rates = prequential.plots.costs(record["tables"]["byte_classes"]).axes
    assert abs(sum(bar.get_width() for bar in shares.containers[0]) - 100) < 1e-9
    rows = record["tables"]["byte_classes"]["rows"]
    expected = [row["bits"]["model"] / row["n_bytes"] for row in rows if row["n_bytes"]]
    assert [bar.get_width() for bar in rates.containers[0]] == pytest.approx(expected)
    text = prequential.plots.text(record["passages"])
    assert (
        repr(text).splitlines()[0].startswith("The beginning: bytes 0-") and text._repr_html_().count(' bits">') == 600
    )


def is_plain_error(name: str) -> bool:
    found = getattr(prequential, name)
    return isinstance(found, type) and issubclass(found, prequential.PrequentialError)


@pytest.mark.parametrize("name", prequential.__all__)
def test_every_public_name_exists_and_is_documented(name: str) -> None:
    assert getattr(prequential, name).__doc__


@pytest.mark.parametrize("name", [name for name in prequential.__all__ if not is_plain_error(name)])
def test_every_public_name_has_an_example_that_holds_on_its_own(name: str) -> None:
    example = doctest.DocTestParser().get_doctest(getattr(prequential, name).__doc__, {}, name, None, None)
    assert example.examples
    output: list[str] = []
    result = doctest.DocTestRunner(verbose=False).run(example, out=output.append)
    assert not result.failed, "".join(output)


def test_the_reference_lists_every_public_name_once() -> None:
    pages = sorted((PROJECT / "docs" / "api").glob("*.md"))
    listed = [name for page in pages for name in re.findall(r"^::: (\S+)$", page.read_text("utf-8"), re.MULTILINE)]
    own = {f"prequential.{name}" for name in prequential.__all__}
    others = {f"prequential.adapters.{name}" for name in adapters.__all__}
    classes = [
        kind for kind in vars(protocol).values() if isinstance(kind, type) and kind.__module__ == protocol.__name__
    ]
    protocols = {f"{protocol.__name__}.{kind.__name__}" for kind in classes}
    assert sorted(listed) == sorted(own | others | protocols)
