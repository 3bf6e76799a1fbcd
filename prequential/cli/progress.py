"""A progress bar on stderr, on a terminal only: bytes of the original, bits per byte so far, speed, time left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prequential.online.coding import Progress


@contextmanager
def progress_bar(title: str, *, quiet: bool) -> Iterator[Callable[[Progress, int], None]]:
    """An `on_progress` that draws; a run that starts anew, such as decoding after coding, starts the bar anew."""
    from tqdm import tqdm

    # disable=None: no bar unless stderr is a terminal.
    with tqdm(desc=title, unit="B", unit_scale=True, disable=True if quiet else None, leave=False) as bar:

        def show(done: Progress, n_bytes: int) -> None:
            if done.n_bytes < bar.n:
                bar.reset()
            bar.total = n_bytes
            if done.n_bytes:
                bar.set_postfix_str(f"{done.code_bits / done.n_bytes:.3f} bits/byte", refresh=False)
            bar.update(done.n_bytes - bar.n)

        yield show
