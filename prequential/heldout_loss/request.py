"""Held-out loss: the call `heldout` and its result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from math import log
from os import PathLike as AnyPath
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prequential_codecs.archive_header import OTHER
from prequential_corpora.corpus import Document

from prequential.arguments import byte_count, check_arguments
from prequential.comparison.clusters import Grouping, label_of
from prequential.comparison.documents import DocumentComparison, compare_documents, document_losses
from prequential.errors import ConfigError, CorpusError, wrong_argument
from prequential.evaluation.curves import ShownAsTable
from prequential.files import PathLike
from prequential.heldout_loss.documents import DocumentSet, documents_of, grouping_of
from prequential.heldout_loss.heldout import Context, check_context, check_learner
from prequential.heldout_loss.order_test import check_order
from prequential.heldout_loss.run import Trained, describe, measure_heldout, stored_model, train_on
from prequential.heldout_loss.scored import Models, read_scored, score_static
from prequential.heldout_loss.summary import languages_of
from prequential.heldout_loss.text import format_heldout, format_models
from prequential.learners.given import is_model
from prequential.learners.loading import HUB_PREFIX
from prequential.learners.protocol import OnlineModel
from prequential.learners.spec import LearnerSpec, other_spec, own_spec
from prequential.machine.process import engine_call
from prequential.model.config import Config
from prequential.model.presets import preset
from prequential.online.coding import OnProgress, ignore
from prequential.online.runtime import Runtime
from prequential.online.source import CorpusLike, Source, open_source
from prequential.records import LOSSES

if TYPE_CHECKING:
    import pandas

Record = dict[str, Any]


@dataclass(frozen=True, kw_only=True, repr=False)
class Heldout(ShownAsTable):
    """What a held-out or monorepo measurement gave. str() is the report of the command.

    records: of each model (records.py). rows: single documents with their costs. comparison: of the models after the first
    one with it, by document; None for one model.

    Examples:
        >>> import prequential
        >>> rows = ({"document": "a.py", "bits": 16.0, "n_bytes": 8}, {"document": "b.py", "bits": 4.0, "n_bytes": 1})
        >>> loss = prequential.Heldout(records=(), rows=rows, text="two documents")
        >>> loss.to_frame()["bits"].sum().item(), str(loss)
        (20.0, 'two documents')
    """

    records: tuple[dict[str, Any], ...]
    rows: tuple[dict[str, Any], ...]
    text: str
    comparison: DocumentComparison | None = None

    @property
    def record(self) -> dict[str, Any]:
        """The record of the first model."""
        return self.records[0]

    def to_frame(self) -> pandas.DataFrame:
        """A row for each document, model and loss: n_bytes, bits, nats, bits_per_byte; of a window also its commit.

        Documents of a window may have equal names: `number`, or of models `id`, tells them apart. Of a learner that was trained
        here, these are the 1,000 costliest documents.
        """
        import pandas

        return pandas.DataFrame(list(self.rows))

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<{self.text.splitlines()[-1]}>"  # what to conclude


@engine_call()
def heldout(
    test: CorpusLike,
    *,
    static: str | Sequence[str] = (),
    scores: PathLike | Sequence[PathLike] = (),
    train: CorpusLike | None = None,
    config: Config | None = None,
    learner: OnlineModel | LearnerSpec | Callable[[], OnlineModel] | None = None,
    context: Context | None = None,
    stride: int | None = None,
    cluster: str | None = None,
    orders: int | None = None,
    overlap: bool = True,
    limit: int | str | None = None,
    train_limit: int | str | None = None,
    runtime: Runtime | None = None,
    on_progress: OnProgress = ignore,
    keep: Callable[[Record], object] = lambda record: None,
) -> Heldout:
    """The loss of static models, or of a learner that read `train` first, on the documents of the corpus `test`.

    test, train: as `source` of `prequential.compress`; train may also be the folder of a stored model. config, or learner as of
    `evaluate`: what reads `train` (default: preset 5); then it learns nothing from `test` (frozen), or goes on (dynamic). static:
    hf:FOLDER or hf:NAME of models of transformers, one or several. scores: files of what a cluster computed. context: what a
    frozen model sees before a byte. stride: tokens that a static model scores at a time. cluster: what depends on each other: a
    field of the rows, "document" for nothing, or a number of levels of folders. orders: of static models, how many drawn orders
    are scored, too. overlap: whether text of `train` is searched in `test`. keep: is given each record at once.

    With two models or more, the result holds their paired differences, and intervals. Nothing is written. Raises ConfigError,
    CorpusError, MissingDependencyError, and what the learner raises. docs/MEASURES.md explains the losses.

    Examples:
        >>> import prequential
        >>> small = prequential.Config(gpt=None, mixer=prequential.MixerConfig(contexts=("1", "2"), table_bits=10))
        >>> carol, plain = "sample:christmas_carol", prequential.Runtime(kernels="plain")
        >>> loss = prequential.heldout(b"text " * 9, train=carol, train_limit=900, config=small, runtime=plain)
        >>> loss.record["dynamic"]["documents"]["n_bytes"], loss.to_frame()["loss"].tolist()
        (45, ['frozen', 'dynamic', 'untrained'])
    """
    check_arguments(test=test, train=train, config=config, limit=limit, runtime=runtime)
    check_arguments(train_limit=train_limit, cluster=cluster, orders=orders, on_progress=on_progress)
    models = {"static": _names("static", static), "scores": _names("scores", scores)}
    if any(models.values()) == (train is not None):
        raise ConfigError("name what is measured: either train=, or models with static= or scores=")
    runtime = runtime or Runtime()
    if train is None:
        scored = Models(**models, context=context, stride=stride, orders=orders)
        with _opened(test, byte_count(limit), cluster) as (source, grouping, about):
            return _of_models(documents_of(source, grouping, about), scored, runtime, on_progress, keep)
    if orders is not None:
        raise ConfigError("orders= needs static=: what a learner read that is trained here is known")
    if stride is not None:
        raise ConfigError("stride= needs static=: how many tokens are scored at a time")
    check_context(context := context or "carried")
    load = _loader(train, (config, learner, byte_count(train_limit)), context, runtime, on_progress)
    with _opened(test, byte_count(limit), cluster) as (source, grouping, about):
        record = measure_heldout(load, source, about, grouping, context, overlap, runtime, on_progress)
        keep(record)
        rows = tuple(_trained_rows(record))
    return Heldout(records=(record,), rows=rows, text=format_heldout(record))


@contextmanager
def _opened(
    test: CorpusLike, limit_bytes: int | None, cluster: str | None
) -> Iterator[tuple[Source, Grouping, Record]]:
    """The test corpus, with one document at least, its clusters, and how records describe it. Raises CorpusError if empty."""
    with open_source(test, limit_bytes) as source:
        if not source.n_bytes:
            raise CorpusError(f"nothing to score: the test corpus {source.name!r} is empty")
        if not source.documents:  # bytes in memory are one document
            source = replace(source, documents=[Document("bytes", 0, source.n_bytes)])
        yield source, grouping_of(source, cluster, test), {**describe(source), "limit_bytes": limit_bytes}


# ---- models that learn nothing


def _of_models(
    documents: DocumentSet,
    models: Models,
    runtime: Runtime,
    on_progress: OnProgress,
    keep: Callable[[Record], object],
) -> Heldout:
    """Scores the documents under each model. Scores of files are read first; only one static model is in memory at a time."""
    for path in (name.removeprefix(HUB_PREFIX) for name in models.static):  # before the first one is scored
        if path.startswith((".", "/", "~")) and not Path(path).exists():
            raise ConfigError(f"the folder {path!r} does not exist: name that of a model")
    if models.orders:
        check_order(documents.test)
    scored = [read_scored(path, documents, models, runtime) for path in models.scores]
    records, rows = list[Record](), list[Record]()
    static = (score_static(name, documents, models, runtime, on_progress) for name in models.static)
    for each in chain(static, scored):
        records.append(each.to_record(documents))
        about = {"model": f"{label_of(len(records) - 1)} {each.model['config'][OTHER]['name']}", "loss": "frozen"}
        for i, (document, bits) in enumerate(zip(documents.documents, each.bits.tolist(), strict=True)):
            commit = documents.commits[i][0] if documents.commits else None
            rows.append({**about, **_row(document, bits, commit), "id": documents.ids[i]})
        keep(records[-1])
    losses = [document_losses(record, label_of(i)) for i, record in enumerate(records)]
    comparison = compare_documents(losses) if len(losses) > 1 else None
    text = format_models(records, comparison)
    return Heldout(records=tuple(records), rows=tuple(rows), text=text, comparison=comparison)


def _names(name: str, value: Any) -> tuple[Any, ...]:
    """One name, or several, as a tuple. Raises ConfigError for anything else."""
    names = (value,) if isinstance(value, str | AnyPath) else value
    if not isinstance(names, list | tuple) or not all(isinstance(each, str | AnyPath) and each for each in names):
        raise wrong_argument(name, value, "a name, or a list of names")
    return tuple(names)


# ---- rows of single documents


def _trained_rows(record: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The documents in the record of a trained learner, under each loss, the costliest first."""
    for loss in filter(record.get, LOSSES):
        for each in record[loss]["each"]:
            document = Document(each["name"], 0, each["n_bytes"])
            yield {"loss": loss, **_row(document, each["bits"], each["commit"]), "number": each["number"]}


