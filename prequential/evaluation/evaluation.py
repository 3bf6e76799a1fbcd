"""Evaluation of a learner on a corpus. The archive is really written, to a file (draft.py), and all figures are of that file."""

import io
import tempfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from prequential_codecs.archive import ArchiveReader
from prequential_codecs.archive_header import OTHER, Header
from prequential_codecs.baselines import BASELINES, DEFAULT_BASELINES, BaselineResult

from prequential.arguments import check_arguments
from prequential.errors import ConfigError, CorpusError, wrong_argument
from prequential.evaluation.baselines import Baseline, checked_baselines, measure_baselines, to_record
from prequential.evaluation.breakdown import breakdown, passages
from prequential.evaluation.curves import (
    MIXER,
    MODEL,
    Curve,
    Curves,
    cost_frame,
    crossing_byte,
    curve_frame,
    curve_table,
)
from prequential.evaluation.ledger import Ledger, decoder_zip_bytes
from prequential.evaluation.runs import Run
from prequential.evaluation.scoring import Draft, DraftFolder, score_corpus, verified
from prequential.evaluation.summary import comparison_rows, model_summary, sizes_html
from prequential.evaluation.trace import Trace
from prequential.files import temporary_folder, writing
from prequential.learners.given import Given, is_model
from prequential.learners.protocol import OnlineModel
from prequential.learners.spec import LearnerSpec, code_lengths, other_spec, own_spec, reported, vocabulary_bytes
from prequential.machine.facts import peak_memory_bytes, usable_memory_bytes
from prequential.machine.process import plain_torch, process_kept
from prequential.model.config import GPT_CONTEXTS, Config, GPTConfig, MixerConfig, ScheduleConfig
from prequential.model.presets import default_for, name_of
from prequential.online import coding
from prequential.online.coding import OnProgress, config_of, ignore
from prequential.online.health import Finding
from prequential.online.progress import begin
from prequential.online.runtime import Runtime
from prequential.online.source import CorpusLike, Source, in_memory, mode_of, open_source
from prequential.records import CODED_HERE, DECODES_ANYWHERE, NOT_CODED, EvaluationRecord, environment, record_of

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, kw_only=True, repr=False)
class Evaluation:
    """What an evaluation measured.

    header: the corpus with its length and digest, and the complete configuration. curves: cumulative bits against bytes; "model"
    and, if it has both, its parts "gpt" and "mixer" have ideal code lengths, each baseline has real sizes. tables: where the bits
    went (evaluation/breakdown.py). passages: short stretches with the cost of each byte. wall_s, verify_wall_s: of coding and of
    decoding; None: not decoded. peak_memory_bytes: up to the end of coding. notes: baselines that were skipped, and why. trace:
    the cost of each byte. mode: the permissions that all files of the corpus and of the given text have; the archive and the
    record get no others. is_coded: whether an archive was written; if not, its size is the ideal code length in whole bytes.
    mixing: how many threads mixed, as in the record. It is None without a mixer, or if it is unknown.

    Examples:
        >>> import prequential
        >>> result = prequential.evaluate(b"abcdefgh" * 500, config=prequential.preset(1), baselines=("gzip",))
        >>> result.declaring(n_configs=8).ledger.choice_bits
        3.0
    """

    header: Header
    ledger: Ledger
    curves: Curves
    tables: dict[str, Any]
    passages: list[dict[str, Any]]
    wall_s: float
    peak_memory_bytes: int
    verify_wall_s: float | None
    baselines: tuple[BaselineResult, ...]
    notes: tuple[str, ...]
    trace: Trace = field(repr=False, compare=False)
    limit_bytes: int | None = None
    mode: int = 0o777
    is_coded: bool = True
    mixing: dict[str, Any] | None = None

    def declaring(self, *, n_configs: int = 1, n_seeds: int = 1) -> Self:
        """A copy that is the best of so many configurations and seeds. The total cost includes this choice."""
        return replace(self, ledger=replace(self.ledger, n_configs=n_configs, n_seeds=n_seeds))

    @property
    def curve(self) -> Curve:
        """The ideal code length so far at the end of each segment."""
        return self.curves[MODEL]

    def to_frame(self) -> "pandas.DataFrame":
        """All curves (`curve_frame`)."""
        return curve_frame(self.curves)

    def table(self, name: str) -> "pandas.DataFrame":
        """The table of this name in `tables` (`cost_frame`). Raises ConfigError if there is none."""
        return cost_frame(self.tables, name)

    def crossings(self) -> dict[str, int | None]:
        """By baseline: the byte from which on the learner stays below it up to the end; None: it is not below at the end.

        Sizes of files are compared with those of archives: the ideal code length and all that the complete archive has beyond
        it. Code lengths of static models (of no compressor in the registry) are compared with the ideal one.
        """
        beyond = max(0.0, self.ledger.archive_bits - self.ledger.code_bits)
        archive = Curve(n_bytes=self.curve.n_bytes, bits=self.curve.bits + beyond)
        names = [baseline.name for baseline in self.baselines]
        return {n: crossing_byte(archive if n in BASELINES else self.curve, self.curves[n]) for n in names}

    def __repr__(self) -> str:
        config, ledger = self.header.config, self.ledger
        proof = f"archive {ledger.archive_bytes:,} bytes" if self.is_coded else "no archive"
        verified = ", verified" if self.verify_wall_s is not None else ""
        corpus = f"{self.header.corpus.get('name', 'bytes')}, {self.header.n_bytes:,} bytes"
        model = name_of(config) or model_summary(config)
        return f"<Evaluation of {corpus}: {model}, {ledger.bits_per_byte:.4f} bits/byte, {proof}{verified}>"

    def _repr_html_(self) -> str:
        """The line above, and a table of all compressors, the smallest first."""
        record = {"config": self.header.config, "corpus": {"n_bytes": self.header.n_bytes}, "wall_s": self.wall_s}
        sizes = {"archive_bytes": self.ledger.archive_bytes, "baselines": list(map(to_record, self.baselines))}
        return sizes_html(repr(self), comparison_rows(record | sizes))


