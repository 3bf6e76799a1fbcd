"""A ladder as text: its plan before it runs, bits per byte over every prefix, and the check of the rule of step sizes."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from prequential.online.flops import flops_per_byte
from prequential.records.table import format_table
from prequential.sweeps.ladder import Ladder, StepCheck, n_weights, step_drift
from prequential.sweeps.plans import Plan, Subject, config_key


def format_plan(plan: Plan, subject: Subject, finished: AbstractSet[str], remaining_s: float | None) -> str:
    """The runs of a plan, with a final newline.

    finished: the keys (`config_key`) of runs that exist already. remaining_s: predicted time of the other runs, in seconds;
    None if it was not predicted.
    """
    rows = [
        (
            setting.name,
            f"{n_weights(gpt):,}",
            ", ".join(str(config.seed) for config in setting.configs),
            f"{flops_per_byte(setting.own[0], subject.n_bytes).total:,.0f}",
        )
        for setting in plan.settings
        if (gpt := setting.own[0].gpt)
    ]
    n_finished = sum(config_key(config.to_dict()) in finished for config in plan.configs)
    prediction = "" if remaining_s is None else f", about {remaining_s:,.0f} s by a short probe"
    return "\n".join(
        [
            f"{len(plan.configs)} runs of {subject.n_bytes:,} bytes, which contain the runs over every prefix; "
            f"{n_finished} finished already; {plan.flops(subject.n_bytes):.3g} FLOPs in all{prediction}",
            format_table(("size", "weights", "seeds", "FLOPs/byte"), rows),
            "",
        ]
    )


def format_ladder(ladder: Ladder, diverged: Mapping[str, str]) -> str:
    """Bits per byte of every run over every prefix. diverged: why a run looks diverged, by the name of the run."""
    prefixes = ladder.prefixes()
    rows = [
        (rung.name, f"{rung.n_weights:,}", *(f"{rate:.4f}" for rate in rung.curve.at(prefixes) / prefixes))
        for rung in ladder.rungs
    ]
    return "\n".join(
        [
            format_table(("bits/byte over", "weights", *(f"{n:,}" for n in prefixes)), rows),
            *(f"looks diverged: {name}: {reason}" for name, reason in diverged.items()),
        ]
    )


def format_step_checks(checks: Sequence[StepCheck]) -> str:
    """The loss of the rule of step sizes at each size, and the drift of the best factor."""
    rows = [
        (
            str(check.size),
            f"{check.n_weights:,}",
            *(f"{bits:.4f}" for bits in check.bits_per_byte),
            "-" if check.best_factor is None else f"{check.best_factor:.2f}",
            f"{check.loss_percent:.2f} %",
        )
        for check in checks
    ]
    titles = ("bits/byte, steps", "weights", *(f"x {f:g}" for f in checks[0].factors), "best factor", "loss of x 1")
    drift = step_drift(checks)
    doublings = "unknown: fewer than 3 sizes have a best factor" if drift is None else f"{drift:+.2f} doublings"
    return "\n".join(
        [
            format_table(titles, rows),
            f"drift of the best factor for each doubling of the weights: {doublings}",
            *(f"{check.size}: {check.note}" for check in checks if check.note),
        ]
    )
