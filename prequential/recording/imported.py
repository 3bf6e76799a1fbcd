"""Logs of earlier training runs as runs: the mean loss of each line, times the tokens since the line before."""

import csv
import hashlib
import io
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from prequential.arguments import check_arguments
from prequential.errors import ConfigError, CorpusError
from prequential.evaluation.curves import Curve
from prequential.evaluation.runs import PathLike, Run
from prequential.files import common_mode, read_regular, reading
from prequential.files.strict_json import parse_json
from prequential.recording.run import TrainingRun
from prequential.records.forms import IMPORTED

MAX_LOG_BYTES = 1 << 28
BITS_PER = {"nats/token": 1 / math.log(2.0), "bits/token": 1.0}
STEPS = ("step", "global_step", "iteration", "iter", "_step", "trainer/global_step")
EVALUATIONS = re.compile(r"(.*/)?(eval|val|valid|validation|test)([_/].*)?")
THOUSANDS = re.compile(r"-?\d{1,3}(,\d{3})+(\.\d*)?")
LATE = 2.0  # a first line after so many times the tokens of the second one is the start, not the first part


def import_log(
    path: PathLike,
    folder: PathLike = "runs",
    *,
    tokens: str,
    loss: str,
    bytes_per_token: float,
    tokens_per_step: int | None = None,
    unit: str = "nats/token",
    name: str | None = None,
    data: str | None = None,
    arguments: Mapping[str, Any] | None = None,
) -> Run:
    """A run folder from the log of a training run: trainer_state.json of transformers, or CSV (Weights & Biases, TensorBoard).

    tokens: the column of the tokens so far; or of the steps so far, with tokens_per_step. loss: the column of the mean training
    loss since the line before, in `unit`: "nats/token" or "bits/token". bytes_per_token: of the tokenizer on this text. name: of
    the learner; data: of what it learned. Runs of data of one name and length can be compared; nothing checks that it is.

    Lines without one of the two are left out. After a line that goes back, the run was resumed: what it had after that point is
    dropped. A log that begins late begins with its first line. Order and repeats of the data are unknown.

    Raises CorpusError for a log that cannot be read, or without these columns; ConfigError for wrong arguments.

    Examples:
        >>> import pathlib, tempfile, prequential
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> _ = (folder / "log.csv").write_text("seen,loss\\n1000,5.5\\n2000,4.1\\n")
        >>> run = prequential.import_log(folder / "log.csv", folder / "runs", tokens="seen", loss="loss", bytes_per_token=4.0)
        >>> run.record["coding"], round(run.record["bits_per_byte"], 2), run.record["n_tokens"]
        ('imported from a log: order and repeats unknown', 1.73, 2000)
    """
    check_arguments(path=path, folder=folder)
    _check_options(tokens, loss, bytes_per_token, tokens_per_step, unit)
    log = repr(str(path))
    so_far, losses = _ascending(*_columns(path, tokens, loss))
    parts, losses, notes = _parts(so_far * (tokens_per_step or 1), losses, log)
    ends = np.rint(np.cumsum(parts) * bytes_per_token).astype(np.int64)
    if (np.diff(ends, prepend=0) <= 0).any():
        raise CorpusError(f"{log}: two lines are less than a byte apart")
    bits = np.cumsum(parts * losses * BITS_PER[unit])
    declared = data.encode() if data else bits.tobytes()  # a log whose data nobody named equals only itself
    corpus = {
        "name": data or Path(path).stem,
        "kind": "declared",
        "n_bytes": int(ends[-1]),
        "blake2b": hashlib.blake2b(declared + f"/{ends[-1]}".encode(), digest_size=32).hexdigest(),
    }
    run = TrainingRun(
        coding=IMPORTED,
        corpus=corpus,
        learner={"name": name or Path(path).stem, "arguments": dict(arguments or {})},
        reported={"source": Path(path).name, "n_steps": len(ends)},
        n_tokens=int(parts.sum()),
        curve=Curve(n_bytes=ends, bits=bits),
        notes=tuple(notes),
        mode=common_mode(path),
    )
    return run.save(folder)


