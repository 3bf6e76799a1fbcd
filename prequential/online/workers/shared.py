"""Workers: the processes that torchrun starts of one command take the GPT's steps together. The bits are those of one process.

The first worker runs the command: it codes, writes and talks. The others hold the GPT's weights and wait for its word. A step's
rows are shared out; each worker takes its own forward and backward, and every sum over rows is finished by all (docs/WORKERS.md):

    rows            first worker -> all
    column peaks    the largest of all workers'     (float32 magnitudes, compared as integers)
    column sums     the sum of all workers'         (int32, bounded for all rows of the step together)
    momentum, Adam  by each worker, alike
    matrices        each orthogonalised by one worker, and sent to all

Of replicas (model/gpt/replicas.py) each worker takes the whole steps of its own, and all meet when they become their mean.
How rows, matrices and replicas are shared out changes the speed only. The first worker takes a smaller share of a step,
as it codes meanwhile.
"""

import json
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from time import process_time
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch

from prequential.errors import ConfigError, FaultError, InexactMachineError, WorkerLostError
from prequential.exact.digest import digest
from prequential.exact.matmul import Matmul
from prequential.exact.plain import TINY
from prequential.exact.pool import Pool
from prequential.exact.tables import HOST
from prequential.model.config import N_SYMBOLS, Config
from prequential.model.gpt.context_table import ContextGradient
from prequential.model.gpt.device import Accelerator, DeviceGPT
from prequential.model.gpt.gpt import GPT, NOT_LEARNED, EmbeddingGradient, MatrixGradient
from prequential.model.gpt.replicas import Replicas, parts
from prequential.model.learner import Learner
from prequential.online import accelerators
from prequential.online.workers.team import Team, launched

if TYPE_CHECKING:
    from prequential.online.runtime import Runtime

Tensor = torch.Tensor

STOP, MODEL, LOAD, STEP, COMPARE = range(5)  # what the first worker tells the others
FULL_SHARE = 64  # every worker's but the first one's, whose own lies between 0 and this
CARRIED = "carried."  # of a GPT's tensors: what only a reader of the stream has
CONTEXTS = "contexts"  # the gradient of the table of contexts, of other rows in each step
REASON_BYTES = 300
BUSY = "busy_s"  # among the peaks, for the first worker to adapt its share by


class _Shared(GPT):
    """A GPT that every worker holds: what the first one is asked to do, all do. Reading is the first one's alone."""

    _team: Team
    first_share = float(FULL_SHARE)  # of a step's rows, the first worker's; it is sent with each step

    def update(self, inputs: Tensor, targets: Tensor) -> None:
        share = round(self.first_share)
        with self._team.turn():
            self._team.tell(STEP, *targets.shape, share)
            self._team.spread(torch.cat((inputs, targets[..., None]), -1).to(torch.uint8))
            self.step(inputs, targets, share)

    def step_of_first(self, n_rows: int, n_columns: int, share: int) -> None:
        """What the first worker's `update` is elsewhere."""
        rows = torch.empty(n_rows, n_columns, self.config.n_inputs + 1, dtype=torch.uint8)
        self._team.spread(rows)
        self.step(rows[..., :-1].to(torch.int64), rows[..., -1].to(torch.int64), share)

    @abstractmethod
    def step(self, inputs: Tensor, targets: Tensor, first_share: int) -> None:
        """One step by all workers, on the same rows; the weights with which the first worker reads are then right there."""

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        """As a GPT's, by all workers: the others' tensors become the first one's, which must be right."""
        self.end()
        own = self.state()
        if self._team.rank == 0:
            super().load_state(tensors)
            self._team.tell(LOAD)
            own = self.state()
        for name, tensor in own.items():
            if not name.startswith(CARRIED):
                self._team.spread(tensor)
        if self._team.rank:
            super().load_state(own)

    def compare(self) -> None:
        """By all workers; the first one raises FaultError unless all hold the same."""
        self.end()
        shared = {name: t for name, t in self.state().items() if not name.startswith(NOT_LEARNED)}
        digests = self._team.all_of(digest(shared))
        others = [str(i) for i, value in enumerate(digests) if value != digests[0]]
        if others and self._team.rank == 0:
            raise FaultError(
                f"the weights of worker {', '.join(others)} differ from worker 0's: a machine's arithmetic is not exact, or its "
                "memory is faulty; run `prequential doctor` on each"
            )


