"""Loops of a sceptic: honest ones that must pass, dishonest ones that must not, and sums that must not change."""

import copy
import io
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from loops import COLUMNS, Bigrams, Loop, V, batches, few_letters

import prequential
from prequential.errors import CausalityError, ConfigError, OutputError
from prequential.evaluation.summary import format_run

# ---- what a mistake leaves


def test_a_mistake_that_somebody_catches_stays_in_the_record(tmp_path: Path) -> None:
    loop = Loop(tmp_path)
    for rows in batches(3):
        x, y, logits = loop.forward(rows)
        loop.rec.score(logits=logits[1:], targets=y[1:], inputs=x[1:])
        loop.learn(logits, y)
    with pytest.raises(CausalityError, match="were not scored"):
        loop.rec.finish()
    assert len(prequential.read_runs(tmp_path)) == 1  # it is written before the mistake is raised
    record = loop.rec.finish().record
    assert len(record["findings"]) == 3 and record["reported"]["n_rows"] == 9


IMPOSSIBLE = {"n_not_finite": torch.nan, "n_negative": -0.5, "n_outside": 0.0}


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


def test_a_diverged_run_stays_within_a_bounded_number_of_findings(tmp_path: Path) -> None:
    loop = Loop(tmp_path, strict=False).run(batches(3))
    for rows in batches(200, seed=1):
        loop.rec.score(nll=torch.full((4, COLUMNS), 1e300, dtype=torch.float64), targets=rows[:, 1:])
        loop.rec.step()
    record = loop.rec.finish().record
    assert (record["reported"]["n_not_finite"], record["n_tokens"], len(record["findings"])) == (800, 12 * COLUMNS, 1)


def test_a_strict_recorder_keeps_what_was_recorded_before_an_impossible_value(tmp_path: Path) -> None:
    loop = Loop(tmp_path)
    with pytest.raises(CausalityError, match="in step 3: the loss is not a finite number"):
        _with_one_impossible_row(loop, "n_not_finite")
    assert loop.rec.state_dict()["n_steps"] == 64
    assert loop.rec.finish().record["reported"]["new"]["n_rows"] == 64 * 4 - 1


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


def test_held_out_rows_with_an_impossible_value_are_left_out_and_named(tmp_path: Path) -> None:
    loop = Loop(tmp_path, strict=False).run(batches(1))
    nll = torch.ones(4, COLUMNS)
    nll[2, 0] = torch.inf
    loop.rec.heldout("val", nll=nll, targets=batches(1)[0][:, 1:], documents=["a", "b", "c", "d"])
    loop.rec.heldout("none", nll=nll * torch.nan, targets=batches(1)[0][:, 1:], documents=["a", "b", "c", "d"])
    run = loop.rec.finish()
    assert json.loads((run.path / "heldout-val.jsonl").read_text())["frozen"]["total"]["n_bytes"] == 3 * COLUMNS
    assert not (run.path / "heldout-none.jsonl").exists()
    assert (
        "rec.heldout('val'), step 1: 1 rows of impossible values are left out" in run.record["findings"][0]["message"]
    )


# ---- dishonest loops


def test_targets_that_nobody_shifted_are_caught(tmp_path: Path) -> None:
    loop = Loop(tmp_path, audit_every=0)
    for rows in batches(2):
        x = rows[:, :-1]
        logits = loop.model(x)
        loop.rec.score(logits=logits, targets=x, inputs=x)
        loop.learn(logits, x)
    with pytest.raises(CausalityError, match="step 1: the targets are the inputs; shift them by one"):
        loop.rec.finish()


def test_rows_of_one_letter_are_shifted_whatever_they_are(tmp_path: Path) -> None:
    loop = Loop(tmp_path, audit_every=0)
    record = loop.run([torch.full((2, 9), i) for i in range(3)]).rec.finish().record
    assert not record["findings"] and record["reported"]["new"]["n_rows"] == 3


class LeakInTraining(Bigrams):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.table(torch.roll(x, -1, 1) if self.training else x)


