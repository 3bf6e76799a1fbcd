"""A learner stored in a folder. Any later command can load it and continue as if the learner had never stopped.

The folder is complete or absent. No code in it is run: digests, limits, names, shapes and types are checked before its use.
docs/DATA.md describes model.json; model.safetensors has every tensor that later predictions depend on (Learner.state).
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prequential.errors import CheckpointError, ConfigError, UnsupportedVersionError
from prequential.exact.arrays import digest
from prequential.files import PathLike, new_folder, read_regular, write_bytes
from prequential.model.config import Config
from prequential.model.learner import OnlineLearner
from prequential.online.checkpoint import read_arrays
from prequential.online.runtime import Runtime
from prequential.online.tensor_file import open_tensors, write_packed

FORMAT, VERSION = "prequential model", 3
DESCRIPTION, TENSORS = "model.json", "model.safetensors"
MAX_DESCRIPTION_BYTES = 1 << 20
FIELDS = {"format", "version", "config", "trained_on", "state_digest", "digest"}


@dataclass(frozen=True, kw_only=True)
class StoredModel:
    """A learner as it was saved. trained_on: what `save_model` got. digest: of its state; equal for models that predict alike."""

    learner: OnlineLearner = field(repr=False)
    trained_on: dict[str, Any]
    digest: str

    @property
    def config(self) -> Config:
        return self.learner.config


def save_model(folder: PathLike, learner: OnlineLearner, trained_on: Mapping[str, Any], *, mode: int = 0o777) -> str:
    """Writes the learner to a new folder and returns its digest (StoredModel.digest). Call it between two segments.

    trained_on: JSON values that describe what it has read. mode: permissions that the folder has at most; a model contains what
    its learner has read. Raises OutputError, also if `folder` exists and is not empty.
    """
    arrays = learner.state()
    about = {
        "format": FORMAT,
        "version": VERSION,
        "config": learner.config.to_dict(),
        "trained_on": dict(trained_on),
        "state_digest": (state_digest := digest(arrays, 16).hex()),
    }
    with new_folder(folder, mode=mode) as draft:
        write_packed(draft / TENSORS, arrays)
        text = json.dumps({**about, "digest": _digest_of_text(about)}, indent=2)
        write_bytes(draft / DESCRIPTION, text.encode() + b"\n")
    return state_digest


def load_model(folder: PathLike, runtime: Runtime) -> StoredModel:
    """The model in `folder`. It continues like the learner that was saved, bit for bit.

    Raises CheckpointError for a folder that is damaged or not a model, UnsupportedVersionError, and ConfigError for a learner
    that exceeds the limits of the runtime.
    """
    about, path = read_description(folder), Path(folder) / TENSORS
    try:
        config = Config.from_dict(about["config"])
    except ConfigError as error:
        raise CheckpointError(f"{str(Path(folder) / DESCRIPTION)!r} holds an invalid configuration: {error}") from error
    learner = runtime.learner(config)
    with open_tensors(path, follow_links=False) as file:
        arrays = read_arrays(file, learner.state())
    try:
        learner.load_state(arrays)
    except ValueError as error:
        raise CheckpointError(f"{str(path)!r} is not the state of a learner: {error}") from error
    if digest(learner.state(), 16).hex() != about["state_digest"]:
        raise CheckpointError(f"{str(path)!r} is damaged: the learner's digest differs from the one in {DESCRIPTION}")
    return StoredModel(learner=learner, trained_on=about["trained_on"], digest=about["state_digest"])


def read_description(folder: PathLike) -> dict[str, Any]:
    """What model.json says, which may come from a stranger. Raises CheckpointError, UnsupportedVersionError."""
    path = Path(folder) / DESCRIPTION
    try:
        about = json.loads(read_regular(path, MAX_DESCRIPTION_BYTES, follow_links=False))
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{str(path)!r} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise CheckpointError(f"{str(path)!r} does not describe a model of this program")
    if (version := about.get("version")) != VERSION:
        raise UnsupportedVersionError(f"{str(path)!r} has version {version!r}; this program reads {VERSION}")
    if about.keys() != FIELDS or about.pop("digest") != _digest_of_text(about):
        raise CheckpointError(f"{str(path)!r} is damaged: its digest does not match its contents")
    if not isinstance(about["trained_on"], dict):
        raise CheckpointError(f"{str(path)!r} does not describe a model: trained_on is not an object")
    return about


def _digest_of_text(about: Mapping[str, Any]) -> str:
    return hashlib.blake2b(json.dumps(about, sort_keys=True).encode(), digest_size=16).hexdigest()