class SharedGPT(_Shared):
    """A GPT whose steps the workers take together: the bits are those of a GPT, and after each step all hold the same."""

    def __init__(self, team: Team, *arguments: Any) -> None:
        """arguments: of a GPT, or of a DeviceGPT."""
        super().__init__(*arguments)
        self._team, self._device = team, self._weights.device
        self._measured_s = process_time()
        hidden = {name: linear.weight for name, linear in self._hidden.items()}
        self._parameters = {"head": self._weights.head.weight, **hidden, "embedding": self._weights.embedding}
        peaks = {n: p.shape[-1:] if p.dim() == 2 else (1,) for n, p in self._parameters.items()}
        self._peaks = _in_one(peaks | {CONTEXTS: (1,), BUSY: (1,)}, torch.float32, self._device)
        self._sums = _in_one({n: p.shape for n, p in self._parameters.items()}, torch.int32, self._device)

    def step(self, inputs: Tensor, targets: Tensor, first_share: int) -> None:
        """One optimiser step by all workers, on the same rows and of the same weights, which are then the same again."""
        team, pool = self._team, self._pool
        shares = [first_share] + [FULL_SHARE] * (team.size - 1)
        self._weights.contexts.commit()  # of the step before, elsewhere than at the first worker, which closes segments
        factor = self._next_factor()
        own = parts(len(inputs), shares)[team.rank]
        gradients: dict[str, Any] = {}
        (all_peaks, peaks), (all_sums, sums) = self._peaks, self._sums
        all_peaks.fill_(TINY)
        own_s = self._busy_s()
        if team.rank:
            peaks[BUSY].fill_(own_s)
        if own.stop > own.start:
            for name, gradient in self._gradients(inputs[own].to(self._device), targets[own].to(self._device)):
                gradients[name] = gradient
                pool.start(partial(_fill, peaks[name], gradient.peaks))
            pool.finish()
        team.largest_(all_peaks)
        self._adapt(own_s, float(peaks[BUSY]))
        self._learn_contexts(gradients.pop(CONTEXTS, None), inputs, peaks[CONTEXTS].cpu())
        if not gradients:
            all_sums.zero_()
        for name, gradient in gradients.items():
            pool.start(partial(_fill, sums[name], partial(gradient.sums, peaks[name])))
        pool.finish()
        team.sum_(all_sums)
        takers = shared_out({name: _work(linear.weight) for name, linear in self._hidden.items()}, shares)
        for name in self._parameters:
            pool.start(partial(self._learn_shared, name, factor, takers.get(name, team.rank) == team.rank))
        pool.finish()
        self._exchange(takers)
        self._check_finite()

    def _learn_contexts(self, own: ContextGradient | None, inputs: Tensor, peak: Tensor) -> None:
        """A step of the table of contexts: the rows are those of all inputs, the sums by all workers."""
        if not self.config.contexts:
            return
        table = self._weights.contexts
        touched = table.places(inputs.flatten(0, 1)).unique()
        sums = own.sums(touched, peak) if own else torch.zeros(len(touched), self.config.width, dtype=torch.int32)
        self._team.sum_(sums)
        table.learn_from(touched, sums, peak)

    def _busy_s(self) -> float:
        """Processor time of this worker since it was last asked."""
        before, self._measured_s = self._measured_s, process_time()
        return self._measured_s - before

    def _adapt(self, own_s: float, others_s: float) -> None:
        """The first worker's share of later steps, so that it is as busy as the busiest other: it codes besides.

        With devices, whose time is another: equal shares.
        """
        if self._device != HOST:
            return
        share = self.first_share - (own_s - others_s) / (own_s + others_s) * FULL_SHARE / 2
        self.first_share = min(max(share, 0.0), float(FULL_SHARE))

    def _learn_shared(self, name: str, factor: float, takes: bool) -> None:
        """A step of the named parameter; of a matrix that another worker takes, its momentum's."""
        kind = EmbeddingGradient if name == "embedding" else MatrixGradient
        gradient = kind.finished(self._ops, self._sums[1][name], self._peaks[1][name])
        if takes:
            self._learn(name, lambda: gradient, factor)
        else:
            self._direction(name, gradient)

    def _exchange(self, takers: Mapping[str, int]) -> None:
        """Every matrix becomes that of the worker who took it."""
        names = [[name for name, taker in takers.items() if taker == i] for i in range(self._team.size)]
        weights = [[self._parameters[name].flatten() for name in own] for own in names]
        packed = [torch.cat(w) if w else torch.empty(0, device=self._device) for w in weights]
        self._team.from_each(packed)
        for i, own in enumerate(names):
            if i != self._team.rank:
                for name, values in zip(own, packed[i].split([len(w) for w in weights[i]]), strict=True):
                    self._hidden[name].weight.view(-1).copy_(values)
                    self._pool.start(self._hidden[name].quantise)
        self._pool.finish()


