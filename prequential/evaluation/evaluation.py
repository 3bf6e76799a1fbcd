"""Evaluation of a learner on a corpus. The archive is really written (scoring.py), and all figures are of that file."""

from __future__ import annotations

import io
import json
import logging
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import msgspec
import numpy as np
from prequential_codecs.archive import ArchiveReader
from prequential_codecs.archive_header import Header
from prequential_codecs.baselines import BASELINES

from prequential import records
from prequential.arguments import byte_count, check_arguments
from prequential.errors import ConfigError, wrong_argument
from prequential.evaluation.baselines import Baseline, checked_baselines, measure_baselines
from prequential.evaluation.breakdown import breakdown, passages
from prequential.evaluation.curves import MIXER, MODEL, Curve, Curves, crossing_byte
from prequential.evaluation.ledger import choice_entries, decoder_zip
from prequential.evaluation.runs import ARCHIVE, DraftFolder, Result, Run, new_run_folder
from prequential.evaluation.scoring import Scored, Scoring, verified
from prequential.evaluation.summary import is_coded, run_line
from prequential.evaluation.trace import ArrayFile, Trace
from prequential.files import PathLike, temporary_folder, write_bytes, writing
from prequential.learners.given import Given, is_model
from prequential.learners.protocol import OnlineModel
from prequential.learners.spec import LearnerSpec, code_lengths, other_spec, own_spec, reported, vocabulary_bytes
from prequential.machine.facts import peak_memory_bytes, usable_memory_bytes
from prequential.machine.process import plain_torch, process_kept
from prequential.model.config import GPT_CONTEXTS, Config, GPTConfig, MixerConfig, ScheduleConfig
from prequential.model.presets import default_for, preset
from prequential.online import coding
from prequential.online.coding import OnProgress, Progress, ignore
from prequential.online.health import Health
from prequential.online.progress import begin
from prequential.online.runtime import Runtime
from prequential.online.source import CorpusLike, Source, in_memory, mode_of, open_source
from prequential.records import EvaluationRecord, environment, record_of


class Evaluation(Result, EvaluationRecord, frozen=True, eq=False):
    """What an evaluation measured: all fields of `record.jsonl` (records.py), and what is not in that file.

    curves: cumulative bits against bytes; "model" and, if it has both, its parts "gpt" and "mixer" have ideal code lengths, each
    baseline has real sizes. trace: the cost of each byte. archive_file: the archive, if there is one. mode: the permissions that
    all files of the corpus and of the given text have; the archive and the record get no others.

    Examples:
        >>> import prequential
        >>> result = prequential.evaluate(b"abcdefgh" * 500, level=1, baselines=("gzip",))
        >>> result.n_bytes, result.bits_per_byte == 8 * result.archive_bytes / 4000
        (4000, True)
        >>> tried = result.declaring(n_configs=8)
        >>> round(tried.total_bits - result.total_bits, 6), [entry.bits for entry in tried.ledger[-2:]]
        (3.0, [3.0, 0.0])
    """

    curves: Curves
    trace: Trace
    archive_file: ArrayFile | None = None
    mode: int = 0o777

    @property
    def record(self) -> dict[str, Any]:  # type: ignore[override]
        """The fields of `record.jsonl`, as JSON values."""
        return record_of(EvaluationRecord, self)

    @property
    def is_coded(self) -> bool:
        """Whether an archive was written; if not, its size is the ideal code length in whole bytes."""
        return is_coded(self.record)

    def declaring(self, *, n_configs: int = 1, n_seeds: int = 1) -> Self:
        """A copy that is the best of so many configurations and seeds. The total cost includes this choice."""
        ledger = self.ledger[:-2] + choice_entries(n_configs, n_seeds)
        total_bits = sum(entry.bits for entry in ledger)
        return msgspec.structs.replace(self, ledger=ledger, total_bits=total_bits, n_configs=n_configs, n_seeds=n_seeds)

    def save(self, folder: PathLike = "runs") -> Run:
        """Writes a new run folder in `folder`, as the command `evaluate` does, and returns the run. Raises OutputError."""
        check_arguments(folder=folder)
        with new_run_folder(folder) as new:
            if self.archive_file is not None:
                write_bytes(new.path / ARCHIVE, self.archive_file.read(0, self.archive_bytes).tobytes())
            return Run(new.finish(Path(folder), self.record, self.curves, mode=self.mode), self.record)

    def __repr__(self) -> str:
        proof = f"archive {self.archive_bytes:,} bytes" if self.is_coded else "no archive"
        return f"<Evaluation of {run_line(self.record)}, {proof}{', verified' if self.verified else ''}>"


