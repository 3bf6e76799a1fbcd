"""Logs of earlier training runs as runs: the mean loss of each line, times the tokens since the line before."""

import csv
import hashlib
import io
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from prequential.arguments import check_arguments
from prequential.errors import ConfigError, CorpusError
from prequential.evaluation.curves import Curve
from prequential.evaluation.runs import PathLike, Run
from prequential.files import read_regular, reading
from prequential.files.strict_json import parse_json
from prequential.recording.run import TrainingRun
from prequential.records.forms import IMPORTED

MAX_LOG_BYTES = 1 << 28
BITS_PER = {"nats/token": 1 / math.log(2.0), "bits/token": 1.0}


def import_log(
    path: PathLike,
    folder: PathLike = "runs",
    *,
    tokens: str,
    loss: str,
    bytes_per_token: float,
    unit: str = "nats/token",
    name: str | None = None,
    data: str | None = None,
    arguments: Mapping[str, Any] | None = None,
) -> Run:
    """A run folder from the log of a training run: trainer_state.json of transformers, or CSV (Weights & Biases, TensorBoard).

    tokens: the column of the tokens so far. loss: the column of the mean loss since the line before, in `unit`: "nats/token" or
    "bits/token". Lines without one of the two are left out. bytes_per_token: of the tokenizer on this text. name: of the learner;
    data: of what it learned. Runs of data of one name and length can be compared; nothing checks that it was the same.

    Order and repeats of the data are unknown. Raises CorpusError for a log that cannot be read, or without these columns.

    Examples:
        >>> import pathlib, tempfile, prequential
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> _ = (folder / "log.csv").write_text("seen,loss\\n1000,5.5\\n2000,4.1\\n")
        >>> run = prequential.import_log(folder / "log.csv", folder / "runs", tokens="seen", loss="loss", bytes_per_token=4.0)
        >>> run.record["coding"], round(run.record["bits_per_byte"], 2), run.record["n_tokens"]
        ('imported from a log: order and repeats unknown', 1.73, 2000)
    """
    check_arguments(path=path, folder=folder)
    if unit not in BITS_PER:
        raise ConfigError(f"import_log: unit is {unit!r}: give {' or '.join(BITS_PER)}")
    if not isinstance(bytes_per_token, int | float) or not 0 < bytes_per_token < 1e6:
        raise ConfigError(f"import_log: bytes_per_token is {bytes_per_token!r}: give a positive number")
    n_tokens, losses = _columns(path, tokens, loss)
    ends = np.unique(np.rint(n_tokens * bytes_per_token).astype(np.int64))
    if len(ends) != len(n_tokens) or (np.diff(n_tokens, prepend=0) <= 0).any():
        raise CorpusError(f"{str(path)!r}: the column {tokens!r} does not ascend: give the tokens so far")
    bits = np.cumsum(np.diff(n_tokens, prepend=0) * losses * BITS_PER[unit])
    declared = data.encode() if data else bits.tobytes()  # a log whose data nobody named equals only itself
    corpus = {
        "name": data or Path(path).stem,
        "kind": "declared",
        "n_bytes": int(ends[-1]),
        "blake2b": hashlib.blake2b(declared + f"/{ends[-1]}".encode(), digest_size=32).hexdigest(),
    }
    learner = {"name": name or Path(path).stem, "arguments": dict(arguments or {})}
    reported = {"source": Path(path).name, "n_steps": len(ends)}
    run = TrainingRun(
        coding=IMPORTED,
        corpus=corpus,
        learner=learner,
        reported=reported,
        n_tokens=int(n_tokens[-1]),
        curve=Curve(n_bytes=ends, bits=bits),
    )
    return run.save(folder)


def _columns(path: PathLike, tokens: str, loss: str) -> tuple[np.ndarray, np.ndarray]:
    """Tokens so far (n,) and losses (n,) float64, of the lines that have both. Raises CorpusError."""
    with reading(path):
        text = read_regular(path, MAX_LOG_BYTES)
    lines = _lines(text, str(path))
    names = dict.fromkeys(name for line in lines for name in line)
    for name in (tokens, loss):
        if name not in names:
            known = ", ".join(map(repr, list(names)[:12]))
            raise CorpusError(f"{str(path)!r} has no column {name!r}; it has {known}")
    pairs = [(_number(line.get(tokens)), _number(line.get(loss))) for line in lines]
    found = [(seen, mean) for seen, mean in pairs if seen is not None and mean is not None]
    if not found:
        raise CorpusError(f"{str(path)!r} has no line with numbers in {tokens!r} and {loss!r}")
    n_tokens, losses = np.array(found, np.float64).T
    if not (np.isfinite(found).all() and (losses >= 0).all() and (n_tokens >= 0).all() and n_tokens[-1] < 1e17):
        raise CorpusError(f"{str(path)!r}: a value of {tokens!r} or {loss!r} is negative or not finite")
    return n_tokens, losses


def _lines(text: bytes, where: str) -> list[dict[str, Any]]:
    try:
        if text.lstrip()[:1] != b"{":
            return list(csv.DictReader(io.StringIO(text.decode("utf-8-sig"))))
        value = parse_json(text)
        lines = value["log_history"]
        if not isinstance(lines, list) or not all(isinstance(line, dict) for line in lines):
            raise ValueError("log_history is no list of objects")
    except (ValueError, KeyError, csv.Error) as error:
        raise CorpusError(
            f"{where!r} is neither a table (CSV) nor a trainer_state.json with a log_history: {error}"
        ) from error
    return lines


def _number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return None
