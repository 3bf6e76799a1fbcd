"""Records of studies: the JSON values that `--json` prints. Figures have the units of the classes that they come from."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from prequential.decomposition.decompose import References
from prequential.sweeps.ablate import Ablation, AblationSummary
from prequential.sweeps.expected_curve import LEVEL
from prequential.sweeps.ladder import StepCheck, n_weights, step_drift
from prequential.sweeps.plans import Outcome, Plan, Subject
from prequential.sweeps.selection import Choice
from prequential.sweeps.sweep import Summary

SCHEMA = 1
DEFAULT_THRESHOLDS = (0.1, 0.5, 1.0)  # bits per byte above the rate at the end of the corpus


def sweep_record(plan: Plan, subject: Subject, outcomes: Sequence[Outcome], summary: Summary | None) -> dict[str, Any]:
    """A sweep: its plan and, unless it was a dry run, its runs and results."""
    record = {
        "schema": SCHEMA,
        "kind": "sweep",
        "corpus": subject._asdict(),
        "plan": _settings(plan),
        "refused": [refusal._asdict() for refusal in plan.refusals],
        "flops": plan.flops(subject.n_bytes),
        "runs": [outcome_record(outcome) for outcome in outcomes],
    }
    if summary:
        record |= asdict(summary) | {"choice_bits": summary.choice_bits, "run_choice_bits": summary.run_choice_bits}
    return record


def ablation_record(
    ablation: Ablation, subject: Subject, outcomes: Sequence[Outcome], summary: AblationSummary | None
) -> dict[str, Any]:
    """An ablation: its plan and, unless it was a dry run, its runs and results."""
    plan = ablation.plan
    record = {
        "schema": SCHEMA,
        "kind": "ablation",
        "corpus": subject._asdict(),
        "sizes": list(ablation.sizes),
        "features": list(ablation.features),
        "plan": _settings(plan),
        "refused": [refusal._asdict() for refusal in plan.refusals],
        "flops": plan.flops(subject.n_bytes),
        "runs": [outcome_record(outcome) for outcome in outcomes],
    }
    if summary:
        record |= asdict(summary) | {"choice_bits": summary.choice_bits}
    return record


def ladder_record(
    plan: Plan,
    subject: Subject,
    outcomes: Sequence[Outcome],
    *,
    diverged: Mapping[str, str],
    step_checks: Sequence[StepCheck] | None,
    predicted_s: float | None,
) -> dict[str, Any]:
    """A ladder, or a check of the rule of step sizes if `step_checks` is not None. predicted_s: wall time in seconds."""
    return {
        "schema": SCHEMA,
        "kind": "ladder" if step_checks is None else "step check",
        "corpus": subject._asdict(),
        "plan": [
            {"size": setting.name, "n_weights": n_weights(config.gpt), "config": config.to_dict()}
            for setting in plan.settings
            for config in setting.own
            if config.gpt
        ],
        "flops": plan.flops(subject.n_bytes),
        "predicted_wall_s": predicted_s,
        "runs": [outcome_record(outcome) for outcome in outcomes],
        "diverged": dict(diverged),
        "step_checks": [asdict(check) for check in step_checks or ()],
        "step_drift": step_drift(step_checks) if step_checks else None,
    }


def _settings(plan: Plan) -> list[dict[str, Any]]:
    return [{"name": s.name, "configs": [config.to_dict() for config in s.configs]} for s in plan.settings]


def outcome_record(outcome: Outcome) -> dict[str, Any]:
    """One run of a plan."""
    return {
        "name": outcome.setting.name,
        "seed": outcome.config.seed,
        "is_new": outcome.is_new,
        "path": str(outcome.run.path) if outcome.run else None,
        "bits_per_byte": outcome.run.record["bits_per_byte"] if outcome.run else None,
        "error": str(outcome.error) if outcome.error else None,
    }


def references_record(found: References, epsilons: Sequence[float] | None) -> dict[str, Any]:
    """The figures of the reference codes.

    epsilons: thresholds in bits/byte; None: DEFAULT_THRESHOLDS above the expected rate at the end.
    """
    expected = found.expected
    thresholds = epsilons or [expected.final_rate.point + above for above in DEFAULT_THRESHOLDS]
    return {
        "references": [reference.to_record() for reference in found.references],
        "split": vars(found.split),
        "expected": {
            "level": LEVEL,
            "n_cells": expected.n_cells,
            "final_bits_per_byte": vars(expected.final_rate),
            "learning_bits": vars(expected.learning_bits),
        },
        "regret_bits": float(found.regret.bits[-1]),
        "thresholds": [
            {
                "epsilon": epsilon,
                "surplus_bits": vars(expected.surplus_bits(epsilon)),
                "sample_bytes": reached and vars(reached),
            }
            for epsilon in thresholds
            for reached in [expected.sample_bytes(epsilon)]
        ],
    }


def selection_record(request: Mapping[str, Any], choices: Sequence[Choice], n_documents: int) -> dict[str, Any]:
    """The complete selection. request: what was asked for. n_documents: of the corpus, empty ones included.

    Equal arguments give equal records: nothing in them depends on the machine or the time.
    """
    chosen = [choice.scored for choice in choices if choice.selected]
    return {
        "schema": SCHEMA,
        "kind": "selection",
        **request,
        "n_documents": len(choices),
        "n_empty": n_documents - len(choices),
        "n_selected": len(chosen),
        "selected_bytes": sum(scored.document.n_bytes for scored in chosen),
        "code_bits": sum(choice.scored.code_bits for choice in choices),
    }


def choice_record(choice: Choice) -> dict[str, Any]:
    """One document of a selection."""
    rank, scored, selected = choice
    return {
        "kind": "document",
        "rank": rank,
        "name": scored.document.name,
        "start": scored.document.offset,
        "n_bytes": scored.document.n_bytes,
        "bits": scored.bits,
        "code_bits": scored.code_bits,
        "score": scored.score,
        "selected": selected,
    }
