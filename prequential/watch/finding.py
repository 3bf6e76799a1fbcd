"""Findings: what is unusual about a run."""

from dataclasses import dataclass
from typing import Self

from prequential.watch.windows import Window


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Something unusual about a run. It never stops the run.

    kind: spike, divergence, update, plateau, repeated, incompressible, slowdown, memory or watch. position: byte of the original
    at which it begins, in block `block` of the archive; both count from 0. cause: the most likely one: data, model, program or
    machine.

    Examples:
        >>> import prequential
        >>> print(prequential.Finding(kind="spike", position=65536, block=0, message="the cost doubled", cause="data"))
        byte 65,536, block 0: the cost doubled; most likely the data
    """

    kind: str
    position: int
    block: int
    message: str
    cause: str

    @classmethod
    def starting_at(cls, window: Window, kind: str, message: str, cause: str) -> Self:
        """A finding that begins with this window."""
        return cls(kind=kind, position=window.start, block=window.block, message=message, cause=cause)

    def __str__(self) -> str:
        return f"byte {self.position:,}, block {self.block}: {self.message}; most likely the {self.cause}"
