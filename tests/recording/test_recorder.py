import copy
import io
import json
import math
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from loops import COLUMNS, Bigrams, Loop, V, batches
from torch.nn.functional import cross_entropy

import prequential
from prequential.comparison.documents import compare_documents, read_document_losses
from prequential.errors import CausalityError, ConfigError, OutputError
from prequential.evaluation.summary import format_run
from prequential.recording.heldout import joined


def test_the_code_length_is_the_sum_of_the_online_losses(tmp_path: Path) -> None:
    loop, total = Loop(tmp_path), 0.0
    for rows in batches(5):
        x, y, logits = loop.forward(rows)
        loop.rec.score(logits=logits, targets=y, inputs=x)
        total += cross_entropy(logits.detach().double().flatten(0, 1), y.flatten(), reduction="sum").item()
        loop.learn(logits, y)
    run = loop.rec.finish()
    record = prequential.read_run(run.path).record
    assert record["code_bits"] == pytest.approx(total / math.log(2.0), rel=1e-6)
    assert record["n_tokens"] == record["corpus"]["n_bytes"] == 5 * 4 * COLUMNS
    assert record["nats_per_token"] == pytest.approx(total / record["n_tokens"], rel=1e-6)
    assert record["coding"] == "reported by a training loop" and not record["verified"]
    assert not run.archive.exists()
    curve = prequential.read_run(run.path).curves["model"]
    assert curve.n_bytes.tolist() == [4 * COLUMNS * i for i in range(1, 6)] and curve.bits[-1] == record["code_bits"]


def test_rows_seen_before_are_counted_apart(tmp_path: Path) -> None:
    once, twice = batches(6), batches(6) + batches(6)[::-1]
    one = Loop(tmp_path).run(once).rec.finish().record
    two = Loop(tmp_path).run(twice).rec.finish().record
    assert two["code_bits"] == one["code_bits"] and two["corpus"] == one["corpus"]
    assert two["reported"]["repeated"]["n_rows"] == 24 and two["reported"]["repeated"]["code_bits"] > 0


def test_numbers_of_rows_tell_duplicates_in_the_data_from_a_second_epoch(tmp_path: Path) -> None:
    (rows,) = batches(1)
    loop = Loop(tmp_path)
    for first in (0, 4, 0):  # the data hold the rows twice; then an epoch begins again
        loop.take(rows[:, :-1], rows[:, 1:], indices=torch.arange(first, first + 4))
    reported = loop.rec.finish().record["reported"]
    assert reported["new"]["n_rows"] == 8 and reported["repeated"]["n_rows"] == 4


def test_rows_with_equal_targets_and_other_inputs_are_other_rows(tmp_path: Path) -> None:
    loop = Loop(tmp_path)
    for prompt in (1, 2, 1):
        x, y = torch.full((1, 4), prompt), torch.tensor([[-100, -100, 7, 8]])
        loop.take(x, y)
    reported = loop.rec.finish().record["reported"]
    assert reported["new"] == reported["new"] | {"n_rows": 2, "n_tokens": 4}
    assert reported["repeated"]["n_rows"] == 1


def test_padding_does_not_make_a_row_another_row(tmp_path: Path) -> None:
    """By targets that are not scored, or by a special id, which never is."""
    loop = Loop(tmp_path, audit_every=0, units=[-1] + [1] * (V - 1))
    text = torch.arange(1, 11)[None]
    for n_padding, padding in ((0, -100), (3, -100), (7, -100), (5, 0)):
        x = torch.cat((text[:, :-1], torch.full((1, n_padding), 250)), 1)
        y = torch.cat((text[:, 1:], torch.full((1, n_padding), padding)), 1)
        loop.take(x, y)
    reported = loop.rec.finish().record["reported"]
    assert (reported["new"]["n_rows"], reported["repeated"]["n_rows"]) == (1, 3)


