"""Learners that were trained: on a corpus, by an earlier evaluation, in a stored model, or as far as an interrupted run came.

Each ends with a step on the last segment that was read, and so has learned from all of it (online/training.finish).
"""

import hashlib
import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import safetensors
from numpy.typing import NDArray

from prequential.codecs.archive import ArchiveReader
from prequential.codecs.archive_header import Header
from prequential.corpora.chunks import reading
from prequential.corpora.corpus import Corpus, Document, beginning
from prequential.errors import CheckpointError, ConfigError, CorpusError, CorruptArchiveError
from prequential.measure.evaluation.runs import ARCHIVE, RECORD, read_run
from prequential.model.config import Config
from prequential.model.learner import Learner
from prequential.online import checkpoint
from prequential.online.coding import OnProgress, decompress
from prequential.online.runtime import Runtime
from prequential.online.training import finish, train

Bytes = NDArray[np.uint8]
Kind = Literal["corpus", "run", "model", "checkpoint"]
Check = Callable[[Config], object]  # called as soon as the configuration is known, before anything is built: may raise
PREFIXES = ("sample:", "hf:", "shards:")


@dataclass(frozen=True, kw_only=True)
class TrainedOn:
    """What a learner has read. about: JSON values: the kind of source, and what is known of the corpus.

    symbols (n,) uint8 and documents: the corpus itself, where it is at hand; that of a run is taken as one document.
    """

    kind: Kind
    about: dict[str, Any]
    symbols: Bytes | None = None
    documents: Sequence[Document] = ()

    def to_record(self) -> dict[str, Any]:
        """JSON values."""
        return {"source": self.kind, **self.about}


def kind_of(spec: str) -> Kind:
    """What `spec` names: a model's folder, a run's folder, a file NAME.checkpoint; anything else is a corpus."""
    path = Path(spec)
    if spec == "-" or spec.startswith(PREFIXES):
        return "corpus"
    if (path / "model.json").is_file() and (path / "model.safetensors").is_file():
        return "model"
    if (path / RECORD).is_file() and (path / ARCHIVE).is_file():
        return "run"
    return "checkpoint" if path.suffix == ".checkpoint" and path.is_file() else "corpus"


def describe(corpus: Corpus, symbols: Bytes) -> dict[str, Any]:
    """What records say of the beginning of a corpus, symbols (n,) uint8, which is read once for its digest."""
    digest = hashlib.blake2b(np.ascontiguousarray(symbols).data, digest_size=32).hexdigest()
    return {**corpus.describe(), "n_bytes": len(symbols), "whole_bytes": corpus.n_bytes, "blake2b": digest}


def train_on(
    corpus: Corpus, limit_bytes: int | None, learner: Learner, on_progress: OnProgress
) -> tuple[Learner, TrainedOn]:
    """The learner, once it has read the beginning of the corpus, of at most limit_bytes. Raises CorpusError for an empty one."""
    symbols = corpus.bytes()[:limit_bytes]
    done = train(learner, symbols, on_progress)
    about = {**describe(corpus, symbols), "code_bits": done.code_bits}
    return learner, TrainedOn(
        kind="corpus", about=about, symbols=symbols, documents=beginning(corpus.documents, len(symbols))
    )


def load_trained(
    path: str, kind: Kind, runtime: Runtime, max_memory_bytes: int, check: Check, on_progress: OnProgress
) -> tuple[Learner, TrainedOn]:
    """The learner of a run, a model or a checkpoint. A run is decoded, which takes as long as it took.

    Raises CorpusError, CorruptArchiveError, CheckpointError, and what `check` raises.
    """
    if kind == "run":
        return _of_run(Path(path), runtime, check, on_progress)
    if kind == "checkpoint":
        return _of_checkpoint(Path(path), runtime, check)
    from prequential.online.model_store import load_model

    stored = load_model(path, runtime, max_memory_bytes)
    check(stored.learner.config)
    return stored.learner, TrainedOn(kind="model", about={**stored.trained_on, "model": path})


@dataclass(frozen=True)
class _Given:
    """In place of a Runtime: its learner is this one."""

    given: Learner

    def learner(self, config: Config) -> Learner:
        return self.given


def _of_run(path: Path, runtime: Runtime, check: Check, on_progress: OnProgress) -> tuple[Learner, TrainedOn]:
    run, digest = read_run(path), hashlib.blake2b(digest_size=32)
    with reading(run.archive), run.archive.open("rb") as archive, tempfile.TemporaryFile(prefix="prequential-") as file:
        reader = ArchiveReader(archive)
        header = reader.header
        if not header.n_bytes:
            raise CorpusError(f"{str(path)!r} is a run over an empty corpus")
        learner = _learner(header, runtime, check)
        for done in decompress(reader, file, cast(Runtime, _Given(learner))):
            on_progress(done, header.n_bytes)
        file.flush()
        symbols = np.memmap(file, np.uint8, "r")
    digest.update(symbols.data)
    if digest.digest() != header.blake2b:
        raise CorruptArchiveError(f"{str(run.archive)!r} does not decode to what its header says")
    finish(learner)
    about = {**header.corpus, "n_bytes": header.n_bytes, "blake2b": header.blake2b.hex(), "run": run.name}
    document = Document(str(header.corpus.get("name")), 0, len(symbols))
    return learner, TrainedOn(
        kind="run", about={**about, "code_bits": done.code_bits}, symbols=symbols, documents=[document]
    )


def _learner(header: Header, runtime: Runtime, check: Check) -> Learner:
    try:
        config = Config.from_dict(header.config)
    except ConfigError as error:
        raise CorruptArchiveError(f"header: {error}") from error
    check(config)
    return runtime.learner(config)


def _of_checkpoint(path: Path, runtime: Runtime, check: Check) -> tuple[Learner, TrainedOn]:
    """The learner as it was saved, of whichever run it was."""
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            about = json.loads((file.metadata() or {})[checkpoint.METADATA])
        identity = {name: about[name] for name in checkpoint.OTHER}
        config = Config.from_dict(identity["config"])
        if type(identity["n_bytes"]) is not int or not isinstance(identity["corpus"], dict):
            raise ValueError("fields of other types")
    except (OSError, safetensors.SafetensorError, KeyError, TypeError, ValueError, ConfigError) as error:
        raise CheckpointError(f"{str(path)!r} is no checkpoint of this program: {error}") from error
    check(config)
    learner = runtime.learner(config)
    checkpoint.read(path, identity, learner)
    n_read = learner.history.n_symbols
    if not n_read:
        raise CheckpointError(f"{str(path)!r} was saved before the first byte was read")
    finish(learner)
    whole = {"n_bytes": n_read, "whole_bytes": identity["n_bytes"], "whole_blake2b": identity["blake2b"]}
    return learner, TrainedOn(kind="checkpoint", about={**identity["corpus"], **whole, "checkpoint": str(path)})