class SharedDeviceGPT(SharedGPT, DeviceGPT):
    """The same, of which every worker has a device of its own; what the table of contexts sums is on the host."""


class SharedReplicas(_Shared, Replicas):
    """Replicas, of which each worker takes the steps of its own, and knows of the others' when all become their mean."""

    def __init__(self, team: Team, *arguments: Any) -> None:
        """arguments: of Replicas."""
        super().__init__(*arguments)
        self._team = team
        self._diverged: ConfigError | None = None

    def step(self, inputs: Tensor, targets: Tensor, first_share: int) -> None:
        """Raises, by all workers alike when all become their mean, ConfigError for a replica that has diverged."""
        for i, rows in enumerate(self.shares(len(inputs))):
            own = rows if i % self._team.size == self._team.rank else slice(0)
            try:
                self.learn(i, inputs[own], targets[own])
            except ConfigError as error:
                self._diverged = error
        if self._diverged and not self.is_due() and self._team.rank == 0:
            raise self._diverged
        if self.is_due():
            n_diverged = torch.tensor([self._diverged is not None], dtype=torch.int32)
            self._team.sum_(n_diverged)
            if n_diverged:
                raise self._diverged or ConfigError("the GPT has diverged at another worker; take smaller steps")
            self._gather()
            self.average()
            super().compare()  # what all have computed; of its own steps each worker's word is taken

    def _gather(self) -> None:
        """Every worker's replicas become everyone's."""
        team, gpts = self._team, (self, *self.others)
        tensors = [[t for gpt in gpts[i :: team.size] for t in gpt.learned_state().values()] for i in range(team.size)]
        packed = [torch.cat([t.flatten() for t in own]) if own else torch.empty(0) for own in tensors]
        team.from_each(packed)
        for own, values in zip(tensors, packed, strict=True):
            for tensor, value in zip(own, values.split([t.numel() for t in own]), strict=True):
                tensor.copy_(value.view_as(tensor))

    def compare(self) -> None:
        """All come to hold what each has learned since the last mean, where they were compared."""
        self._gather()


def _padded(reason: str) -> bytes:
    """Why a worker cannot compute, or "", in as many bytes as any other's."""
    return reason.encode()[:REASON_BYTES].ljust(REASON_BYTES)


def _fill(room: Tensor, compute: Callable[[], Tensor]) -> None:
    room.copy_(compute())


def _work(weight: Tensor) -> int:
    """What orthogonalising a matrix takes, in a unit of its own."""
    short, long = sorted(weight.shape)
    return short * short * (short + 2 * long)


def _in_one(
    shapes: Mapping[str, Sequence[int]], dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, dict[str, Tensor]]:
    """One tensor, and by name the parts of it with these shapes."""
    sizes = [torch.Size(shape).numel() for shape in shapes.values()]
    whole = torch.zeros(sum(sizes), dtype=dtype, device=device)
    cut = zip(shapes.items(), whole.split(sizes), strict=True)
    return whole, {name: part.view(*shape) for (name, shape), part in cut}


def shared_out(work: Mapping[str, int], shares: Sequence[int]) -> dict[str, int]:
    """Who takes each piece of work: the largest first, each by whom it leaves the earliest done."""
    loads, takers = [0] * len(shares), {}
    workers = [i for i, share in enumerate(shares) if share]
    for name in sorted(work, key=lambda name: -work[name]):
        taker = min(workers, key=lambda i: (loads[i] + work[name]) / shares[i])
        loads[taker] += work[name]
        takers[name] = taker
    return {name: takers[name] for name in work}