def test_losses_that_a_loop_has_and_flat_targets_are_scored_as_logits_are(tmp_path: Path) -> None:
    whole = Loop(tmp_path).run(batches(3)).rec.finish().record
    by_nll, flat = Loop(tmp_path), Loop(tmp_path)
    for rows in batches(3):
        x, y = rows[:, :-1], rows[:, 1:]
        by_nll.take(x, y, nll=cross_entropy(by_nll.model(x).flatten(0, 1), y.flatten(), reduction="none"))
        flat.take(x, y, targets=y.flatten())
    for record in (loop.rec.finish().record for loop in (by_nll, flat)):
        assert record["code_bits"] == whole["code_bits"] and record["reported"] == whole["reported"]


def test_masks_padding_and_special_ids_are_not_scored(tmp_path: Path) -> None:
    sizes = np.full(V, 1)
    sizes[0], sizes[65] = -1, 3  # a special id, and one of three bytes
    loop = Loop(tmp_path, units=sizes)
    x, y = torch.tensor([[1, 2, 3, 4]]), torch.tensor([[0, 65, -100, 66]])
    loop.take(x, y)
    record = loop.rec.finish().record
    assert record["n_tokens"] == 2 and record["corpus"]["n_bytes"] == 4
    assert record["code_bits"] == pytest.approx(2 * 8.0)  # the table begins uniform


def test_targets_of_the_given_index_are_not_scored(tmp_path: Path) -> None:
    (rows,) = batches(1)
    x, records = rows[:, :-1], []
    for ignored in (-100, -1, 7):
        y = rows[:, 1:].masked_fill(rows[:, 1:] == 7, 8)
        y[0, 3:9] = ignored
        loop = Loop(tmp_path, ignore_index=ignored)
        logits = loop.model(x)
        loop.rec.score(logits=logits, targets=y, inputs=x)
        loop.rec.step()
        loop.rec.heldout("val", logits=logits, targets=y, documents=range(4))
        run = loop.rec.finish()
        records.append({"n_tokens": run.record["n_tokens"], "reported": run.record["reported"]})
        assert f'"n_bytes": {4 * COLUMNS - 6}' in (run.path / "heldout-val.jsonl").read_text()
    assert records[0] == records[1] == records[2] and records[0]["n_tokens"] == 4 * COLUMNS - 6


def test_bf16_logits_are_summed_in_float32_and_dropout_is_recorded(tmp_path: Path) -> None:
    loop = Loop(tmp_path, model=Bigrams(dropout=0.25), strict=False)
    x, y = batches(1)[0][:, :-1], batches(1)[0][:, 1:]
    with torch.autocast("cpu", torch.bfloat16):
        logits = loop.model(x).bfloat16()
    loop.rec.score(logits=logits, targets=y, inputs=x)
    loop.learn(logits.float(), y)
    reported = loop.rec.finish().record["reported"]
    assert (reported["logits"], reported["dropout"], reported["is_training"]) == ("bfloat16", 0.25, True)


def test_the_digest_of_a_run_says_whether_rows_came_in_the_same_order(tmp_path: Path) -> None:
    data = batches(6)
    first, same, turned, other = (
        Loop(tmp_path).run(each).rec.finish().record for each in (data, data, data[::-1], batches(6, seed=1))
    )
    assert first["reported"]["order"] == same["reported"]["order"] != turned["reported"]["order"]
    assert first["corpus"]["blake2b"] == turned["corpus"]["blake2b"] != other["corpus"]["blake2b"]


# ---- an interrupted run


def test_an_interrupted_run_equals_an_uninterrupted_one_to_the_last_digit(tmp_path: Path) -> None:
    data, n_first = batches(90, n_rows=2) + batches(90, n_rows=2)[:20], 70
    whole = Loop(tmp_path).run(data).rec.finish()
    first = Loop(tmp_path).run(data[:n_first])
    torch.save({"model": first.model.state_dict(), "recorder": first.rec.state_dict()}, tmp_path / "saved.pt")
    first.run(data[n_first : n_first + 5])  # lost: it goes on from the checkpoint, and these steps are made again
    saved = torch.load(tmp_path / "saved.pt", weights_only=True)
    second = Loop(tmp_path)
    second.model.load_state_dict(saved["model"])
    second.rec.load_state_dict(saved["recorder"])
    resumed = second.run(data[n_first:]).rec.finish()
    for part in ("code_bits", "corpus"):
        assert resumed.record[part] == whole.record[part]
    assert resumed.record["reported"] | {"n_audits": 0} == whole.record["reported"] | {"n_audits": 0}
    for one, other in zip(*(vars(run.curves["model"]).values() for run in (resumed, whole)), strict=True):
        assert np.array_equal(one, other)