def _row(document: Document, bits: float, commit: str | None) -> dict[str, Any]:
    n, (language,) = document.n_bytes, languages_of([document])
    sizes = {"n_bytes": n, "bits": bits, "nats": bits * log(2), "bits_per_byte": bits / n if n else None}
    return {"document": document.name, "language": language, **sizes, **({"commit": commit} if commit else {})}


# ---- a trained learner


def _loader(
    train: CorpusLike,
    given: tuple[Config | None, Any, int | None],
    context: Context,
    runtime: Runtime,
    on_progress: OnProgress,
) -> Callable[[], Trained]:
    """A function that returns the trained learner. given: config, learner and train_limit of the call.

    What can be refused before the work is refused here.
    """
    config, learner, limit_bytes = given
    if is_model(train):
        if given != (None, None, None):
            raise ConfigError("train= names a trained learner: leave out config=, learner= and train_limit=")
        return partial(stored_model, train, runtime)
    if config is not None and learner is not None:
        raise ConfigError("give a config, which is a learner of this program, or a learner of your own, not both")
    if isinstance(train, str | AnyPath) and (Path(train) / "record.jsonl").is_file():
        raise ConfigError(f"{str(train)!r} is a run, not a corpus: name the corpus, or a model that `train` stored")
    spec = learner if isinstance(learner, LearnerSpec) else None if learner is None else other_spec(learner)
    spec = spec or own_spec(config or preset(), runtime)
    check_learner(spec, context, runtime)
    return partial(train_on, train, spec, limit_bytes, on_progress)
