"""Held-out loss: the call `heldout` and its result."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from math import log
from operator import itemgetter
from os import PathLike as AnyPath
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prequential_codecs.archive_header import OTHER
from prequential_corpora.corpus import Document

from prequential.arguments import byte_count, check_arguments
from prequential.comparison.clusters import label_of
from prequential.comparison.documents import DocumentComparison, compare_documents, document_losses
from prequential.errors import ConfigError, wrong_argument
from prequential.evaluation.curves import ShownAsTable, data_frame
from prequential.files import PathLike
from prequential.files.claims import claimed
from prequential.files.outputs import prepare_records
from prequential.heldout_loss.documents import HeldoutCorpus
from prequential.heldout_loss.heldout import POLICIES, Context, Model, trained_model
from prequential.heldout_loss.scored import models
from prequential.heldout_loss.summary import languages_of
from prequential.heldout_loss.text import format_heldout, format_models
from prequential.learners.protocol import OnlineModel
from prequential.learners.spec import LearnerSpec
from prequential.machine.jobs import Executor, results
from prequential.machine.process import engine_call
from prequential.model.config import Config
from prequential.online.coding import OnProgress, ignore
from prequential.online.runtime import Runtime
from prequential.online.source import CorpusLike, check_outside, corpus_name, in_memory, mode_of, open_source
from prequential.records import LOSSES, HeldoutRecord, append_record, read_records
from prequential.version import VERSION

if TYPE_CHECKING:
    import pandas

RECORDS = "heldout.jsonl"  # in a folder of runs
Record = dict[str, Any]


@dataclass(frozen=True, kw_only=True, repr=False)
class Heldout(ShownAsTable):
    """What a held-out or monorepo measurement gave. str() is the report of the command.

    records: of each model (records.py). rows: single documents with their costs. comparison: of the models after the first
    one with it, by document; None for one model. n_new: how many records were not finished before.

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
    n_new: int = 1

    @property
    def record(self) -> dict[str, Any]:
        """The record of the first model."""
        return self.records[0]

    def to_frame(self) -> pandas.DataFrame:
        """A row for each document, model and loss: n_bytes, bits, nats, bits_per_byte; of a window also its commit.

        Documents of a window may have equal names: `number`, or of models `id`, tells them apart. Of a learner that was trained
        here, these are the 1,000 costliest documents.
        """
        return data_frame(list(self.rows))

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<{self.text.splitlines()[-1]}>"  # what to conclude


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
    runs: PathLike | None = None,
    executor: Executor | None = None,
    on_progress: OnProgress = ignore,
) -> Heldout:
    """The loss of static models, or of a learner that read `train` first, on the documents of the corpus `test`.

    test, train: as `source` of `prequential.compress`; train may also be the folder of a stored model. config, or learner as of
    `evaluate`: what reads `train` (default: preset 5); then it learns nothing from `test` (frozen), or goes on (dynamic). static:
    hf:FOLDER or hf:NAME of models of transformers, one or several. scores: files of what a cluster computed. context: what a
    frozen model sees before a byte. stride: tokens that a static model scores at a time. cluster: what depends on each other: a
    field of the rows, "document" for nothing, or a number of levels of folders. orders: of static models, how many drawn orders
    are scored, too. overlap: whether text of `train` is searched in `test`. runs: a folder, to whose file heldout.jsonl records
    are appended; what has a record there is not measured again. executor: measures several models in parallel
    (docs/MACHINES.md).

    With two models or more, the result holds their paired differences, and intervals (docs/MEASURES.md). One that fails lets the
    others end; then its error is raised. Raises ConfigError, CorpusError, MissingDependencyError, OutputError, and the learner's.

    Examples:
        >>> import prequential
        >>> small = prequential.Config(gpt=None, mixer=prequential.MixerConfig(contexts=("1", "2"), table_bits=10))
        >>> carol, plain = "sample:christmas_carol", prequential.Runtime(kernels="plain")
        >>> loss = prequential.heldout(b"text " * 9, train=carol, train_limit=900, config=small, runtime=plain)
        >>> loss.record["dynamic"]["documents"]["n_bytes"], loss.to_frame()["loss"].tolist()
        (45, ['frozen', 'dynamic', 'untrained'])
    """
    check_arguments(test=test, train=train, config=config, limit=limit, runtime=runtime, executor=executor)
    check_arguments(train_limit=train_limit, cluster=cluster, orders=orders, on_progress=on_progress)
    static, scores = _names("static", static), _names("scores", scores)
    if bool(static or scores) == (train is not None):
        raise ConfigError("name what is measured: either train=, or models with static= or scores=")
    if context not in (None, *POLICIES):
        raise ConfigError(f"unknown context {context!r}; choose one of {', '.join(POLICIES)}")
    runtime, named = runtime or Runtime(), in_memory if executor is None else corpus_name
    if train is None:
        makers = models(static, scores, context, stride, orders, runtime)
    elif needless := "orders" if orders is not None else "stride" if stride is not None else "":
        raise ConfigError(f"{needless}= needs static=: it is for models that learn nothing here")
    else:
        given = (config, learner, byte_count(train_limit))
        makers = [partial(trained_model, named(train), given, context or "carried", overlap, runtime)]
    place = None if runs is None else _place(runs, train, test)
    tasks = [(named(test), byte_count(limit), cluster, make, place) for make in makers]
    return _together(results(measure, tasks, executor, lambda i: nullcontext(on_progress)))