@process_kept()
def evaluate(
    source: CorpusLike,
    *,
    config: Config | None = None,
    learner: OnlineModel | LearnerSpec | Callable[[], OnlineModel] | None = None,
    given: Given | None = None,
    limit_bytes: int | None = None,
    baselines: Sequence[Baseline] = DEFAULT_BASELINES,
    verify: bool = False,
    draft: DraftFolder | None = None,
    runtime: Runtime | None = None,
    on_progress: OnProgress = ignore,
) -> Evaluation:
    """The prequential description length of `source` under a learner, with its learning curve and the baselines.

    source, config, given, runtime, on_progress: as for `prequential.compress`. learner: one of your own instead of a config, or a
    function that makes it. limit_bytes: only the beginning of the corpus. baselines: names of
    prequential_codecs.baselines, or an adapters.StaticModel. verify: decode the archive and compare every byte. draft: a
    folder for the archive (archive.pq); by default it is a temporary one. Baselines hold the corpus in memory.

    Takes one run of the learner, another one with `verify`, and one of its mixer alone if it has both parts. Raises what
    `compress` raises, CorpusError for an empty corpus, CorruptArchiveError if verification fails, and CheckpointError if the
    draft folder belongs to another run.

    Examples:
        >>> import prequential
        >>> result = prequential.evaluate("sample:christmas_carol", config=prequential.preset(1), limit_bytes=4096)
        >>> int(result.curve.n_bytes[-1])
        4096
    """
    check_arguments(source=source, config=config, given=given, limit_bytes=limit_bytes, verify=verify)
    check_arguments(runtime=runtime, on_progress=on_progress)
    baselines, runtime, given = checked_baselines(baselines), runtime or Runtime(), in_memory(given)
    if draft is not None and not isinstance(draft, DraftFolder):
        raise wrong_argument("draft", draft, "a DraftFolder, or None")
    if draft is not None and not Path(draft.path).is_dir():
        raise ConfigError(f"draft: {str(draft.path)!r} is not a folder: make it first")
    spec = _spec(config, learner, given, runtime)
    if verify and spec and not spec.is_coded:
        only = "only one of bytes that says `deterministic = True` is coded"
        raise ConfigError(f"this learner has no archive to verify: {only}")
    _check_memory(spec, baselines, runtime)  # before the corpus is read
    with plain_torch() if not spec or spec.config else nullcontext(), open_source(source, limit_bytes) as opened:
        if not opened.n_bytes:
            raise CorpusError("nothing to evaluate: the corpus is empty")
        if not spec:
            spec = own_spec(default_for(opened.n_bytes), runtime, given)
            _check_memory(spec, baselines, runtime)
        symbols, header = opened.symbols[:], opened.header(spec.description)
        if spec.is_coded:
            coded = _coded(symbols, header, spec, runtime, draft, verify=verify, on_progress=on_progress)
        else:
            trace, ends, wall_s = score_corpus(np.array(symbols), header, spec, draft, on_progress)
            ledger = Ledger.of_code_length(
                len(symbols), trace.total_bits(MODEL), tokenizer_bytes=vocabulary_bytes(spec)
            )
            coded = _Coding(ledger, trace, ends, wall_s, peak_memory_bytes())
        begin(on_progress, "baselines")
        measured = measure_baselines(symbols, baselines, opened.documents, _text_of(spec.given))
        return replace(_evaluation(opened, header, spec, coded, measured), limit_bytes=limit_bytes)


