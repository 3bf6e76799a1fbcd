"""The check for a look ahead: a row is predicted twice, with two futures. Up to there, the predictions must be equal."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from prequential.errors import ConfigError
from prequential.exact.arrays import random_words

if TYPE_CHECKING:
    import torch

MAX_MOVE = 1e-4  # of a probability: another future may not move it by more than rounding does


def named_ids(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> "torch.Tensor | None":
    """The ids among the arguments of a model: the first tensor of integers with two dimensions."""
    import torch

    named = [kwargs[name] for name in ("input_ids", "inputs", "idx", "x") if name in kwargs]
    for value in (*named, *args, *kwargs.values()):
        if isinstance(value, torch.Tensor) and value.dim() == 2 and value.dtype in (torch.int64, torch.int32):
            return value
    return None


def token_ids(inputs: Any, n_rows: int) -> "torch.Tensor | None":
    """Inputs as (rows, columns) int64; None if they are no ids. Raises ConfigError for another number of rows."""
    import torch

    if not isinstance(inputs, torch.Tensor) or inputs.is_floating_point():
        return None
    ids = (inputs if inputs.dim() == 2 else inputs.reshape(1, -1)).detach()
    if len(ids) != n_rows:
        raise ConfigError(f"rec.score(): {len(ids)} rows of inputs for {n_rows} rows of targets")
    return ids.long()


def look_ahead(
    model: Any, inputs: "torch.Tensor", forward: Callable[[Any, Any], Any] | None, step: int, n_symbols: int
) -> str | None:
    """What is wrong with a drawn row of the inputs; None if nothing moves. Raises ConfigError if the model cannot be called."""
    import torch

    n_rows, n_columns = inputs.shape
    if n_columns < 2:
        return None
    words = random_words(step, "recorder/audit", 2 + n_columns)
    row, place = int(words[0] % n_rows), 1 + int(words[1] % (n_columns - 1))
    first = inputs[row : row + 1]
    others = torch.tensor([int(word % (n_symbols - 1)) for word in words[2:]], device=inputs.device, dtype=inputs.dtype)
    changed = torch.where(
        torch.arange(n_columns, device=inputs.device) >= place, (first + 1 + others) % n_symbols, first
    )
    with _quiet(model, inputs.device):
        predicted = [_probabilities(model, ids, forward) for ids in (first, first, changed)]
    noise, moved = (float((predicted[0][:place] - other[:place]).abs().max()) for other in predicted[1:])
    if moved > max(MAX_MOVE, 4 * noise):
        return f"the model looks ahead: with other ids from column {place} on, earlier predictions moved by {moved:.2g}"
    return None


def _probabilities(model: Any, ids: "torch.Tensor", forward: Callable[[Any, Any], Any] | None) -> "torch.Tensor":
    """Softmax of the model's logits, (columns, V)."""
    found = (forward or _call)(model, ids)
    shape = tuple(getattr(found, "shape", ()))
    if len(shape) != 3 or shape[:2] != tuple(ids.shape):
        raise ConfigError(
            f"Recorder: model(inputs) gives shape {shape} for inputs {tuple(ids.shape)}: call rec.attach(forward=...) with a "
            "function of the model and the inputs that returns logits (rows, columns, V)"
        )
    return found[0].float().softmax(-1)


def _call(model: Any, ids: "torch.Tensor") -> Any:
    try:
        found = model(ids)
    except TypeError as error:
        raise ConfigError(
            f"Recorder: model(inputs) fails ({error}): call rec.attach(forward=...) with a function of the model and the inputs"
        ) from error
    if hasattr(found, "logits"):
        return found.logits
    return found[0] if isinstance(found, tuple | list) else found


@contextmanager
def _quiet(model: Any, device: "torch.device") -> Iterator[None]:
    """The model predicts, and neither it nor the random numbers change."""
    import torch

    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.no_grad(), torch.random.fork_rng([device] if device.type == "cuda" else []):
            yield
    finally:
        for module, mode in modes:
            module.training = mode
