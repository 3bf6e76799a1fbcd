"""How a command runs: alone, or in the workers of torchrun. The first runs it, the others serve it. Only these need torch."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from prequential.errors import ConfigError, InexactMachineError, WorkerLostError
from prequential.online.workers.environment import launched

if TYPE_CHECKING:
    from prequential.online.runtime import Runtime
    from prequential.online.workers.shared import TeamGPT
    from prequential.online.workers.team import Team


def serve(team: Team, runtime: Runtime) -> None:
    """The loop of every worker except the first: its part of every step, until the first worker stops."""
    import torch

    from prequential.model.config import Config
    from prequential.online.workers.shared import LOAD, MODEL, STEP, STOP, padded, shared_gpt

    gpt: TeamGPT | None = None
    while True:
        command, *numbers = team.receive_command()
        if command == STOP:
            return
        if command == MODEL:
            text = torch.empty(numbers[0], dtype=torch.uint8)
            team.broadcast(text)
            config = Config.from_dict(json.loads(bytes(text.tolist())))
            try:
                backend, accelerator = runtime.exact_backend(config), runtime.accelerator(config)
            except InexactMachineError as error:  # the first worker reports the reason and ends the run
                team.gather(padded(str(error)))
                continue
            team.gather(padded(""))
            assert backend
            gpt = shared_gpt(team, config, backend, accelerator)
            continue
        assert gpt
        if command == LOAD:
            gpt.load_state({})
        elif command == STEP:
            # a replica has diverged: the first worker raises the same error and ends the run
            with suppress(ConfigError):
                gpt.receive_step(*numbers)
        else:
            gpt.compare()


def run_by_all(runtime: Runtime, work: Callable[[Runtime], int]) -> int:
    """The result of work(runtime), which only the first worker runs; the others serve it, and return 0, or 1 if one is lost."""
    if not launched():
        return work(runtime)
    if runtime.audit_every:
        raise ConfigError("an audit runs in one process: leave out either audit_every= or torchrun")
    from prequential.online import accelerators
    from prequential.online.workers.shared import STOP
    from prequential.online.workers.team import Team

    if runtime.device == "cuda":
        accelerators.check_device_count()
        accelerators.claim_device()
    team = Team(with_devices=runtime.device == "cuda")
    runtime = replace(runtime, team=team)
    if team.rank:
        try:
            serve(team, runtime)
        except WorkerLostError:
            return 1
        finally:
            with suppress(WorkerLostError):
                team.leave()
        return 0
    try:
        return work(runtime)
    finally:
        with suppress(WorkerLostError), team.turn():
            team.send_command(STOP)
        with suppress(WorkerLostError):
            team.leave()
