"""The workers that torchrun starts for one command take the GPT's steps together. The bits are those of one process.

Each computes both passes of a part of the rows. Exchanged are the rows, the column peaks (a maximum, as integers) and the column
sums (int32, bounded for all rows together). Momentum and Adam are computed by each worker; a matrix is orthogonalised by one and
sent to all. With replicas, each worker takes the complete steps of its own ones, and all exchange them when they become their
mean. docs/MACHINES.md says why the bits are the same.
"""

import json
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from time import process_time
from typing import Any

import numpy as np
import torch

from prequential.errors import ConfigError, FaultError, InexactMachineError
from prequential.exact.arrays import digest
from prequential.exact.backend import Backend
from prequential.exact.plain import TINY
from prequential.exact.tables import HOST
from prequential.model.config import Config
from prequential.model.gpt.context_table import ContextGradient
from prequential.model.gpt.device import Accelerator, DeviceGPT
from prequential.model.gpt.gpt import GPT, NOT_LEARNED
from prequential.model.gpt.replicas import Replicas, split_range
from prequential.model.gpt.weights import EmbeddingGradient, Linear, MatrixGradient
from prequential.model.learner import OnlineLearner
from prequential.online.workers.team import Team

Tensor = torch.Tensor

STOP, MODEL, LOAD, STEP, COMPARE = range(5)  # the first worker's commands
FULL_SHARE = 64  # the share of every other worker; that of the first one lies between 0 and this
CARRIED = "carried."  # prefix of the tensors that only a reader of the stream has
CONTEXTS = "contexts"  # name of the gradient of the table of contexts, whose rows differ from step to step
BUSY = "busy_s"  # name of the busiest other worker's seconds, sent with the peaks; the first worker adapts its share to them
REASON_BYTES = 300


class TeamGPT(GPT):
    """A GPT that every worker holds. All workers repeat every operation of the first one, except reading."""

    _team: Team
    first_share: float = float(FULL_SHARE)  # the first worker's share of a step's rows; sent with each step

    def update(self, inputs: Tensor, targets: Tensor, places: Tensor) -> None:
        share = round(self.first_share)
        with self._team.turn():
            self._team.send_command(STEP, *targets.shape, share)
            self._team.broadcast(torch.cat((inputs, targets[..., None]), -1).to(torch.int16))
            self._team.broadcast(places.to(torch.int32))
            self.step(inputs, targets, places, share)

    def receive_step(self, n_rows: int, n_columns: int, share: int) -> None:
        rows = torch.empty(n_rows, n_columns, self.config.n_inputs + 1, dtype=torch.int16)
        places = torch.empty(n_rows, n_columns, dtype=torch.int32)
        self._team.broadcast(rows)
        self._team.broadcast(places)
        inputs, targets = rows[..., :-1].to(torch.int64), rows[..., -1].to(torch.int64)
        self.step(inputs, targets, places.to(torch.int64), share)

    @abstractmethod
    def step(self, inputs: Tensor, targets: Tensor, places: Tensor, first_share: int) -> None:
        """One step by all workers, on the same rows. Afterwards the first worker's weights are complete."""

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        """`GPT.load_state` by all workers. All get the tensors of the first worker, which must be valid."""
        self.end()
        own = self.state()
        if self._team.rank == 0:
            super().load_state(tensors)
            self._team.send_command(LOAD)
            own = self.state()
        for name, tensor in own.items():
            if not name.startswith(CARRIED):
                self._team.broadcast(tensor)
        if self._team.rank:
            super().load_state(own)

    def compare(self) -> None:
        """By all workers. The first one raises FaultError unless all hold the same weights."""
        self.end()
        shared = {name: t for name, t in self.state().items() if not name.startswith(NOT_LEARNED)}
        digests = self._team.gather(digest(shared))
        others = [str(i) for i, value in enumerate(digests) if value != digests[0]]
        if others and self._team.rank == 0:
            raise FaultError(
                f"the weights of worker {', '.join(others)} differ from worker 0's: the arithmetic of one machine is not exact, "
                "or its memory is faulty; run `prequential doctor` on each machine"
            )


