"""The account of a training run: what was scored is queued on the device, read a few steps later, and added up over all ranks."""

import copy
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from numbers import Integral
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch.nn.functional import pad

from prequential.errors import ConfigError
from prequential.recording.score import FIELDS, IGNORED, Scores, Units, joined, row_sums
from prequential.recording.text import Text
from prequential.recording.totals import HEAD, UNITS_PER_NAT, SeenRows, Totals, head_hashes, mix, sampled_grams

MOST_NEGATIVE = -1e-3  # nats; float32 may give a little less than 0
MOST_NATS = 1e12  # of a row; its units fit into int64
IMPOSSIBLE = {  # what no model gives, by the count of such rows in the record
    "n_outside": "a target is no id of the vocabulary",
    "n_not_finite": "the loss is not a finite number",
    "n_negative": "a loss is negative; give the plain negative log-likelihood",
}
MAX_STATE_ROWS = 1 << 24  # keys in the state of a checkpoint: 128 MiB; of longer runs, a resumed one does not know them
MAX_SAMPLED = 1 << 11  # targets of a call whose text is looked up
MAX_WAITING = 1 << 20  # targets that wait to be summed up together, some 20 bytes each


@dataclass(frozen=True)
class Ranks:
    """The processes of a group of torch.distributed; one process without it. group: None is the default group."""

    group: Any = None

    @property
    def n(self) -> int:
        return dist.get_world_size(self.group) if dist.is_available() and dist.is_initialized() else 1

    @property
    def own(self) -> int:
        """The number of this process, from 0 on."""
        return dist.get_rank(self.group) if self.n > 1 else 0

    def gathered(self, value: Any) -> list[Any]:
        """The value of every process. All of them call it."""
        if self.n == 1:
            return [value]
        parts: list[Any] = [None] * self.n
        dist.all_gather_object(parts, value, group=self.group)
        return parts


