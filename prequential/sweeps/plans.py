"""Plans of runs over one corpus, which `sweep`, `ladder` and `ablate` share, and the runs one after another.

    plan = sweep_plan(preset(5, pure=True), widths=[64, 128], seeds=[0, 1])
    outcomes = list(run_plan("book.txt", plan, "runs"))

Each run leaves a run folder (evaluation/runs.py). A finished run of the same configuration over the same bytes is used
again, so an interrupted plan continues when it is started again.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from prequential.errors import CorpusError
from prequential.evaluation.evaluation import DraftFolder, evaluate
from prequential.evaluation.record import evaluation_record
from prequential.evaluation.runs import PathLike, Run, new_run_folder, read_run, runs_so_far
from prequential.learners.subject import Subject as Learner
from prequential.model.config import Config
from prequential.online.flops import total_flops
from prequential.online.runtime import Runtime
from prequential.online.source import open_source
from prequential.sweeps.plan_workers import PlanWorker
from prequential.sweeps.trust import check_own_run
from prequential.version import VERSION
from prequential.watch.progress import SilentProgress

OpenProgress = Callable[[str], AbstractContextManager[SilentProgress]]  # from the name of a run to its `on_progress`


# ---- the plan


Candidate = Config | Learner  # what a run measures: a learner of this program, or one of the user's own


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Candidates that differ only in their seed. Results are averaged over them."""

    name: str
    configs: tuple[Candidate, ...]

    @property
    def own(self) -> tuple[Config, ...]:
        """The candidates that are learners of this program."""
        return tuple(config for config in self.configs if isinstance(config, Config))

    def flops(self, n_bytes: int) -> float | None:
        """Operations of one run over n_bytes; None for a learner of the user's own, whose operations are not known."""
        return total_flops(self.own[0], n_bytes).total if self.own else None


class Refusal(NamedTuple):
    """A combination of values that is not a valid configuration, and the reason."""

    name: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The settings to run, in order, and the refused combinations."""

    settings: tuple[Setting, ...]
    refusals: tuple[Refusal, ...]

    @property
    def runs(self) -> list[tuple[Setting, Candidate]]:
        """Setting and configuration of every run, in order."""
        return [(setting, config) for setting in self.settings for config in setting.configs]

    @property
    def configs(self) -> list[Candidate]:
        """The configuration of every run, in order."""
        return [config for _, config in self.runs]

    @property
    def own(self) -> list[Config]:
        """Those of this program."""
        return [config for setting in self.settings for config in setting.own]

    def flops(self, n_bytes: int) -> float | None:
        """Operations of all runs over n_bytes; None if they are not known."""
        of_each = [(len(setting.configs), setting.flops(n_bytes)) for setting in self.settings]
        known = [n * flops for n, flops in of_each if flops is not None]
        return sum(known) if len(known) == len(of_each) else None


def config_key(config: Mapping[str, Any]) -> str:
    """A string that is equal for equal configurations. config: from `Config.to_dict`, or the same values read from JSON."""
    return json.dumps(config, sort_keys=True)


# ---- the corpus


class Subject(NamedTuple):
    """The bytes that all runs of a plan read: their number, and their BLAKE2b-256 in hexadecimal digits."""

    n_bytes: int
    blake2b: str


def subject_of(source: str | PathLike, limit_bytes: int | None = None) -> Subject:
    """Length and digest of the corpus, or of its beginning.

    Raises CorpusError for an empty corpus, and for standard input, which can be read only once.
    """
    if source == "-":
        raise CorpusError("each run of a plan reads the corpus again: save standard input to a file first")
    with open_source(source, limit_bytes, in_order=True) as opened:
        if not opened.n_bytes:
            raise CorpusError("the corpus is empty: there is nothing to run")
        return Subject(opened.n_bytes, opened.blake2b.hex())


def recorded_subject(record: Mapping[str, Any]) -> Subject:
    """The bytes that a record names, of a run or of a forecast."""
    return Subject(record["corpus"]["n_bytes"], record["corpus"]["blake2b"])


# ---- the runs


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The result of one planned run: a run folder or an error. is_new: False for a run that was finished before."""

    setting: Setting
    config: Candidate
    run: Run | None = None
    error: Exception | None = None
    is_new: bool = True

    @property
    def name(self) -> str:
        """Setting and seed."""
        return run_title(self.setting, self.config)


def run_title(setting: Setting, config: Candidate) -> str:
    """What to call a planned run: setting and seed."""
    return setting.name if config.seed is None else f"{setting.name}, seed {config.seed}"


def finished_runs(folder: PathLike, subject: Subject, plan: Plan, *, trust_runs: bool = False) -> dict[str, Run]:
    """The newest run in `folder` of each planned candidate, by `config_key`, over these bytes and by this version of the program.

    Runs that cannot be read are left out. Raises CorpusError for a folder that cannot be read, and, unless trust_runs, for a run
    that is not this user's or has lost its archive (`check_own_run`).
    """
    planned = {config_key(config.to_dict()) for config in plan.configs}
    found = {
        key: run
        for run in runs_so_far(folder, on_bad=lambda error: None)
        if recorded_subject(run.record) == subject
        and _version(run.record) == VERSION
        and (key := config_key(run.record["config"])) in planned
    }
    for run in () if trust_runs else found.values():
        check_own_run(run)
    return found


