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

METADATA = checkpoint.METADATA
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


def _say_total(**values: Any) -> Change:
    return lambda tensors, about: about.update(totals={**about["totals"], **values})


def _drop(name: str) -> Change:
    return lambda tensors, about: about.pop(name)


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
    "coder-of-floats mixer": _replace("coder", torch.zeros(6, dtype=torch.float32)),
    "symbols-many mixer": _replace("symbols", torch.zeros(1000, dtype=torch.uint8)),
    "symbols-of-floats mixer": _replace("symbols", torch.zeros(16, dtype=torch.float64)),
    "surplus mixer": _replace("surplus", torch.zeros(3)),
    "head-of-floats pure": _replace("learner.gpt.head", torch.zeros(16, 256, dtype=torch.float64)),
    "version mixer": _say(version=1),
    "totals-unknown mixer": _say(totals={"x": 1}),
    "totals-list mixer": _say(totals=[1]),
    **{f"n_open {value} mixer": _say(n_open=value) for value in ("7", 1 << 40, -3)},
    "open_bits-text mixer": _say(open_bits="nan"),
    "written-number mixer": _say(written=7),
    "written-missing mixer": _drop("written"),
    "n_open-missing mixer": _drop("n_open"),
    **{f"n_blocks {value} mixer": _say_total(n_blocks=value) for value in ("1", -1)},
    **{f"n_bytes {value} mixer": _say_total(n_bytes=value) for value in (-1, LARGE)},
}


# ---- an interrupted run


def interrupted(folder: Path, name: str) -> tuple[Tensors, About]:
    """Writes the archive of a seed to the folder and interrupts its decompression. Returns the checkpoint."""
    (folder / "a.pq").write_bytes(seeds()[name].archive)
    with hurried(), suppress(InterruptionError):
        stop = stopping_at(STOP_AFTER[name])
        prequential.decompress(folder / "a.pq", folder / "a", runtime=RUNTIME, on_progress=stop)
    with open_tensors(checkpoint_path(folder / "a")) as file:
        about = json.loads(file.metadata[METADATA])
        tensors = {key: torch.from_numpy(file.read(key)) for key in file.types}
    del about["digest"]
    assert about["n_open"] > 0
    return tensors, about


def write(path: Path, tensors: Tensors, about: About) -> None:
    """Writes a checkpoint whose digest matches its contents."""
    digest = checkpoint._digest(tensors, about)
    save_file(tensors, path, {METADATA: json.dumps({**about, "digest": digest}, sort_keys=True)})


def outcome(folder: Path, name: str) -> str:
    """The outcome of resuming the decompression; the name of the signal if one ends the process."""
    said = folder / "said"

    def work() -> int:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        said.write_text(_resumed(folder, name))
        return 0

    code = forked(work)
    return signal.Signals(-code).name if code < 0 else said.read_text()


def _resumed(folder: Path, name: str) -> str:
    try:
        with bounded(), confined(folder):
            prequential.decompress(folder / "a.pq", folder / "a", runtime=RUNTIME, resume=True)
    except CLEAN as error:
        return f"refused: {type(error).__name__}"
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    return "exact" if (folder / "a").read_bytes() == seeds()[name].original else "false bytes"


def tried(cases: dict[str, Change]) -> dict[str, str]:
    """The outcome of every case."""
    found = {}
    for case, change in cases.items():
        with tempfile.TemporaryDirectory() as folder:
            seed = case.split()[-1]
            tensors, about = interrupted(Path(folder), seed)
            change(tensors, about)
            write(checkpoint_path(Path(folder, "a")), tensors, about)
            found[case] = outcome(Path(folder), seed)
    return found


if __name__ == "__main__":
    np.seterr(all="ignore")
    everything = {**VALUES, **FORMS}
    for seed in STOP_AFTER:
        # compiles the kernels before processes are forked
        prequential.decompress(seeds()[seed].archive, runtime=RUNTIME)
    print(json.dumps(tried({case: everything[case] for case in sys.argv[1:] or everything}), indent=1))
