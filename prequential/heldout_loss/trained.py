"""Trained learners: of a corpus, a run of `evaluate` or a stored model. Their GPT has also learned from the last segment."""

import io
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from prequential_codecs.archive import ArchiveReader
from prequential_codecs.archive_header import GIVEN
from prequential_corpora import is_path
from prequential_corpora.corpus import Document, mapped, spool, unicode_name

from prequential.errors import ConfigError, CorpusError, CorruptArchiveError
from prequential.evaluation.runs import ARCHIVE, RECORD, read_run
from prequential.files import open_regular, reading
from prequential.model.config import Config
from prequential.model.learner import OnlineLearner
from prequential.online.coding import OnProgress, Progress, config_of, decompress
from prequential.online.model_store import DESCRIPTION, TENSORS, load_model
from prequential.online.runtime import Runtime
from prequential.online.source import CorpusLike, Source, digest_of
from prequential.online.training import finish, train

Bytes = NDArray[np.uint8]
Kind = Literal["corpus", "run", "model"]
Check = Callable[[Config], object]  # called with the configuration before the learner is built; it may raise an error


@dataclass(frozen=True, kw_only=True)
class TrainedOn:
    """What a learner was trained on: its kind, and JSON values about it.

    symbols (n,) uint8, documents: the corpus itself, if its bytes are available. The corpus of a run counts as one document.
    """

    kind: Kind
    about: dict[str, Any]
    symbols: Bytes | None = None
    documents: Sequence[Document] = ()

    def to_record(self) -> dict[str, Any]:
        """JSON values."""
        return {"source": self.kind, **self.about}


def kind_of(spec: CorpusLike) -> Kind:
    """What `spec` names: the folder of a model or of a run. Anything else is a corpus."""
    if not isinstance(spec, str | os.PathLike) or not is_path(os.fspath(spec)):
        return "corpus"
    path = Path(spec)
    if (path / DESCRIPTION).is_file() and (path / TENSORS).is_file():
        return "model"
    if (path / RECORD).is_file() and (path / ARCHIVE).is_file():
        return "run"
    return "corpus"


def describe(source: Source) -> dict[str, Any]:
    """The description of a source in records. Reads it once for its digest."""
    sizes = {"n_bytes": source.n_bytes, "whole_bytes": source.whole_bytes}
    return {**source.origin, **sizes, "blake2b": source.blake2b.hex()}


def train_on(source: Source, learner: OnlineLearner, on_progress: OnProgress) -> tuple[OnlineLearner, TrainedOn]:
    """Trains the learner on the source. Raises CorpusError for an empty source."""
    symbols = source.symbols[:]
    done = train(learner, symbols, on_progress)
    about = {**describe(source), "code_bits": done.code_bits}
    return learner, TrainedOn(kind="corpus", about=about, symbols=symbols, documents=source.documents)


def load_trained(
    path: str, kind: Kind, runtime: Runtime, check: Check, on_progress: OnProgress
) -> tuple[OnlineLearner, TrainedOn]:
    """The learner of a run or of a model. The archive of a run is decoded, which takes as long as the run did.

    Raises CorpusError, CorruptArchiveError, ConfigError, OutputError without room for the corpus, and what `check` raises.
    """
    if kind == "run":
        return _of_run(Path(path), runtime, check, on_progress)
    stored = load_model(path, runtime)
    check(stored.learner.config)
    return stored.learner, TrainedOn(kind="model", about={**stored.trained_on, "model": unicode_name(path)})


def _of_run(path: Path, runtime: Runtime, check: Check, on_progress: OnProgress) -> tuple[OnlineLearner, TrainedOn]:
    """The learner that decoded the archive of a run: it has learned what the learner of the run learned."""
    run = read_run(path)
    with reading(run.archive), open_regular(run.archive) as archive:
        reader = ArchiveReader(archive)
        header = reader.header
        if not header.n_bytes:
            raise CorpusError(f"{str(path)!r} is a run over an empty corpus")
        if GIVEN in header.config:
            raise ConfigError(
                f"{str(path)!r} is a run with given=, whose learner cannot be used here: name a corpus, or a model of `train`"
            )
        config = config_of(header)
        check(config)
        learner = runtime.learner(config)
        done = Progress()

        def decoded() -> Iterator[bytes]:
            nonlocal done
            part = io.BytesIO()
            with reading(run.archive):
                for done in decompress(reader, part, learner):
                    on_progress(done, header.n_bytes)
                    yield part.getvalue()
                    part.seek(0)
                    part.truncate()

        with spool(decoded()) as file:
            symbols = mapped(file, file.tell())
    if digest_of(symbols) != header.blake2b:
        raise CorruptArchiveError(f"{str(run.archive)!r} decodes to other bytes than its header says")
    finish(learner)
    sizes = {"n_bytes": header.n_bytes, "code_bits": done.code_bits, "blake2b": header.blake2b.hex()}
    document = Document(str(header.corpus.get("name")), 0, len(symbols))
    about = {**header.corpus, **sizes, "run": unicode_name(run.name)}
    return learner, TrainedOn(kind="run", about=about, symbols=symbols, documents=[document])
