"""The processes of a training run."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Ranks:
    """The processes of a group of torch.distributed; one process without it. group: None is the default group."""

    group: Any = None

    @property
    def n(self) -> int:
        """Their number."""
        import torch.distributed as dist

        return dist.get_world_size(self.group) if dist.is_available() and dist.is_initialized() else 1

    @property
    def own(self) -> int:
        """The number of this process, from 0 on."""
        import torch.distributed as dist

        return dist.get_rank(self.group) if self.n > 1 else 0

    def gathered(self, value: Any) -> list[Any]:
        """The value of every process. All of them call it."""
        if self.n == 1:
            return [value]
        import torch.distributed as dist

        parts: list[Any] = [None] * self.n
        dist.all_gather_object(parts, value, group=self.group)
        return parts
