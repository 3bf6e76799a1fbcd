"""The environment in every record, and the files of records: one JSON object a line; lines are only appended."""

import json
from typing import Any

from prequential.files import PathLike
from prequential.files.append import append_line
from prequential.machine.facts import NO_BACKEND, git_commit, machine, versions
from prequential.model.config import Config
from prequential.online.runtime import KERNELS, Runtime
from prequential.version import VERSION


def environment(runtime: Runtime, config: Config | None) -> dict[str, Any]:
    """Machine, versions, and how this runtime computes a learner of this configuration, as JSON values.

    config: None for a learner that is not ours, which computes in its own way. Without a GPT there are no matrix products, and
    torch is not imported.

    Raises InexactMachineError if no arithmetic is exact on this machine.
    """
    backend, device = NO_BACKEND, "cpu"
    if config is not None and config.gpt is not None:
        import torch

        from prequential.exact import matmul

        backend = matmul.choose("cpu", runtime.backend).name
        if accelerator := runtime.accelerator(config):
            device = f"cuda: {torch.cuda.get_device_name(accelerator.device)}"
    return {
        "machine": machine(),
        "threads": runtime.n_threads,
        "backend": backend,
        "kernels": runtime.kernels or KERNELS[0],
        "device": device,
        "versions": {"prequential": VERSION, **versions()},
        "git_commit": git_commit(),
    }


def append_record(path: PathLike, record: dict[str, Any], mode: int = 0o777) -> None:
    """Appends one line to the file at `path`, which it creates if it is missing. Raises OutputError.

    mode: the permissions of what was measured (`append_line`).
    """
    append_line(path, json.dumps(record, allow_nan=False, ensure_ascii=False).encode() + b"\n", mode)