class _Coding(NamedTuple):
    """The figures of a run over the corpus, as in Evaluation. ends: where its segments end."""

    ledger: Ledger
    trace: Trace
    ends: NDArray[np.int64]
    wall_s: float
    peak_memory_bytes: int
    verify_wall_s: float | None = None
    mixing: dict[str, Any] | None = None


def _coded(
    symbols: NDArray[np.uint8],
    header: Header,
    spec: LearnerSpec,
    runtime: Runtime,
    folder: DraftFolder | None,
    *,
    verify: bool,
    on_progress: OnProgress,
) -> _Coding:
    """Writes the archive; decodes it if `verify`; scores the mixer alone if the learner has both parts."""
    if spec.config:
        warm_up(runtime, spec.config)
    with nullcontext(folder.path) if folder else _temporary_draft() as name:
        begin(on_progress, "coding")
        draft = Draft(Path(name), header, spec, resume=folder is not None and folder.resume)
        ledger, wall_s = draft.encode(symbols, on_progress, keep=folder is not None and folder.keep)
        peak_bytes = peak_memory_bytes()
        if verify:
            begin(on_progress, "decoding")
        verify_wall_s = verified(symbols, draft.archive, spec.make(), on_progress) if verify else None
    if MIXER in draft.trace.parts and spec.config:
        begin(on_progress, "mixer alone")
        mixer_alone = own_spec(replace(spec.config, gpt=None), runtime, spec.given)
        for bits in reported(code_lengths(mixer_alone.make(), symbols), symbols, on_progress):
            draft.trace.append(MIXER, bits)
    return _Coding(ledger, draft.trace, draft.ends, wall_s, peak_bytes, verify_wall_s, draft.mixing)


def _evaluation(
    source: Source,
    header: Header,
    spec: LearnerSpec,
    coded: _Coding,
    measured: tuple[list[BaselineResult], Curves, list[str]],
) -> Evaluation:
    symbols, (found, curves, notes) = source.symbols[:], measured
    trace, ends = coded.trace, coded.ends
    trace.settle()
    return Evaluation(
        header=header,
        ledger=replace(coded.ledger, decoder_bytes=decoder_zip_bytes() if spec.config else 0),
        curves={part: Curve(n_bytes=ends, bits=trace.sums(part, ends)) for part in trace.parts} | curves,
        tables=breakdown(symbols, trace, source.documents),
        passages=passages(symbols, trace),
        wall_s=coded.wall_s,
        peak_memory_bytes=coded.peak_memory_bytes,
        verify_wall_s=coded.verify_wall_s,
        baselines=tuple(found),
        notes=tuple(notes),
        trace=trace,
        mode=source.mode & mode_of(spec.given),
        is_coded=spec.is_coded,
        mixing=coded.mixing,
    )


def _temporary_draft() -> "tempfile.TemporaryDirectory[str]":
    with writing(temporary_folder()):
        return tempfile.TemporaryDirectory(dir=temporary_folder(), prefix="prequential-")


