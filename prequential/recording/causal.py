"""The check for a look ahead: a row is predicted twice, with two futures. Up to there, the predictions must be equal.

A call in training is made again with its own arguments, copied before it: masks and positions of packed rows are where leaks are.
Only the ids of one row change. An argument that cannot be copied, such as a cache with gradients, is named in the record.
"""

import copy
import inspect
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
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
    """A call of the model in training: its ids and arguments before it, what it ran under; lost: why they cannot be copied."""

    ids: torch.Tensor
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    autocast: torch.autocast
    lost: Exception | None

    @classmethod
    def copied(cls, ids: torch.Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> "Call":
        """Tensors are copied without their gradients, other values by `copy.deepcopy`."""
        tensors = [each for each in (ids, *args, *kwargs.values()) if isinstance(each, torch.Tensor)]
        memo, lost, kind = {id(each): each.detach().clone() for each in tensors}, None, ids.device.type
        own_ids = memo[id(ids)]
        try:
            args, kwargs = copy.deepcopy((args, kwargs), memo)
        except Exception as error:  # whatever the objects of others raise
            lost = error
        autocast = torch.autocast(kind, torch.get_autocast_dtype(kind), torch.is_autocast_enabled(kind))
        return cls(own_ids, args, kwargs, autocast, lost)

    def logits(self, model: Any, ids: torch.Tensor) -> torch.Tensor | None:
        """The logits (rows, columns, V) of the call with other ids (rows, columns). It has no targets if they leave no logits."""
        inner = getattr(model, "module", getattr(model, "_orig_mod", model))  # DistributedDataParallel, torch.compile
        names = [*inspect.signature(inner.forward).parameters, *[""] * len(self.args)][: len(self.args)]
        for without in ((), TARGETS):
            memo = {id(self.ids): ids.reshape(self.ids.shape).to(self.ids.dtype)}
            args, kwargs = copy.deepcopy((self.args, self.kwargs), memo)
            given = zip((*names, *kwargs), (*args, *kwargs.values()), strict=True)
            values = [None if any(map(name.count, without)) else value for name, value in given]
            n = len(args)
            logits = logits_of(model(*values[:n], **dict(zip(kwargs, values[n:], strict=True))), ids.shape)
            if logits is not None:
                return logits
        return None


class CallHook:
    """A forward hook: `saw` gets ids and arguments of calls of `model` in training. Copies of the model forget the hook."""

    def __init__(self, model: Any = None, saw: Callable[..., None] | None = None) -> None:
        self._model, self._saw = model, saw

    @torch.compiler.disable
    def __call__(self, model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if model is self._model and self._saw and model.training and torch.is_grad_enabled():
            ids = named_ids(args, kwargs)
            if ids is not None:
                self._saw(ids, args, kwargs)

    def __reduce__(self) -> Any:
        return CallHook, ()


def named_ids(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> torch.Tensor | None:
    """The ids among the arguments of a model: by name, or the first tensor of integers of one or two dimensions."""
    given: dict[str, Any] = {str(i): value for i, value in enumerate(args)} | dict(kwargs)
    for value in [*given.values()]:
        if isinstance(value, Mapping):
            given |= {str(name): each for name, each in value.items()}
    for name in (*NAMES, *(name for name in given if not any(part in name for part in OTHER_IDS))):
        value = given.get(name)
        if isinstance(value, torch.Tensor) and value.dim() in (1, 2) and value.dtype in (torch.int64, torch.int32):
            return value
    return None


def rows_of(ids: torch.Tensor) -> torch.Tensor:
    """Ids as (rows, columns) int64."""
    return (ids if ids.dim() == 2 else ids[None]).detach().long()


def logits_of(output: Any, shape: torch.Size) -> torch.Tensor | None:
    """The logits, as (rows, columns, V), in what a model returns. shape: (rows, columns). None if there are no such ones."""
    if isinstance(output, Mapping):
        output = output.get("logits")
    output = getattr(output, "logits", output)
    for value in output if isinstance(output, tuple | list) else [output]:  # the loss may come first
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
        raise call.lost
    words = random_words(step, "recorder/audit", 3)
    ids = rows_of(call.ids)
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
    kept = []
    with _quiet(model, call) as reseed:  # even if nothing changed: the ranks of a sharded model must call it together
        for each in (ids, ids, changed):
            reseed()
            logits = logits_of(forward(model, each), ids.shape) if forward else call.logits(model, each)
            if logits is None:
                shape = f"(rows, columns, V) for ids {tuple(ids.shape)}"
                raise ValueError(f"no logits {shape}; rec.attach(forward=...) can help")
            kept.append(logits[row, :place][used[:place]])
    if torch.equal(changed, ids):
        raise ValueError("no ids could be exchanged: the batch has one id only, or the row one column or no target")
    predicted = [each.float().log_softmax(-1) for each in kept]
    moves = [(predicted[0] - each).abs().nan_to_num(nan=0.0) for each in predicted[1:]]  # -inf less -inf is no move
    noise, moved = (float(each.max()) for each in moves)
    if moved > max(MAX_MOVE, 4 * noise):
        return f"the model looks ahead: with other ids from column {place} on, earlier predictions moved by {moved:.2g} nats"
    return None


@contextmanager
def _quiet(model: Any, call: Call) -> Iterator[Callable[[], None]]:
    """A function after which equal calls draw equal random numbers. In the end, generators, buffers, and the numbers and tensors
    that modules have as attributes are those from before.
    """
    device, before = call.ids.device, list[Any]()
    for module in model.modules():
        own, buffers = vars(module), module._buffers
        before += [(buffers, name, x, x.clone()) for name, x in buffers.items() if x is not None]
        before += [(own, name, x, None) for name, x in own.items() if isinstance(x, int | float | torch.Tensor)]
    own = [value for module in model.modules() for value in vars(module).values() if isinstance(value, torch.Generator)]
    states = [(generator, generator.get_state()) for generator in own]
    of_python, of_numpy = random.getstate(), np.random.get_state()

    def reseed() -> None:
        random.seed(0)
        np.random.seed(0)
        for generator in (torch.default_generator, *own):
            generator.manual_seed(0)
        if torch.cuda.is_available():
            torch.cuda.manual_seed(0)  # of the current device, whose state comes back

    try:
        with torch.no_grad(), torch.random.fork_rng([device] if device.type == "cuda" else []), call.autocast:
            yield reseed
    finally:
        random.setstate(of_python)
        np.random.set_state(of_numpy)
        for generator, state in states:
            generator.set_state(state)
        with torch.no_grad():
            for place, name, value, contents in before:
                place[name] = value if contents is None else value.copy_(contents)