@process_kept()
def evaluate(
    source: CorpusLike,
    *,
    level: int | str | None = None,
    config: Config | None = None,
    learner: OnlineModel | LearnerSpec | Callable[[], OnlineModel] | None = None,
    given: Given | None = None,
    limit: int | str | None = None,
    baselines: Sequence[Baseline] = tuple(BASELINES),
    verify: bool = False,
    runs: PathLike | None = None,
    draft: DraftFolder | None = None,
    runtime: Runtime | None = None,
    on_progress: OnProgress = ignore,
) -> Evaluation:
    """The prequential description length of `source` under a learner, with its learning curve and the baselines.

    source, given, runtime, on_progress: as for `prequential.compress`. The learner is one of: level, a preset, 1 to 6; config, a
    complete configuration; learner, one of your own, or a function that makes it. limit: read only so many bytes of the corpus, a
    number or a text such as "1M". baselines: names of prequential_codecs.baselines, or an adapters.StaticModel. verify: decode
    the archive and compare every byte. runs: a folder that gets the run folder of the result. draft: a folder to work in; by
    default it is a temporary one. Baselines hold the corpus in memory.

    Takes one run of the learner, another one with `verify`, and one of its mixer alone if it has both parts. Raises what
    `compress` raises, CorpusError for an empty corpus, CorruptArchiveError if verification fails, and CheckpointError if the
    draft folder belongs to another run.

    Examples:
        >>> import prequential
        >>> result = prequential.evaluate("sample:christmas_carol", level=1, limit="4K")
        >>> result.n_bytes, result.archive_bytes < result.baselines[0].compressed_bytes
        (4096, True)
    """
    check_arguments(source=source, level=level, config=config, given=given, limit=limit, verify=verify)
    check_arguments(runtime=runtime, on_progress=on_progress, **({} if runs is None else {"runs": runs}))
    if draft is not None and not isinstance(draft, DraftFolder):
        raise wrong_argument("draft", draft, "a DraftFolder, or None")
    baselines, runtime, given = checked_baselines(baselines), runtime or Runtime(), in_memory(given)
    spec = _spec(level, config, learner, given, runtime)
    if verify and spec and not spec.is_coded:
        only = "only one of bytes that says `deterministic = True` is coded"
        raise ConfigError(f"this learner has no archive to verify: {only}")
    if runs is not None:
        with new_run_folder(runs, source, given):
            pass  # before the work: it can be written
    opened = open_source(source, byte_count(limit))
    with plain_torch() if not spec or spec.config else nullcontext():
        opened.check_not_empty("evaluate")
        spec = spec or own_spec(default_for(opened.n_bytes), runtime, given)
        _check_memory(spec, baselines, runtime)
        if spec.config:
            warm_up(runtime, spec.config)
        with nullcontext(draft) if draft else _temporary_draft() as folder:
            result = _measured(opened, spec, runtime, folder, baselines, verify, on_progress)
    result = msgspec.structs.replace(result, limit_bytes=byte_count(limit))
    if runs is not None:
        result.save(runs)
    return result


