"""The check for a look ahead makes a call of the training again with its own arguments."""

import random
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from loops import Bigrams, Loop, V, few_letters
from torch.nn.functional import cross_entropy

from prequential.errors import CausalityError
from prequential.evaluation.summary import report_figures

COLUMNS = 24
SEGMENTS = torch.arange(COLUMNS) // 8  # three documents in a row
CAUSAL = torch.tril(torch.ones(COLUMNS, COLUMNS, dtype=torch.bool))
PACKED = CAUSAL & (SEGMENTS[:, None] == SEGMENTS)
LEAKING = PACKED | (SEGMENTS[:, None] == SEGMENTS - 1)  # of columns of the next document


def _run(loop: Loop, *args: Any, n: int = 20, n_ignored: int = 0, **kwargs: Any) -> dict[str, Any]:
    """The record of a training whose calls have these arguments; args: functions that give one for each."""
    for rows in few_letters(n):
        x, y = rows[:, :-1], rows[:, 1:].clone()
        y[:, :n_ignored] = -100
        logits = loop.model(x, *[each() for each in args], **kwargs)
        loop.rec.score(logits=logits, targets=y, inputs=x)
        loop.learn(logits, y)
    return loop.rec.finish().record


def _audits(record: dict[str, Any]) -> tuple[int, str, bool]:
    """How many checks there were, why not all, and whether a mistake was found."""
    return record["reported"]["n_audits"], record["reported"]["not_audited"], bool(record["findings"])


def test_a_lenient_recorder_goes_on_and_the_record_says_what_it_saw(tmp_path: Path) -> None:
    record = _run(Loop(tmp_path, model=Bigrams(reach=1), audit_every=10, strict=False), n=60)
    assert any("looks ahead" in finding["message"] for finding in record["findings"])
    assert record["reported"]["n_audits"] == 10  # steps 1, 2, 4, 8, and 10 to 60


class LeakInTraining(Bigrams):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.table(torch.roll(x, -1, 1) if self.training else x)


class MinusInfinity(Bigrams):  # as a padded vocabulary has it
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x).index_fill(2, torch.arange(200, V), -torch.inf)


@pytest.mark.parametrize("model", [LeakInTraining(), MinusInfinity(reach=1)], ids=["training", "infinity"])
def test_a_leak_is_found_in_training_and_beside_logits_that_are_minus_infinity(tmp_path: Path, model: Bigrams) -> None:
    with pytest.raises(CausalityError, match=r"step \d+: the model looks ahead"):
        _run(Loop(tmp_path, model=model, audit_every=1))


