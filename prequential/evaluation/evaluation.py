"""Evaluation of a learner on a corpus. The archive is really written (scoring.py), and all figures are of that file."""

import io
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import msgspec
import numpy as np
from prequential_codecs.archive import ArchiveReader
from prequential_codecs.archive_header import Header
from prequential_codecs.baselines import BASELINES

from prequential.arguments import check_arguments
from prequential.errors import ConfigError, CorpusError, wrong_argument
from prequential.evaluation.baselines import Baseline, checked_baselines, measure_baselines
from prequential.evaluation.breakdown import breakdown, passages
from prequential.evaluation.curves import MIXER, MODEL, Curve, Curves, cost_frame, crossing_byte, curve_frame
from prequential.evaluation.ledger import choice_entries, decoder_zip
from prequential.evaluation.scoring import DraftFolder, Scored, Scoring, verified
from prequential.evaluation.summary import comparison_rows, run_line, sizes_html
from prequential.evaluation.trace import Trace
from prequential.files import temporary_folder, writing
from prequential.learners.given import Given, is_model
from prequential.learners.protocol import OnlineModel
from prequential.learners.spec import LearnerSpec, code_lengths, other_spec, own_spec, reported, vocabulary_bytes
from prequential.machine.facts import peak_memory_bytes, usable_memory_bytes
from prequential.machine.process import plain_torch, process_kept
from prequential.model.config import GPT_CONTEXTS, Config, GPTConfig, MixerConfig, ScheduleConfig
from prequential.model.presets import default_for
from prequential.online import coding
from prequential.online.coding import OnProgress, ignore
from prequential.online.progress import begin
from prequential.online.runtime import Runtime
from prequential.online.source import CorpusLike, Source, in_memory, mode_of, open_source
from prequential.records import (
    CODED_HERE,
    DECODES_ANYWHERE,
    NOT_CODED,
    WITHOUT_ARCHIVE,
    BaselineFields,
    EvaluationRecord,
    environment,
    record_of,
)

if TYPE_CHECKING:
    import pandas


class Evaluation(EvaluationRecord, frozen=True, eq=False):
    """What an evaluation measured: all fields of `record.jsonl` (records.py), and what is not in that file.

    curves: cumulative bits against bytes; "model" and, if it has both, its parts "gpt" and "mixer" have ideal code lengths, each
    baseline has real sizes. trace: the cost of each byte. mode: the permissions that all files of the corpus and of the given
    text have; the archive and the record get no others.

    Examples:
        >>> import prequential
        >>> result = prequential.evaluate(b"abcdefgh" * 500, config=prequential.preset(1), baselines=("gzip",))
        >>> tried = result.declaring(n_configs=8)
        >>> round(tried.total_bits - result.total_bits, 6), [entry.bits for entry in tried.ledger[-2:]]
        (3.0, [3.0, 0.0])
    """

    curves: Curves
    trace: Trace
    mode: int = 0o777

    def declaring(self, *, n_configs: int = 1, n_seeds: int = 1) -> Self:
        """A copy that is the best of so many configurations and seeds. The total cost includes this choice."""
        ledger = self.ledger[:-2] + choice_entries(n_configs, n_seeds)
        total_bits = sum(entry.bits for entry in ledger)
        return msgspec.structs.replace(self, ledger=ledger, total_bits=total_bits, n_configs=n_configs, n_seeds=n_seeds)

    def to_record(self) -> dict[str, Any]:
        """The record, as JSON values."""
        return record_of(EvaluationRecord, self)

    @property
    def is_coded(self) -> bool:
        """Whether an archive was written; if not, its size is the ideal code length in whole bytes."""
        return self.coding not in WITHOUT_ARCHIVE

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

    def __repr__(self) -> str:
        proof = f"archive {self.archive_bytes:,} bytes" if self.is_coded else "no archive"
        return f"<Evaluation of {run_line(self.to_record())}, {proof}{', verified' if self.verified else ''}>"

    def _repr_html_(self) -> str:
        """The line above, and a table of all compressors, the smallest first."""
        return sizes_html(repr(self), comparison_rows(self.to_record()))


