"""Hostile checkpoints: valid digests around values that no run saves.

Each checkpoint is resumed in its own process, because kernels that trust such values may crash it.

    python tests/hostile/checkpoints.py [CASE ...]        prints the outcome of each, as JSON
"""

import json
import os
import signal
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from interruption import InterruptionError, hurried, stopping_at
from limits import bounded
from programs import forked
from safetensors.torch import save_file
from seeds import RUNTIME, seeds
from watch import confined

import prequential
from prequential.errors import CheckpointError, CorruptArchiveError, OutputError
from prequential.files import checkpoint_path
from prequential.online import checkpoint
from prequential.online.tensor_file import open_tensors

Tensors = dict[str, torch.Tensor]
About = dict[str, Any]
Change = Callable[[Tensors, About], object]

STOP_AFTER = {"mixer": 4, "pure": 3}  # reports: interrupts within a block, after a coded segment
CLEAN = (CheckpointError, CorruptArchiveError, OutputError)


# ---- changes: "CASE SEED": the seed that is interrupted, and what becomes of its checkpoint


def _fill(name: str, value: float) -> Change:
    return lambda tensors, about: tensors[name].fill_(value)


def _all_floats(value: float) -> Change:
    return lambda tensors, about: [t.fill_(value) for t in tensors.values() if t.is_floating_point()]


def _coder(**values: int) -> Change:
    """Changes fields of the coder's state (prequential_codecs/bit_coder.py)."""
    fields = ("low", "width", "n_words", "offset", "mode", "fault")
    places = torch.tensor([fields.index(name) for name in values])
    return lambda tensors, about: tensors["coder"].index_put_((places,), torch.tensor(list(values.values())))


def _replace(name: str, tensor: torch.Tensor) -> Change:
    return lambda tensors, about: tensors.update({name: tensor})


def _say(**values: Any) -> Change:
    return lambda tensors, about: about.update(values)


LARGE = 1 << 62
FILLED = {  # tensors of the mixer, filled with one value
    "table": (-1,), "past": (-(1 << 40), LARGE), "matches": (-LARGE, LARGE), "history_maps": (-1,), "weights": ((1 << 15) - 1,),
    "last_weights": ((1 << 31) - 1,), "curves": (-1,), "indirect": (LARGE,), "followers": (-1,), "row_errors": (-1, -(1 << 31)),
}  # fmt: skip
VALUES: dict[str, Change] = {
    **{f"{name} {x} mixer": _fill(f"learner.mixer.{name}", x) for name, values in FILLED.items() for x in values},
    **{f"counters {value} mixer": _fill("learner.counters", value) for value in (-5, LARGE)},
    **{f"counters {value} pure": _fill("learner.gpt.counters", value) for value in (-5, LARGE)},
    **{f"all {value} pure": _all_floats(value) for value in (float("nan"), float("inf"), 3e38)},
    "coder-position-negative mixer": _coder(n_words=-(1 << 50)),
    "coder-position-large mixer": _coder(n_words=1 << 50),
    "coder-mode mixer": _coder(mode=0),
    "coder-writes-anywhere mixer": _coder(mode=0, width=1, n_words=1 << 40),  # far after the words of an encoder
    "coder-width-zero mixer": _coder(width=0),
    "coder-fault mixer": _coder(fault=1),
    "words-many mixer": _replace("words", torch.full((10_000,), -1, dtype=torch.int32)),
}
# Types, shapes and metadata.
FORMS: dict[str, Change] = {
    "table-of-floats mixer": _replace("learner.mixer.table", torch.full((16, 16), float("nan"), dtype=torch.float64)),
    "coder-short mixer": _replace("coder", torch.zeros(3, dtype=torch.int64)),
    "symbols-many mixer": _replace("symbols", torch.zeros(1000, dtype=torch.uint8)),
    "symbols-of-floats mixer": _replace("symbols", torch.zeros(16, dtype=torch.float64)),
    "surplus mixer": _replace("surplus", torch.zeros(3)),
    "head-of-floats pure": _replace("learner.gpt.head", torch.zeros(16, 256, dtype=torch.float64)),
    "version mixer": _say(version=1),
    "totals-list mixer": _say(totals=[1]),
    "n_open-text mixer": _say(n_open="7"),
    "n_open-negative mixer": _say(n_open=-3),
    "open_bits-text mixer": _say(open_bits="nan"),
    "written-missing mixer": lambda tensors, about: about.pop("written"),
    "n_blocks-negative mixer": lambda tensors, about: about["totals"].update(n_blocks=-1),
    "n_bytes-large mixer": lambda tensors, about: about["totals"].update(n_bytes=LARGE),
}


# ---- an interrupted run


def interrupted(folder: Path, name: str) -> tuple[Tensors, About]:
    """Writes the archive of a seed to the folder and interrupts its decompression. Returns the checkpoint."""
    (folder / "a.pq").write_bytes(seeds()[name].archive)
    with hurried(), suppress(InterruptionError):
        stop = stopping_at(STOP_AFTER[name])
        prequential.decompress(folder / "a.pq", folder / "a", runtime=RUNTIME, on_progress=stop)
    with open_tensors(checkpoint_path(folder / "a")) as file:
        about = json.loads(file.metadata[checkpoint.METADATA])
        tensors = {key: torch.from_numpy(file.read(key)) for key in file.types}
    del about["digest"]
    assert about["n_open"] > 0
    return tensors, about


def resumed(folder: Path, name: str) -> str:
    """The outcome of resuming the decompression."""
    try:
        with bounded(), confined(folder):
            prequential.decompress(folder / "a.pq", folder / "a", runtime=RUNTIME, resume=True)
    except CLEAN as error:
        return f"refused: {type(error).__name__}"
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    return "exact" if (folder / "a").read_bytes() == seeds()[name].original else "false bytes"


def tried(folder: Path, case: str, change: Change) -> str:
    """The outcome of a case; the name of the signal if one ends the process that resumes."""
    seed = case.split()[-1]
    tensors, about = interrupted(folder, seed)
    change(tensors, about)
    digest = checkpoint._digest(tensors, about)  # matches the changed contents
    metadata = {checkpoint.METADATA: json.dumps({**about, "digest": digest}, sort_keys=True)}
    save_file(tensors, checkpoint_path(folder / "a"), metadata)

    def work() -> int:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        (folder / "said").write_text(resumed(folder, seed))
        return 0

    code = forked(work)
    return signal.Signals(-code).name if code < 0 else (folder / "said").read_text()


if __name__ == "__main__":
    np.seterr(all="ignore")
    everything = {**VALUES, **FORMS}
    for seed in STOP_AFTER:
        # compiles the kernels before processes are forked
        prequential.decompress(seeds()[seed].archive, runtime=RUNTIME)
    outcomes = {}
    for case in sys.argv[1:] or everything:
        with tempfile.TemporaryDirectory() as name:
            outcomes[case] = tried(Path(name), case, everything[case])
    print(json.dumps(outcomes, indent=1))
