"""Tensors of the GPT and numpy arrays of everything else, in the same memory. Without a GPT, torch is never imported."""

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import torch


def to_array(values: "np.ndarray | torch.Tensor") -> np.ndarray:
    """An array as it is, or a tensor as an array: in the same memory if it is on the processor, else a copy."""
    tensor: Any = values
    return values if isinstance(values, np.ndarray) else tensor.detach().cpu().numpy()


def to_tensor(array: np.ndarray) -> "torch.Tensor":
    """A tensor in the array's memory."""
    import torch

    return torch.from_numpy(array)