def shared_gpt(
    team: Team, config: Config, ops: ModuleType, matmul: Matmul, pool: Pool, accelerator: Accelerator | None
) -> _Shared:
    """The configuration's GPT, as every worker holds it."""
    assert config.gpt
    arguments = config.gpt, N_SYMBOLS, config.seed, ops, matmul, pool
    if config.replicas:
        return SharedReplicas(team, config.replicas, *arguments)
    return SharedDeviceGPT(team, accelerator, *arguments[:-1]) if accelerator else SharedGPT(team, *arguments)


class SharedLearner(Learner):
    """The first worker's Learner. Same bits. Every method may raise WorkerLostError."""

    def __init__(
        self,
        team: Team,
        config: Config,
        ops: ModuleType,
        matmul: Matmul | None,
        pool: Pool,
        accelerator: Accelerator | None = None,
    ) -> None:
        super().__init__(config, ops, matmul, pool)
        self._team = team
        self._shared: _Shared | None = None
        if config.gpt:
            assert matmul is not None
            text = json.dumps(config.to_dict()).encode()
            with team.turn():
                team.tell(MODEL, len(text))
                team.spread(torch.frombuffer(bytearray(text), dtype=torch.uint8))
                reasons = team.all_of(_padded(""))
            for i, reason in enumerate(reasons):
                if reason.strip():
                    raise InexactMachineError(f"worker {i}: {reason.decode(errors='replace').strip()}")
            self.gpt = self._shared = shared_gpt(team, config, ops, matmul, pool, accelerator)
            # Also with one thread: while this worker waits for the others, it codes.
            self._aside = self._aside or ThreadPoolExecutor(1, "prequential-learner", torch.set_num_threads, (1,))

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        with self._team.turn():
            super().load_state(tensors)

    def state(self) -> dict[str, Tensor]:
        """As a Learner's, once all workers hold the same: a digest or a checkpoint is going to be made of it."""
        if self._shared:
            with self._team.turn():
                self._team.tell(COMPARE)
                self._shared.compare()
        return super().state()


def serve(team: Team, runtime: "Runtime") -> None:
    """What a worker does that is not the first: its part of every step, until the first has done."""
    gpt: _Shared | None = None
    while True:
        word, *numbers = team.hear()
        if word == STOP:
            return
        if word == MODEL:
            text = torch.empty(numbers[0], dtype=torch.uint8)
            team.spread(text)
            config = Config.from_dict(json.loads(bytes(text.tolist())))
            try:
                (ops, matmul, pool), accelerator = runtime.parts(config), runtime.accelerator(config)
            except InexactMachineError as error:  # the first worker says so, and ends the run
                team.all_of(_padded(str(error)))
                continue
            team.all_of(_padded(""))
            assert matmul
            gpt = shared_gpt(team, config, ops, matmul, pool, accelerator)
            continue
        assert gpt
        if word == LOAD:
            gpt.load_state({})
        elif word == STEP:
            with suppress(ConfigError):  # a replica has diverged: the first worker raises the same, and ends the run
                gpt.step_of_first(*numbers)
        else:
            gpt.compare()


def run_by_all(runtime: "Runtime", work: Callable[["Runtime"], int]) -> int:
    """What work(runtime) returns. Of several processes that torchrun started, the first does the work, and the others serve it.

    They return 0 when it has done, and 1 if it is lost.
    """
    if not launched():
        return work(runtime)
    if runtime.audit_every:
        raise ConfigError("an audit is of one process: leave out either --audit-every or torchrun")
    if runtime.device == "cuda":
        accelerators.check_own_devices()
        accelerators.own_device()
    team = Team(with_devices=runtime.device == "cuda")
    runtime = replace(runtime, team=team)
    if team.rank:
        try:
            serve(team, runtime)
        except WorkerLostError:
            return 1
        finally:
            with suppress(WorkerLostError):
                team.leave()
        return 0
    try:
        return work(runtime)
    finally:
        with suppress(WorkerLostError), team.turn():
            team.tell(STOP)
        with suppress(WorkerLostError):
            team.leave()
