"""The check for a look ahead: a row is predicted twice, with two futures. Up to there, the predictions must be equal.

A call in training is made again with its own arguments, copied before it: masks and positions of packed rows are where leaks are.
Only the ids of one row change. An argument that cannot be copied, such as a cache with gradients, is named in the record.
"""

import copy
import inspect
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from prequential.exact.arrays import random_words
from prequential.recording.score import IGNORED

MAX_MOVE = 1e-3  # nats of a log-probability: another future may not move it by more than rounding does
NAMES = ("input_ids", "inputs", "idx", "tokens", "ids", "x")
OTHER_IDS = ("mask", "position", "label", "target", "segment", "type")  # parts of names of other tensors of integers
TARGETS = ("label", "target")  # parts of names of what a model may be called without


@dataclass(frozen=True)
class Call:
    """A call of the model in training. ids: of its arguments, which are by position or name, and as they were before it.

    lost: the arguments that cannot be copied. autocast: what the call ran under, if anything.
    """

    ids: torch.Tensor
    arguments: dict[Any, Any]
    lost: list[Any]
    autocast: torch.dtype | None

    @classmethod
    def copied(cls, given: dict[Any, Any], ids: torch.Tensor) -> "Call":
        """Tensors are copied without their gradients, other values by `copy.deepcopy`."""
        memo = {id(each): each.detach().clone() for each in (ids, *given.values()) if isinstance(each, torch.Tensor)}
        own: dict[Any, Any] = {}
        lost = []
        for key, value in given.items():
            try:
                own[key] = copy.deepcopy(value, memo)
            except Exception:  # whatever the objects of others raise
                lost.append(key)
        kind = ids.device.type
        autocast = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None
        return cls(memo[id(ids)], own, lost, autocast)

    def logits(self, model: Any, ids: torch.Tensor, forward: Callable[[Any, Any], Any] | None) -> torch.Tensor:
        """The logits (rows, columns, V) of the call with other ids (rows, columns). It has no targets if they leave no logits."""
        for without in ((), TARGETS):
            memo = {id(self.ids): ids.reshape(self.ids.shape).to(self.ids.dtype)}
            given = {
                key: None if any(part in _name(model, key) for part in without) else copy.deepcopy(value, memo)
                for key, value in self.arguments.items()
            }
            args = [given.pop(key) for key in [*given] if isinstance(key, int)]
            found = logits_of(forward(model, ids) if forward else model(*args, **given), ids.shape)
            if found is not None:
                return found
        raise ValueError(f"no logits (rows, columns, V) for ids {tuple(ids.shape)}; rec.attach(forward=...) can help")


def _name(model: Any, key: int | str) -> str:
    """Of an argument of the model."""
    inner = getattr(model, "module", getattr(model, "_orig_mod", model))  # of DistributedDataParallel, of torch.compile
    parameters = inspect.signature(inner.forward).parameters.values()
    names = [each.name for each in parameters if each.kind < each.VAR_POSITIONAL]
    return key if isinstance(key, str) else names[key] if key < len(names) else f"argument {key + 1}"


