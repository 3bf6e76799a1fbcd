"""The negative log-likelihood of targets, and the sums of each row, on the device."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from prequential.adapters.text_tokenizer import bytes_of_ids
from prequential.errors import ConfigError
from prequential.recording.totals import NO_GROUP, hash_rows, head_hashes
from prequential.records import digest_of

# ---- bytes of ids: by their tokenizer, or as declared

MAX_ID_BYTES = 1 << 20


@dataclass(frozen=True, eq=False)
class Units:
    """n_bytes (V,) int64: the bytes of each id; -1: never scored. name: in words. pieces: what each id stands for, if known."""

    n_bytes: np.ndarray
    name: str
    pieces: Sequence[bytes] = ()
    _on: dict[str, torch.Tensor] = field(default_factory=dict, repr=False)

    @property
    def n_symbols(self) -> int:
        return len(self.n_bytes)

    @property
    def digest(self) -> str:
        """Of all lengths, in hexadecimal."""
        return digest_of(self.n_bytes.astype("<i8").tobytes())

    def stretches(self, ids: Sequence[int]) -> list[bytes]:
        """The text of a row between ids that are never scored. Ids outside the vocabulary are such, too."""
        pieces = [self.pieces[i] if 0 <= i < self.n_symbols else b"" for i in ids]
        return [b"".join(part) for is_text, part in groupby(pieces, bool) if is_text]

    def on(self, device: Any) -> torch.Tensor:
        """n_bytes on a device."""
        if str(device) not in self._on:
            self._on[str(device)] = torch.from_numpy(self.n_bytes).to(device)
        return self._on[str(device)]


def units_of(tokenizer: Any, units: Any) -> Units:
    """The units of a Recorder's arguments. Raises ConfigError."""
    if (tokenizer is None) == (units is None):
        raise ConfigError('Recorder: give tokenizer=, or units="bytes" or the bytes of each id, one of them')
    pieces: Sequence[bytes] = ()
    if tokenizer is not None:
        pieces, name = bytes_of_ids(tokenizer)
    elif isinstance(units, str) and units == "bytes":
        pieces, name = [bytes([i]) for i in range(256)], "bytes"
    else:
        name = "declared lengths"
    lengths = np.array([len(piece) or -1 for piece in pieces]) if pieces else np.asarray(units)
    if lengths.ndim != 1 or lengths.dtype.kind not in "iu" or len(lengths) < 2:
        raise ConfigError('Recorder: units is neither "bytes" nor a list (V,) of whole numbers, the bytes of each id')
    if lengths.min() < -1 or lengths.max() > MAX_ID_BYTES:
        sizes = f"{lengths.min()} to {lengths.max()}"
        raise ConfigError(f"Recorder: the bytes of an id are {sizes}; -1 means that it is never scored")
    return Units(lengths.astype(np.int64), name, pieces)


# ---- scores

IGNORED = -100
# Of each row: the hash that repeated rows share, that of targets, that of the first inputs (0: none), sums, what must not occur,
# and the code of its group.
FIELDS = ("key", "targets", "head", "nats", "tokens", "bytes", "outside", "least", "unshifted", "group")
CHUNK, CACHED = 1 << 24, 1 << 18  # logits that are read at a time: on a device, and in the cache of a processor


class Scores(NamedTuple):
    """What was scored: nats, targets and, if known, inputs (rows, columns), indices and codes of groups (rows, 1)."""

    nats: torch.Tensor
    targets: torch.Tensor
    inputs: torch.Tensor | None = None
    indices: torch.Tensor | None = None
    groups: torch.Tensor | None = None

    def form(self) -> tuple[Any, ...]:
        """Equal for scores that `joined` can join."""
        return tuple(each if each is None else (each.shape[1], each.dtype, each.device) for each in self)

    def copied(self) -> "Scores":
        """In memory of its own: the loop may use its tensors again."""
        return Scores._make(each if each is None else each.clone() for each in self)


def joined(parts: Sequence[Scores]) -> Scores:
    """The rows of all parts, which have one form."""
    return Scores._make(None if each[0] is None else torch.cat(each) for each in zip(*parts, strict=True))


