"""The environment in every record, and the files of records: one JSON object a line; lines are only appended."""

import json
import os
from pathlib import Path
from typing import Any

import torch

from prequential.exact import matmul
from prequential.files import writing
from prequential.measure.machine import git_commit, machine, versions
from prequential.model.config import Config
from prequential.online.runtime import KERNELS, Runtime
from prequential.version import VERSION


def environment(runtime: Runtime, config: Config) -> dict[str, Any]:
    """Machine, versions, and how this runtime computes a learner of this configuration, as JSON values.

    Raises InexactMachineError if no arithmetic is exact on this machine.
    """
    accelerator = runtime.accelerator(config)
    return {
        "machine": machine(),
        "threads": runtime.n_threads,
        "backend": matmul.choose("cpu", runtime.backend).name,
        "kernels": runtime.kernels or KERNELS[0],
        "device": f"cuda: {torch.cuda.get_device_name(accelerator.device)}" if accelerator else "cpu",
        "versions": {"prequential": VERSION, **versions()},
        "git_commit": git_commit(),
    }


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raises OutputError if records cannot be appended to the file at `path`. Creates the file if it is missing."""
    with writing(path), Path(path).open("ab"):
        pass


def append_record(path: str | os.PathLike[str], record: dict[str, Any]) -> None:
    """Appends one line to the file at `path`, which it creates if it is missing. Raises OutputError."""
    line = json.dumps(record, allow_nan=False, ensure_ascii=False).encode() + b"\n"
    with writing(path), Path(path).open("ab") as file:
        file.write(line)
        file.flush()
        os.fsync(file.fileno())
