"""What the variables that torchrun sets say about this process. The command line asks before torch is imported."""

import os

from prequential.errors import ConfigError

RUN_ID = "TORCHELASTIC_RUN_ID"


def workers() -> tuple[int, int]:
    """How many processes torchrun started, and the rank of this one: 1 and 0 without it. Raises ConfigError for bad variables."""
    if RUN_ID not in os.environ:
        return 1, 0
    n_workers = _number("WORLD_SIZE", 1)
    return n_workers, _number("RANK", 0, n_workers - 1)


def launched() -> bool:
    return workers()[0] > 1


def local_workers() -> int:
    """How many of several processes torchrun started on this machine."""
    return _number("LOCAL_WORLD_SIZE", 1, workers()[0])


def local_rank() -> int:
    return _number("LOCAL_RANK", 0, local_workers() - 1)


def n_restarts() -> int:
    """How often torchrun has restarted the processes. Checks the other variables, too: call it before they connect."""
    local_workers()
    if not os.environ.get("MASTER_ADDR"):
        raise _error("MASTER_ADDR is missing")
    _number("MASTER_PORT", 1, 65535)
    return _number("TORCHELASTIC_RESTART_COUNT", 0)


def _number(name: str, low: int, high: int = 10**6) -> int:
    text = os.environ.get(name, "")
    if not (text.isascii() and text.isdigit() and len(text) < 10 and low <= int(text) <= high):
        raise _error(f"{name} is not a number from {low} to {high} but {text!r}" if text else f"{name} is missing")
    return int(text)


def _error(reason: str) -> ConfigError:
    return ConfigError(f"{RUN_ID} is set, but {reason}: start this command with torchrun, or unset {RUN_ID}")