def scores_of(
    units: Units, ignored: int, *, targets: Any, logits: Any = None, nll: Any = None, inputs: Any = None, indices: Any = None,
    codes: Any = None,
) -> Scores:  # fmt: skip
    """What a loop gives (`Recorder.score`): nats in float32 or float64, ids in int64. Inputs that are no ids are left out.

    ignored: targets that are not scored; they, and ids that never are, become IGNORED. codes (rows,): of groups.
    Raises ConfigError.
    """
    if (logits is None) == (nll is None):
        raise ConfigError("rec.score(): give logits= or nll=, one of them")
    given, name, n_dims = (nll, "nll", 2) if logits is None else (logits, "logits", 3)
    if not isinstance(given, torch.Tensor) or not given.is_floating_point():
        raise ConfigError(f"rec.score(): {name} is not a tensor of floating-point numbers")
    if not isinstance(targets, torch.Tensor) or targets.is_floating_point():
        raise ConfigError("rec.score(): targets are not a tensor of integers")
    given, targets = given.detach(), targets.detach().long()
    n_bytes, inside = units.on(targets.device), (targets >= 0) & (targets < units.n_symbols)
    never = inside & (n_bytes[torch.where(inside, targets, 0)] < 0)
    targets = targets.masked_fill(never | (targets == ignored), IGNORED)
    if targets.dim() != 2:
        targets = targets.reshape(given.shape[:2] if given.dim() == n_dims else (1, -1))
    n, shape = targets.numel(), given.shape if logits is None else given.shape[:-1]
    if not n or shape not in (targets.shape, (n,)):
        sizes = f"{name} of shape {tuple(given.shape)}, targets of {tuple(targets.shape)}"
        raise ConfigError(f"rec.score(): {sizes}: rows differ")
    if logits is not None:
        if given.shape[-1] < units.n_symbols:
            columns = f"{given.shape[-1]:,} columns, but the vocabulary has {units.n_symbols:,} ids"
            raise ConfigError(f"rec.score(): logits have {columns}: this is the tokenizer of another model")
        given = _cross_entropy(given.reshape(n, -1), targets.reshape(-1))
    read = None
    if inputs is not None and not (isinstance(inputs, torch.Tensor) and inputs.is_floating_point()):
        read = torch.as_tensor(inputs, device=targets.device).detach().long()
        if read.dim() != 2:
            read = read.reshape(targets.shape if read.numel() == n else (1, -1))
    numbers, groups = (
        each if each is None else torch.as_tensor(each, device=targets.device).reshape(-1, 1).long()
        for each in (indices, codes)
    )
    for name, each in (("inputs", read), ("indices", numbers), ("groups", groups)):
        if each is not None and len(each) != len(targets):
            raise ConfigError(f"rec.score(): {len(each)} rows of {name} for {len(targets)} rows of targets")
    return Scores(given.reshape(targets.shape), targets, read, numbers, groups)


def _cross_entropy(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """The nats (n,) float32 of the targets, in parts, so that no second copy of all logits is made."""
    chosen = targets.clamp(0, logits.shape[1] - 1)
    n = max(1, (CHUNK if logits.is_cuda else CACHED) // logits.shape[1])
    parts = zip(logits.split(n), chosen.split(n), strict=True)
    return torch.cat([cross_entropy(part.float(), ids, reduction="none") for part, ids in parts])


def row_sums(scores: Scores, units: Units) -> torch.Tensor:
    """FIELDS of each row, (rows, 10) int64 on the device; nats and least are the bits of float64.

    Columns after the last target that is used are padding: they do not change the key.
    """
    nats, targets, inputs, indices, groups = scores
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
            torch.full_like(content, NO_GROUP) if groups is None else groups[:, 0],
        ]  # fmt: skip
        return torch.stack(columns, 1)


def n_parameters(model: Any) -> int | None:
    """Of whole tensors, as numel() of a DTensor is. None of a model in flat pieces (FullyShardedDataParallel)."""
    is_flat = any(getattr(module, "_handle", None) for module in model.modules())
    return None if is_flat else sum(each.numel() for each in model.parameters())