def _parts(so_far: np.ndarray, losses: np.ndarray, log: str) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """The tokens of each line, its loss, and what is to be noted."""
    if not len(so_far):
        raise CorpusError(f"{log} has no line after its start")
    parts = np.diff(so_far, prepend=0.0)
    if len(parts) > 1 and parts[0] > LATE * parts[1]:
        note = f"the log begins at {so_far[0]:,.0f} tokens: what came before is not counted"
        return parts[1:], losses[1:], [note]
    return parts, losses, []


def _check_options(tokens: str, loss: str, bytes_per_token: Any, tokens_per_step: Any, unit: str) -> None:
    if unit not in BITS_PER:
        raise ConfigError(f"import_log: unit is {unit!r}: give {' or '.join(BITS_PER)}")
    if not isinstance(bytes_per_token, int | float) or not 0 < bytes_per_token < 1e6:
        raise ConfigError(f"import_log: bytes_per_token is {bytes_per_token!r}: give a positive number")
    if tokens_per_step is not None and not (isinstance(tokens_per_step, int) and 0 < tokens_per_step < 1 << 40):
        raise ConfigError(f"import_log: tokens_per_step is {tokens_per_step!r}: give a number of tokens")
    if tokens.lower() in STEPS and tokens_per_step is None:
        raise ConfigError(f"import_log: the column {tokens!r} counts steps: give tokens_per_step")
    if EVALUATIONS.fullmatch(loss.lower()):
        raise ConfigError(f"import_log: {loss!r} is the loss of an evaluation: name that of the training")


def _ascending(so_far: np.ndarray, losses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The lines that count: a line that does not ascend replaces those from there on; one at 0 has no tokens."""
    kept: list[int] = []
    for i, value in enumerate(so_far):
        while kept and so_far[kept[-1]] >= value:
            kept.pop()
        if value > 0:
            kept.append(i)
    return so_far[kept], losses[kept]


def _columns(path: PathLike, tokens: str, loss: str) -> tuple[np.ndarray, np.ndarray]:
    """Tokens or steps so far (n,) and losses (n,) float64, of the lines that have both. Raises CorpusError."""
    with reading(path):
        text = read_regular(path, MAX_LOG_BYTES)
    lines = _lines(text, str(path))
    names = dict.fromkeys(name for line in lines for name in line)
    for name in (tokens, loss):
        if name not in names:
            known = ", ".join(map(repr, list(names)[:12]))
            raise CorpusError(f"{str(path)!r} has no column {name!r}; it has {known}")
    try:
        pairs = [(_number(line.get(tokens)), _number(line.get(loss))) for line in lines]
    except ValueError as error:
        raise CorpusError(f"{str(path)!r}: {error}") from error
    found = [(seen, mean) for seen, mean in pairs if seen is not None and mean is not None]
    if not found:
        raise CorpusError(f"{str(path)!r} has no line with numbers in {tokens!r} and {loss!r}")
    so_far, losses = np.array(found, np.float64).T
    if not (np.isfinite(found).all() and (losses >= 0).all() and (so_far >= 0).all() and so_far.max() < 1e17):
        raise CorpusError(f"{str(path)!r}: a value of {tokens!r} or {loss!r} is negative or not finite")
    return so_far, losses


def _lines(text: bytes, where: str) -> list[dict[str, Any]]:
    try:
        if text.lstrip()[:1] != b"{":
            return list(csv.DictReader(io.StringIO(text.decode("utf-8-sig"))))
        lines = parse_json(text)["log_history"]
        if not isinstance(lines, list) or not all(isinstance(line, dict) for line in lines):
            raise ValueError("log_history is no list of objects")
    except (ValueError, KeyError, TypeError, csv.Error) as error:
        raise CorpusError(
            f"{where!r} is neither a table (CSV) nor a trainer_state.json with a log_history: {error}"
        ) from error
    return lines


def _number(value: Any) -> float | None:
    """A number; None for an empty cell. Raises ValueError for something else."""
    if isinstance(value, str):
        value = value.strip()
        if value.lower() in ("", "nan", "null", "none"):
            return None
        return float(value.replace(",", "") if THOUSANDS.fullmatch(value) else value)
    if value is None or value != value:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{str(value)[:40]!r} is no number")
    return float(value)