def _measured(
    source: Source,
    spec: LearnerSpec,
    runtime: Runtime,
    folder: DraftFolder,
    baselines: Sequence[Baseline],
    verify: bool,
    on_progress: OnProgress,
) -> Evaluation:
    """Runs the learner; decodes the archive if `verify`; runs the mixer alone if there is a GPT, too; measures the baselines."""
    symbols, header, health = source.symbols[:], source.header(spec.description), Health()

    def show(done: Progress, n: int) -> None:
        on_progress(done, n)
        health(done, n)

    begin(on_progress, "coding")
    run = Scoring(header, spec, folder)
    scored = run.score(symbols, show)
    trace, figures, archive = run.trace, _figures(header, spec, scored), None
    if verify:
        begin(on_progress, "decoding")
        wall_s = verified(symbols, run.archive, spec.make(), show)
        figures |= {"verified": True, "verify_wall_s": wall_s, "verify_bytes_per_s": len(symbols) / wall_s}
    if MIXER in trace.parts and spec.config:
        begin(on_progress, "mixer alone")
        mixer_alone = own_spec(replace(spec.config, gpt=None), runtime, spec.given)
        for bits in reported(code_lengths(mixer_alone.make(), symbols), symbols, show):
            trace.append(MIXER, bits)
    trace.file.settle()
    mixing = {"mixing": scored.mixing} if scored.mixing else {}
    figures |= {"environment": environment(runtime, spec.config) | mixing}
    figures |= {"tables": breakdown(symbols, trace, source.documents), "passages": passages(symbols, trace)}
    if spec.is_coded:
        archive = ArrayFile(np.uint8, scored.ledger.archive_bytes, run.archive)
        archive.settle()
    curves = {part: Curve(n_bytes=scored.ends, bits=trace.sums(part, scored.ends)) for part in trace.parts}
    begin(on_progress, "baselines")
    known = b""  # nothing of a model
    if spec.given is not None and not is_model(spec.given):
        known = open_source(spec.given).symbols[:].tobytes()
    others, other_curves, notes = measure_baselines(symbols, baselines, source.documents, known)
    # Sizes of files are compared with those of archives; code lengths of static models, of no registered compressor, with ours.
    own = curves[MODEL]
    whole = Curve(n_bytes=own.n_bytes, bits=own.bits + max(0.0, figures["archive_bits"] - figures["code_bits"]))
    against = {name: whole if name in BASELINES else own for name in other_curves}
    return Evaluation(
        **figures,
        parts={part: trace.total_bits(part) for part in trace.parts},
        crossings={name: crossing_byte(against[name], each) for name, each in other_curves.items()},
        baselines=others,
        notes=notes,
        findings=health.findings,
        curves=curves | other_curves,
        trace=trace,
        archive_file=archive,
        mode=source.mode & mode_of(spec.given),
    )


def _figures(header: Header, spec: LearnerSpec, scored: Scored) -> dict[str, Any]:
    """The fields of the record that the run gives."""
    ledger, decoder_bytes = scored.ledger, len(decoder_zip()) if spec.config else 0
    entries = ledger.entries(decoder_bytes=decoder_bytes, tokenizer_bytes=vocabulary_bytes(spec))
    own = records.DECODES_ANYWHERE if spec.config else records.CODED_HERE
    return {
        **{name: getattr(ledger, name) for name in EvaluationRecord.__struct_fields__ if hasattr(ledger, name)},
        "coding": own if spec.is_coded else records.NOT_CODED,
        "corpus": {**header.corpus, "n_bytes": header.n_bytes, "blake2b": header.blake2b.hex()},
        "config": json.loads(json.dumps(header.config)),  # lists, as in a record that is read: equal learners are equal
        "ledger": entries,
        "decoder_bytes": decoder_bytes,
        "total_bits": sum(entry.bits for entry in entries),
        "benchmark_bytes": ledger.archive_bytes + decoder_bytes,
        "wall_s": scored.wall_s,
        "bytes_per_s": ledger.n_bytes / scored.wall_s,
        "peak_memory_bytes": peak_memory_bytes(),
        "time": records.now(),
    }


@contextmanager
def _temporary_draft() -> Iterator[DraftFolder]:
    with writing(temporary_folder()):
        folder = tempfile.TemporaryDirectory(dir=temporary_folder(), prefix="prequential-")
    with folder as name:
        yield DraftFolder(path=Path(name))


def _spec(
    level: int | str | None,
    config: Config | None,
    learner: OnlineModel | LearnerSpec | Callable[[], OnlineModel] | None,
    given: Given | None,
    runtime: Runtime,
) -> LearnerSpec | None:
    """The spec of these arguments; None if the length of the corpus decides."""
    if sum(each is not None for each in (level, config, learner)) > 1:
        raise ConfigError("level=, config= and learner= each give the learner: leave out all but one")
    if learner is None:
        config = config if level is None else preset(level)
        return own_spec(config, runtime, given) if config or is_model(given) else None
    if runtime.device == "cuda":
        logging.getLogger(__name__).warning('device="cuda" has no effect: a learner of your own chooses its device')
    if given is not None:
        raise ConfigError("a given text is for learners of this program: let your own one read it before")
    return learner if isinstance(learner, LearnerSpec) else other_spec(learner)


def _check_memory(spec: LearnerSpec, baselines: Sequence[Baseline], runtime: Runtime) -> None:
    """Raises ConfigError if the learner does not fit beside the static models, which are held from the beginning."""
    held = sum(getattr(each, "memory_bytes", 0) for each in baselines)
    if held and spec.config:
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
