"""The reference codes of a corpus as tables, from their `references_record`."""

from collections.abc import Sequence
from typing import Any

from prequential.decomposition.decompose import References
from prequential.records.table import format_table
from prequential.sweeps.expected_curve import LEVEL, MIN_CELLS

DEFAULT_THRESHOLDS = (0.1, 0.5, 1.0)  # bits per byte above the rate at the end of the corpus
TITLES = ("code", "bits", "bits/byte", "uncounted", "bits/byte")


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


def format_references(record: dict[str, Any]) -> str:
    """The codes, what each shows, the split of the code length, and the thresholds; no final newline."""
    codes = record["references"]
    n_bytes, expected = codes[0]["n_bytes"], record["expected"]
    interval = (f"{expected['level']:.0%} from", "to")
    has_interval = expected["learning_bits"]["low"] is not None
    return "\n\n".join(
        [
            format_table(TITLES, [_code_row(code) for code in codes]),
            "\n".join(f"{code['name']}: {code['shows']}" for code in codes),
            "uncounted: without weights or counts, and therefore not a code. data: the cost of all bytes at the end of the "
            "expected curve, a smooth law through the costs of all segments.",
            format_table(("split", "bits", "bits/byte", *interval), _split_rows(record, n_bytes)),
            format_table(
                ("epsilon", "surplus bits", *interval, "bytes to reach it", *interval),
                [_threshold_row(threshold, n_bytes) for threshold in record["thresholds"]],
            ),
            *([] if has_interval else [f"no intervals: {record['expected']['n_cells']} cells, {MIN_CELLS} are needed"]),
        ]
    )


def _code_row(code: dict[str, Any]) -> list[str]:
    uncounted = (f"{code['uncounted_bits']:,}", f"{code['uncounted_bits_per_byte']:.4f}")
    return [
        code["name"],
        f"{code['counted_bits']:,}",
        f"{code['bits_per_byte']:.4f}",
        *(uncounted if code["model_bytes"] else ("", "")),
    ]


def _split_rows(record: dict[str, Any], n_bytes: int) -> list[list[str]]:
    split, expected, regret_bits = record["split"], record["expected"], record["regret_bits"]
    learning, rate = expected["learning_bits"], expected["final_bits_per_byte"]
    window = f"learning by the last {split['window_bytes']:,} bytes alone"
    return [
        ["code length", *_bits(split["code_bits"], n_bytes), "", ""],
        ["= data, at the expected final rate", *_bits(n_bytes * rate["point"], n_bytes), *_ends(rate, n_bytes)],
        ["+ learning", *_bits(learning["point"], n_bytes), *_ends(learning)],
        [window, *_bits(split["learning_bits"], n_bytes), "", ""],
        ["regret to hindsight", *_bits(regret_bits, n_bytes), "", ""],
    ]


def _bits(bits: float, n_bytes: int) -> tuple[str, str]:
    return f"{bits:,.0f}", f"{bits / n_bytes:.4f}"


def _ends(estimate: dict[str, Any], factor: float = 1.0) -> list[str]:
    """The interval; an end that is not known is empty."""
    ends = (estimate["low"], estimate["high"])
    return ["" if end is None else f"{factor * end:,.0f}" for end in ends]


def _threshold_row(threshold: dict[str, Any], n_bytes: int) -> list[str]:
    surplus, reached = threshold["surplus_bits"], threshold["sample_bytes"]
    where = [f"{reached['point']:,.0f}", *_ends(reached)] if reached else [f"> {n_bytes:,}", "", ""]
    return [f"{threshold['epsilon']:.4f}", f"{surplus['point']:,.0f}", *_ends(surplus), *where]