def test_a_state_in_the_middle_of_a_step_leaves_that_step_to_be_made_again(tmp_path: Path) -> None:
    whole = Loop(tmp_path).run(batches(6)).rec.finish().record
    first = Loop(tmp_path).run(batches(6)[:3])
    x, y, logits = first.forward(batches(6)[3])
    before = first.rec.state_dict()
    first.rec.score(logits=logits, targets=y, inputs=x)
    weights = copy.deepcopy(first.model.state_dict())
    for state in (before, first.rec.state_dict()):
        second = Loop(tmp_path)
        second.model.load_state_dict(weights)
        second.rec.load_state_dict(state)
        again = second.run(batches(6)[3:]).rec.finish().record
        assert again["code_bits"] == whole["code_bits"] and again["reported"]["order"] == whole["reported"]["order"]


def test_a_state_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    state = Loop(tmp_path).run(batches(1)).rec.state_dict()
    with pytest.raises(ConfigError, match=r"load_state_dict.*another tokenizer"):
        Loop(tmp_path, units=np.full(V, 2)).rec.load_state_dict(state)
    for each in (None, {}, state | {"version": 1}):
        with pytest.raises(ConfigError, match=r"load_state_dict.*not the state"):
            Loop(tmp_path).rec.load_state_dict(each)
    for each in ({"totals": {}}, {"seen": None}, {"run": None}, {"observed": {"x": 1}}, {"faults": 1}):
        with pytest.raises(ConfigError, match="the state is damaged"):
            Loop(tmp_path).rec.load_state_dict(state | each)


# ---- mistakes of a loop


def test_a_step_without_a_score_is_caught(tmp_path: Path) -> None:
    loop = Loop(tmp_path)
    _, y, logits = loop.forward(batches(1)[0])
    with pytest.raises(CausalityError, match=r"step 1: the optimiser stepped without a score: call rec.score"):
        loop.learn(logits, y)


def test_a_score_after_the_step_that_used_the_rows_is_caught(tmp_path: Path) -> None:
    loop = Loop(tmp_path)
    first, *others = batches(4)
    loop.run([first])
    with pytest.raises(CausalityError, match=r"step 2 trained on 4 rows that were not scored before it"):
        for before, rows in zip([first, *others], others, strict=False):
            with torch.no_grad():
                x, y, late = loop.forward(before)
            loop.rec.score(
                logits=late, targets=y, inputs=x
            )  # the rows of the step before, by the model that knows them
            x, y, logits = loop.forward(rows)
            loop.learn(logits, y)
        loop.rec.finish()


def test_a_mistake_that_somebody_catches_stays_in_the_record(tmp_path: Path) -> None:
    loop = Loop(tmp_path)
    for step, rows in enumerate(batches(3), 1):
        x, y, logits = loop.forward(rows)
        loop.rec.score(logits=logits[1:], targets=y[1:], inputs=x[1:])
        with pytest.raises(CausalityError, match="were not scored") if step < 3 else nullcontext():
            loop.learn(logits, y)
    with pytest.raises(CausalityError, match="were not scored"):
        loop.rec.finish()
    assert len(prequential.read_runs(tmp_path)) == 1  # it is written before the mistake is raised
    record = loop.rec.finish().record
    assert len(record["findings"]) == 3 and record["reported"]["n_rows"] == 9


