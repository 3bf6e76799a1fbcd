import copy
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from loops import COLUMNS, Bigrams, Loop, V, batches, few_letters
from torch.nn.functional import cross_entropy
from torch.utils._python_dispatch import TorchDispatchMode

import prequential
from prequential.comparison.documents import compare_documents, read_document_losses
from prequential.errors import CausalityError, ConfigError
from prequential.recording.totals import MAX_POINTS, SeenRows, Totals


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
    both = Loop(tmp_path, repeats="include").run(twice).rec.finish().record
    assert both["code_bits"] == two["code_bits"] + two["reported"]["repeated"]["code_bits"]
    assert both["n_tokens"] == 2 * one["n_tokens"]


def test_numbers_of_rows_tell_duplicates_in_the_data_from_a_second_epoch(tmp_path: Path) -> None:
    (rows,) = batches(1)
    loop = Loop(tmp_path)
    for first in (0, 4, 0):  # the data hold the rows twice; then an epoch begins again
        x, y, logits = loop.forward(rows)
        loop.rec.score(logits=logits, targets=y, inputs=x, indices=torch.arange(first, first + 4))
        loop.learn(logits, y)
    reported = loop.rec.finish().record["reported"]
    assert reported["new"]["n_rows"] == 8 and reported["repeated"]["n_rows"] == 4


def test_rows_with_equal_targets_and_other_inputs_are_other_rows(tmp_path: Path) -> None:
    loop = Loop(tmp_path)
    for prompt in (1, 2, 1):
        x, y = torch.full((1, 4), prompt), torch.tensor([[-100, -100, 7, 8]])
        logits = loop.model(x)
        loop.rec.score(logits=logits, targets=y, inputs=x)
        loop.learn(logits, y)
    reported = loop.rec.finish().record["reported"]
    assert reported["new"] == reported["new"] | {"n_rows": 2, "n_tokens": 4}
    assert reported["repeated"]["n_rows"] == 1


def test_losses_that_a_loop_has_are_scored_as_its_logits_are(tmp_path: Path) -> None:
    by_logits, by_nll = Loop(tmp_path), Loop(tmp_path)
    by_logits.run(batches(3))
    for rows in batches(3):
        x, y, logits = by_nll.forward(rows)
        nll = cross_entropy(logits.flatten(0, 1), y.flatten(), reduction="none", label_smoothing=0.0)
        by_nll.rec.score(nll=nll, targets=y, inputs=x)
        by_nll.learn(logits, y)
    found = [loop.rec.finish().record for loop in (by_logits, by_nll)]
    assert found[0]["code_bits"] == found[1]["code_bits"]


def test_parts_of_a_batch_give_what_the_batch_gives(tmp_path: Path) -> None:
    whole, parts = Loop(tmp_path), Loop(tmp_path)
    for rows in batches(3, n_rows=4):
        for loop, size in ((whole, 4), (parts, 2)):
            loop.optimizer.zero_grad()
            for part in rows.split(size):
                x, y, logits = loop.forward(part)
                loop.rec.score(logits=logits, targets=y, inputs=x)
                (cross_entropy(logits.flatten(0, 1), y.flatten()) * len(part) / 4).backward()
            loop.optimizer.step()
    one, other = whole.rec.finish().record, parts.rec.finish().record
    assert one["reported"]["order"] == other["reported"]["order"]
    assert one["code_bits"] == pytest.approx(other["code_bits"], rel=1e-6)


def test_masks_padding_and_special_ids_are_not_scored(tmp_path: Path) -> None:
    sizes = np.full(V, 1)
    sizes[0], sizes[65] = -1, 3  # a special id, and one of three bytes
    loop = Loop(tmp_path, units=sizes)
    x, y = torch.tensor([[1, 2, 3, 4]]), torch.tensor([[0, 65, -100, 66]])
    logits = loop.model(x)
    loop.rec.score(logits=logits, targets=y, inputs=x)
    loop.learn(logits, y)
    record = loop.rec.finish().record
    assert record["n_tokens"] == 2 and record["corpus"]["n_bytes"] == 4
    assert record["code_bits"] == pytest.approx(2 * 8.0)  # the table begins uniform