class Account:
    """Totals of the complete steps, and what is queued of later ones."""

    def __init__(self, ranks: Ranks, units: Units, text: Text | None = None) -> None:
        self.totals = Totals()
        self.units, self.text, self._ranks, self._seen = units, text, ranks, SeenRows()
        self._names: dict[int, str] = {}  # of groups, which the other ranks do not know yet
        self._drop_queues()

    def _drop_queues(self) -> None:
        self._waiting: list[tuple[int, Scores]] = []  # with their steps
        self._scored: list[tuple[int, torch.Tensor]] = []
        self._called: list[tuple[int, torch.Tensor]] = []
        self._n_waiting, self._lost = 0, list[str]()
        self._sampled: list[torch.Tensor] = []  # rows whose text is looked up

    def add_scores(self, step: int, scores: Scores) -> None:
        """Queues copies of rows that were scored. They are summed up together, in few calls of the device."""
        copied = scores.copied()
        self._waiting.append((step, copied))
        if self.text and self.units.pieces:
            self._sampled.append(copied.targets[:: -(-copied.targets.numel() // MAX_SAMPLED)])
        self._n_waiting += scores.targets.numel()
        if self._n_waiting >= MAX_WAITING:
            self._sum_up()

    def codes(self, groups: Any) -> Any:
        """The codes of groups (rows,): integers are their own, names get one of their hash. A tensor stays on its device."""
        if groups is None or isinstance(groups, torch.Tensor):
            return groups
        try:
            given = [(each, isinstance(each, Integral) and int(each) >= 0) for each in {*groups}]
            codes = {each: int(each) if is_number else code_of(str(each)) for each, is_number in given}
            self._names |= {code: str(each) for each, code in codes.items() if code >= 1 << 62}
            return torch.tensor([codes[each] for each in groups])
        except (TypeError, ValueError, RuntimeError) as error:
            raise ConfigError(f"rec.score(): groups are neither names nor numbers from 0: {error}") from error

    def _sum_up(self) -> None:
        waiting, self._waiting, self._n_waiting = self._waiting, [], 0
        try:
            for _, group in groupby(waiting, lambda each: each[1].form()):
                steps, parts = zip(*group, strict=True)
                scores = joined(parts)
                grams = sampled_grams(scores.targets, scores.targets != IGNORED)
                sums = torch.cat((row_sums(scores, self.units), grams), 1)
                self._scored += zip(steps, sums.split([len(part.targets) for part in parts]), strict=True)
        except Exception as error:  # such as no memory on the device: somebody's training, and the other ranks, go on
            self._lost.append(f"step {waiting[0][0] + 1}: rows are lost: {type(error).__name__}: {str(error)[:200]}")

    def add_call(self, step: int, ids: torch.Tensor) -> None:
        """Queues the first ids of rows that the model was called for in training."""
        self._called.append((step, ids[:, :HEAD].clone()))

    @property
    def n_after_last_step(self) -> int:
        """Rows of this rank that were scored since the last step, when the steps before it have been read."""
        self._sum_up()
        return sum(len(rows) for _, rows in self._scored)

    def read(self, n_steps: int) -> list[str]:
        """Adds the steps before n_steps to the totals; returns the mistakes in them. All ranks call it after the same step."""
        self._sum_up()
        ready = [[each for each in queue if each[0] < n_steps] for queue in (self._scored, self._called)]
        calls = [(step, torch.stack([head_hashes(ids), head_hashes(ids[:, :-1])], 1)) for step, ids in ready[1]]
        (own, grams), (heads, _) = on_host(ready[0], FIELDS), on_host(calls, ("head", "shorter"))
        parts = self._ranks.gathered((own, heads, grams, self._lost, self._names, self._looked_up()))
        rows, called = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
        most = max(part[2].shape[1] for part in parts)
        grams = np.concatenate([np.pad(part[2], ((0, 0), (0, most - part[2].shape[1]))) for part in parts])
        lost, self._lost = [each for part in parts for each in part[3]], []
        for part in parts:
            self.totals.group_names |= part[4]
            self.totals.n_samples += part[5][0]
            self.totals.n_unknown += part[5][1]
        self._scored, self._called = ([each for each in q if each[0] >= n_steps] for q in (self._scored, self._called))
        wrong = self._add(rows, grams, n_steps)
        self.totals.n_checked_steps += len(np.intersect1d(called["step"], rows["step"][rows["head"] != 0]))
        return [*lost, *wrong, *mistakes(called, rows)]

    def _looked_up(self) -> list[int]:
        """Samples of the text of queued rows, and those that the declared text does not have."""
        rows, self._sampled = self._sampled, []
        if not rows or not self.text:
            return [0, 0]
        ids = torch.cat([pad(each, (0, 1), value=IGNORED).flatten() for each in rows]).tolist()
        return self.text.count(self.units.stretches(ids)).tolist()

    def _add(self, rows: np.ndarray, grams: np.ndarray, n_steps: int) -> list[str]:
        """Adds rows to the totals, and returns where values that no model gives come first."""
        order = np.argsort(rows["step"], kind="stable")  # of equal rows the earliest step has the first one
        rows, grams = rows[order], grams[order]
        keys = mix(rows["key"].view(np.uint64))
        fresh, faults = self._are_new(keys), []
        wrong = impossible_rows(rows)
        for name, which in wrong.items():
            if which.any() and not self.totals.impossible[name]:
                faults.append(f"rec.score() in step {rows['step'][which].min() + 1}: {IMPOSSIBLE[name]}")
            self.totals.impossible[name] += int(which.sum())
        counts = ~np.any(list(wrong.values()), axis=0)
        self._add_text(grams[fresh & counts])
        units = np.rint(np.where(counts, rows["nats"].view(np.float64), 0.0) * UNITS_PER_NAT).astype(np.int64)
        sums = np.stack([np.ones(len(rows), np.int64), rows["tokens"], rows["bytes"], units], axis=1)
        contents = mix(rows["targets"].view(np.uint64))
        ends = np.searchsorted(rows["step"], np.arange(self.totals.steps, n_steps + 1))
        for start, end in pairwise(ends.tolist()):
            here, new = slice(start, end), (fresh & counts)[start:end]
            part = np.stack([sums[here][which].sum(0, dtype=object) for which in (new, (~fresh & counts)[start:end])])
            self.totals.add_groups(rows["group"][here][new], sums[here][new])
            hashes = [int(each[here][new].sum(dtype=np.uint64)) for each in (contents, keys)]
            self.totals.add_step(part, hashes, contents[here])
        return faults

    def _add_text(self, grams: np.ndarray) -> None:
        """Counts the sampled grams (n, most) of new rows, and those that an earlier row had; of each row, a gram once."""
        grams = np.sort(grams, axis=1)
        grams[:, 1:][grams[:, 1:] == grams[:, :-1]] = 0
        fresh = self._are_new(mix(grams[grams != 0].view(np.uint64)))
        self.totals.n_grams += len(fresh)
        self.totals.n_grams_seen += int((~fresh).sum())

    def _are_new(self, keys: np.ndarray) -> np.ndarray:
        """Which keys (n,) no earlier row had, (n,) bool. Each rank remembers its share of the keys."""
        own = np.flatnonzero(self._is_own(keys))
        is_new = np.zeros(len(keys), np.int64)
        is_new[own] = self._seen.add(keys[own])
        flags = self._ranks.gathered((is_new, self._seen.is_full))
        self.totals.all_rows_kept &= not any(is_full for _, is_full in flags)
        return np.sum([each for each, _ in flags], axis=0) > 0

    def _is_own(self, keys: np.ndarray) -> np.ndarray:
        return keys % np.uint64(self._ranks.n) == self._ranks.own

    def state(self) -> dict[str, Any]:
        """The totals, and the keys of all ranks, unless they are more than MAX_STATE_ROWS. What is queued must have been read."""
        totals, keys = copy.deepcopy(vars(self.totals)), np.zeros(0, np.uint64)
        if sum(self._ranks.gathered(len(self._seen))) <= MAX_STATE_ROWS:
            keys = np.sort(np.concatenate(self._ranks.gathered(self._seen.keys())))
        else:
            totals["all_rows_kept"] = False
        return {"totals": totals, "seen": torch.from_numpy(keys.view(np.int64))}

    def load(self, state: Mapping[str, Any]) -> None:
        """Continues from such a state."""
        keys = state["seen"].cpu().numpy().view(np.uint64)
        if state["totals"].keys() != vars(Totals()).keys():
            raise KeyError("totals")
        self.totals, self._seen = Totals(**copy.deepcopy(state["totals"])), SeenRows(keys[self._is_own(keys)])
        self._drop_queues()


def code_of(name: str) -> int:
    """The code of a group that has a name: above all numbers that a loop gives."""
    return 1 << 62 | int.from_bytes(hashlib.blake2b(name.encode(), digest_size=7).digest(), "little")


def on_host(queued: Sequence[tuple[int, torch.Tensor]], names: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Rows queued on the device with their step, as a structured array; and columns without a name. One synchronisation."""
    form = np.dtype([("step", np.int64), *((name, np.int64) for name in names)])
    rows = np.zeros(sum(len(part) for _, part in queued), form)
    values = np.zeros((0, len(names)), np.int64)
    if len(rows):
        most = max(part.shape[1] for _, part in queued)
        values = torch.cat([pad(part, (0, most - part.shape[1])) for _, part in queued]).cpu().numpy()
        rows["step"] = np.repeat([step for step, _ in queued], [len(part) for _, part in queued])
        for i, name in enumerate(names):
            rows[name] = values[:, i]
    return rows, values[:, len(names) :]


def impossible_rows(rows: np.ndarray) -> dict[str, np.ndarray]:
    """Which rows (n,) have values that no model gives, (n,) bool, by the names in IMPOSSIBLE; each row at most once."""
    outside = rows["outside"] > 0
    not_finite = ~outside & ~(np.abs(rows["nats"].view(np.float64)) < MOST_NATS)  # NaN, too
    negative = ~outside & ~not_finite & (rows["least"].view(np.float64) < MOST_NEGATIVE)
    return dict(zip(IMPOSSIBLE, (outside, not_finite, negative), strict=True))


def mistakes(called: np.ndarray, rows: np.ndarray) -> list[str]:
    """The steps that trained on rows which no score had, and targets that are the inputs themselves.

    called: the rows that the model was called for in training. Rows are recognised by their first inputs, also if the model read
    one column more than was scored; a step whose scores had no inputs is not checked.
    """
    unshifted = np.unique(rows["step"][rows["unshifted"] > 0])
    faults = [f"step {step + 1}: the targets are the inputs; shift them by one" for step in unshifted[:1]]
    for step in np.unique(called["step"]):
        calls, scores = called[called["step"] == step], rows[rows["step"] == step]["head"]
        unknown = calls["head"][~np.isin(calls["head"], scores) & ~np.isin(calls["shorter"], scores)]
        if 0 not in scores and (n := len(np.unique(unknown))):
            faults.append(f"step {step + 1} trained on {n} rows that were not scored before it")
    return faults
