"""Trained learners: of a corpus, a run of `evaluate` or a stored model. Their GPT has also learned from the last segment."""

import io
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from prequential_codecs.archive import ArchiveReader
from prequential_codecs.archive_header import GIVEN
from prequential_corpora import is_path
from prequential_corpora.corpus import Document, mapped, spool, unicode_name

from prequential.errors import ConfigError, CorpusError, CorruptArchiveError
from prequential.evaluation.curves import MODEL
from prequential.evaluation.runs import ARCHIVE, RECORD, read_run
from prequential.files import open_regular, reading
from prequential.heldout_loss.heldout import Bytes, scored_trace
from prequential.learners.spec import LearnerSpec
from prequential.model.config import Config
from prequential.online.coding import OnProgress, Progress, config_of, decompress
from prequential.online.loop import Learner
from prequential.online.model_store import DESCRIPTION, TENSORS, load_model
from prequential.online.progress import begin
from prequential.online.runtime import Runtime
from prequential.online.source import CorpusLike, Source, digest_of
from prequential.online.training import finish, train

Kind = Literal["corpus", "run", "model"]
MakeSpec = Callable[[Config], LearnerSpec]  # called before the learner is built; it may raise an error


@dataclass(frozen=True, kw_only=True)
class Trained:
    """A learner that has read a corpus. spec: what it is one of. about: the corpus, as JSON values of a record.

    symbols (n,) uint8, documents: the corpus itself, if its bytes are available. The corpus of a run counts as one document.
    """

    spec: LearnerSpec
    learner: Learner
    about: dict[str, Any]
    symbols: Bytes | None = None
    documents: Sequence[Document] = ()


def kind_of(name: CorpusLike) -> Kind:
    """What `name` names: the folder of a model or of a run. Anything else is a corpus."""
    if not isinstance(name, str | os.PathLike) or not is_path(os.fspath(name)):
        return "corpus"
    path = Path(name)
    if (path / DESCRIPTION).is_file() and (path / TENSORS).is_file():
        return "model"
    return "run" if (path / RECORD).is_file() and (path / ARCHIVE).is_file() else "corpus"


def describe(source: Source) -> dict[str, Any]:
    """The description of a source in records. Reads it once for its digest."""
    sizes = {"n_bytes": source.n_bytes, "whole_bytes": source.whole_bytes}
    return {**source.origin, **sizes, "blake2b": source.blake2b.hex()}


def train_on(source: Source, spec: LearnerSpec, on_progress: OnProgress) -> Trained:
    """A new learner that has read the source. Raises CorpusError for an empty source, and what the learner raises."""
    if not source.n_bytes:
        raise CorpusError(f"nothing to learn from: the training corpus {source.name!r} is empty")
    begin(on_progress, "training")
    learner, symbols = spec.make(), source.symbols[:]
    if spec.config:
        code_bits = train(learner, symbols, on_progress).code_bits
    else:
        code_bits = scored_trace(symbols, spec, learner, on_progress).total_bits(MODEL)
    about = {"source": "corpus", **describe(source), "code_bits": code_bits}
    return Trained(spec=spec, learner=learner, about=about, symbols=symbols, documents=source.documents)


def load_trained(path: str, kind: Kind, make_spec: MakeSpec, runtime: Runtime, on_progress: OnProgress) -> Trained:
    """The learner of a run or of a model. The archive of a run is decoded, which takes as long as the run did.

    Raises CorpusError, CorruptArchiveError, ConfigError, OutputError without room for the corpus, and what `make_spec` raises.
    """
    begin(on_progress, kind)
    if kind == "run":
        return _of_run(Path(path), make_spec, on_progress)
    stored = load_model(path, runtime)
    about = {"source": "model", **stored.trained_on, "model": unicode_name(path)}
    return Trained(spec=make_spec(stored.config), learner=stored.learner, about=about)


def _of_run(path: Path, make_spec: MakeSpec, on_progress: OnProgress) -> Trained:
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
        spec, done = make_spec(config_of(header)), Progress()
        learner = spec.make()

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
    about = {"source": "run", **header.corpus, **sizes, "run": unicode_name(run.name)}
    document = Document(str(header.corpus.get("name")), 0, len(symbols))
    return Trained(spec=spec, learner=learner, about=about, symbols=symbols, documents=[document])