def test_bf16_logits_are_summed_in_float32_and_dropout_is_recorded(tmp_path: Path) -> None:
    loop = Loop(tmp_path, model=Bigrams(dropout=0.25), strict=False)
    x, y = batches(1)[0][:, :-1], batches(1)[0][:, 1:]
    with torch.autocast("cpu", torch.bfloat16):
        logits = loop.model(x).bfloat16()
    loop.rec.score(logits=logits, targets=y, inputs=x)
    loop.learn(logits.float(), y)
    reported = loop.rec.finish().record["reported"]
    assert (reported["logits"], reported["dropout"], reported["is_training"]) == ("bfloat16", 0.25, True)


# ---- an interrupted run


@pytest.mark.parametrize("n_first", [1, 70])
def test_an_interrupted_run_equals_an_uninterrupted_one_to_the_last_digit(tmp_path: Path, n_first: int) -> None:
    data = batches(90, n_rows=2) + batches(90, n_rows=2)[:20]
    whole = Loop(tmp_path).run(data).rec.finish()
    first = Loop(tmp_path).run(data[:n_first])
    torch.save({"model": first.model.state_dict(), "recorder": first.rec.state_dict()}, tmp_path / "saved.pt")
    first.run(data[n_first : n_first + 5])  # lost: it goes on from the checkpoint, and these steps are made again
    saved = torch.load(tmp_path / "saved.pt", weights_only=True)
    second = Loop(tmp_path)
    second.model.load_state_dict(saved["model"])
    second.rec.load_state_dict(saved["recorder"])
    resumed = second.run(data[n_first:]).rec.finish()
    assert _figures(resumed) == _figures(whole)
    assert all(
        np.array_equal(getattr(resumed.curves["model"], k), getattr(whole.curves["model"], k))
        for k in ("n_bytes", "bits")
    )


def _figures(run: prequential.Run) -> dict[str, object]:
    reported = {k: v for k, v in run.record["reported"].items() if k not in ("n_ranks", "n_audits")}
    return {"bits": run.record["code_bits"], "corpus": run.record["corpus"], "reported": reported}


def test_a_state_of_another_vocabulary_or_of_nothing_is_refused(tmp_path: Path) -> None:
    state = Loop(tmp_path).run(batches(1)).rec.state_dict()
    with pytest.raises(ConfigError, match=r"load_state_dict.*another tokenizer"):
        Loop(tmp_path, units=np.full(V, 2)).rec.load_state_dict(state)
    with pytest.raises(ConfigError, match=r"load_state_dict.*repeats"):
        Loop(tmp_path, repeats="include").rec.load_state_dict(state)
    with pytest.raises(ConfigError, match=r"load_state_dict.*not the state"):
        Loop(tmp_path).rec.load_state_dict({})