class SharedGPT(TeamGPT):
    """A GPT whose steps the workers take together. The bits are those of a GPT. After each step all workers hold the same."""

    def __init__(self, team: Team, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._team, self._device = team, self._weights.device
        self._measured_s = process_time()
        hidden = {name: linear.weight for name, linear in self._hidden_matrices.items()}
        self._parameters = {"head": self._weights.head.weight, **hidden, "embedding": self._weights.embedding}
        peaks = {n: p.shape[-1:] if p.dim() == 2 else (1,) for n, p in self._parameters.items()}
        self._peaks = _packed_zeros(peaks | {CONTEXTS: (1,), BUSY: (1,)}, torch.float32, self._device)
        self._sums = _packed_zeros({n: p.shape for n, p in self._parameters.items()}, torch.int32, self._device)

    def step(self, inputs: Tensor, targets: Tensor, places: Tensor, first_share: int) -> None:
        team, pool = self._team, self.backend.pool
        shares = [first_share] + [FULL_SHARE] * (team.size - 1)
        self._weights.contexts.commit()  # the previous step; the first worker has done this when it closed the segment
        factor = self._next_step_factor()
        own = split_range(len(inputs), shares)[team.rank]
        gradients: dict[str, Any] = {}
        rows = self.table_rows(inputs, places)
        (all_peaks, peaks), (all_sums, sums) = self._peaks, self._sums
        all_peaks.fill_(TINY)
        own_s = self._busy_s()
        if team.rank:
            peaks[BUSY].fill_(own_s)
        if own.stop > own.start:
            gradients = dict(self._gradients(rows[own].to(self._device), targets[own].to(self._device)))
            pool.map(lambda name: _fill(peaks[name], gradients[name].peaks), list(gradients))
        team.maximum_(all_peaks)
        self._adapt(own_s, float(peaks[BUSY]))
        self._learn_contexts(gradients.pop(CONTEXTS, None), rows, peaks[CONTEXTS].cpu())
        if not gradients:
            all_sums.zero_()
        pool.map(lambda name: _fill(sums[name], partial(gradients[name].sums, peaks[name])), list(gradients))
        team.sum_(all_sums)
        owners = assign_work({name: _work(linear.weight) for name, linear in self._hidden_matrices.items()}, shares)
        pool.map(
            lambda name: self._learn_shared(name, factor, owners.get(name, team.rank) == team.rank),
            list(self._parameters),
        )
        self._exchange(owners)
        self._check_finite()

    def _learn_contexts(self, own: ContextGradient | None, rows: Tensor, peak: Tensor) -> None:
        """A step of the table of contexts, on the rows of all positions and with the sums over all workers."""
        if not self.config.contexts:
            return
        table, rows = self._weights.contexts, rows[..., self.config.n_embeddings :].flatten(0, 1)
        rows, places = rows[rows[:, -1] < 0].split((len(table.kinds), 1), 1)
        touched = rows.unique()
        sums = (
            own.sums(torch.searchsorted(touched, own.rows.cpu()), len(touched), peak)
            if own
            else torch.zeros(len(touched), self.config.width, dtype=torch.int32)
        )
        self._team.sum_(sums)
        table.stage_update_from_sums(touched, sums, peak, rows, places[:, 0])

    def _busy_s(self) -> float:
        """Processor time of this worker since the last call, in seconds."""
        before, self._measured_s = self._measured_s, process_time()
        return self._measured_s - before

    def _adapt(self, own_s: float, others_s: float) -> None:
        """Moves the first worker's share of later steps until it is as busy as the busiest other worker: it codes, too."""
        if self._device != HOST:  # processor time does not measure devices
            return
        share = self.first_share - (own_s - others_s) / (own_s + others_s) * FULL_SHARE / 2
        self.first_share: float = min(max(share, 0.0), float(FULL_SHARE))

    def _learn_shared(self, name: str, factor: float, is_owner: bool) -> None:
        """A step of the named parameter; only of its momentum if another worker orthogonalises the matrix."""
        kind = EmbeddingGradient if name == "embedding" else MatrixGradient
        gradient = kind.from_sums(self._ops, self._sums[1][name], self._peaks[1][name])
        if is_owner:
            self._update_parameter(name, lambda: gradient, factor)
        else:
            self._momentum_direction(name, gradient)

    def _exchange(self, owners: Mapping[str, int]) -> None:
        """Every worker receives each matrix from the worker that orthogonalised it."""
        names = [[name for name, owner in owners.items() if owner == i] for i in range(self._team.size)]
        weights = [[self._parameters[name].flatten() for name in own] for own in names]
        packed = [torch.cat(w) if w else torch.empty(0, device=self._device) for w in weights]
        self._team.broadcast_each(packed)
        for i, own in enumerate(names):
            if i != self._team.rank:
                for name, values in zip(own, packed[i].split([len(w) for w in weights[i]]), strict=True):
                    self._hidden_matrices[name].weight.view(-1).copy_(values)
        received = [self._hidden_matrices[name] for name, owner in owners.items() if owner != self._team.rank]
        self.backend.pool.map(Linear.quantise, received)


class SharedDeviceGPT(SharedGPT, DeviceGPT):
    """A SharedGPT whose workers have a device each. The table of contexts and its sums are on the host."""

    moves_contexts = False

    def __init__(self, team: Team, *arguments: Any) -> None:
        super().__init__(team, *arguments)
        self.captures: bool = self.captures and not self.config.contexts  # a graph cannot hold what the host adds


class SharedReplicas(TeamGPT, Replicas):
    """Replicas whose steps are divided among the workers. Workers exchange them when all replicas become their mean."""

    def __init__(self, team: Team, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._team = team
        self._diverged: ConfigError | None = None

    def step(self, inputs: Tensor, targets: Tensor, places: Tensor, first_share: int) -> None:
        """One step by each replica. Raises ConfigError for a diverged one: the first worker at once, all when the mean is due."""
        for i, rows in enumerate(self.row_shares(len(inputs))):
            own = rows if i % self._team.size == self._team.rank else slice(0)
            try:
                self.update_replica(i, inputs[own], targets[own], places[own])
            except ConfigError as error:
                self._diverged = error
        if self._diverged and not self.sync_is_due() and self._team.rank == 0:
            raise self._diverged
        if self.sync_is_due():
            n_diverged = torch.tensor([self._diverged is not None], dtype=torch.int32)
            self._team.sum_(n_diverged)
            if n_diverged:
                raise self._diverged or ConfigError("the GPT has diverged at another worker; take smaller steps")
            self._gather()
            self.average()
            super().compare()  # the mean, which all have computed; the steps of a replica are computed by one worker only

    def _gather(self) -> None:
        """Every worker receives all replicas."""
        team, gpts = self._team, (self, *self.others)
        tensors = [[t for gpt in gpts[i :: team.size] for t in gpt.learned_state().values()] for i in range(team.size)]
        packed = [torch.cat([t.flatten() for t in own]) if own else torch.empty(0) for own in tensors]
        team.broadcast_each(packed)
        for own, values in zip(tensors, packed, strict=True):
            for tensor, value in zip(own, values.split([t.numel() for t in own]), strict=True):
                tensor.copy_(value.view_as(tensor))

    def compare(self) -> None:
        """Every worker receives all replicas. They were compared when they last became their mean."""
        self._gather()


def padded(reason: str) -> bytes:
    """The reason why a worker cannot compute, or "", padded to REASON_BYTES: gathered values have one length."""
    return reason.encode()[:REASON_BYTES].ljust(REASON_BYTES)


def _fill(target: Tensor, compute: Callable[[], Tensor]) -> None:
    target.copy_(compute())


def _work(weight: Tensor) -> int:
    """The cost of orthogonalising a matrix, up to a constant factor."""
    short, long = sorted(weight.shape)
    return short * short * (short + 2 * long)


def _packed_zeros(
    shapes: Mapping[str, Sequence[int]], dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, dict[str, Tensor]]:
    """One tensor of zeros, and by name its parts, which have these shapes and share its memory."""
    sizes = [torch.Size(shape).numel() for shape in shapes.values()]
    packed = torch.zeros(sum(sizes), dtype=dtype, device=device)
    parts = zip(shapes.items(), packed.split(sizes), strict=True)
    return packed, {name: part.view(*shape) for (name, shape), part in parts}


def assign_work(work: Mapping[str, int], shares: Sequence[int]) -> dict[str, int]:
    """The worker of each piece of work. The largest piece is assigned first, each to the worker that would finish it earliest."""
    loads, owners = [0] * len(shares), {}
    workers = [i for i, share in enumerate(shares) if share]
    for name in sorted(work, key=lambda name: -work[name]):
        owner = min(workers, key=lambda i: (loads[i] + work[name]) / shares[i])
        loads[owner] += work[name]
        owners[name] = owner
    return {name: owners[name] for name in work}


def shared_gpt(team: Team, config: Config, backend: Backend, accelerator: Accelerator | None) -> TeamGPT:
    """The configuration's GPT, for every worker."""
    assert config.gpt
    if config.replicas:
        return SharedReplicas(team, config.replicas, config.gpt, config.seed, backend)
    if accelerator:
        return SharedDeviceGPT(team, accelerator, config.gpt, config.seed, backend)
    return SharedGPT(team, config.gpt, config.seed, backend)


class SharedLearner(OnlineLearner):
    """The first worker's learner, which has a GPT. It codes the same bits. Every method may raise WorkerLostError."""

    gpt: TeamGPT

    def __init__(self, team: Team, config: Config, backend: Backend, accelerator: Accelerator | None = None) -> None:
        self._team = team
        text = json.dumps(config.to_dict()).encode()
        with team.turn():
            team.send_command(MODEL, len(text))
            team.broadcast(torch.frombuffer(bytearray(text), dtype=torch.uint8))
            reasons = team.gather(padded(""))
        for i, reason in enumerate(reasons):
            if reason.strip():
                raise InexactMachineError(f"worker {i}: {reason.decode(errors='replace').strip()}")
        # Also with one thread: while this worker waits for the others, it codes.
        super().__init__(config, shared_gpt(team, config, backend, accelerator), step_thread=True)

    def load_state(self, arrays: Mapping[str, np.ndarray]) -> None:
        with self._team.turn():
            super().load_state(arrays)

    def state(self) -> dict[str, np.ndarray]:
        """`OnlineLearner.state`, after a check that all workers hold the same: a digest or a checkpoint will be made of it."""
        with self._team.turn():
            self._team.send_command(COMPARE)
            self.gpt.compare()
        return super().state()
