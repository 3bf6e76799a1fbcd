"""What a call changes in its process while it runs, and leaves as it was: the warning filters and torch's own threads.

Libraries add warning filters when they are imported. Pools switch torch's threads off, because they divide the work themselves.
"""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache


@contextmanager
def process_kept() -> Iterator[None]:
    """After the body, the warning filters and torch's number of threads are as they were before it."""
    n_before = _n_threads()
    try:
        with warnings.catch_warnings():
            yield
    finally:
        torch = sys.modules.get("torch")
        n_before = n_before or (n_torch_threads() if torch else None)
        if torch and n_before != _n_threads():
            torch.set_num_threads(n_before)


@cache
def n_torch_threads() -> int:
    """Torch's number of threads before a pool first switched them off. Pools call this first; torch is imported."""
    n: int = sys.modules["torch"].get_num_threads()
    return n


def _n_threads() -> int | None:
    torch = sys.modules.get("torch")
    return torch.get_num_threads() if torch else None
