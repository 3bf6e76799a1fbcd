"""Damaged records, curves, forecasts, series and drafts are read or refused, and nothing is lost (fuzz_records.py)."""

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fuzz_records
import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from damage import _made_bomb
from fuzz_records import KINDS, Command, check_html, check_svg, judged, prepared, ran, restore, strict_json
from limits import bounded
from mutate import BrokenRuleError
from prequential_codecs.archive_header import Header
from record_seeds import OPTIONS, has_git, seeds

import prequential
from prequential.errors import CheckpointError, CorpusError
from prequential.evaluation import draft as drafts
from prequential.evaluation.curves import MODEL, Curve, parse_curves
from prequential.files.append import append_line
from prequential.forecasting.backtest import block_losses, loss_bits_per_byte
from prequential.forecasting.sealed import sealed
from prequential.learners.subject import own_subject
from prequential.online.coding import Progress

Place = tuple[Path, dict[str, bytes]]

COUNT = 5  # of each kind; the script takes more
RESUME = ("evaluate", "text.txt", "--baselines", "none", *OPTIONS)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "series" or has_git()])
def test_a_damaged_file_is_read_or_refused(kind: str) -> None:
    report = fuzz_records.run(COUNT, 1, kind=kind)
    assert report.n_mutants == COUNT
    assert not report.broken, "\n".join(report.broken)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Place]:
    with prepared() as found:
        yield found


@pytest.fixture
def place(sandbox: Place) -> Iterator[Place]:
    """A folder with the seeds, and their contents. It is the working directory."""
    yield sandbox
    restore(*sandbox)


@pytest.mark.parametrize("case", [case for cases in KINDS.values() for case in cases], ids=lambda case: case.files[0])
def test_without_damage_the_first_command_of_each_kind_succeeds(case: Any, place: Place) -> None:
    """Otherwise the fuzzer would test nothing but its own mistakes."""
    if "missing.txt" in case.commands[0].args or ("series.jsonl" in case.files and not has_git()):
        return
    assert judged(case.commands[0], *place) == "exit 0"


@pytest.mark.parametrize(
    ("check", "text"),
    [
        (strict_json, '{"a": NaN}'),
        (strict_json, "{"),
        (check_svg, "<svg><path d='M1 nan'/></svg>"),
        (check_svg, "<svg><g></svg>"),
        (check_svg, "<svg onload='x'/>"),
        (check_svg, "<svg>\x01</svg>"),
        (check_html, "<p><b></p>"),
        (check_html, "<p><script>1</script></p>"),
    ],
)
def test_the_rules_notice(check: Any, text: str) -> None:
    with pytest.raises(BrokenRuleError):
        check(text)


# ---- drafts


def refused(place: Place, name: str, change: Callable[[bytes], bytes]) -> str:
    """The reason why a draft with a changed file is refused; all its files must stay."""
    box, files = place
    path = f"drafts/{name}"
    before = {**files, path: change(files[path])}
    (box / path).write_bytes(before[path])
    config = "both.json" if "coding" in name else "mixer.json"
    command = Command((*RESUME, "--config", config, "--resume", path[: path.index("/", 8)]), ("drafts",))
    assert judged(command, box, before).startswith("exit 1")
    return ran(command, box).err


def test_a_damaged_archive_of_a_draft_is_refused(place: Place) -> None:
    reason = refused(place, ".run-coded/archive.pq", lambda data: data[:-40] + bytes([data[-40] ^ 1]) + data[-39:])
    assert "archive.pq' is damaged, or of another run: start again without --resume" in reason


@pytest.mark.parametrize("name", ["coding", "coded"])
def test_damaged_costs_of_a_draft_are_refused(place: Place, name: str) -> None:
    assert "the recorded costs do not belong" in refused(place, f".run-{name}/costs", lambda data: b"\1" + data[1:])


def test_exchanged_costs_of_a_coded_draft_are_refused(place: Place) -> None:
    reason = refused(place, ".run-coded/costs", lambda data: data[4:8] + data[:4] + data[8:])  # their sum is the same
    assert "the recorded costs do not belong" in reason


