"""The check for a look ahead makes a call of the training again with its own arguments."""

import random
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from loops import Bigrams, Loop, V, batches, few_letters
from torch.nn.functional import cross_entropy

from prequential.errors import CausalityError
from prequential.evaluation.summary import reported_figures

COLUMNS = 24
SEGMENTS = torch.arange(COLUMNS) // 8  # three documents in a row
CAUSAL = torch.tril(torch.ones(COLUMNS, COLUMNS, dtype=torch.bool))
PACKED = CAUSAL & (SEGMENTS[:, None] == SEGMENTS)
LEAKING = PACKED | (SEGMENTS[:, None] == SEGMENTS - 1)  # of columns of the next document


def test_a_lenient_recorder_goes_on_and_the_record_says_what_it_saw(tmp_path: Path) -> None:
    loop = Loop(tmp_path, model=Bigrams(reach=1), audit_every=10, strict=False)
    record = loop.run(few_letters(60)).rec.finish().record
    assert any("looks ahead" in finding["message"] for finding in record["findings"])
    assert record["reported"]["n_audits"] == 10  # steps 1, 2, 4, 8, and 10 to 60


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


class Attention(torch.nn.Module):
    """One layer of attention, where the arguments of a call let it look."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table, self.head = torch.nn.Embedding(V, 16), torch.nn.Linear(16, V)

    def forward(self, input_ids: Any, *, mask: Any = None, position_ids: Any = None, cu_seqlens: Any = None) -> Any:
        x = self.table(input_ids)  # (B, T, D)
        if position_ids is not None:  # a document ends where they do not grow
            documents = (position_ids.diff(dim=1, prepend=position_ids[:, :1]) <= 0).cumsum(1)
            mask = CAUSAL & (documents[:, :, None] == documents[:, None])
        if cu_seqlens is not None:
            documents = torch.bucketize(torch.arange(COLUMNS), cu_seqlens[1:], right=True)
            mask = CAUSAL & (documents[:, None] == documents)
        mask = mask if mask.dtype == torch.bool else mask == 0.0
        mask = mask[:, 0] if mask.dim() == 4 else mask
        weights = (x @ x.mT).masked_fill(~mask, -torch.inf).softmax(-1)
        return self.head(weights @ x)


class Scaled(Attention):
    """It cannot be called without its second argument, a tensor with a gradient."""

    def forward(self, input_ids: Any, scale: Any, **more: Any) -> Any:
        return super().forward(input_ids, **more) * scale


def _run(loop: Loop, *args: Any, n: int = 20, **kwargs: Any) -> dict[str, Any]:
    """The record of a training whose calls have these arguments. They belong to the user: the check leaves them as they are."""
    for rows in few_letters(n):
        x, y = rows[:, :-1], rows[:, 1:]
        found = loop.model(x, *[each() if callable(each) else each for each in args], **kwargs)
        loop.rec.score(logits=found, targets=y, inputs=x)
        loop.optimizer.zero_grad()
        cross_entropy(found.flatten(0, 1), y.flatten()).backward()
        loop.optimizer.step()
    return loop.rec.finish().record


def _forms(mask: torch.Tensor) -> dict[str, torch.Tensor]:
    """A mask as models take it: for all rows, for each row, with a dimension of heads, and what is added to logits."""
    each = mask.expand(4, -1, -1)
    added = torch.zeros(4, 1, COLUMNS, COLUMNS).masked_fill(~mask, torch.finfo(torch.float32).min)
    return {"shared": mask[None], "rows": each, "heads": each[:, None], "added": added}


@pytest.mark.parametrize("form", _forms(PACKED))
def test_a_leak_in_a_packing_mask_is_found(tmp_path: Path, form: str) -> None:
    with pytest.raises(CausalityError, match="looks ahead"):
        _run(Loop(tmp_path, model=Attention(), audit_every=1, strict=True), mask=_forms(LEAKING)[form])


@pytest.mark.parametrize(
    "arguments",
    [
        *({"mask": mask} for mask in _forms(PACKED).values()),
        {"position_ids": (torch.arange(COLUMNS) % 8)[None]},
        {"cu_seqlens": torch.tensor([0, 8, 16, 24])},
    ],
)
def test_packed_rows_without_a_leak_are_audited_and_nothing_is_reported(tmp_path: Path, arguments: Any) -> None:
    record = _run(Loop(tmp_path, model=Attention(), audit_every=1), **arguments)
    assert (record["reported"]["n_audits"], record["reported"]["not_audited"]) == (20, "") and not record["findings"]


def test_arguments_by_position_and_with_gradients_are_given_again(tmp_path: Path) -> None:
    weight = torch.ones(1, requires_grad=True)
    record = _run(Loop(tmp_path, model=Scaled(), audit_every=1), lambda: weight * 2.0, mask=_forms(PACKED)["rows"])
    assert (record["reported"]["n_audits"], record["reported"]["not_audited"]) == (20, "") and not record["findings"]


class Remembering(Bigrams):
    """It keeps something in an argument, as with a cache, and fails if that was kept twice."""

    def forward(self, x: torch.Tensor, cache: list[Any] | None = None) -> torch.Tensor:
        assert cache is not None and not cache[1:], "a cache that was used"
        cache.append(x)
        return super().forward(x)


@pytest.mark.parametrize("reach", [0, 1])
def test_a_cache_is_given_as_it_was_before_the_call(tmp_path: Path, reach: int) -> None:
    caches: list[Any] = [[7] for _ in range(20)]
    given = iter(caches)
    record = _run(Loop(tmp_path, model=Remembering(reach), audit_every=1, strict=False), lambda: next(given))
    assert (record["reported"]["n_audits"], record["reported"]["not_audited"]) == (20, "")
    assert bool(record["findings"]) == bool(reach) and all(len(cache) == 2 for cache in caches)


def test_what_cannot_be_copied_is_named(tmp_path: Path) -> None:
    class Locked(Bigrams):
        def forward(self, x: torch.Tensor, lock: Any, *, group: Any, flag: bool) -> torch.Tensor:
            return super().forward(x)

    class Lock:  # not callable
        def __init__(self) -> None:
            self.own = threading.Lock()

    record = _run(Loop(tmp_path, model=Locked(1)), Lock(), n=3, group=Lock(), flag=True)
    reported = record["reported"]
    why = "TypeError: cannot pickle '_thread.lock' object"
    assert (reported["n_audits"], reported["not_audited"]) == (0, why) and not record["findings"]
    assert dict(reported_figures(record))["look ahead"] == f"not audited: {why}"
    loop = Loop(tmp_path, model=Locked(1), strict=False)
    loop.rec.attach(forward=lambda model, ids: model(ids, None, group=None, flag=True))
    assert _run(loop, Lock(), group=Lock(), flag=True)["findings"]


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


@pytest.mark.parametrize("gives", ["logits and loss", "loss"])
def test_a_model_that_is_given_its_targets_is_audited(tmp_path: Path, gives: str) -> None:
    """nanoGPT gives all logits with targets only, nanochat the loss alone."""

    class Model(Bigrams):
        def forward(self, idx: torch.Tensor, targets: torch.Tensor | None = None) -> Any:
            logits = super().forward(idx)
            if targets is None:
                return logits if gives == "loss" else (logits[:, -1:], None)
            loss = cross_entropy(logits.flatten(0, 1), targets.flatten())
            return loss if gives == "loss" else (logits, loss)

    loop = Loop(tmp_path, model=Model(reach=1), audit_every=1, strict=True)
    with pytest.raises(CausalityError, match="looks ahead"):
        for rows in few_letters(20):
            x, y = rows[:, :-1], rows[:, 1:]
            found = loop.model(x, y)
            loss = found if gives == "loss" else found[1]
            loop.rec.score(nll=torch.ones(y.shape), targets=y, inputs=x)
            loop.optimizer.zero_grad()
            loss.backward()
            loop.optimizer.step()


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


def test_a_leak_is_found_beside_logits_that_are_minus_infinity(tmp_path: Path) -> None:
    class Masked(Bigrams):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x).index_fill(2, torch.arange(200, V), -torch.inf)  # a padded vocabulary

    with pytest.raises(CausalityError, match="looks ahead"):
        _run(Loop(tmp_path, model=Masked(reach=1), audit_every=1, strict=True))


def test_nothing_is_copied_in_a_step_without_an_audit(tmp_path: Path) -> None:
    class Counted:
        n_copies = 0

        def __deepcopy__(self, memo: Any) -> "Counted":
            Counted.n_copies += 1
            return self

    class Model(Bigrams):
        def forward(self, x: torch.Tensor, *, given: Any) -> torch.Tensor:
            return super().forward(x)

    _run(Loop(tmp_path, model=Model(), audit_every=8), n=12, given=Counted())
    assert Counted.n_copies == 4 * (1 + 3)  # steps 1, 2, 4 and 8: before the call, and for each replay


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


class LayerDrop(Bigrams):
    """It leaves a part out at random, by each generator that a loop may use."""

    def __init__(self) -> None:
        super().__init__()
        self.own = torch.Generator().manual_seed(3)

    def forward(self, ids: Any) -> Any:
        drawn = (random.random(), np.random.random(), float(torch.rand((), generator=self.own)))
        return super().forward(ids) * (1.0 + sum(drawn))


def test_the_check_leaves_every_generator_as_it_was_and_accuses_nobody_for_it(tmp_path: Path) -> None:
    weights = []
    for every in (0, 1):
        random.seed(1)
        np.random.seed(1)
        loop = Loop(tmp_path / str(every), model=LayerDrop(), strict=False, audit_every=every)
        record = _run(loop, n=8)
        weights.append([each.detach().clone() for each in loop.model.parameters()])
        assert record["findings"] == [] and record["reported"]["n_audits"] == 8 * every
    assert all(torch.equal(a, b) for a, b in zip(*weights, strict=True))


def test_a_model_that_is_called_without_ids_is_named_as_not_audited(tmp_path: Path) -> None:
    class Vectors(Bigrams):
        def forward(self, ids: Any = None, *, vectors: Any = None) -> Any:
            return super().forward(vectors.argmax(-1) if ids is None else ids)

    loop = Loop(tmp_path, model=Vectors(), strict=False)
    x, y = (rows := few_letters(1)[0])[:, :-1], rows[:, 1:]
    logits = loop.model(vectors=torch.nn.functional.one_hot(x, V).float())
    loop.rec.score(logits=logits, targets=y, inputs=x)
    loop.learn(logits, y)
    assert loop.rec.finish().record["reported"]["not_audited"] == "the model was called without ids"