def _version(record: Mapping[str, Any]) -> str | None:
    """The version of the program that made the run; None if the record does not say."""
    version: str | None = record.get("environment", {}).get("versions", {}).get("prequential")
    return version


def runs_by_setting(outcomes: Iterable[Outcome]) -> dict[Setting, list[Run]]:
    """The finished runs of each setting that has one."""
    runs: dict[Setting, list[Run]] = {}
    for outcome in outcomes:
        if outcome.run:
            runs.setdefault(outcome.setting, []).append(outcome.run)
    return runs


@contextmanager
def _open_silent(name: str) -> Iterator[SilentProgress]:
    yield SilentProgress(name)


def run_plan(
    source: str | PathLike,
    plan: Plan,
    folder: PathLike,
    *,
    limit_bytes: int | None = None,
    runtime: Runtime | None = None,
    open_progress: OpenProgress = _open_silent,
    worker: PlanWorker | None = None,
    trust_runs: bool = False,
) -> Iterator[Outcome]:
    """Runs the plan over `source` and yields each outcome as soon as it is known. A failed run does not stop the others.

    folder: where finished runs are looked for and new run folders are written. open_progress: opens the progress of a run.
    worker: this process, if several share the plan. Each yields the runs that it made or found; the first one finally yields
    those of the others. trust_runs: also use finished runs of other users, and those without their archives. The other arguments
    are those of `evaluate`. Raises CorpusError if the corpus cannot be read, and for a finished run that is not to be trusted.
    """
    subject = subject_of(source, limit_bytes)
    maker = _RunMaker(source, subject, Path(folder), limit_bytes, runtime or Runtime(), open_progress)
    finished = finished_runs(folder, subject, plan, trust_runs=trust_runs)
    claimed_elsewhere: dict[str, tuple[Setting, Candidate]] = {}
    for setting, config in plan.runs:
        key = config_key(config.to_dict())
        if run := finished.get(key):
            yield Outcome(setting=setting, config=config, run=run, is_new=False)
        elif worker and not worker.claim(key):
            claimed_elsewhere[key] = setting, config
        else:
            outcome = maker.outcome(setting, config)
            if worker and (error := outcome.error):
                worker.fail(key, str(error) or type(error).__name__)
            yield outcome
    if worker:
        worker.leave()
        if worker.is_first:
            failures = worker.failures(claimed_elsewhere)  # waits until the others have ended
            finished = finished_runs(folder, subject, plan, trust_runs=trust_runs)
            yield from _outcomes_elsewhere(claimed_elsewhere, folder, failures, finished)


def _outcomes_elsewhere(
    claimed: Mapping[str, tuple[Setting, Candidate]],
    folder: PathLike,
    failures: Mapping[str, str],
    finished: Mapping[str, Run],
) -> Iterator[Outcome]:
    """The outcomes of runs that other processes claimed, by `config_key`. finished: the runs that are in the folder now."""
    for key, (setting, config) in claimed.items():
        run = None if key in failures else finished.get(key)
        reason = failures.get(key, f"the run of another worker is not in {folder}, which all workers must share")
        yield Outcome(setting=setting, config=config, run=run, error=None if run else CorpusError(reason))


@dataclass(frozen=True)
class _RunMaker:
    """Makes the runs of a plan. The fields are the arguments of `run_plan`."""

    source: str | PathLike
    subject: Subject
    folder: Path
    limit_bytes: int | None
    runtime: Runtime
    open_progress: OpenProgress

    def outcome(self, setting: Setting, config: Candidate) -> Outcome:
        """A new run of this candidate, or the error that it failed with."""
        try:
            run = self._run(run_title(setting, config), config)
        except Exception as error:  # the caller of `run_plan` reports it
            return Outcome(setting=setting, config=config, error=error)
        return Outcome(setting=setting, config=config, run=run)

    def _run(self, name: str, config: Candidate) -> Run:
        with new_run_folder(self.folder) as new:
            with self.open_progress(name) as progress:
                evaluation = evaluate(
                    self.source,
                    config=config if isinstance(config, Config) else None,
                    learner=config if isinstance(config, Learner) else None,
                    limit_bytes=self.limit_bytes,
                    baselines=(),
                    draft=DraftFolder(path=new.draft),
                    runtime=self.runtime,
                    on_progress=progress,
                )
            record = evaluation_record(evaluation, self.runtime, progress.health.findings)
            if (found := recorded_subject(record)) != self.subject:
                raise CorpusError(
                    f"the corpus changed during the runs: its digest was {self.subject.blake2b}, now it is {found.blake2b}"
                )
            return read_run(new.finish(self.folder, record, evaluation.curves, mode=evaluation.mode))
