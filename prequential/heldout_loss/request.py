"""A held-out measurement from its request to its result: the one path of the command and of `prequential.heldout`."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import chain
from math import log
from os import PathLike as AnyPath
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from prequential_codecs.archive_header import OTHER
from prequential_corpora.corpus import Document

from prequential.arguments import check_arguments
from prequential.comparison.clusters import label_of
from prequential.comparison.documents import DocumentComparison, compare_documents, document_losses
from prequential.errors import ConfigError, CorpusError, wrong_argument
from prequential.files import PathLike
from prequential.heldout_loss.documents import DocumentSet, documents_of, grouping_of, utf8_places
from prequential.heldout_loss.heldout import Context, Policy
from prequential.heldout_loss.order_test import check_order
from prequential.heldout_loss.run import EVERYTHING, LoadLearner, Passes, Stage, Warn, measure_heldout
from prequential.heldout_loss.scored import NO_MODELS, Models, Scored, read_scored, score_static
from prequential.heldout_loss.summary import languages_of
from prequential.heldout_loss.text import format_heldout, format_models
from prequential.heldout_loss.trained import Trained, kind_of, load_trained, train_on
from prequential.learners.loading import HUB_PREFIX
from prequential.learners.protocol import OnlineModel
from prequential.learners.spec import LearnerSpec, other_spec, own_spec
from prequential.machine.process import engine_call
from prequential.model.config import Config
from prequential.model.presets import DEFAULT_PRESET, preset
from prequential.online.coding import OnProgress, ignore
from prequential.online.progress import begin
from prequential.online.runtime import Runtime
from prequential.online.source import CorpusLike, Source, open_source
from prequential.records import LOSSES

if TYPE_CHECKING:
    import pandas

Keep = Callable[[dict[str, Any]], object]  # is given each record as soon as it is complete


@dataclass(frozen=True, kw_only=True)
class HeldoutRequest:
    """What to measure on the corpus `test`: `models`, which are frozen; or a learner that reads the corpus `train` first.

    train: a corpus, a run folder of `evaluate`, or the folder of a stored model. config, learner: the learner that reads a
    corpus; by default the default preset. passes: its losses. cluster: what depends on each other (`grouping_of`).
    """

    test: CorpusLike
    models: Models = NO_MODELS
    train: CorpusLike | None = None
    config: Config | None = None
    learner: LearnerSpec | None = None
    passes: Passes = EVERYTHING
    cluster: str | None = None
    limit_bytes: int | None = None
    train_limit_bytes: int | None = None
    runtime: Runtime = field(default_factory=Runtime)

    def __post_init__(self) -> None:
        if bool(self.models) == (self.train is not None):
            raise ConfigError("name what is measured: train=, or models with static= or scores=, and not both")


@dataclass(frozen=True, kw_only=True, repr=False)
class Heldout:
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

    def to_frame(self) -> "pandas.DataFrame":
        """A row for each document, model and loss: n_bytes, bits, nats, bits_per_byte; of a window also its commit and date.

        Documents of a window may have equal names: `number`, or of models `id`, tells them apart. Of a learner that was trained
        here, these are the 1,000 costliest documents.
        """
        import pandas

        return pandas.DataFrame(list(self.rows))

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<{self.text.splitlines()[-1]}>"  # what to conclude


def stages(on_progress: OnProgress) -> Stage:
    """Stages whose progress a function shows; it names them if it can."""

    @contextmanager
    def stage(name: str) -> Iterator[OnProgress]:
        begin(on_progress, name)
        yield on_progress

    return stage


def measure(
    request: HeldoutRequest, *, stage: Stage, warn: Warn, keep: Keep = lambda record: None, opened: Source | None = None
) -> Heldout:
    """Measures what is requested. keep: is given each record at once, so that a later failure loses none.

    opened: the test corpus, if it is open. Raises ConfigError, CorpusError, and what models and learners raise.
    """
    load = None if request.models else _loader(request, stage)  # refuses what cannot succeed
    with nullcontext(opened) if opened else open_source(request.test, request.limit_bytes) as source:
        if not source.documents:  # bytes in memory are one document
            source = replace(source, documents=[Document("bytes", 0, source.n_bytes)])
        if not source.n_bytes:
            raise CorpusError(f"nothing to score: the test corpus {source.name!r} is empty")
        if warning := source.origin.get("warning"):
            warn(str(warning))
        grouping = grouping_of(source, request.cluster, request.test)
        if request.models.orders:
            check_order(source)
        if not load:
            documents = documents_of(source, grouping, request.limit_bytes)
            return measure_models(documents, request.models, request.runtime, stage=stage, warn=warn, keep=keep)
        passes, limit_bytes = replace(request.passes, grouping=grouping), request.limit_bytes
        record = measure_heldout(load, source, limit_bytes, request.runtime, passes, stage=stage, warn=warn)
        rows = list(_trained_rows(record, dict(source.commits)))
    keep(record)
    return Heldout(records=(record,), rows=tuple(rows), text=format_heldout(record))


def measure_models(
    documents: DocumentSet, models: Models, runtime: Runtime, *, stage: Stage, warn: Warn, keep: Keep
) -> Heldout:
    """Scores the documents under each model. Static models get those that are UTF-8; then no other one is compared.

    Scores of files are read first. Only one static model is in memory at a time.
    """
    for path in (name.removeprefix(HUB_PREFIX) for name in models.static):  # before the first one is scored
        if path.startswith((".", "/", "~")) and not Path(path).exists():
            raise ConfigError(f"the folder {path!r} does not exist: name that of a model")
    scored = [read_scored(path, documents, models, runtime) for path in models.scores]
    if models.static:
        kept = utf8_places(documents)
        if n_other := len(documents.ids) - len(kept):
            n = f"{n_other:,} of {len(documents.ids):,}"
            warn(f"{n} documents are left out: they are not UTF-8, as static models need")
        if not kept:
            raise CorpusError("nothing to score: no document is UTF-8, as static models need")
        documents, scored = documents.only(kept), [replace(each, bits=each.bits[kept]) for each in scored]
    records, rows = list[dict[str, Any]](), list[dict[str, Any]]()
    static = (score_static(name, documents, models, runtime, stage) for name in models.static)
    for each in chain(static, scored):
        records.append(each.to_record(documents))
        rows += _scored_rows(label_of(len(records) - 1), documents, each)
        keep(records[-1])
    losses = [document_losses(record, label_of(i)) for i, record in enumerate(records)]
    comparison = compare_documents(losses) if len(losses) > 1 else None
    text = format_models(records, comparison)
    return Heldout(records=tuple(records), rows=tuple(rows), text=text, comparison=comparison)


# ---- rows of single documents


def _trained_rows(record: Mapping[str, Any], dates: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """The documents in the record of a trained learner, under each loss, the costliest first. dates: of commits."""
    for loss in filter(record.get, LOSSES):
        for each in record[loss]["each"]:
            document, commit = Document(each["name"], 0, each["n_bytes"]), each["commit"]
            yield {"loss": loss, **_row(document, each["bits"], commit, dates), "number": each["number"]}


def _scored_rows(label: str, documents: DocumentSet, scored: Scored) -> Iterator[dict[str, Any]]:
    """The documents under a model, in the order of the corpus."""
    about, dates = (
        {"model": f"{label} {scored.model['config'][OTHER]['name']}", "loss": "frozen"},
        dict(documents.commits),
    )
    for i, (document, bits) in enumerate(zip(documents.documents, scored.bits.tolist(), strict=True)):
        commit = documents.commits[i][0] if dates else None
        yield {**about, **_row(document, bits, commit, dates), "id": documents.ids[i]}


def _row(document: Document, bits: float, commit: str | None, dates: Mapping[str, str]) -> dict[str, Any]:
    n, (language,) = document.n_bytes, languages_of([document])
    sizes = {"n_bytes": n, "bits": bits, "nats": bits * log(2), "bits_per_byte": bits / n if n else None}
    more = {"commit": commit, "date": dates[commit]} if commit else {}
    return {"document": document.name, "language": language, **sizes, **more}


# ---- a trained learner


def _loader(request: HeldoutRequest, stage: Stage) -> LoadLearner:
    """A function that returns the trained learner. Everything that can be refused before the work is refused here."""
    assert request.train is not None
    train, runtime, kind = request.train, request.runtime, kind_of(request.train)

    def checked(spec: LearnerSpec) -> LearnerSpec:
        request.passes.check(spec, runtime)
        return spec

    if kind != "corpus":
        if request.config or request.learner or request.train_limit_bytes is not None:
            raise ConfigError(
                f"train= names a {kind}, which is a trained learner: leave out config=, learner= and train_limit_bytes="
            )

        def load() -> Trained:
            with stage(kind) as show:
                return load_trained(str(train), kind, lambda config: checked(own_spec(config, runtime)), runtime, show)

        return load

    spec = checked(request.learner or own_spec(request.config or preset(DEFAULT_PRESET), runtime))

    def learn() -> Trained:
        with open_source(train, request.train_limit_bytes) as source, stage("training") as show:
            return train_on(source, spec, show)

    return learn


# ---- the public function


@engine_call()
def heldout(
    test: CorpusLike,
    *,
    static: str | Sequence[str] = (),
    scores: PathLike | Sequence[PathLike] = (),
    train: CorpusLike | None = None,
    config: Config | None = None,
    learner: OnlineModel | LearnerSpec | Callable[[], OnlineModel] | None = None,
    losses: Sequence[Literal["frozen", "dynamic"]] = ("frozen", "dynamic"),
    context: Context | None = None,
    stride: int | None = None,
    cluster: str | None = None,
    orders: int | None = None,
    limit_bytes: int | None = None,
    train_limit_bytes: int | None = None,
    runtime: Runtime | None = None,
    on_progress: OnProgress = ignore,
) -> Heldout:
    """The loss of static models, or of a learner that read `train` first, on the documents of the corpus `test`.

    test, train: as `source` of `prequential.compress`; train may also be the folder of a run or of a stored model, which is a
    trained learner. config, or learner as of `evaluate`: what reads `train` (default: preset 5). losses: frozen, which learns
    nothing from the test corpus, or dynamic. static: hf:FOLDER or hf:NAME of models of transformers, one or several. scores:
    files of what a cluster computed. context, stride: what a frozen model sees before a byte. cluster: what depends on each
    other: a field of the rows, "document" for nothing, or a number of levels of folders. orders: of static models, how many
    drawn orders are scored, too. docs/MEASURES.md explains them.

    With two models or more, the result holds their paired differences, and intervals. Nothing is written. Raises ConfigError,
    CorpusError, MissingDependencyError, and what the learner raises.

    Examples:
        >>> import prequential
        >>> small = prequential.Config(gpt=None, mixer=prequential.MixerConfig(contexts=("1", "2"), table_bits=10))
        >>> plain = prequential.Runtime(kernels="plain")
        >>> carol = "sample:christmas_carol"
        >>> loss = prequential.heldout(b"text " * 9, train=carol, train_limit_bytes=900, config=small, runtime=plain)
        >>> loss.record["dynamic"]["documents"]["n_bytes"], loss.to_frame()["loss"].tolist()
        (45, ['frozen', 'dynamic', 'untrained'])
    """
    check_arguments(test=test, train=train, config=config, limit_bytes=limit_bytes, runtime=runtime)
    check_arguments(cluster=cluster, orders=orders, on_progress=on_progress)
    if not losses or not set(losses) <= {"frozen", "dynamic"}:
        raise wrong_argument("losses", losses, '["frozen"], ["dynamic"], or both')
    if config is not None and learner is not None:
        raise ConfigError("give a config, which is a learner of this program, or a learner of your own, not both")
    models, frozen = _models(static, scores, context, stride, orders), Policy(context or "carried", stride)
    request = HeldoutRequest(
        test=test,
        models=models,
        train=train,
        config=config,
        learner=learner if learner is None or isinstance(learner, LearnerSpec) else other_spec(learner),
        passes=Passes(frozen=frozen if "frozen" in losses else None, dynamic="dynamic" in losses),
        cluster=cluster,
        limit_bytes=limit_bytes,
        train_limit_bytes=train_limit_bytes,
        runtime=runtime or Runtime(),
    )
    return measure(request, stage=stages(on_progress), warn=logging.getLogger(__name__).warning)


def _models(static: Any, scores: Any, context: Context | None, stride: int | None, orders: int | None) -> Models:
    """The models that are scored. Without one, context and stride belong to the learner."""
    models = Models(static=_names("static", static), scores=_names("scores", scores))
    if orders is not None and not models:
        raise ConfigError("orders= tests static models: what a learner read that is trained here is known")
    return replace(models, context=context, stride=stride, orders=orders) if models else models


def _names(name: str, value: Any) -> tuple[Any, ...]:
    """One name, or several, as a tuple. Raises ConfigError for anything else."""
    names = (value,) if isinstance(value, str | AnyPath) else value
    if not isinstance(names, list | tuple) or not all(isinstance(each, str | AnyPath) and each for each in names):
        raise wrong_argument(name, value, "a name, or a list of names")
    return tuple(names)
