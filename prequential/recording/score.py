"""The negative log-likelihood of targets, and the sums of each row, on the device."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from prequential.adapters.text_tokenizer import byte_lengths
from prequential.errors import ConfigError
from prequential.recording.totals import hash_rows, head_hashes

if TYPE_CHECKING:
    import torch


# ---- bytes of ids: by their tokenizer, or as declared

MAX_ID_BYTES = 1 << 20


@dataclass(frozen=True, eq=False)
class Units:
    """n_bytes (V,) int64: the bytes of each id; -1: never scored. name: in words. digest: of all lengths, in hexadecimal."""

    n_bytes: np.ndarray
    name: str
    digest: str
    _on: dict[str, "torch.Tensor"] = field(default_factory=dict, repr=False)

    @property
    def n_symbols(self) -> int:
        """V."""
        return len(self.n_bytes)

    def on(self, device: Any) -> "torch.Tensor":
        """n_bytes on a device."""
        import torch

        if str(device) not in self._on:
            self._on[str(device)] = torch.from_numpy(self.n_bytes).to(device)
        return self._on[str(device)]


def units_of(tokenizer: Any, units: Any) -> Units:
    """The units of a Recorder's arguments. Raises ConfigError."""
    if (tokenizer is None) == (units is None):
        raise ConfigError('Recorder: give tokenizer=, or units="bytes" or the bytes of each id, one of them')
    if tokenizer is not None:
        lengths, name = byte_lengths(tokenizer)
        return _units(lengths, name)
    if isinstance(units, str):
        if units != "bytes":
            raise ConfigError(f"Recorder: units is {units!r}: give 'bytes', or the bytes of each id")
        return _units(np.ones(256, np.int64), "bytes")
    lengths = np.asarray(units)
    if lengths.ndim != 1 or lengths.dtype.kind not in "iu" or len(lengths) < 2:
        raise ConfigError('Recorder: units is neither "bytes" nor a list (V,) of whole numbers, the bytes of each id')
    return _units(lengths.astype(np.int64), "declared lengths")


def _units(lengths: np.ndarray, name: str) -> Units:
    if lengths.min() < -1 or lengths.max() > MAX_ID_BYTES:
        raise ConfigError(
            f"Recorder: the bytes of an id are {lengths.min()} to {lengths.max()}; -1 means that it is never scored"
        )
    return Units(lengths, name, hashlib.blake2b(lengths.astype("<i8").tobytes(), digest_size=32).hexdigest())


# ---- scores

IGNORED = -100
# Of each row: the hash that repeated rows share, that of targets, that of the first inputs (0: none), sums, what must not occur.
FIELDS = ("key", "targets", "head", "nats", "tokens", "bytes", "outside", "least", "unshifted")
CHUNK, CACHED = 1 << 24, 1 << 18  # logits that are read at a time: on a device, and in the cache of a processor


class Scores(NamedTuple):
    """What was scored: nats, targets and, if known, inputs (rows, columns), and indices (rows, 1)."""

    nats: "torch.Tensor"
    targets: "torch.Tensor"
    inputs: "torch.Tensor | None" = None
    indices: "torch.Tensor | None" = None

    def form(self) -> tuple[Any, ...]:
        """Equal for scores that `joined` can join."""
        return tuple(each if each is None else (each.shape[1], each.dtype, each.device) for each in self)

    def copied(self) -> "Scores":
        """In memory of its own: the loop may use its tensors again."""
        return Scores._make(each if each is None else each.clone() for each in self)


def joined(parts: Sequence[Scores]) -> Scores:
    """The rows of all parts, which have one form."""
    import torch

    return Scores._make(None if each[0] is None else torch.cat(each) for each in zip(*parts, strict=True))


def scores_of(
    logits: "torch.Tensor | None",
    nll: "torch.Tensor | None",
    targets: "torch.Tensor",
    units: Units,
    inputs: Any = None,
    indices: Any = None,
    ignored: int = IGNORED,
) -> Scores:
    """What a loop gives, with nats in float32 or float64 and ids in int64. Raises ConfigError."""
    import torch

    if (logits is None) == (nll is None):
        raise ConfigError("rec.score(): give logits= or nll=, one of them")
    if not isinstance(targets, torch.Tensor) or targets.dtype not in (
        torch.int64,
        torch.int32,
        torch.uint8,
        torch.int16,
    ):
        raise ConfigError("rec.score(): targets are not a tensor of integers")
    targets = targets.detach().long()
    if ignored != IGNORED:
        targets = targets.masked_fill(targets == ignored, IGNORED)
    given = logits if logits is not None else nll
    if not isinstance(given, torch.Tensor) or not given.is_floating_point():
        raise ConfigError(
            f"rec.score(): {'logits' if logits is not None else 'nll'} is not a tensor of floating-point numbers"
        )
    if targets.dim() != 2:
        targets = targets.reshape(given.shape[:2] if given.dim() == (2 if logits is None else 3) else (1, -1))
    n = targets.numel()
    if not n:
        raise ConfigError("rec.score(): there are no targets")
    read, numbers = token_ids(inputs, targets), _numbers(indices, targets)
    if nll is not None:
        if nll.shape not in (targets.shape, (n,)):
            raise ConfigError(
                f"rec.score(): nll has shape {tuple(nll.shape)}, targets {tuple(targets.shape)}: give one loss each"
            )
        return Scores(nll.detach().reshape(targets.shape), targets, read, numbers)
    if given.shape[:-1] not in (targets.shape, (n,)):
        raise ConfigError(
            f"rec.score(): logits have shape {tuple(given.shape)}, targets {tuple(targets.shape)}: rows differ"
        )
    if given.shape[-1] < units.n_symbols:
        raise ConfigError(
            f"rec.score(): logits have {given.shape[-1]:,} columns, but the vocabulary has {units.n_symbols:,} ids: this is the "
            "tokenizer of another model"
        )
    nats = _cross_entropy(given.detach().reshape(n, -1), targets.reshape(-1))
    return Scores(nats.reshape(targets.shape), targets, read, numbers)