def test_a_model_that_sees_the_future_only_in_training_is_caught(tmp_path: Path) -> None:
    loop = Loop(tmp_path, model=LeakInTraining(), audit_every=20)
    with pytest.raises(CausalityError, match="looks ahead"):
        loop.run(few_letters(60))


@pytest.mark.parametrize("kind", ["dict", "packed"])
def test_ids_are_found_wherever_a_model_takes_them(tmp_path: Path, kind: str) -> None:
    class Model(Bigrams):
        def forward(self, batch: object) -> torch.Tensor:
            if isinstance(batch, dict):
                return self.table(torch.roll(batch["tokens"], -1, 1))
            return self.table(torch.roll(batch, -1, -1))

    loop = Loop(tmp_path, model=Model(), audit_every=20)
    loop.rec.attach(forward=lambda model, ids: model({"tokens": ids} if kind == "dict" else ids))
    with pytest.raises(CausalityError, match="looks ahead"):
        for rows in few_letters(60):
            x, y = (rows[:, :-1], rows[:, 1:]) if kind == "dict" else (rows.flatten()[:-1], rows.flatten()[1:])
            mask = torch.ones_like(x)
            logits = loop.model({"attention_mask": mask, "tokens": x} if kind == "dict" else x)
            loop.rec.score(logits=logits, targets=y, inputs=x)
            loop.learn(logits.view(1, -1, V), y)


# ---- honest loops


def test_a_row_may_be_predicted_twice_before_its_step(tmp_path: Path) -> None:
    loop = Loop(tmp_path, model=Bigrams(dropout=0.3))
    for rows in batches(3):
        x, y, logits = loop.forward(rows)
        loop.rec.score(logits=logits, targets=y, inputs=x)
        loop.learn((logits + loop.model(x)) / 2, y)
    assert not loop.rec.finish().record["findings"]


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


def test_copies_and_pickles_of_the_model_are_not_watched(tmp_path: Path) -> None:
    loop = Loop(tmp_path)
    teacher, file = copy.deepcopy(loop.model), io.BytesIO()
    torch.save(loop.model, file)
    for rows in batches(3):
        teacher(batches(1, seed=9)[0])
        loop.run([rows])
    assert not loop.rec.finish().record["findings"]
    file.seek(0)
    assert torch.load(file, weights_only=False)(batches(1)[0]).shape[-1] == V


def test_a_check_that_cannot_be_made_ends_no_training_and_is_recorded(tmp_path: Path) -> None:
    class LastOnly(Bigrams):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.table(x[:, -1:])

    loop = Loop(tmp_path, model=LastOnly())
    for rows in batches(3):
        x, y = rows[:, :-1], rows[:, -1:]
        logits = loop.model(x)
        loop.rec.score(logits=logits, targets=y, inputs=x)
        loop.learn(logits, y)
    reported = loop.rec.finish().record["reported"]
    assert reported["n_audits"] == 0 and "rec.attach(forward=...)" in reported["not_audited"]


def test_a_prefix_that_is_not_scored_may_be_read_in_both_directions(tmp_path: Path) -> None:
    class Prefix(Bigrams):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            mean = self.table(x[:, :8]).mean(1, keepdim=True)
            return torch.cat((mean.expand(-1, 8, -1), self.table(x[:, 8:])), 1)

    loop = Loop(tmp_path, model=Prefix(), audit_every=1)
    for rows in few_letters(30):
        x, y = rows[:, :-1], rows[:, 1:].clone()
        y[:, :8] = -100
        logits = loop.model(x)
        loop.rec.score(logits=logits, targets=y, inputs=x)
        loop.learn(logits, y)
    assert loop.rec.finish().record["reported"]["n_audits"] == 30