def _place(runs: PathLike, *corpora: CorpusLike | None) -> tuple[Path, int]:
    """The file of records in a folder, ready for more, and the permissions of what is appended. Raises OutputError."""
    check_arguments(runs=runs)
    check_outside(runs, *corpora)
    path, mode = Path(runs).absolute() / RECORDS, mode_of(*corpora)
    prepare_records(path, mode)
    return path, mode


def _together(outcomes: Iterable[tuple[int, Any]]) -> Heldout:
    """The results of several models as one. Raises the first error among them, with the others as notes."""
    measured = [each for _, each in sorted(outcomes, key=itemgetter(0))]
    if errors := [each for each in measured if isinstance(each, Exception)]:
        for other in errors[1:]:
            errors[0].add_note(str(other))
        raise errors[0]
    if len(measured) == 1:
        return measured[0]
    records, labels = tuple(each.record for each in measured), [label_of(i) for i in range(len(measured))]
    comparison = compare_documents([document_losses(*each) for each in zip(records, labels, strict=True)])
    rows = [
        {**row, "model": label + row["model"].removeprefix(labels[0])}
        for each, label in zip(measured, labels, strict=True)
        for row in each.rows
    ]
    text, n_new = format_models(records, comparison), sum(each.n_new for each in measured)
    return Heldout(records=records, rows=tuple(rows), text=text, comparison=comparison, n_new=n_new)


def _names(name: str, value: Any) -> tuple[Any, ...]:
    """One name, or several, as a tuple. Raises ConfigError for anything else."""
    names = (value,) if isinstance(value, str | AnyPath) else value
    if not isinstance(names, list | tuple) or not all(isinstance(each, str | AnyPath) and each for each in names):
        raise wrong_argument(name, value, "a name, or a list of names")
    return tuple(names)


# ---- one measurement


@engine_call()
def measure(
    test: CorpusLike,
    limit_bytes: int | None,
    cluster: str | None,
    make: Callable[[HeldoutCorpus, OnProgress], Model],
    place: tuple[Path, int] | None,
    open_progress: Callable[[], AbstractContextManager[OnProgress]] = lambda: nullcontext(ignore),
) -> Heldout:
    """What `make` gives is measured, unless the file at this place has its record. It is what an executor calls.

    Raises ClaimedError, and as `heldout`.
    """
    with open_progress() as show:
        corpus = HeldoutCorpus.of(open_source(test, limit_bytes), cluster, test)
        corpus.about["limit_bytes"] = limit_bytes
        model = make(corpus, show)
        depends_on = json.dumps([VERSION, corpus.about, cluster, model.depends_on], sort_keys=True)
        key = blake2b(depends_on.encode(), digest_size=16).hexdigest()
        with claimed(place[0].with_name(f".claim-{key}")) if place else nullcontext():
            finished = read_records(place[0], HeldoutRecord, key.encode()) if place else ()
            record = next((each for _, each in finished), None)
            if is_new := not record:
                record = {**model.record(), "key": key}
                if place:
                    append_record(place[0], record, place[1])
    rows = _scored_rows(record, model.texts) if model.texts else _trained_rows(record)
    text = format_models([record]) if model.texts else format_heldout(record)
    return Heldout(records=(record,), rows=tuple(rows), text=text, n_new=is_new)


# ---- rows of single documents


def _scored_rows(record: Record, texts: HeldoutCorpus) -> Iterator[dict[str, Any]]:
    """The documents in their order, with what each costs under a model."""
    about = {"model": f"{label_of(0)} {record['config'][OTHER]['name']}", "loss": "frozen"}
    for i, (document, bits) in enumerate(zip(texts.documents, record["costs"], strict=True)):
        commit = texts.commits[i][0] if texts.commits else None
        yield {**about, **_row(document, bits, commit), "id": texts.ids[i]}


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
