"""Damaged records, curves, forecasts, series and drafts are read or refused, and nothing is lost (fuzz_records.py)."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fuzz_records
import numpy as np
import pytest
from fuzz_records import KINDS, Command, check_html, check_svg, judged, prepared, ran, restore, strict_json
from fuzzing import BrokenRuleError, Report
from prequential_codecs.archive_header import Header
from record_seeds import OPTIONS, has_git, seeds

import prequential
from prequential.errors import CheckpointError, CorpusError
from prequential.evaluation import scoring as drafts
from prequential.evaluation.curves import MODEL, Curve
from prequential.forecasting.backtest import loss_bits_per_byte
from prequential.learners.spec import own_spec
from prequential.online.coding import Progress

Place = tuple[Path, dict[str, bytes]]

RESUME = ("evaluate", "text.txt", "--baselines", "none", *OPTIONS)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "series" or has_git()])
@pytest.mark.first_quick
def test_a_damaged_file_is_read_or_refused(kind: str) -> None:
    report = fuzz_records.run(5, Report(1), kind=kind)  # the script takes more
    assert (report.n_mutants, report.broken) == (5, [])


@pytest.mark.thorough
def test_many_damaged_files_are_read_or_refused() -> None:
    assert fuzz_records.run(150, Report(2)).broken == []


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
@pytest.mark.first_quick
def test_without_damage_the_first_command_of_each_kind_succeeds(case: Any, place: Place) -> None:
    """Otherwise the fuzzer would test nothing but its own mistakes."""
    if "series.jsonl" in case.files and not has_git():
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


def described(**values: object) -> Callable[[bytes], bytes]:
    return lambda data: json.dumps(json.loads(data) | values).encode()


def times_of(time_s: float) -> Callable[[bytes], bytes]:
    return lambda data: np.full(len(data) // 8, time_s).tobytes()


DAMAGED_ARCHIVE = "archive.pq' is damaged, or of another run: start again without --resume"
OTHER_COSTS = "the recorded costs do not belong"
DAMAGED_TIMES = "the recorded times are damaged: start again without --resume"
DRAFTS: list[tuple[str, Callable[[bytes], bytes], str]] = [  # a file, its change, and the reason of the refusal
    (".run-coded/archive.pq", lambda data: data[:-40] + bytes([data[-40] ^ 1]) + data[-39:], DAMAGED_ARCHIVE),
    (".run-coding/costs", lambda data: b"\1" + data[1:], OTHER_COSTS),
    (".run-coded/costs", lambda data: b"\1" + data[1:], OTHER_COSTS),
    (".run-coded/costs", lambda data: data[4:8] + data[:4] + data[8:], OTHER_COSTS),  # their sum is the same
    *[(".run-coding/seconds", times_of(s), DAMAGED_TIMES) for s in (float("nan"), float("inf"), -1.0, 1e300)],
    *[
        (".run-coded/encoded.json", described(**values), "start again without --resume")
        for values in ({"wall_s": -1}, {"wall_s": "1"}, {"wall_s": None}, {"archive": 1}, {"costs": []}, {"run": None})
    ],
]


@pytest.mark.parametrize(("name", "change", "reason"), DRAFTS)
def test_a_draft_with_a_damaged_file_is_refused_and_stays(
    name: str, change: Callable[[bytes], bytes], reason: str, place: Place
) -> None:
    box, before = damaged(place, f"drafts/{name}", change)
    config = "both.json" if "coding" in name else "mixer.json"
    command = Command((*RESUME, "--config", config, "--resume", f"drafts/{name.partition('/')[0]}"), ("drafts",))
    assert judged(command, box, before).startswith("exit 1")
    assert reason in ran(command, box).err


def damaged(place: Place, name: str, change: Callable[[bytes], bytes]) -> Place:
    """The folder with one changed file, and the contents of all."""
    box, files = place
    (box / name).write_bytes(change(files[name]))
    return box, {**files, name: change(files[name])}


def test_rounded_sums_of_a_long_run_are_not_taken_for_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = prequential.Config.from_dict(json.loads((seeds() / "mixer.json").read_text()))
    header = Header(n_bytes=512, blake2b=bytes(32), config=config.to_dict())
    draft = drafts.Draft(tmp_path, header, own_spec(config, prequential.Runtime()), resume=False)
    draft.trace.append(MODEL, np.full(128, 2.0))
    seconds = drafts.ArrayFile(np.float64, len(draft.ends))
    rounded = Progress(n_bytes=256, code_bits=384.0 + 1e-9, segment=np.zeros(128, np.uint8), segment_bits=np.ones(128))
    with pytest.raises(CheckpointError):
        draft._resume_costs(rounded, seconds)
    monkeypatch.setattr(drafts, "MAX_EXACT_BITS", 100.0)
    assert draft._resume_costs(rounded, seconds) == 0.0


# ---- runs and forecasts


@pytest.mark.parametrize("bits", [[0.0, 0.0], [1e-30, 2e-30], [1e20, 2e20]])
def test_a_loss_that_no_run_has_is_refused(bits: list[float]) -> None:
    curve = Curve(n_bytes=np.array([1000, 2000]), bits=np.array(bits))
    with pytest.raises(CorpusError, match="its run is damaged"):
        loss_bits_per_byte(curve, np.array([1000, 2000]))