@pytest.mark.parametrize("time_s", [float("nan"), float("inf"), -1.0, 1e300])
def test_damaged_times_of_a_draft_are_refused(place: Place, time_s: float) -> None:
    reason = refused(place, ".run-coding/seconds", lambda data: np.full(len(data) // 8, time_s).tobytes())
    assert "the recorded times are damaged: start again without --resume" in reason


@pytest.mark.parametrize(
    "values", [{"wall_s": -1}, {"wall_s": "1"}, {"wall_s": None}, {"archive": 1}, {"costs": []}, {"run": None}]
)
def test_a_draft_with_a_wrong_description_is_refused(place: Place, values: dict[str, Any]) -> None:
    def change(data: bytes) -> bytes:
        return json.dumps(json.loads(data) | values).encode()

    assert "start again without --resume" in refused(place, ".run-coded/encoded.json", change)


def test_rounded_sums_of_a_long_run_are_not_taken_for_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = prequential.Config.from_dict(json.loads((seeds() / "mixer.json").read_text()))
    header = Header(n_bytes=512, blake2b=bytes(32), config=config.to_dict())
    draft = drafts.Draft(tmp_path, header, own_subject(config, prequential.Runtime()), resume=False)
    draft.trace.append(MODEL, np.full(128, 2.0))
    seconds = drafts.ArrayFile(np.float64, len(draft.ends))
    rounded = Progress(n_bytes=256, code_bits=384.0 + 1e-9, segment=np.zeros(128, np.uint8), segment_bits=np.ones(128))
    with pytest.raises(CheckpointError):
        draft._resume_costs(rounded, seconds)
    monkeypatch.setattr(drafts, "MAX_EXACT_BITS", 100.0)
    assert draft._resume_costs(rounded, seconds) == 0.0


# ---- curves


def table_of(positions: list[int], bits: list[float]) -> bytes:
    names = pyarrow.array(["model"] * len(bits)).dictionary_encode()
    out = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table({"series": names, "n_bytes": positions, "bits": bits}), out)
    return out.getvalue()


@pytest.mark.parametrize(
    "positions", [[(1 << 62) + 1, 1 << 63 - 1], [(1 << 63) - 1, -(1 << 63)], [1, 1], [0, 1], [2, 1]]
)
def test_positions_that_do_not_ascend_are_refused(positions: list[int]) -> None:
    with pytest.raises(CorpusError, match="does not ascend"):
        parse_curves(table_of(positions, [1.0, 2.0]), "a")


def test_a_table_that_becomes_far_larger_is_refused_at_its_first_rows() -> None:
    bomb = _made_bomb(3_000_000)
    assert len(bomb) < 100_000
    with bounded(5.0, 32 << 20), pytest.raises(CorpusError):
        parse_curves(bomb, "a")


def test_a_column_twice_is_refused() -> None:
    column = pyarrow.array([1, 2])
    table = pyarrow.Table.from_arrays([column] * 4, names=["series", "series", "n_bytes", "bits"])
    out = io.BytesIO()
    pyarrow.parquet.write_table(table, out)
    with pytest.raises(CorpusError):
        parse_curves(out.getvalue(), "a")


@pytest.mark.parametrize("bits", [[5.0, 5.0], [5.0, 4.0], [1e-30, 2e-30], [1e20, 2e20]])
def test_a_loss_that_no_run_has_is_refused(bits: list[float]) -> None:
    curve = Curve(n_bytes=np.array([1000, 2000]), bits=np.array(bits))
    with pytest.raises(CorpusError, match="its run is damaged"):
        loss_bits_per_byte(curve, np.array([1000, 2000]))
        block_losses(curve, np.array([1000, 2000]))


def test_a_sealed_forecast_with_another_naive_value_is_refused(place: Place) -> None:
    box, files = place
    forecast = json.loads(files["forecast.json"])
    forecast["forecasts"]["total_bits"]["naive"]["other"] = "x"
    before = {**files, "forecast.json": json.dumps(sealed(forecast)).encode()}
    (box / "forecast.json").write_bytes(before["forecast.json"])
    command = Command(("forecast", "target", "--score", "forecast.json"), ("target/scores.jsonl",))
    assert judged(command, box, before) == "exit 1, CorpusError"


# ---- outputs


def test_plots_are_written_only_if_all_runs_can_be_drawn(place: Place) -> None:
    pytest.importorskip("matplotlib")
    box, files = place
    (box / "runs/c/curve.parquet").write_bytes(b"damaged")
    command = Command(("report", "runs/a", "runs/c", "--plots", "plots"), ("plots",))
    assert judged(command, box, {**files, "runs/c/curve.parquet": b"damaged"}) == "exit 1, CorpusError"
    assert not (box / "plots").exists()


def test_tables_of_other_names_are_not_plotted(place: Place) -> None:
    pytest.importorskip("matplotlib")
    box, files = place
    record = json.loads(files["runs/a/record.jsonl"])
    record["tables"] |= {f"table {i}": record["tables"]["trigram_occurrences"] for i in range(1000)}
    before = {**files, "runs/a/record.jsonl": json.dumps(record).encode()}
    (box / "runs/a/record.jsonl").write_bytes(before["runs/a/record.jsonl"])
    assert judged(Command(("report", "runs/a", "-q", "--plots", "plots"), ("plots",)), box, before) == "exit 0"
    names = {path.stem for path in (box / "plots").iterdir()}
    assert names == {"a-learning", "a-regret", "a-trigram_occurrences"}


def test_a_plot_with_names_that_no_font_has_warns_of_nothing() -> None:
    plots = pytest.importorskip("prequential.report.plots")
    pytest.importorskip("matplotlib")
    curve = Curve(n_bytes=np.array([1, 2]), bits=np.array([1.0, 2.0]))
    # warnings are errors here
    plots.png(plots.learning_curves({"model": curve, "\u8bed" * 3000: curve}, "\u8bed" * 300))


def test_a_line_is_appended_on_its_own_after_an_incomplete_one(tmp_path: Path) -> None:
    path = tmp_path / "scores.jsonl"
    for before in (b"", b'{"a": 1}\n', b'{"a": 1}'):
        path.write_bytes(before)
        append_line(path, b'{"b": 2}\n')
        assert path.read_bytes() == before + b"\n" * (before[-1:] == b"}") + b'{"b": 2}\n'
