"""Stored models as text: what `train` and `export` print, from their records."""

from typing import Any

from prequential.printable import printable

WITHOUT_MIXER = "the context mixer of the model is left out, so the GPT predicts worse than the model"


def format_training(record: dict[str, Any]) -> str:
    """One line: the corpus, its prequential code length, and the folder of the model."""
    corpus = record["trained_on"]
    return printable(
        f"{corpus['name']}: {corpus['n_bytes']:,} bytes read at {corpus['code_bits'] / corpus['n_bytes']:.4f} bits/byte "
        f"(prequential); model {record['digest'][:16]} in {record['model']}"
    )


def format_export(record: dict[str, Any]) -> str:
    """The exported module, and its loss on a corpus if it was checked."""
    lines = [f"{record['folder']}: a GPT with {record['n_parameters']:,} parameters; gpt.py loads it"]
    if record["left_out"]:
        lines.append(WITHOUT_MIXER)
    if check := record.get("check"):
        exact, plain = (check[name] / check["n_bytes"] for name in ("exact_bits", "float_bits"))
        lines.append(
            f"{check['corpus']['name']}, {check['n_bytes']:,} bytes, weights frozen: {exact:.4f} bits/byte under the exact GPT, "
            f"{plain:.4f} under the module ({check['difference']:+.3%})"
        )
    return "\n".join(map(printable, lines))
