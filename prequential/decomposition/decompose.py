"""The parts of a code length: the cost of the data for a learner that knows such data, and the cost of learning.

docs/MEASURES.md defines the parts; METHOD.md gives the field's words. Of a finished run, the curve is split. A corpus is read by
a GPT without context mixer and table of contexts, and again under its last weights, as one stream: the window of a frozen learner
continues from segment to segment.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from prequential.arguments import check_arguments
from prequential.decomposition.expected import expected_curve
from prequential.decomposition.parts import Decomposition
from prequential.errors import ConfigError, CorpusError
from prequential.evaluation.curves import MODEL, Curve
from prequential.evaluation.opened import opened_run
from prequential.evaluation.runs import Run
from prequential.evaluation.summary import is_reported, model_summary, proof
from prequential.machine.process import engine_call
from prequential.model.config import Config
from prequential.model.presets import DEFAULT_PRESET, preset
from prequential.online.source import CorpusLike, Source, open_source
from prequential.records.schema import environment

if TYPE_CHECKING:
    from prequential.evaluation.evaluation import Evaluation
    from prequential.online.runtime import Runtime

REPEATS = "This run also counts repeated rows, so it reads some data more than once."


@engine_call()
def decompose(
    source: "CorpusLike | Run | Evaluation",
    config: Config | None = None,
    runtime: "Runtime | None" = None,
    *,
    limit_bytes: int | None = None,
    on_step: Callable[[str], object] = lambda text: None,
) -> Decomposition:
    """The parts of the code length of a finished run, or of a corpus under a GPT that reads it now.

    source: a run, its folder, or a result of `evaluate`; or a corpus, as `source` of `prequential.compress`. config: a GPT
    without mixer, whose contexts are left out (default: that of preset 5). on_step: called with the name of each step. Takes as
    long as two runs.

    Raises ConfigError for a learner that is not a GPT alone, and for a learner with a run; CorpusError for an empty corpus, and
    what reading raises.

    Examples:
        >>> import prequential
        >>> ladder = "benchmarks/forecasts/enwik8-contexts/ladder.jsonl"
        >>> prequential.decompose(prequential.read_runs(ladder)[0]).to_frame()["part"].tolist()
        ['code']
    """
    check_arguments(config=config, runtime=runtime, limit_bytes=limit_bytes, on_step=on_step)
    if run := opened_run(source, "the evaluation"):
        if config is not None or limit_bytes is not None:
            raise ConfigError("a run has its learner and its bytes: leave out config= and limit_bytes=")
        return _of_run(run)
    check_arguments(source=source)
    with open_source(cast("CorpusLike", source), limit_bytes) as opened:
        return _measured(opened, config, runtime, on_step)


def _of_run(run: Run) -> Decomposition:
    """The learning curve that a run recorded. No learner runs, so hindsight is unknown."""
    record, curve = run.record, run.curves[MODEL]
    what = proof(record) if is_reported(record) else "ideal code length"
    about: dict[str, Any] = {name: record[name] for name in ("corpus", "config", "coding") if name in record}
    return Decomposition(
        title=f"{run.path}, {curve.bits[-1]:,.0f} bits ({what}) by {model_summary(record['config'])}, as it learned",
        about={"run": str(run.path), **about},
        online=curve,
        expected=expected_curve(curve),
        note=REPEATS if record.get("reported", {}).get("counts_repeats") else "",
    )


def _measured(
    source: Source,
    config: Config | None,
    runtime: "Runtime | None",
    on_step: Callable[[str], object],
) -> Decomposition:
    """The parts of a corpus that is read now: online, and in hindsight."""
    from prequential.decomposition.weights import fresh_learner, pack_weights, unpack_weights
    from prequential.learners.subject import follow
    from prequential.model.frozen import FrozenLearner
    from prequential.online.runtime import Runtime
    from prequential.online.training import finish

    config, runtime = config or preset(DEFAULT_PRESET, pure=True), runtime or Runtime()
    config = replace(config, gpt=config.gpt and replace(config.gpt, contexts=()))
    runtime.check(config)
    if not source.n_bytes:
        raise CorpusError("the corpus is empty: there is nothing to code")
    symbols = source.symbols[:]
    learner = fresh_learner(config, runtime)
    on_step("online")
    online = _curve(follow(learner, symbols))
    finish(learner)
    on_step("hindsight")
    weights = pack_weights(learner, fresh_learner(config, runtime))
    by = f"{model_summary(config.to_dict())}, without contexts"
    return Decomposition(
        title=f"{source.name or 'bytes'}, {online.bits[-1]:,.0f} bits (ideal code length) by the {by}, as it learns",
        about={"corpus": source.record(), "config": config.to_dict(), "environment": environment(runtime, config)},
        online=online,
        expected=expected_curve(online),
        hindsight=_curve(follow(FrozenLearner(unpack_weights(weights, config, runtime)), symbols)),
        weights_bytes=len(weights),
    )


def _curve(costs: Iterable[NDArray[np.float64]]) -> Curve:
    """The curve of the costs of segments."""
    sums = [(len(bits), float(bits.sum())) for bits in costs]
    n_bytes, bits = np.cumsum(sums, axis=0).T
    return Curve(n_bytes=n_bytes.astype(np.int64), bits=bits)