class CallHook:
    """A forward hook that tells `saw` about calls of `model` in training. Copies and pickles of the model forget it.

    saw: gets the ids (rows, columns), and a function that copies the call.
    """

    def __init__(self, model: Any = None, saw: Callable[..., None] | None = None) -> None:
        self._model, self._saw = model, saw

    @torch.compiler.disable
    def __call__(self, model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if model is self._model and self._saw and model.training and torch.is_grad_enabled():
            ids = named_ids(args, kwargs)
            if ids is not None:
                self._saw(_rows(ids), lambda: Call.copied(dict(enumerate(args)) | kwargs, ids))

    def __reduce__(self) -> Any:
        return CallHook, ()

    def __deepcopy__(self, memo: Any) -> "CallHook":
        return CallHook()


def named_ids(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> torch.Tensor | None:
    """The ids among the arguments of a model: by name, or the first tensor of integers of one or two dimensions."""
    given: dict[str, Any] = {str(i): value for i, value in enumerate(args)} | dict(kwargs)
    for value in (*args, *kwargs.values()):
        if isinstance(value, Mapping):
            given |= {str(name): each for name, each in value.items()}
    for name in (*NAMES, *(name for name in given if not any(part in name for part in OTHER_IDS))):
        value = given.get(name)
        if isinstance(value, torch.Tensor) and value.dim() in (1, 2) and value.dtype in (torch.int64, torch.int32):
            return value
    return None


def _rows(ids: torch.Tensor) -> torch.Tensor:
    return (ids if ids.dim() == 2 else ids[None]).detach().long()


def logits_of(found: Any, shape: torch.Size) -> torch.Tensor | None:
    """The logits, as (rows, columns, V), in what a model returns. shape: (rows, columns). None if there are no such ones."""
    if isinstance(found, Mapping):
        found = found.get("logits")
    found = getattr(found, "logits", found)
    for value in found if isinstance(found, tuple | list) else [found]:  # the loss may come first
        is_float = isinstance(value, torch.Tensor) and value.is_floating_point()
        if is_float and value.dim() > 1 and value.shape[:-1].numel() == shape.numel():
            return value.reshape(*shape, -1)
    return None


def look_ahead(
    model: Any, call: Call, targets: torch.Tensor | None, forward: Callable[[Any, Any], Any] | None, step: int
) -> str | None:
    """What is wrong with a drawn row of a call; None if nothing moves. targets: of the same rows, or None.

    The whole batch is predicted again, as nobody knows what the arguments mean for one row. Other ids come from the batch. Only
    predictions of targets that are used count. Raises ValueError if nothing can be compared; whatever the model raises.
    """
    if call.lost and not forward:
        raise ValueError(f"called with {', '.join(_name(model, key) for key in call.lost)}")
    words = random_words(step, "recorder/audit", 3)
    ids = _rows(call.ids)
    row, n_columns = int(words[0] % len(ids)), ids.shape[1]
    used = torch.ones(n_columns, dtype=torch.bool, device=ids.device)
    if targets is not None and targets.shape[0] == len(ids):
        used[: targets.shape[1]] = targets[row, :n_columns] != IGNORED
    places = torch.nonzero(used[: n_columns - 1])[:, 0] + 1
    place = int(places[int(words[1] % len(places))]) if len(places) else n_columns
    others = ids[ids != ids[row, place % n_columns]]
    changed = ids.clone()
    if len(others):
        drawn = torch.arange(place, n_columns, device=ids.device) * 7919 + int(words[2] % len(others))
        changed[row, place:] = others[drawn % len(others)]
    with _quiet(model, call):  # even if nothing changed: the ranks of a sharded model must call it together
        kept = [call.logits(model, each, forward)[row, :place][used[:place]] for each in (ids, ids, changed)]
    if torch.equal(changed, ids):
        raise ValueError("no ids could be exchanged: the batch has one id only, or the row one column or no target")
    predicted = [each.float().log_softmax(-1) for each in kept]
    moves = [(predicted[0] - each).abs().nan_to_num(nan=0.0) for each in predicted[1:]]  # -inf less -inf is no move
    noise, moved = (float(each.max()) for each in moves)
    if moved > max(MAX_MOVE, 4 * noise):
        return f"the model looks ahead: with other ids from column {place} on, earlier predictions moved by {moved:.2g} nats"
    return None


@contextmanager
def _quiet(model: Any, call: Call) -> Iterator[None]:
    """Equal calls draw equal random numbers, as the call in training did; afterwards neither they nor buffers have changed."""
    device = call.ids.device
    buffers = [(buffer, buffer.clone()) for buffer in model.buffers()]
    autocast = torch.autocast(device.type, call.autocast) if call.autocast else nullcontext()
    devices = [device] if device.type == "cuda" else []
    own = [value for module in model.modules() for value in vars(module).values() if isinstance(value, torch.Generator)]
    states = [(generator, generator.get_state()) for generator in own]
    of_python, of_numpy = random.getstate(), np.random.get_state()
    try:
        with torch.no_grad(), torch.random.fork_rng(devices), autocast, _reseeding(model, own):
            yield
    finally:
        random.setstate(of_python)
        np.random.set_state(of_numpy)
        for generator, state in states:
            generator.set_state(state)
        with torch.no_grad():
            for buffer, value in buffers:
                buffer.copy_(value)


@contextmanager
def _reseeding(model: Any, generators: Sequence[torch.Generator]) -> Iterator[None]:
    """Each call of the model begins with the same seed, so that dropout leaves the same out. generators: of its modules."""

    def reseed(*_: Any) -> None:
        random.seed(0)
        np.random.seed(0)
        for generator in generators:
            generator.manual_seed(0)
        torch.default_generator.manual_seed(0)
        if torch.cuda.is_available():
            torch.cuda.manual_seed(0)  # of the current device, whose state comes back

    handle = model.register_forward_pre_hook(reseed)
    try:
        yield
    finally:
        handle.remove()
