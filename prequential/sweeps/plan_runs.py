"""The runs of a plan, one after another, in run folders. A finished run of the same configuration and bytes is used again."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

from prequential.errors import CorpusError
from prequential.evaluation.evaluation import evaluate
from prequential.evaluation.runs import PathLike, Run, new_run_folder
from prequential.model.config import Config
from prequential.online.progress import SilentProgress
from prequential.online.runtime import Runtime
from prequential.online.source import CorpusLike, in_memory
from prequential.printable import printable
from prequential.sweeps.plans import Plan, Variant, config_key, corpus_key, finished_runs, recorded_corpus

OpenProgress = Callable[[str], AbstractContextManager[SilentProgress]]  # from the name of a run to its `on_progress`


@dataclass(frozen=True, kw_only=True)
class RunOutcome:
    """One planned run, and its result: a run folder or an error. is_new: False for a run that was finished before."""

    variant: Variant
    config: Config
    run: Run | None = None
    error: Exception | None = None
    is_new: bool = True

    @property
    def name(self) -> str:
        return f"{self.variant.name}, seed {self.config.seed}"

    def to_text(self) -> str:
        """One line about a finished run."""
        assert self.run
        record = self.run.record
        figures = f"archive {record['bits_per_byte']:.4f} bits/byte, {record['bytes_per_s'] / 1e3:,.2f} kB/s"
        return f"{self.name}: {figures}, {'' if self.is_new else 'finished already, '}{printable(str(self.run.path))}"

    def to_record(self) -> dict[str, Any]:
        return {
            "name": self.variant.name,
            "seed": self.config.seed,
            "is_new": self.is_new,
            "path": str(self.run.path) if self.run else None,
            "bits_per_byte": self.run.record["bits_per_byte"] if self.run else None,
            "error": str(self.error) if self.error else None,
        }


def run_plan(
    source: CorpusLike,
    plan: Plan,
    folder: PathLike,
    *,
    limit_bytes: int | None = None,
    runtime: Runtime | None = None,
    open_progress: OpenProgress = lambda name: nullcontext(SilentProgress(name)),
) -> Iterator[RunOutcome]:
    """Runs the plan over `source` and yields each outcome as soon as it is known. A failed run does not stop the others.

    folder: where finished runs are looked for and new run folders are written. open_progress: opens the progress of a run. The
    other arguments are those of `evaluate`. Raises CorpusError if the corpus cannot be read, and for a finished run that is
    not to be trusted.
    """
    source = in_memory(source)
    corpus = corpus_key(source, limit_bytes)
    finished = finished_runs(folder, corpus, plan)

    def new_run(planned: RunOutcome) -> Run:
        with new_run_folder(folder):
            pass  # before the work: it can be written
        with open_progress(planned.name) as progress:
            evaluation = evaluate(
                source,
                config=planned.config,
                limit=limit_bytes,
                baselines=(),
                runtime=runtime,
                on_progress=progress,
            )
        if recorded_corpus(evaluation.record) != corpus:
            raise CorpusError("the corpus changed during the runs: its digest is another one now")
        return evaluation.save(folder)

    for variant, config in plan.runs:
        outcome = RunOutcome(variant=variant, config=config)
        if run := finished.get(config_key(config.to_dict())):
            outcome = replace(outcome, run=run, is_new=False)
        else:
            try:
                outcome = replace(outcome, run=new_run(outcome))
            except Exception as error:  # the caller reports it
                outcome = replace(outcome, error=error)
        yield outcome
