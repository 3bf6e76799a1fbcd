"""The check for a look ahead: a row is predicted twice, with two futures. Up to there, the predictions must be equal."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch

from prequential.exact.arrays import random_words
from prequential.recording.score import IGNORED

MAX_MOVE = 1e-3  # nats of a log-probability: another future may not move it by more than rounding does
NAMES = ("input_ids", "inputs", "idx", "tokens", "ids", "x")
OTHER_IDS = ("mask", "position", "label", "target", "segment", "type")  # parts of names of other tensors of integers


@dataclass(frozen=True)
class Call:
    """A call of the model in training: ids (rows, columns), and the autocast that it ran under, if any."""

    ids: torch.Tensor
    autocast: torch.dtype | None


class CallHook:
    """A forward hook that tells `saw` about calls of `model` in training. Copies and pickles of the model forget it."""

    def __init__(self, model: Any = None, saw: Callable[[Call], None] | None = None) -> None:
        self._model, self._saw = model, saw

    @torch.compiler.disable
    def __call__(self, model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if model is self._model and self._saw and model.training and torch.is_grad_enabled():
            ids = named_ids(args, kwargs)
            if ids is not None:
                kind = ids.device.type
                autocast = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None
                self._saw(Call(ids.detach().long(), autocast))

    def __reduce__(self) -> Any:
        return CallHook, ()

    def __deepcopy__(self, memo: Any) -> "CallHook":
        return CallHook()


def named_ids(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> torch.Tensor | None:
    """The ids among the arguments of a model, as (rows, columns): by name, or the first tensor of integers."""
    given: dict[str, Any] = {str(i): value for i, value in enumerate(args)} | dict(kwargs)
    for value in (*args, *kwargs.values()):
        if isinstance(value, Mapping):
            given |= {str(name): each for name, each in value.items()}
    for name in (*NAMES, *(name for name in given if not any(part in name for part in OTHER_IDS))):
        value = given.get(name)
        if isinstance(value, torch.Tensor) and value.dim() in (1, 2) and value.dtype in (torch.int64, torch.int32):
            return value if value.dim() == 2 else value[None]
    return None


def look_ahead(
    model: Any, call: Call, targets: torch.Tensor | None, forward: Callable[[Any, Any], Any] | None, step: int
) -> str | None:
    """What is wrong with a drawn row of a call; None if nothing moves. targets: of the same rows, or None.

    Other ids come from the batch itself. Only predictions of targets that are used count. Raises ValueError if nothing can be
    compared; whatever the model raises.
    """
    words = random_words(step, "recorder/audit", 3)
    row = int(words[0] % len(call.ids))
    first, n_columns = call.ids[row : row + 1], call.ids.shape[1]
    used = torch.ones(n_columns, dtype=torch.bool, device=first.device)
    if targets is not None and targets.shape[0] == len(call.ids):
        used[: targets.shape[1]] = targets[row, :n_columns] != IGNORED
    places = torch.nonzero(used[: n_columns - 1])[:, 0] + 1
    if not len(places):
        raise ValueError("rows of one column")
    place = int(places[int(words[1] % len(places))])
    pool = call.ids.flatten()
    others = pool[pool != first[0, place]]
    if not len(others):
        raise ValueError("all ids of a batch are equal")
    drawn = torch.arange(n_columns, device=first.device) * 7919 + int(words[2] % len(others))
    changed = torch.where(torch.arange(n_columns, device=first.device) >= place, others[drawn % len(others)], first)
    with _quiet(model, call):
        predicted = [_log_probabilities(model, ids, forward)[:place][used[:place]] for ids in (first, first, changed)]
    noise, moved = (float((predicted[0] - other).abs().max()) for other in predicted[1:])
    if moved > max(MAX_MOVE, 4 * noise):
        return f"the model looks ahead: with other ids from column {place} on, earlier predictions moved by {moved:.2g} nats"
    return None


def _log_probabilities(model: Any, ids: torch.Tensor, forward: Callable[[Any, Any], Any] | None) -> torch.Tensor:
    """Log-softmax of the model's logits, (columns, V)."""
    found = forward(model, ids) if forward else model(ids)
    if forward is None:
        found = found.logits if hasattr(found, "logits") else found[0] if isinstance(found, tuple | list) else found
    shape = tuple(getattr(found, "shape", ()))
    if len(shape) != 3 or shape[:2] != tuple(ids.shape):
        raise ValueError(
            f"model(inputs) gives shape {shape} for inputs {tuple(ids.shape)}; rec.attach(forward=...) can help"
        )
    return found[0].float().log_softmax(-1)


@contextmanager
def _quiet(model: Any, call: Call) -> Iterator[None]:
    """Equal calls draw equal random numbers, as the call in training did; afterwards neither they nor buffers have changed."""
    device = call.ids.device
    buffers = [(buffer, buffer.clone()) for buffer in model.buffers()]
    autocast = torch.autocast(device.type, call.autocast) if call.autocast else nullcontext()
    generators = [device] if device.type == "cuda" else []
    try:
        with torch.no_grad(), torch.random.fork_rng(generators), autocast, _reseeding(model):
            yield
    finally:
        with torch.no_grad():
            for buffer, value in buffers:
                buffer.copy_(value)


@contextmanager
def _reseeding(model: Any) -> Iterator[None]:
    """Each call of the model begins with the same seed, so that dropout leaves the same out."""

    def reseed(*_: Any) -> None:
        torch.default_generator.manual_seed(0)
        if torch.cuda.is_available():
            torch.cuda.manual_seed(0)  # of the current device, whose state comes back

    handle = model.register_forward_pre_hook(reseed)
    try:
        yield
    finally:
        handle.remove()