def _cross_entropy(logits: "torch.Tensor", targets: "torch.Tensor") -> "torch.Tensor":
    """The nats (n,) float32 of the targets, in parts, so that no second copy of all logits is made."""
    import torch
    from torch.nn.functional import cross_entropy

    chosen = targets.clamp(0, logits.shape[1] - 1)
    n = max(1, (CHUNK if logits.is_cuda else CACHED) // logits.shape[1])
    parts = zip(logits.split(n), chosen.split(n), strict=True)
    return torch.cat([cross_entropy(part.float(), ids, reduction="none") for part, ids in parts])


def _numbers(indices: Any, targets: "torch.Tensor") -> "torch.Tensor | None":
    """Indices as (rows, 1) int64 beside the targets. Raises ConfigError for other rows."""
    import torch

    if indices is None:
        return None
    numbers = torch.as_tensor(indices, device=targets.device).reshape(-1, 1).long()
    if len(numbers) != len(targets):
        raise ConfigError(f"rec.score(): {len(numbers)} indices for {len(targets)} rows")
    return numbers


def token_ids(inputs: Any, targets: "torch.Tensor") -> "torch.Tensor | None":
    """Inputs as (rows, columns) int64 beside the targets; None if they are no ids. Raises ConfigError for other rows."""
    import torch

    if inputs is None or (isinstance(inputs, torch.Tensor) and inputs.is_floating_point()):
        return None
    ids = torch.as_tensor(inputs, device=targets.device).detach().long()
    if ids.dim() != 2:
        ids = ids.reshape(targets.shape if ids.numel() == targets.numel() else (1, -1))
    if len(ids) != len(targets):
        raise ConfigError(f"rec.score(): {len(ids)} rows of inputs for {len(targets)} rows of targets")
    return ids


def row_sums(scores: Scores, units: Units) -> "torch.Tensor":
    """FIELDS of each row, (rows, 9) int64 on the device; nats and least are the bits of float64.

    Columns after the last target that is used are padding: they do not change the key.
    """
    import torch

    nats, targets, inputs, indices = scores
    with torch.no_grad():
        n_bytes = units.on(targets.device)
        used = targets != IGNORED
        inside = (targets >= 0) & (targets < len(n_bytes))
        sizes = torch.where(used & inside, n_bytes[torch.where(inside, targets, 0)], -1)
        counts = sizes >= 0
        kept = torch.where(counts, nats.double(), 0.0)
        within = torch.flip(torch.cummax(torch.flip(used.long(), (1,)), 1).values, (1,))  # 1 up to the last used column
        content = hash_rows(targets, "targets", within)
        key, head, unshifted = content, torch.zeros_like(content), torch.zeros_like(content)
        if inputs is not None:
            n = min(inputs.shape[1], targets.shape[1])
            read, aims, counted = inputs[:, :n], targets[:, :n], counts[:, :n]
            key, head = content + hash_rows(read, "inputs", within[:, :n]), head_hashes(inputs)
            same, shifted = (aims == read) & counted, (aims[:, :-1] == read[:, 1:]) & counted[:, :-1]
            unshifted = ((same.sum(1) == counts.sum(1)) & (shifted.sum(1) < counted[:, :-1].sum(1))).long()
        if indices is not None:
            key = hash_rows(indices, "indices")
        columns = [
            key, content, head, kept.sum(1).view(torch.int64), counts.sum(1), (sizes * counts).sum(1),
            (used & ~inside).sum(1), kept.amin(1).view(torch.int64), unshifted,
        ]  # fmt: skip
        return torch.stack(columns, 1)


@dataclass
class Scored:
    """How the rows were scored: what the record says about it."""

    dtype: str = ""
    device: str = ""
    dropout: float = 0.0
    is_training: bool = False

    def see(self, values: Any, model: Any) -> None:
        """Notes the first score."""
        if self.dtype:
            return
        import torch

        self.dtype = str(values.dtype).removeprefix("torch.")
        self.device = torch.cuda.get_device_name(values.device) if values.is_cuda else values.device.type
        if model is not None:
            self.is_training = model.training
            rates = [m.p for m in model.modules() if isinstance(m, torch.nn.modules.dropout._DropoutNd) and m.training]
            self.dropout = max(rates, default=0.0)


def n_parameters(model: Any) -> int:
    """Of whole tensors, also where the weights are sharded: numel() of a DTensor is that; FSDP1 keeps flat pieces."""
    flat = {
        id(handle.flat_param): handle.flat_param for m in model.modules() if (handle := getattr(m, "_handle", None))
    }
    pieces = {id(each) for whole in flat.values() for each in (whole, *(whole._params or ()))}
    n_flat = sum(shape.numel() for whole in flat.values() for shape in whole._shapes)
    return n_flat + sum(each.numel() for each in model.parameters() if id(each) not in pieces)
