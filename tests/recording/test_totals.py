"""Which rows and which text were seen before, and the curve."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import prequential
from prequential.cli.main import main
from prequential.comparison.compare import compare_runs
from prequential.evaluation.runs import Run
from prequential.evaluation.summary import recorded_findings
from prequential.recording.totals import GRAM, MAX_POINTS, SeenRows, Totals

WHAT_IT_SAYS = "this is not the code length of the data"


def test_rows_that_were_seen_are_found_again_as_a_set_finds_them() -> None:
    draw, seen, known = np.random.default_rng(0), SeenRows(), set()
    for _ in range(200):
        keys = draw.integers(0, 3000, draw.integers(1, 60)).astype(np.uint64)
        is_new = seen.add(keys)
        expected = []
        for key in keys.tolist():
            expected.append(key not in known)
            known.add(key)
        assert is_new.tolist() == expected
    assert len(seen) == len(known) and seen.keys().tolist() == sorted(known)


def test_the_curve_of_a_long_run_has_a_bounded_number_of_points() -> None:
    totals = Totals()
    one = np.array([[1, 4, 4, 1 << 22], [0, 0, 0, 0]])
    for _ in range(3 * MAX_POINTS):
        totals.add_step(one, [0, 0], np.zeros(1, np.uint64))
    curve = totals.curves()["model"]
    assert len(curve.bits) <= MAX_POINTS and curve.n_bytes[-1] == 4 * 3 * MAX_POINTS
    assert np.array_equal(curve.bits, curve.n_bytes / 4)


# ---- text that was seen is recognised wherever it stands in a row


@pytest.fixture(scope="module")
def text() -> torch.Tensor:
    whole = prequential.sample_path("christmas_carol").read_bytes()
    return torch.frombuffer(bytearray(whole), dtype=torch.uint8).long()


def cut(text: torch.Tensor, n: int) -> list[torch.Tensor]:
    """Disjoint rows of n ids, eight a step."""
    return list(text[: len(text) // n * n].view(-1, n).split(8))


def crops(text: torch.Tensor, n: int, n_steps: int) -> list[torch.Tensor]:
    """Rows as get_batch of nanoGPT draws them."""
    draw = torch.Generator().manual_seed(0)
    starts = torch.randint(len(text) - n, (n_steps, 12), generator=draw).tolist()
    return [torch.stack([text[i : i + n] for i in step]) for step in starts]


def recorded(folder: Path, steps: list[torch.Tensor], **options: Any) -> prequential.Run:
    rec = prequential.Recorder(folder, name="m", units="bytes", data="carol", **options)
    for rows in steps:
        rec.score(nll=torch.ones(rows[:, 1:].shape), targets=rows[:, 1:], inputs=rows[:, :-1])
        rec.step()
    return rec.finish()


def share(run: prequential.Run) -> float:
    reported = run.record["reported"]
    return float(reported["n_grams_seen"] / reported["n_grams"])


def exact_share(steps: list[torch.Tensor]) -> float:
    """Of all stretches of 32 targets, without samples; of a row, each counts once."""
    seen, n, n_seen = set[bytes](), 0, 0
    for row in torch.cat([rows[:, 1:] for rows in steps]).to(torch.uint8).numpy():
        grams = {row[i : i + GRAM].tobytes() for i in range(len(row) - GRAM + 1)}
        n, n_seen = n + len(grams), n_seen + len(grams & seen)
        seen |= grams
    return n_seen / n


def test_text_in_sequence_is_new_and_a_second_epoch_of_the_same_rows_is_not_counted_twice(
    tmp_path: Path, text: torch.Tensor
) -> None:
    one, two = (recorded(tmp_path, cut(text, 129) * n) for n in (1, 2))
    assert share(one) < 0.01 and one.record["reported"]["n_grams"] == two.record["reported"]["n_grams"] > 300
    assert not two.record["findings"]


@pytest.mark.parametrize("kind", ["crops", "crops of few bytes", "packed anew"])
def test_samples_estimate_the_share_and_the_record_says_what_it_means(
    tmp_path: Path, text: torch.Tensor, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    steps = {
        "crops": lambda: crops(text, 129, 150),
        "crops of few bytes": lambda: crops(text[:8000], 65, 200),  # some 31 samples are in it
        "packed anew": lambda: cut(text, 129) + cut(text[50:], 129),
    }[kind]()
    run, exact = recorded(tmp_path, steps), exact_share(steps)
    n = run.record["reported"]["n_grams"]
    assert abs(share(run) - exact) < 4 * math.sqrt(exact / n) and exact > 0.3
    (finding,) = run.record["findings"]
    assert str(recorded_findings(run.record)[0]) == finding["message"]  # of a loop: no byte, no block
    assert WHAT_IT_SAYS in finding["message"] and f"{share(run):.1%} or more of the new targets" in finding["message"]
    (warning,) = caplog.records
    assert WHAT_IT_SAYS in warning.getMessage()


def test_show_page_and_compare_say_what_it_means(
    tmp_path: Path, text: torch.Tensor, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [str(recorded(tmp_path, crops(text, 65, 100), arguments={"lr": lr}).path) for lr in (1, 2)]
    for command in (
        ["runs", "show", names[0]],
        ["report", "-c", names[0]],
        ["compare", *names],
        ["report", "-c", *names],
    ):
        assert main(command) == 0
        shown = " ".join(capsys.readouterr().out.split())
        assert WHAT_IT_SAYS in shown and "MISTAKES" not in shown  # a caution
    runs = [prequential.read_run(name) for name in names]
    law = runs[0].record["findings"][0] | {"kind": "law", "message": "the model looks ahead"}
    wrong = Run(runs[0].path, runs[0].record | {"findings": [law]})
    assert f"{wrong.name}: the model looks ahead (1): MISTAKES of the loop" in str(compare_runs([wrong, runs[1]]))


def test_a_resumed_run_and_steps_of_several_widths_find_the_same_text(
    tmp_path: Path, text: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = [rows[:, : 40 + 300 * (i % 3)] for i, rows in enumerate(crops(text, 641, 150))]
    whole = recorded(tmp_path, steps).record["reported"]
    first, second = (prequential.Recorder(tmp_path, name="m", units="bytes") for _ in range(2))
    for rec, part in ((first, steps[:70]), (second, steps[70:])):
        if rec is second:
            rec.load_state_dict(first.state_dict())
            monkeypatch.setattr("prequential.recording.account.MAX_WAITING", 1)
        for rows in part:
            rec.score(nll=torch.ones(rows[:, 1:].shape), targets=rows[:, 1:], inputs=rows[:, :-1])
            rec.step()
    assert second.finish().record["reported"] == whole and whole["n_grams_seen"] > 100


def test_rows_shorter_than_a_sample_are_compared_as_wholes_and_the_record_says_so(
    tmp_path: Path, text: torch.Tensor, capsys: pytest.CaptureFixture[str]
) -> None:
    run = recorded(tmp_path, crops(text, GRAM, 100))  # 31 targets
    assert run.record["reported"]["n_grams"] == 0 and not run.record["findings"]
    assert main(["runs", "show", str(run.path)]) == 0
    assert "not checked: no 32 targets of a row were sampled" in capsys.readouterr().out


def test_memory_of_text_is_bounded_and_the_record_says_when_it_is_full(
    tmp_path: Path, text: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    rec = prequential.Recorder(tmp_path, name="m", units="bytes")
    rec._account._seen = SeenRows(np.empty(0, np.uint64), max_rows=1300)  # 1,228 rows and 450 samples come
    for rows in cut(text, 129):
        rec.score(nll=torch.ones(rows[:, 1:].shape), targets=rows[:, 1:])
        rec.step()
    record = rec.finish().record
    assert not record["reported"]["all_rows_kept"] and len(json.dumps(record)) < 10_000
