"""Records of studies: the JSON values that `--json` prints. Figures have the units of the classes that they come from."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from prequential.sweeps.ablate import Ablation, AblationSummary
from prequential.sweeps.ladder import StepCheck, n_weights, step_drift
from prequential.sweeps.plans import Outcome, Plan, Subject
from prequential.sweeps.sweep import Summary

SCHEMA = 1


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