def test_the_check_runs_under_the_autocast_of_the_call_and_leaves_buffers_alone(tmp_path: Path) -> None:
    class Counting(Bigrams):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("n_calls", torch.zeros(1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if not torch.is_autocast_enabled("cpu"):
                raise RuntimeError("this model needs autocast")
            self.n_calls += 1
            return self.table(x)

    loop = Loop(tmp_path, model=Counting(), audit_every=1)
    for rows in batches(3):
        with torch.autocast("cpu", torch.bfloat16):
            x, y, logits = loop.forward(rows)
        loop.rec.score(logits=logits, targets=y, inputs=x)
        loop.learn(logits, y)
    reported = loop.rec.finish().record["reported"]
    assert (reported["n_audits"], reported["not_audited"]) == (3, "") and loop.model.n_calls == 3


# ---- sums


def test_padding_does_not_make_a_row_another_row(tmp_path: Path) -> None:
    loop = Loop(tmp_path, audit_every=0)
    text = torch.arange(10)[None]
    for n_padding in (0, 3, 7):
        x = torch.cat((text[:, :-1], torch.full((1, n_padding), 250)), 1)
        y = torch.cat((text[:, 1:], torch.full((1, n_padding), -100)), 1)
        logits = loop.model(x)
        loop.rec.score(logits=logits, targets=y, inputs=x)
        loop.learn(logits, y)
    reported = loop.rec.finish().record["reported"]
    assert (reported["new"]["n_rows"], reported["repeated"]["n_rows"]) == (1, 2)


def test_logits_of_another_order_of_dimensions_are_refused(tmp_path: Path) -> None:
    loop = Loop(tmp_path)
    x, y, logits = loop.forward(batches(1)[0])
    with pytest.raises(ConfigError, match=r"logits have shape \(24, 4, 256\), targets \(4, 24\)"):
        loop.rec.score(logits=logits.transpose(0, 1), targets=y, inputs=x)


def test_flat_targets_take_the_rows_of_their_logits_or_inputs(tmp_path: Path) -> None:
    flat, whole = Loop(tmp_path), Loop(tmp_path)
    whole.run(batches(2))
    for rows in batches(2):
        x, y, logits = flat.forward(rows)
        flat.rec.score(logits=logits, targets=y.flatten(), inputs=x)
        flat.learn(logits, y)
    assert flat.rec.finish().record["reported"] == whole.rec.finish().record["reported"]


def test_bits_of_ids_that_stand_for_no_byte_are_in_every_sum(tmp_path: Path) -> None:
    loop = Loop(tmp_path, units=np.r_[0, np.ones(V - 1, int)], audit_every=0)
    for rows in (torch.full((1, 5), 7), torch.tensor([[8, 0, 0, 0, 0]])):
        loop.run([rows])
    run = loop.rec.finish()
    assert run.record["code_bits"] == run.record["reported"]["new"]["code_bits"] == run.curves["model"].bits[-1]


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


def test_without_a_step_nothing_is_finished(tmp_path: Path) -> None:
    loop = Loop(tmp_path, optimizer=None)
    x, y, logits = loop.forward(batches(1)[0])
    loop.rec.score(logits=logits, targets=y, inputs=x)
    with pytest.raises(ConfigError, match="no step was seen: give optimizer="):
        loop.rec.finish()


def test_held_out_documents_that_are_scored_twice_in_a_step_count_once_and_survive_a_resumption(tmp_path: Path) -> None:
    loop = Loop(tmp_path).run(batches(1))
    rows = batches(1, seed=3)[0]
    for _ in range(2):
        with torch.no_grad():
            loop.rec.heldout("val", logits=loop.model(rows[:, :-1]), targets=rows[:, 1:], documents=range(4))
    file = io.BytesIO()
    torch.save(loop.rec.state_dict(), file)
    file.seek(0)
    other = Loop(tmp_path)
    other.rec.load_state_dict(torch.load(file, weights_only=True))
    text = (other.rec.finish().path / "heldout-val.jsonl").read_text()
    assert f'"n_bytes": {4 * COLUMNS}' in text


def test_a_folder_that_cannot_be_written_is_refused_before_the_training(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OutputError, match="not a folder that you can write"):
        prequential.Recorder(tmp_path / "file" / "runs", name="m", units="bytes")
