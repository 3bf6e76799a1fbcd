"""How many bytes an id stands for: by its tokenizer, or as declared."""

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from prequential.adapters.byte_lengths import byte_lengths
from prequential.errors import ConfigError

if TYPE_CHECKING:
    import torch

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