class Attention(torch.nn.Module):
    """One layer of attention, where the arguments of a call let it look. scale: a tensor with a gradient."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table, self.head = torch.nn.Embedding(V, 16), torch.nn.Linear(16, V)

    def forward(
        self, input_ids: Any, scale: Any = 1.0, *, mask: Any = None, position_ids: Any = None, cu_seqlens: Any = None
    ) -> Any:
        x = self.table(input_ids) * scale  # (B, T, D)
        if position_ids is not None:  # a document ends where they do not grow
            documents = (position_ids.diff(dim=1, prepend=position_ids[:, :1]) <= 0).cumsum(1)
            mask = CAUSAL & (documents[:, :, None] == documents[:, None])
        if cu_seqlens is not None:
            documents = torch.bucketize(torch.arange(COLUMNS), cu_seqlens[1:], right=True)
            mask = CAUSAL & (documents[:, None] == documents)
        mask = mask if mask.dtype == torch.bool else mask == 0.0
        mask = mask[:, 0] if mask.dim() == 4 else mask
        return self.head((x @ x.mT).masked_fill(~mask, -torch.inf).softmax(-1) @ x)


def _forms(mask: torch.Tensor) -> dict[str, torch.Tensor]:
    """A mask as models take it: for all rows, for each row, with a dimension of heads, and what is added to logits."""
    each = mask.expand(4, -1, -1)
    added = torch.zeros(4, 1, COLUMNS, COLUMNS).masked_fill(~mask, torch.finfo(torch.float32).min)
    return {"shared": mask[None], "rows": each, "heads": each[:, None], "added": added}


@pytest.mark.parametrize("form", _forms(PACKED))
def test_a_leak_in_a_packing_mask_is_found(tmp_path: Path, form: str) -> None:
    with pytest.raises(CausalityError, match="looks ahead"):
        _run(Loop(tmp_path, model=Attention(), audit_every=1), mask=_forms(LEAKING)[form])


@pytest.mark.parametrize(
    "arguments",
    [
        *({"mask": mask} for mask in _forms(PACKED).values()),
        {"position_ids": (torch.arange(COLUMNS) % 8)[None]},
        {"cu_seqlens": torch.tensor([0, 8, 16, 24])},
    ],
)
def test_packed_rows_without_a_leak_are_audited_and_nothing_is_reported(tmp_path: Path, arguments: Any) -> None:
    weight = torch.ones(1, requires_grad=True)
    record = _run(Loop(tmp_path, model=Attention(), audit_every=1), lambda: weight * 2.0, **arguments)
    assert _audits(record) == (20, "", False)


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
    assert _audits(record) == (20, "", bool(reach)) and all(len(cache) == 2 for cache in caches)


def test_what_cannot_be_copied_or_called_again_ends_no_training_and_is_recorded(tmp_path: Path) -> None:
    class Model(Bigrams):
        def forward(self, x: torch.Tensor, *, lock: Any = None, n: int = COLUMNS) -> torch.Tensor:
            return super().forward(x)[:, -n:]

    lock = threading.Lock()
    record = _run(Loop(tmp_path, model=Model(1)), n=3, lock=lock)
    why = "TypeError: cannot pickle '_thread.lock' object"
    assert _audits(record) == (0, why, False)
    assert report_figures(record)["look ahead"] == f"not audited: {why}"
    loop = Loop(tmp_path, model=Model(1), strict=False)
    loop.rec.attach(forward=lambda model, ids: model(ids))
    assert _run(loop, lock=lock)["findings"]
    loop = Loop(tmp_path, model=Model())
    x = few_letters(1)[0][:, :-1]
    logits = loop.model(x, n=1)
    loop.rec.score(logits=logits, targets=x[:, -1:], inputs=x)
    loop.learn(logits, x[:, -1:])
    assert "rec.attach(forward=...)" in loop.rec.finish().record["reported"]["not_audited"]


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

    loop = Loop(tmp_path, model=Model(reach=1), audit_every=1)
    with pytest.raises(CausalityError, match="looks ahead"):
        for rows in few_letters(20):
            x, y = rows[:, :-1], rows[:, 1:]
            output = loop.model(x, y)
            loop.rec.score(nll=torch.ones(y.shape), targets=y, inputs=x)
            loop.optimizer.zero_grad()
            (output if gives == "loss" else output[1]).backward()
            loop.optimizer.step()


def test_a_prefix_that_is_not_scored_may_be_read_in_both_directions(tmp_path: Path) -> None:
    class Prefix(Bigrams):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            mean = self.table(x[:, :8]).mean(1, keepdim=True)
            return torch.cat((mean.expand(-1, 8, -1), self.table(x[:, 8:])), 1)

    assert _audits(_run(Loop(tmp_path, model=Prefix(), audit_every=1), n_ignored=8)) == (20, "", False)


class Drawing(Bigrams):
    """It draws by each generator that a loop may use, needs autocast, and counts its calls: in buffers, and an attribute."""

    def __init__(self) -> None:
        super().__init__(dropout=0.3)
        self.own = torch.Generator().manual_seed(3)
        self.n_again = 0
        for name in ("n_calls", "mean"):
            self.register_buffer(name, torch.zeros(1))

    def forward(self, ids: Any) -> Any:
        assert torch.is_autocast_enabled("cpu")
        self.n_calls += 1
        self.n_again += 1
        self.mean = 0.9 * self.mean + self.n_again  # another tensor
        drawn = (random.random(), np.random.random(), float(torch.rand((), generator=self.own)))
        return super().forward(ids) * (1.0 + sum(drawn))


def test_the_check_leaves_everything_as_it_was_and_accuses_nobody_for_it(tmp_path: Path) -> None:
    states = []
    for every in (0, 1):
        for seed in (random.seed, np.random.seed, torch.manual_seed):
            seed(1)
        loop = Loop(tmp_path / str(every), model=Drawing(), audit_every=every)
        with torch.autocast("cpu", torch.bfloat16):
            record = _run(loop, n=8)
        states.append([each.clone() for each in loop.model.state_dict().values()])
        assert _audits(record) == (8 * every, "", False)
    assert all(torch.equal(a, b) for a, b in zip(*states, strict=True))


def test_a_model_that_is_called_without_ids_is_named_as_not_audited(tmp_path: Path) -> None:
    class Vectors(Bigrams):
        def forward(self, ids: Any = None, *, vectors: Any = None) -> Any:
            return super().forward(vectors.argmax(-1) if ids is None else ids)

    loop = Loop(tmp_path, model=Vectors())
    x, y = (rows := few_letters(1)[0])[:, :-1], rows[:, 1:]
    logits = loop.model(vectors=torch.nn.functional.one_hot(x, V).float())
    loop.rec.score(logits=logits, targets=y, inputs=x)
    loop.learn(logits, y)
    assert loop.rec.finish().record["reported"]["not_audited"] == "the model was called without ids"