@process_kept()
def evaluate(
    source: CorpusLike,
    *,
    config: Config | None = None,
    learner: OnlineModel | LearnerSpec | Callable[[], OnlineModel] | None = None,
    given: Given | None = None,
    limit_bytes: int | None = None,
    baselines: Sequence[Baseline] = tuple(BASELINES),
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
        if spec.config:
            warm_up(runtime, spec.config)
        with nullcontext(draft) if draft else _temporary_draft() as folder:
            trace, figures = _measured(opened, spec, runtime, folder, verify=verify, on_progress=on_progress)
        begin(on_progress, "baselines")
        measured = measure_baselines(opened.symbols[:], baselines, opened.documents, _text_of(spec.given))
        figures |= {
            "limit_bytes": limit_bytes,
            "environment": environment(runtime, spec.config) | figures["environment"],
        }
        return _evaluation(opened, trace, figures, *measured)


def _measured(
    source: Source, spec: LearnerSpec, runtime: Runtime, folder: DraftFolder, *, verify: bool, on_progress: OnProgress
) -> tuple[Trace, dict[str, Any]]:
    """Runs the learner; decodes the archive if `verify`; runs the mixer alone if the learner has both parts."""
    symbols, header = source.symbols[:], source.header(spec.description)
    begin(on_progress, "coding")
    run = Scoring(header, spec, folder)
    scored = run.score(symbols, on_progress)
    figures = _figures(header, spec, scored)
    if verify:
        begin(on_progress, "decoding")
        wall_s = verified(symbols, run.archive, spec.make(), on_progress)
        figures |= {"verified": True, "verify_wall_s": wall_s, "verify_bytes_per_s": len(symbols) / wall_s}
    if MIXER in run.trace.parts and spec.config:
        begin(on_progress, "mixer alone")
        mixer_alone = own_spec(replace(spec.config, gpt=None), runtime, spec.given)
        for bits in reported(code_lengths(mixer_alone.make(), symbols), symbols, on_progress):
            run.trace.append(MIXER, bits)
    run.trace.settle()
    curves = {part: Curve(n_bytes=scored.ends, bits=run.trace.sums(part, scored.ends)) for part in run.trace.parts}
    return run.trace, figures | {"curves": curves, "mode": source.mode & mode_of(spec.given)}


def _figures(header: Header, spec: LearnerSpec, scored: Scored) -> dict[str, Any]:
    """The fields of the record that the run gives."""
    ledger, decoder_bytes = scored.ledger, len(decoder_zip()) if spec.config else 0
    entries = ledger.entries(decoder_bytes=decoder_bytes, tokenizer_bytes=vocabulary_bytes(spec))
    own = DECODES_ANYWHERE if spec.config else CODED_HERE
    return {
        **{name: getattr(ledger, name) for name in EvaluationRecord.__struct_fields__ if hasattr(ledger, name)},
        "coding": own if spec.is_coded else NOT_CODED,
        "corpus": {**header.corpus, "n_bytes": header.n_bytes, "blake2b": header.blake2b.hex()},
        "config": header.config,
        "ledger": entries,
        "decoder_bytes": decoder_bytes,
        "n_configs": 1,
        "n_seeds": 1,
        "total_bits": sum(entry.bits for entry in entries),
        "benchmark_bytes": ledger.archive_bytes + decoder_bytes,
        "wall_s": scored.wall_s,
        "bytes_per_s": ledger.n_bytes / scored.wall_s,
        "verified": False,
        "verify_wall_s": None,
        "verify_bytes_per_s": None,
        "peak_memory_bytes": peak_memory_bytes(),
        "findings": [],
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "environment": {"mixing": scored.mixing} if scored.mixing else {},
    }


def _evaluation(
    source: Source,
    trace: Trace,
    figures: dict[str, Any],
    baselines: list[BaselineFields],
    curves: Curves,
    notes: list[str],
) -> Evaluation:
    symbols, model = source.symbols[:], figures["curves"][MODEL]
    beyond = max(0.0, figures["archive_bits"] - figures["code_bits"])
    archive = Curve(n_bytes=model.n_bytes, bits=model.bits + beyond)
    # Sizes of files are compared with those of archives; code lengths of static models, of no registered compressor, with ours.
    crossings = {name: crossing_byte(archive if name in BASELINES else model, curve) for name, curve in curves.items()}
    return Evaluation(
        **figures | {"curves": figures["curves"] | curves, "tables": breakdown(symbols, trace, source.documents)},
        parts={part: trace.total_bits(part) for part in trace.parts},
        crossings=crossings,
        passages=passages(symbols, trace),
        baselines=baselines,
        notes=notes,
        trace=trace,
    )


@contextmanager
def _temporary_draft() -> Iterator[DraftFolder]:
    with writing(temporary_folder()):
        folder = tempfile.TemporaryDirectory(dir=temporary_folder(), prefix="prequential-")
    with folder as name:
        yield DraftFolder(path=Path(name))


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