def test_short_rows_of_which_the_model_reads_one_column_more_are_scored(tmp_path: Path) -> None:
    loop = Loop(tmp_path)
    for rows in (each[:, :9] for each in batches(3)):
        logits = loop.model(rows)[:, :-1]
        loop.rec.score(logits=logits, targets=rows[:, 1:], inputs=rows[:, :-1])
        loop.learn(logits, rows[:, 1:])
    record = loop.rec.finish().record
    assert not record["findings"] and record["reported"]["n_checked_steps"] == 3


def test_targets_that_nobody_shifted_are_caught(tmp_path: Path) -> None:
    loop = Loop(tmp_path, audit_every=0)
    (rows,) = batches(1)
    with pytest.raises(CausalityError, match="step 1: the targets are the inputs; shift them by one"):
        loop.take(rows[:, :-1], rows[:, :-1])


IMPOSSIBLE = {"n_not_finite": torch.nan, "n_negative": -0.5, "n_outside": 0.0}


@pytest.mark.parametrize("reason", IMPOSSIBLE)
def test_a_row_with_an_impossible_value_is_counted_apart_and_the_training_goes_on(
    tmp_path: Path, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    loop = _with_one_impossible_row(Loop(tmp_path, strict=False), reason)
    other = Loop(tmp_path, strict=False)
    other.rec.load_state_dict(loop.rec.state_dict())
    for rec in (loop.rec, other.rec):
        run = rec.finish()
        record, reported = run.record, run.record["reported"]
        assert [reported[each] for each in IMPOSSIBLE] == [int(each == reason) for each in IMPOSSIBLE]
        assert (reported["n_rows"], reported["new"]["n_rows"], record["n_tokens"]) == (280, 279, 279 * COLUMNS)
        assert record["nats_per_token"] == pytest.approx(1.0, rel=1e-6)
        assert [finding["message"].startswith("rec.score() in step 3: ") for finding in record["findings"]] == [True]
    (warning,) = caplog.records
    assert "goes on, but: rec.score() in step 3" in warning.getMessage()
    assert "left out            1 rows: " in format_run(record, "runs/a", run.split())


def _with_one_impossible_row(loop: Loop, reason: str, n_steps: int = 70) -> Loop:
    """Steps of four rows of one nat a byte; one row of step 3 has a value that no model gives."""
    for step, rows in enumerate(batches(n_steps), 1):
        x, y, logits = loop.forward(rows)
        nll, targets = torch.ones(y.shape), y.clone()
        if step == 3:
            nll[1, 5] = IMPOSSIBLE[reason]
            targets[1, 5] = V if reason == "n_outside" else targets[1, 5]
        loop.rec.score(nll=nll, targets=targets, inputs=x)
        loop.learn(logits, y)
    return loop


def test_nothing_leaves_the_step_of_an_optimiser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("no memory")

    loop = Loop(tmp_path, strict=False).run(batches(64))
    with monkeypatch.context() as patch:
        patch.setattr("prequential.recording.account.row_sums", fails)
        _, y, logits = loop.forward(batches(1)[0])
        loop.learn(logits, y)  # a step without a score
        loop.run(batches(63, seed=1))
    record = loop.run(batches(2, seed=2)).rec.finish().record
    messages = [finding["message"] for finding in record["findings"]]
    assert messages[0].startswith("step 65: the optimiser stepped without a score")
    assert "step 66: rows are lost: RuntimeError: no memory" in messages
    assert record["reported"]["new"]["n_rows"] == 66 * 4


# ---- honest loops


def test_evaluations_copies_and_pickles_of_the_model_are_no_training(tmp_path: Path) -> None:
    loop, others = Loop(tmp_path), batches(1, seed=9)[0]
    teacher, file = copy.deepcopy(loop.model), io.BytesIO()
    torch.save(loop.model, file)
    for rows in batches(3):
        teacher(others)
        loop.run([rows])
        loop.model.eval()
        loop.forward(others)
        loop.model.train()
        with torch.no_grad():
            loop.forward(others)
    record = loop.rec.finish().record
    assert record["reported"]["n_rows"] == 12 and not record["findings"]
    file.seek(0)
    assert torch.load(file, weights_only=False)(others).shape[-1] == V


def test_two_optimisers_make_one_step(tmp_path: Path) -> None:
    loop = Loop(tmp_path)
    other = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
    loop.rec.attach(optimizer=other)
    loop.rec.attach(optimizer=loop.optimizer, model=loop.model)  # again: nothing happens twice
    for rows in batches(3):
        loop.run([rows])
        other.step()
    assert loop.rec.finish().record["reported"]["n_steps"] == 3
    with pytest.raises(ConfigError, match="another model"):
        loop.rec.attach(model=Bigrams())


# ---- what cannot be scored


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, r"rec.score\(\): give logits= or nll="),
        ({"nll": torch.zeros(3)}, r"nll of shape \(3,\), targets of \(4, 24\): rows differ"),
        ({"logits": torch.zeros(24, 4, V)}, r"logits of shape \(24, 4, 256\), targets of \(4, 24\): rows differ"),
        ({"logits": torch.zeros(4, 24, 100)}, r"100 columns, but the vocabulary has 256 ids"),
        ({"logits": torch.zeros(4, 24, V, dtype=torch.int64)}, r"logits is not a tensor of floating-point"),
        ({"nll": torch.zeros(4, 24), "targets": torch.zeros(4, 24)}, r"targets are not a tensor of integers"),
        ({"nll": torch.zeros(4, 24), "inputs": torch.arange(72).view(3, 24)}, r"3 rows of inputs for 4 rows"),
        ({"nll": torch.zeros(4, 24), "indices": torch.arange(3)}, r"3 rows of indices for 4 rows"),
    ],
)
def test_shapes_that_do_not_fit_are_refused_at_once(tmp_path: Path, values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Loop(tmp_path).rec.score(**({"targets": batches(1)[0][:, 1:]} | values))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"units": None}, "give tokenizer="),
        ({"units": "letters"}, "units is neither"),
        ({"units": [-2, 1]}, "bytes of an id are -2 to 1"),
        ({"audit_every": -1}, "audit_every is -1"),
        ({"ignore_index": -1.0}, "ignore_index is -1.0"),
        ({"arguments": {"a": math.nan}}, "must be JSON values"),
        ({"data": "\udcff"}, "must be JSON values"),
        ({"optimizer": object()}, "call rec.step"),
        ({"units": None, "tokenizer": object()}, "has no tokenizer.json"),
    ],
)
def test_wrong_arguments_are_refused(tmp_path: Path, options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Loop(tmp_path, **options)


def test_a_recorder_that_scored_nothing_saw_no_step_or_has_finished_says_so(tmp_path: Path) -> None:
    loop, scores = Loop(tmp_path), {"targets": torch.ones(1, 1, dtype=torch.int64), "nll": torch.ones(1, 1)}
    with pytest.raises(ConfigError, match="nothing was scored"):
        loop.rec.finish()
    loop.rec.score(**scores)
    with pytest.raises(ConfigError, match="no step was seen: give optimizer="):
        loop.rec.finish()
    loop.rec.step()
    assert loop.rec.finish() is loop.rec.finish()
    with pytest.raises(ConfigError, match="has finished"):
        loop.rec.score(**scores)


def test_a_folder_that_cannot_be_written_is_refused_before_the_training(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OutputError, match="not a folder that you can write"):
        prequential.Recorder(tmp_path / "file" / "runs", name="m", units="bytes")


def test_a_loop_may_use_its_tensors_again_after_a_score(tmp_path: Path) -> None:
    (first, second), records = batches(2), []
    for reuses in (False, True):
        loop = Loop(tmp_path)
        x, y, nll = first[:, :-1].clone(), first[:, 1:].clone(), torch.ones(4, COLUMNS)
        for rows in (first, second):
            if not reuses:
                x, y, nll = x.clone(), y.clone(), nll.clone()
            x.copy_(rows[:, :-1]), y.copy_(rows[:, 1:]), nll.fill_(rows[0, 0] / 64)
            loop.rec.score(nll=nll, targets=y, inputs=x)
            loop.rec.step()
        records.append(loop.rec.finish().record)
    assert records[0]["code_bits"] == records[1]["code_bits"] and records[0]["reported"] == records[1]["reported"]


# ---- held-out documents


def test_held_out_documents_of_two_runs_are_compared_in_pairs(tmp_path: Path) -> None:
    held_out = batches(10, n_rows=4, seed=7)
    places = []
    for n_steps in (1, 8):
        loop = Loop(tmp_path / str(n_steps))
        for rows in held_out * n_steps:
            loop.run([rows])
            for i, (document,) in enumerate(rows[None] for rows in held_out):
                with torch.no_grad():
                    logits = loop.model(document[:, :-1])
                names = [f"{i}/{j}" for j in range(4)]
                loop.rec.heldout("val", logits=logits, targets=document[:, 1:], documents=names)
        places.append(loop.rec.finish().path / "heldout-val.jsonl")
    losses = [read_document_losses(str(place)) for place in places]
    (difference,) = compare_documents(losses).differences
    clusters, equal = difference.clusters, difference.equal
    assert (clusters.n_documents, len(clusters.n_bytes), clusters.by) == (40, 10, "folder")
    assert difference.decides and equal.low_bits_per_byte < equal.bits_per_byte < equal.high_bits_per_byte < 0
    assert sum(losses[0].losses["frozen"].n_bytes) == 40 * COLUMNS


def test_held_out_rows_count_once_a_step_survive_a_resumption_and_impossible_ones_are_left_out(tmp_path: Path) -> None:
    loop, targets, nll = (
        Loop(tmp_path, strict=False).run(batches(1)),
        batches(1, seed=3)[0][:, 1:],
        torch.ones(4, COLUMNS),
    )
    nll[2, 0] = torch.inf
    for _ in range(2):
        loop.rec.heldout("val", nll=nll, targets=targets, documents=range(4))
    loop.rec.heldout("none", nll=nll * torch.nan, targets=targets, documents=range(4))
    file = io.BytesIO()
    state = loop.rec.state_dict()
    torch.save(state, file)
    file.seek(0)
    sums = state["heldout"]["val"][1]
    assert joined([sums, sums]) == sums != {}  # of ranks that scored the same row, or loaded the same state
    other = Loop(tmp_path)
    other.rec.load_state_dict(torch.load(file, weights_only=True))
    run = other.rec.finish()
    assert json.loads((run.path / "heldout-val.jsonl").read_text())["frozen"]["total"]["n_bytes"] == 3 * COLUMNS
    assert not (run.path / "heldout-none.jsonl").exists()
    message = run.record["findings"][0]["message"]
    assert "rec.heldout('val'), step 1: 1 rows of impossible values are left out" in message


@pytest.mark.parametrize(("gives", "n_bytes"), [(True, 4), (False, 1)])
def test_held_out_rows_of_equal_targets_are_told_apart_by_inputs(tmp_path: Path, gives: bool, n_bytes: int) -> None:
    (rows,), loop = batches(1), Loop(tmp_path, strict=False).run(batches(1))
    answers = torch.full((4, COLUMNS), -100)
    answers[:, -1] = 7
    options = {"nll": torch.arange(1.0, 5.0)[:, None].expand(4, COLUMNS), "targets": answers, "documents": ["a"] * 4}
    loop.rec.heldout("val", inputs=rows[:, :-1] if gives else None, **options)
    run = loop.rec.finish()
    assert json.loads((run.path / "heldout-val.jsonl").read_text())["frozen"]["total"]["n_bytes"] == n_bytes
    assert ("3 rows have the targets of other rows" in str(run.record["findings"])) == (not gives)


def test_held_out_documents_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    rec, scores = Loop(tmp_path).rec, {"nll": torch.ones(4, COLUMNS), "targets": batches(1)[0][:, 1:]}
    for name, documents, message in (("../x", [1, 2, 3, 4], "the name is"), ("val", [1, 2], "2 documents for 4 rows")):
        with pytest.raises(ConfigError, match=rf"rec.heldout\(\).*{message}"):
            rec.heldout(name, documents=documents, **scores)


# ---- sources, rescoring, figures for a logger


@pytest.mark.parametrize("named", [True, False])
def test_the_costs_of_groups_sum_to_the_total_and_each_has_a_curve(tmp_path: Path, named: bool) -> None:
    loop, bits = Loop(tmp_path), {"fr": 0.0, "py": 0.0}
    for step, rows in enumerate(batches(6)):
        x, y = rows[:, :-1], rows[:, 1:]
        logits = loop.model(x)
        each = cross_entropy(logits.detach().double().flatten(0, 1), y.flatten(), reduction="none").view(4, -1).sum(1)
        names = ["fr", "py", "fr", "fr"] if step < 5 else ["py"] * 4
        for name, nats in zip(names, each.tolist(), strict=True):
            bits[name] += nats / math.log(2.0)
        groups = names if named else torch.tensor([int(name == "py") for name in names])
        loop.rec.score(logits=logits, targets=y, inputs=x, groups=groups)
        loop.learn(logits, y)
    run = prequential.read_run(loop.rec.finish().path)
    table = run.table("groups")
    fr, py = ("fr", "py") if named else ("0", "1")
    assert table["bytes"].to_dict() == {fr: 15 * COLUMNS, py: 9 * COLUMNS}
    assert table["bits"].sum() == pytest.approx(run.record["code_bits"], abs=1e-6)
    assert table["bits"].to_dict() == pytest.approx({fr: bits["fr"], py: bits["py"]}, rel=1e-6)
    assert run.curves[f"group {fr}"].n_bytes.tolist() == [3 * COLUMNS * i for i in range(1, 6)]
    assert run.curves[f"group {fr}"].bits[-1] == pytest.approx(bits["fr"], rel=1e-6)
    assert "groups" not in prequential.read_run(Loop(tmp_path).run(batches(2)).rec.finish().path).record["tables"]


def test_names_of_digits_are_names(tmp_path: Path) -> None:
    loop, (rows,) = Loop(tmp_path), batches(1)
    loop.take(rows[:, :-1], rows[:, 1:], groups=["1", "01", "02", 3])
    assert sorted(loop.rec.finish().table("groups").index) == ["01", "02", "1", "3"]


def test_rows_without_a_group_and_groups_beyond_the_limit_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("prequential.recording.totals.MAX_GROUPS", 2)
    loop = Loop(tmp_path)
    for i, rows in enumerate(batches(4)):
        loop.take(rows[:, :-1], rows[:, 1:], groups=[f"g{i}"] * 4 if i else None)
    table = loop.rec.finish().table("groups")
    assert table["bytes"].to_dict() == {"other groups": 8 * COLUMNS, "no group": 4 * COLUMNS, "g1": 4 * COLUMNS}


def _memorised(folder: Path, targets: torch.Tensor, n_epochs: int) -> prequential.Run:
    """A table learns one target for each of 256 inputs, in rows of two ids; then the rows are scored under the final weights."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Embedding(256, 32), torch.nn.Linear(32, 256))
    torch.nn.init.zeros_(model[0].weight)  # type: ignore[arg-type]
    optimizer = torch.optim.Adam(model.parameters(), lr=0.3)
    rec = prequential.Recorder(folder, name="table", units="bytes", model=model, optimizer=optimizer)
    rows = list(zip(torch.arange(256).view(64, 4, 1), targets.view(64, 4, 1), strict=True))
    for _ in range(n_epochs):
        for x, y in rows:
            logits = model(x)
            rec.score(logits=logits, targets=y, inputs=x)
            optimizer.zero_grad()
            cross_entropy(logits.flatten(0, 1), y.flatten()).backward()
            optimizer.step()
    model.eval()
    for x, y in rows:
        rec.rescore(logits=model(x), targets=y, inputs=x)
    return prequential.read_run(rec.finish().path)


def test_the_excess_is_what_shuffled_labels_make_a_model_memorise_and_a_rule_does_not(tmp_path: Path) -> None:
    labels = torch.randint(0, 256, (256,), generator=torch.Generator().manual_seed(1))
    noise = _memorised(tmp_path, labels, 40).record
    rule = _memorised(tmp_path, torch.full((256,), 7), 40).record
    for record in (noise, rule):
        reported = record["reported"]
        assert reported["rescored"]["n_rows"] == 256
        assert reported["excess_bits"] == pytest.approx(record["code_bits"] - reported["rescored"]["code_bits"])
    memorised = 256 * 8  # bits of the labels
    assert 0.9 * memorised < noise["reported"]["excess_bits"] < 1.5 * memorised
    assert rule["reported"]["excess_bits"] < 0.25 * memorised
    assert "excess" in format_run(noise, "f", prequential.read_runs(tmp_path)[0].split())


def test_without_the_same_rows_there_is_no_excess(tmp_path: Path) -> None:
    loop = Loop(tmp_path).run(batches(3))
    loop.model.eval()
    for rows in batches(2):
        loop.rec.rescore(logits=loop.model(rows[:, :-1]), targets=rows[:, 1:], inputs=rows[:, :-1])
    reported = loop.rec.finish().record["reported"]
    assert reported["rescored"]["n_rows"] == 8 and "excess_bits" not in reported
    with pytest.raises(ConfigError, match="finished"):
        loop.rec.rescore(logits=loop.model(rows[:, :-1]), targets=rows[:, 1:])


def test_rescoring_too_early_in_training_mode_or_with_other_inputs_is_seen(tmp_path: Path) -> None:
    rows = batches(2)
    early = Loop(tmp_path, strict=False).run(rows[:1])
    early.rec.rescore(logits=early.model(rows[0][:, :-1]), targets=rows[0][:, 1:], inputs=rows[0][:, :-1])
    early.run(rows[1:])
    said = " ".join(finding["message"] for finding in early.rec.finish().record["findings"])
    assert "training mode" in said and "steps followed" in said
    other = Loop(tmp_path).run(rows)
    other.model.eval()
    for each in rows:
        x, y = torch.zeros_like(each[:, :-1]), each[:, 1:]
        other.rec.rescore(logits=other.model(x), targets=y, inputs=x)
    assert "excess_bits" not in other.rec.finish().record["reported"]


@pytest.mark.parametrize("groups", [[["a"]] * 4, [2**70] * 4, [-1.5] * 4 + [{}]])
def test_groups_of_other_kinds_are_refused(tmp_path: Path, groups: Any) -> None:
    (rows,) = batches(1)
    with pytest.raises(ConfigError, match="groups"):
        Loop(tmp_path).take(rows[:, :-1], rows[:, 1:], groups=groups)


def test_metrics_are_a_flat_dict_of_the_last_reading(tmp_path: Path) -> None:
    loop = Loop(tmp_path)
    assert loop.rec.metrics() == {"prequential/mistakes": 0}  # no zeros where nothing is known
    assert loop.run(batches(3)).rec.metrics()["prequential/steps"] == 2  # early figures, and then every 64 steps
    loop = Loop(tmp_path)
    record = loop.run(batches(64) + batches(2)).rec.metrics()
    assert record["prequential/steps"] == 64 and record["prequential/bytes"] == 64 * 4 * COLUMNS
    run = loop.rec.finish()
    assert loop.rec.metrics()["prequential/bits"] == run.record["code_bits"]
    assert loop.rec.metrics()["prequential/repeated_tokens"] == run.record["reported"]["repeated"]["n_tokens"]


def test_a_state_of_very_many_rows_leaves_them_out_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prequential.recording.account.MAX_STATE_ROWS", 3)
    loop = Loop(tmp_path).run(batches(2))
    state = loop.rec.state_dict()
    assert len(state["seen"]) == 0
    again = Loop(tmp_path)
    again.rec.load_state_dict(state)
    reported = again.run(batches(1)).rec.finish().record["reported"]
    assert not reported["all_rows_kept"] and reported["new"]["n_rows"] == 12