def _text_of(given: Given | None) -> bytes:
    """What baselines may know: the given text; nothing of a model."""
    if given is None or is_model(given):
        return b""
    with open_source(given) as source:
        return source.symbols[:].tobytes()


def _spec(
    config: Config | None,
    learner: OnlineModel | LearnerSpec | Callable[[], OnlineModel] | None,
    given: Given | None,
    runtime: Runtime,
) -> LearnerSpec | None:
    """The spec of these arguments; None if the length of the corpus decides."""
    if learner is None:
        has_own = given is not None and is_model(given)
        return own_spec(config, runtime, given) if config or has_own else None
    if config is not None:
        raise ConfigError("give a config, which is a learner of this program, or a learner of your own, not both")
    if given is not None:
        raise ConfigError("a given text is for learners of this program: let your own one read it before")
    return learner if isinstance(learner, LearnerSpec) else other_spec(learner)


def _check_memory(spec: LearnerSpec | None, baselines: Sequence[Baseline], runtime: Runtime) -> None:
    """Raises ConfigError if the learner does not fit beside the static models, which are held from the beginning."""
    held = sum(getattr(each, "memory_bytes", 0) for each in baselines)
    if held and spec and spec.config:
        most = usable_memory_bytes() if runtime.max_memory_bytes is None else runtime.max_memory_bytes
        replace(runtime, max_memory_bytes=most).check(spec.config, extra_bytes=held)


def warm_up(runtime: Runtime, planned: Config) -> None:
    """Runs self-tests and compiles kernels, once in a process, so that no later wall time of `planned` includes it."""
    runtime.accelerator(planned)
    gpt = GPTConfig(n_layers=1, width=64, n_heads=2, window=16, contexts=GPT_CONTEXTS, context_bits=8)
    schedule = ScheduleConfig(first_segment_symbols=16, segment_symbols=16, row_symbols=16, n_rows=1)
    small = Config(gpt=planned.gpt and gpt, mixer=MixerConfig(table_bits=8), schedule=schedule)
    source, archive, on_cpu = np.zeros(64, np.uint8), io.BytesIO(), replace(runtime, device="cpu")
    header = Header(n_bytes=len(source), blake2b=bytes(32), config=small.to_dict())
    for _ in coding.compress(source, header, archive, on_cpu.learner(small)):
        pass
    archive.seek(0)
    for _ in coding.decompress(ArchiveReader(archive), io.BytesIO(), on_cpu.learner(small)):
        pass


# ---- its record, as records.py describes it


def run_of(evaluation: Evaluation, name: str) -> Run:
    """The evaluation as a run of this name that no folder holds."""
    return Run(Path(name), evaluation_record(evaluation, Runtime()), curve_table(evaluation.curves))


def evaluation_record(evaluation: Evaluation, runtime: Runtime, findings: Iterable[Finding] = ()) -> dict[str, Any]:
    """The evaluation without its curves, the environment, and the findings about its health, as JSON values."""
    header, ledger, verify_wall_s = evaluation.header, evaluation.ledger, evaluation.verify_wall_s
    is_own = OTHER not in header.config
    mixing = {"mixing": evaluation.mixing} if evaluation.mixing else {}
    coding = (DECODES_ANYWHERE if is_own else CODED_HERE) if evaluation.is_coded else NOT_CODED
    return record_of(
        EvaluationRecord,
        ledger,
        evaluation,
        time=datetime.now(UTC).isoformat(timespec="seconds"),
        coding=coding,
        corpus={**header.corpus, "n_bytes": header.n_bytes, "blake2b": header.blake2b.hex()},
        config=header.config,
        ledger=[{"entry": entry, "bits": bits} for entry, bits in ledger.entries()],
        parts={part: evaluation.trace.total_bits(part) for part in evaluation.trace.parts},
        crossings=evaluation.crossings(),
        bytes_per_s=ledger.n_bytes / evaluation.wall_s,
        verified=verify_wall_s is not None,
        verify_bytes_per_s=ledger.n_bytes / verify_wall_s if verify_wall_s else None,
        baselines=list(map(to_record, evaluation.baselines)),
        notes=list(evaluation.notes),
        findings=[asdict(finding) for finding in findings],
        environment=environment(runtime, config_of(header, knows_given=True) if is_own else None) | mixing,
    )
