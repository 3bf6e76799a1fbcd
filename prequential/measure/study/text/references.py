"""The reference codes of a corpus as tables, from their `references_record`."""

from typing import Any

from prequential.measure.table import format_table

TITLES = ("code", "bits", "bits/byte", "uncounted", "bits/byte")


def format_references(record: dict[str, Any]) -> str:
    """The codes, what each shows, the split of the code length, and the thresholds; no final newline."""
    codes = record["references"]
    n_bytes = codes[0]["n_bytes"]
    return "\n\n".join(
        [
            format_table(TITLES, [_code_row(code) for code in codes]),
            "\n".join(f"{code['name']}: {code['shows']}" for code in codes),
            "uncounted: without weights or counts, and therefore not a code. data: the cost of all bytes at the rate of the last "
            f"{record['split']['window_bytes']:,}.",
            format_table(("split", "bits", "bits/byte"), _split_rows(record, n_bytes)),
            format_table(
                ("epsilon", "surplus bits", "bytes to reach it"),
                [_threshold_row(threshold, n_bytes) for threshold in record["thresholds"]],
            ),
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
    split, regret_bits = record["split"], record["regret_bits"]
    return [
        ["code length", f"{split['code_bits']:,.0f}", f"{split['code_bits'] / n_bytes:.4f}"],
        ["= data", f"{split['data_bits']:,.0f}", f"{split['final_bits_per_byte']:.4f}"],
        ["+ learning", f"{split['learning_bits']:,.0f}", f"{split['learning_bits'] / n_bytes:.4f}"],
        ["regret to hindsight", f"{regret_bits:,.0f}", f"{regret_bits / n_bytes:.4f}"],
    ]


def _threshold_row(threshold: dict[str, Any], n_bytes: int) -> list[str]:
    sample_bytes = threshold["sample_bytes"]
    return [
        f"{threshold['epsilon']:.4f}",
        f"{threshold['surplus_bits']:,.0f}",
        f"> {n_bytes:,}" if sample_bytes is None else f"{sample_bytes:,}",
    ]