def _mutations(state: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Copies of a state, each with one value that is missing, of another type or otherwise wrong, at any depth."""
    wrong = (None, -1, 1.5, True, "x", [], {}, [-1], torch.zeros(3), torch.zeros(2, 2, dtype=torch.int64), object())

    def places(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
        yield path
        for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
            yield from places(value[key], (*path, key))

    for path in [path for path in places(state, ()) if path]:
        for new in (*wrong, "missing"):
            copied = copy.deepcopy(state)
            inner = copied
            for key in path[:-1]:
                inner = inner[key]
            if isinstance(new, str) and new == "missing":
                del inner[path[-1]]
            elif type(inner[path[-1]]) is type(new) and not isinstance(new, torch.Tensor) and inner[path[-1]] == new:
                continue
            else:
                inner[path[-1]] = new
            yield f"{path} {new!r}", copied


def test_every_damaged_state_is_refused_in_one_line_and_changes_nothing(tmp_path: Path) -> None:
    loop = Loop(tmp_path).run(batches(3))
    loop.rec.heldout("val", nll=torch.ones(4, COLUMNS), targets=batches(1)[0][:, 1:], documents=range(4))
    state, other, n = loop.rec.state_dict(), Loop(tmp_path).run(batches(1)), 0
    before = other.rec.state_dict()
    for what, damaged in _mutations(state):
        with pytest.raises(ConfigError, match=r"^rec\.load_state_dict\(\): .*$"):
            other.rec.load_state_dict(damaged)
            pytest.fail(what)
        n += 1
    for damaged in (None, [], "x", {}, state | {"version": 1}):
        with pytest.raises(ConfigError, match=r"load_state_dict.*not the state"):
            other.rec.load_state_dict(damaged)
    after = other.rec.state_dict()
    assert n > 500 and after["totals"] == before["totals"] and torch.equal(after["seen"], before["seen"])


# ---- dishonest loops


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


def test_rows_that_are_left_out_are_caught(tmp_path: Path) -> None:
    loop = Loop(tmp_path)
    with pytest.raises(CausalityError, match=r"step 1 trained on 1 rows that were not scored"):
        for rows in batches(2):
            x, y, logits = loop.forward(rows)
            loop.rec.score(logits=logits[1:], targets=y[1:], inputs=x[1:])
            loop.learn(logits, y)
        loop.rec.finish()


def test_a_model_that_sees_the_future_is_caught(tmp_path: Path) -> None:
    loop = Loop(tmp_path, model=Bigrams(reach=1), audit_every=10)
    with pytest.raises(CausalityError, match=r"step \d+: the model looks ahead"):
        loop.run(few_letters(60))


def test_a_lenient_recorder_goes_on_and_the_record_says_what_it_saw(tmp_path: Path) -> None:
    loop = Loop(tmp_path, model=Bigrams(reach=1), audit_every=10, strict=False)
    record = loop.run(few_letters(60)).rec.finish().record
    assert any("looks ahead" in finding["message"] for finding in record["findings"])
    assert record["reported"]["n_audits"] == 10  # steps 1, 2, 4, 8, and 10 to 60


def test_an_evaluation_within_the_training_is_no_training(tmp_path: Path) -> None:
    loop = Loop(tmp_path)
    for rows in batches(3):
        loop.run([rows])
        loop.model.eval()
        loop.forward(batches(1, seed=9)[0])
        loop.model.train()
        with torch.no_grad():
            loop.forward(batches(1, seed=9)[0])
    assert loop.rec.finish().record["reported"]["n_rows"] == 12


def test_a_check_for_a_look_ahead_changes_neither_model_nor_random_numbers(tmp_path: Path) -> None:
    found = []
    for audit_every in (0, 1):
        torch.manual_seed(5)
        loop = Loop(tmp_path, model=Bigrams(dropout=0.5), audit_every=audit_every)
        record = loop.run(batches(4)).rec.finish().record
        found.append((record["code_bits"], loop.model.table.weight.sum().item(), loop.model.dropout.training))
    assert found[0] == found[1]


@pytest.mark.thorough
@pytest.mark.parametrize("passes_compiled", [True, False])
def test_a_compiled_model_is_checked_too(tmp_path: Path, passes_compiled: bool) -> None:
    model = Bigrams()
    compiled = torch.compile(model, backend="eager")
    loop = Loop(tmp_path, model=model, seen=compiled if passes_compiled else model)
    with pytest.raises(CausalityError, match=r"step 2 trained on 2 rows"):
        for first, rows in zip((0, 2, 0), batches(3), strict=True):
            x, y = rows[:, :-1], rows[:, 1:]
            logits = compiled(x)
            loop.rec.score(logits=logits[first:], targets=y[first:], inputs=x[first:])
            loop.learn(logits, y)
        loop.rec.finish()


# ---- what cannot be scored


def _score(tmp_path: Path, **values: object) -> None:
    loop = Loop(tmp_path)
    _, y, logits = loop.forward(batches(1)[0])
    values = {name: logits if value == "logits" else value for name, value in values.items()}
    loop.rec.score(**({"targets": y} | values))
    loop.rec.step()
    loop.rec.finish()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, r"rec.score\(\): give logits= or nll="),
        ({"logits": "logits", "nll": torch.zeros(1)}, r"give logits= or nll=, one of them"),
        ({"nll": torch.zeros(3)}, r"nll has shape \(3,\), targets \(4, 24\)"),
        ({"logits": torch.zeros(4, 23, V)}, r"logits have shape \(4, 23, 256\), targets \(4, 24\): rows differ"),
        ({"logits": torch.zeros(4, 24, 100)}, r"100 columns, but the vocabulary has 256 ids"),
        ({"logits": torch.zeros(4, 24, V, dtype=torch.int64)}, r"logits is not a tensor of floating-point"),
        ({"nll": torch.zeros(4, 24), "targets": torch.zeros(4, 24)}, r"targets are not a tensor of integers"),
        (
            {"logits": "logits", "inputs": torch.zeros(3, 24, dtype=torch.int64)},
            r"3 rows of inputs for 4 rows of targets",
        ),
        ({"logits": "logits", "indices": torch.arange(3)}, r"3 indices for 4 rows"),
    ],
)
def test_shapes_that_do_not_fit_are_refused_at_once(tmp_path: Path, values: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        _score(tmp_path, **values)


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


def test_a_row_may_have_more_than_a_million_columns(tmp_path: Path) -> None:
    n = (1 << 20) + 40
    row = torch.randint(0, V, (1, n), generator=torch.Generator().manual_seed(0))
    padded = torch.nn.functional.pad(row, (0, 5), value=-100)
    rec = prequential.Recorder(tmp_path, name="m", units="bytes", strict=True)
    for targets in (row, padded, row.flip(1)):
        rec.score(nll=torch.ones(targets.shape), targets=targets)
        rec.step()
    reported = rec.finish().record["reported"]
    assert (reported["new"]["n_rows"], reported["repeated"]["n_rows"], reported["new"]["n_tokens"]) == (2, 1, 2 * n)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"nll": torch.full((4, 24), math.nan)}, r"rec.score\(\) in step 1: the loss is not a finite number"),
        ({"nll": torch.full((4, 24), -0.5)}, r"rec.score\(\) in step 1: a loss is negative"),
        (
            {"nll": torch.zeros(4, 24), "targets": torch.full((4, 24), 256)},
            r"a target is no id of the vocabulary",
        ),
    ],
)
def test_values_that_no_model_gives_are_refused(tmp_path: Path, values: dict[str, object], message: str) -> None:
    with pytest.raises(CausalityError, match=message):
        _score(tmp_path, **values)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"units": None}, "give tokenizer="),
        ({"units": "letters"}, "units is 'letters'"),
        ({"units": [0.5, 1.0]}, "neither"),
        ({"units": [-2, 1]}, "bytes of an id are -2 to 1"),
        ({"repeats": "sometimes"}, "repeats is 'sometimes'"),
        ({"audit_every": -1}, "audit_every is -1"),
        ({"ignore_index": -1.0}, "ignore_index is -1.0"),
        ({"arguments": {"a": math.nan}}, "must be JSON values"),
        ({"arguments": {"a": [torch.zeros(1)]}}, "must be JSON values"),
        ({"data": "\udcff"}, "must be JSON values"),
        ({"optimizer": object()}, "call rec.step"),
        ({"units": None, "tokenizer": object()}, "no tokenizer that is known here"),
    ],
)
def test_wrong_arguments_are_refused(tmp_path: Path, options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Loop(tmp_path, **options)


def test_a_recorder_that_scored_nothing_or_has_finished_says_so(tmp_path: Path) -> None:
    loop = Loop(tmp_path)
    with pytest.raises(ConfigError, match="nothing was scored"):
        loop.rec.finish()
    loop = Loop(tmp_path).run(batches(1))
    assert loop.rec.finish() is loop.rec.finish()
    with pytest.raises(ConfigError, match="has finished"):
        loop.rec.score(targets=torch.zeros(1, 1, dtype=torch.int64), nll=torch.zeros(1, 1))


# ---- what a step costs, memory and sums


class _Calls(TorchDispatchMode):
    """Counts operations of torch."""

    n = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.n += 1
        return func(*args, **(kwargs or {}))


def test_a_score_starts_few_operations_on_the_device(tmp_path: Path) -> None:
    rec, (rows,) = Loop(tmp_path).rec, batches(1)
    with _Calls() as calls:
        rec.score(nll=torch.ones(4, COLUMNS), targets=rows[:, 1:], inputs=rows[:, :-1])
    assert calls.n <= 12


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


def test_figures_do_not_depend_on_how_many_scores_are_summed_up_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = [rows[:, : 10 + i % 3] for i, rows in enumerate(batches(9) + batches(4))]
    records = []
    for most in (1 << 20, 150, 1):
        monkeypatch.setattr("prequential.recording.account.MAX_WAITING", most)
        records.append(Loop(tmp_path).run(data).rec.finish().record)
    assert all(each["code_bits"] == records[0]["code_bits"] for each in records)
    assert all(each["reported"] == records[0]["reported"] for each in records)


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


def test_rows_beyond_the_limit_are_looked_up_but_not_kept() -> None:
    seen = SeenRows(max_rows=10)
    seen.add(np.arange(10, dtype=np.uint64))
    assert seen.is_full
    keys = np.arange(5, 15, dtype=np.uint64)
    assert [seen.add(keys).sum() for _ in range(2)] == [5, 5] and len(seen) == 10


def test_the_curve_of_a_long_run_has_a_bounded_number_of_points() -> None:
    totals = Totals()
    one = np.array([[1, 4, 4, 1 << 22], [0, 0, 0, 0]])
    for _ in range(3 * MAX_POINTS):
        totals.add_step(one, 0, np.zeros(1, np.uint64))
    curve = totals.curve()
    assert len(curve.bits) <= MAX_POINTS and curve.n_bytes[-1] == 4 * 3 * MAX_POINTS
    assert np.array_equal(curve.bits, curve.n_bytes / 4)


def test_the_digest_of_a_run_says_whether_rows_came_in_the_same_order(tmp_path: Path) -> None:
    data = batches(6)
    first, same, turned, other = (
        Loop(tmp_path).run(each).rec.finish().record for each in (data, data, data[::-1], batches(6, seed=1))
    )
    assert first["reported"]["order"] == same["reported"]["order"] != turned["reported"]["order"]
    assert first["corpus"]["blake2b"] == turned["corpus"]["blake2b"] != other["corpus"]["blake2b"]


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
                loop.rec.heldout(
                    "val", logits=logits, targets=document[:, 1:], documents=[f"{i}/{j}" for j in range(4)]
                )
        places.append(loop.rec.finish().path / "heldout-val.jsonl")
    losses = [read_document_losses(str(place)) for place in places]
    found = compare_documents(losses)
    (difference,) = found.differences
    assert (difference.clusters.n_documents, difference.interval.n_clusters, difference.clusters.by) == (
        40,
        10,
        "folder",
    )
    assert difference.bits_per_byte < 0
    assert difference.interval is not None and difference.interval.high_bits_per_byte < 0
    assert sum(losses[0].losses["frozen"].n_bytes) == 40 * COLUMNS


@pytest.mark.parametrize(
    ("name", "documents", "message"),
    [("../x", [1, 2, 3, 4], "the name is"), ("val", [1, 2], "2 documents for 4 rows")],
)
def test_held_out_documents_that_do_not_fit_are_refused(
    tmp_path: Path, name: str, documents: list[int], message: str
) -> None:
    loop = Loop(tmp_path)
    _, y, logits = loop.forward(batches(1)[0])
    with pytest.raises(ConfigError, match=rf"rec.heldout\(\).*{message}"):
        loop.rec.heldout(name, logits=logits, targets=y, documents=documents)
