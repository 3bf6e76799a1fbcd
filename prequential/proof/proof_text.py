"""Checks as text: the facts and checks of `doctor`, and the findings of `audit`."""

from collections.abc import Sequence

from prequential.proof.findings import Finding
from prequential.proof.selftest import Check
from prequential.records.table import format_table

VERDICTS = {True: "ok", False: "FAILED", None: "skipped"}


def format_fact(name: str, value: object) -> str:
    """One line about the machine."""
    return f"{name:<26}{value}"


def format_check(check: Check) -> str:
    """One line about a check of the self-test."""
    return format_fact(check.name, f"{VERDICTS[check.passed]}: {check.text}")


def format_findings(findings: Sequence[Finding]) -> str:
    """The checks of the prequential law as a table."""
    rows = [(f.check, f"{f.times}", "FAILED" if f.failure else "ok") for f in findings]
    return format_table(("check", "times", "result"), rows)
