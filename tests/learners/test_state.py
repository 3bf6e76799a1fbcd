"""The state of a learner of one's own as flat bytes: every value comes back, and a crafted text runs nothing."""

import json

import numpy as np
import pytest

from prequential.errors import ConfigError
from prequential.learners.adapted import SMALL, STRUCTURE, flattened, restored

torch = pytest.importorskip("torch")


def same(a, b):
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and torch.equal(a.cpu(), b)
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and np.array_equal(a, b)
    return type(a) is type(b) and a == b


def test_every_value_comes_back_equal():
    state = {
        "a": {3: [1, (2.5, "x"), None, True], ("k", 1): b"\x00\xff", "big": 2**100, "inf": float("inf")},
        "arrays": [np.arange(5000.0), np.arange(6).reshape(2, 3)[:, ::2], np.zeros((0, 4), np.int8), np.array(1 + 2j)],
        "numbers": [np.float32(1.5), np.int64(7), np.bool_(True)],
        "tensors": [torch.arange(9000).reshape(3, -1).t(), torch.tensor(2.0), torch.ones(3, dtype=torch.bfloat16),
                    torch.tensor([True]), torch.zeros(0, 2), torch.nn.Parameter(torch.ones(2))],
    }  # fmt: skip
    assert same(state, restored(flattened(state)))


@pytest.mark.parametrize("value", [object(), {"a": np.array(["x"])}, [len], {"a": np.array([None])}])
def test_a_value_of_another_type_is_refused(value):
    with pytest.raises(ConfigError, match="state_dict of the learner"):
        flattened(value)


def test_a_change_of_any_value_or_place_changes_the_bytes():
    def of(state):
        return {name: array.tobytes() for name, array in flattened(state).items()}

    states = [{"a": [1, np.ones(2)]}, {"a": [1.0, np.ones(2)]}, {"b": [1, np.ones(2)]}, {"a": (1, np.ones(2))}]
    states += [{"a": [1, np.ones((2, 1))]}, {"a": [1, np.ones(2, np.float32)]}, {"a": [1, torch.ones(2)]}]
    assert len({json.dumps(sorted((k, v.hex()) for k, v in of(state).items())) for state in states}) == len(states)


@pytest.mark.parametrize(
    "structure",
    [
        b"", b"[", b'{"array": [0, 8], "dtype": "O", "shape": [1]}', b'{"tensor": [0, 4], "dtype": "load", "shape": [1]}',
        b'{"array": [7], "dtype": "<f8", "shape": [1]}', b'{"array": [0, 8], "dtype": "<f8", "shape": [9]}', b"{}",
        b'{"tensor": [0, 4], "dtype": "torch.float32", "shape": [1099511627776]}', b'{"array": "x"}',
        b'{"dict": [[{"list": []}, 1]]}', b'{"eval": [0, 8]}', b"[" * 100_000,
    ],
)  # fmt: skip
def test_a_state_that_was_crafted_is_refused(structure):
    with pytest.raises(ValueError, match="damaged"):
        restored({STRUCTURE: np.frombuffer(structure, np.uint8), SMALL: np.zeros(8, np.uint8)})
