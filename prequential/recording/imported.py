"""Logs of earlier training runs as runs: the mean loss of each line, times the tokens since the line before.

Or the integral of a held-out loss, where a log has no other.
"""

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from prequential.arguments import check_arguments
from prequential.errors import ConfigError, CorpusError
from prequential.evaluation.curves import MODEL, Curve
from prequential.evaluation.runs import PathLike, Run
from prequential.files import common_mode
from prequential.recording.logs import Log, read_log
from prequential.recording.run import check_texts, save_run, training_record
from prequential.recording.totals import MAX_POINTS
from prequential.records import IMPORTED, digest_of

BITS_PER_NAT = 1 / math.log(2.0)
STEPS = ("step", "global_step", "iteration", "iter", "_step", "trainer/global_step")
EPOCH = re.compile(r"(.* - )?(train/)?epoch", re.IGNORECASE)  # Weights & Biases puts the name of the run first
LATE = 2.0  # a first line after so many times the tokens of the second one is the start, not the first part
MAX_LOSS, MAX_TOKENS = 1e6, 1e17
N_PIECES = 256
LOG_SHIFT = 3.0  # steps: between two held-out losses the loss is linear in log(steps + LOG_SHIFT)
INTEGRAL = "the held-out loss, integrated: between its lines it is linear in the logarithm of the steps"


def import_log(
    path: PathLike,
    folder: PathLike = "runs",
    *,
    bytes_per_token: float,
    tokens_per_step: int | None = None,
    tokens: str | None = None,
    loss: str | None = None,
    pattern: str | None = None,
    heldout_curve: bool = False,
    steps: int | None = None,
    limit: int | None = None,
    name: str | None = None,
    data: str | None = None,
    arguments: Mapping[str, Any] | None = None,
) -> Run:
    """A run folder from the log of a training run, of a kind that docs/RECORDING.md names, or of lines that `pattern` matches.

    pattern: a regular expression with groups step or tokens, and loss or heldout. bytes_per_token: of the tokenizer on this text.
    tokens_per_step: needed by a log that counts steps. tokens, loss: columns of the tokens, or steps, so far, and of the mean
    training loss since the line before, in nats per token; by default, those with usual names. heldout_curve: integrate the
    held-out loss instead. steps, limit: only the first steps, or bytes. name: of the learner (default: of the file, or of its
    folder). data: what it learned; runs of one name of data and one length can be compared: nothing checks that it is.

    Lines without one of the two are left out. After a line that goes back, the run was resumed: what it had after that point is
    dropped. A log that begins late begins with its first line. Steps that begin with 0 are counted from 0. Where a column `epoch`
    says when it ends, only the first epoch counts. The notes of the record say what was taken, and what is not counted.

    Raises CorpusError for a log without these columns, ConfigError for wrong arguments.

    Examples:
        >>> import pathlib, tempfile, prequential
        >>> log = pathlib.Path(tempfile.mkdtemp(), "log.csv")
        >>> _ = log.write_text("seen,loss\\n1000,5.5\\n2000,4.1\\n")
        >>> run = prequential.import_log(log, log.parent, bytes_per_token=4.0)
        >>> run.record["coding"], round(run.record["bits_per_byte"], 2), run.record["n_tokens"]
        ('imported from a log: order and repeats unknown', 1.73, 2000)
    """
    check_arguments(path=path, folder=folder)
    check_texts(name, data, dict(arguments or {}))
    _check(bytes_per_token=bytes_per_token, tokens_per_step=tokens_per_step, steps=steps, limit=limit)
    log, where = read_log(path, pattern), repr(str(path))
    position, column = _columns(log, tokens, loss, heldout_curve, tokens_per_step is not None, where)
    lines, n_first, notes = _kept(_numbers(log.table, position, column, where), tokens_per_step, heldout_curve, where)
    most = min(n_first, (limit or math.inf) / bytes_per_token, (steps or math.inf) * (tokens_per_step or 1))
    parts, nats = (_integral if heldout_curve else _summed)(lines, most, LOG_SHIFT * (tokens_per_step or 0.0))
    curve = _curve(parts, nats, bytes_per_token, where)
    record = training_record(
        curve,
        coding=IMPORTED,
        corpus=_declared(data, log.name, curve, lines[0, 0]),
        learner={"name": name or log.name, "arguments": dict(arguments or {})},
        reported={"source": Path(path).name, "n_steps": len(parts)},
        n_tokens=int(parts.sum()),
        notes=[*notes, f"taken as {log.kind}: {position!r} and {column!r}"],
    )
    return save_run(folder, record, {MODEL: curve}, mode=common_mode(path))


def _declared(data: str | None, name: str, curve: Curve, begin: float) -> dict[str, Any]:
    """The corpus of a log: its data by name, begin and length. A log whose data nobody named equals only itself."""
    n_bytes, content = int(curve.n_bytes[-1]), data.encode() if data else curve.bits.tobytes()
    content += (f"/{begin:.0f}/{n_bytes}" if begin else f"/{n_bytes}").encode()
    return {"name": data or name, "kind": "declared", "n_bytes": n_bytes, "blake2b": digest_of(content)}


def _check(**numbers: Any) -> None:
    for argument, value in numbers.items():
        if value is not None and not (isinstance(value, int | float) and 0 < value < 1e18):
            raise ConfigError(f"{argument}= is {value!r}: give a positive number")
    if numbers["steps"] is not None and numbers["tokens_per_step"] is None:
        raise ConfigError("steps= needs tokens_per_step=")


def _curve(parts: np.ndarray, nats: np.ndarray, bytes_per_token: float, where: str) -> Curve:
    """At most about MAX_POINTS ends of these lines, with their tokens and nats (n,). Raises CorpusError."""
    if not len(parts):
        raise CorpusError(f"{where} has no line of the first epoch after its start, and only that counts")
    ends = np.rint(np.cumsum(parts) * bytes_per_token).astype(np.int64)
    if (np.diff(ends, prepend=0) <= 0).any():
        raise CorpusError(f"{where}: two lines are less than a byte apart")
    thin = np.unique(np.append(np.arange(0, len(ends), -(-len(ends) // MAX_POINTS)), len(ends) - 1))
    return Curve(n_bytes=ends[thin], bits=np.cumsum(nats * BITS_PER_NAT)[thin])


def _columns(
    log: Log, tokens: str | None, loss: str | None, is_heldout: bool, has_steps: bool, where: str
) -> list[str]:
    """The column of tokens or steps, and that of the loss. Raises CorpusError."""
    position = "step" if has_steps or "tokens" not in log.columns else "tokens"
    columns = []
    for option, given, kind in (("tokens", tokens, position), ("loss", loss, "heldout" if is_heldout else "loss")):
        columns.append(given or log.columns.get(kind, ""))
        if columns[-1] not in log.table.columns:
            usual = f"known column of the {'steps' if kind == 'step' else kind}, give {option}="
            known = ", ".join(map(repr, list(log.table.columns)[:12])) or "none"
            if kind == "loss" and not given and "heldout" in log.columns:
                known += "; it has a held-out loss: give heldout_curve=True"
            what = f"column {given!r}" if given else usual
            raise CorpusError(f"{where} ({log.kind}) has no {what}; it has {known}")
    if not has_steps and (columns[0].lower() in STEPS or (tokens is None and position == "step")):
        counts = f"the column {columns[0]!r} counts steps: give tokens_per_step="
        raise ConfigError(f"{where} ({log.kind}): {counts}")
    return columns


def _numbers(table: Any, position: str, value: str, where: str) -> np.ndarray:
    """Tokens (or steps) so far, loss and epoch of each line with a loss, (n, 3) float64. Raises CorpusError."""
    import pandas

    given = table[[position, value]].notna()
    lines = np.zeros((len(table), 3))
    for i, (name, most) in enumerate(((position, MAX_TOKENS), (value, MAX_LOSS))):
        lines[:, i] = pandas.to_numeric(table[name], errors="coerce")
        if (wrong := given[name] & ~((lines[:, i] >= 0) & (lines[:, i] <= most))).any():
            what = table[name][wrong.argmax()]
            raise CorpusError(f"{where}, row {wrong.argmax() + 1}: {name!r} is {what}: no number from 0 to {most:g}")
    for name in filter(EPOCH.fullmatch, map(str, table.columns)):
        lines[:, 2] = pandas.to_numeric(table[name], errors="coerce").ffill().fillna(0.0)
    lines = lines[given.all(axis=1)]
    if not len(lines):
        raise CorpusError(f"{where} has no line with numbers in {position!r} and {value!r}")
    return lines


def _kept(lines: np.ndarray, factor: int | None, is_heldout: bool, where: str) -> tuple[np.ndarray, float, list[str]]:
    """The lines that count, (n, 3), with tokens for steps; the tokens of the first epoch; and what is to be noted.

    lines: as `_numbers` gives them. A first line that is only the start of the log stays the first one; otherwise, of a training
    loss, a line at 0 comes before it. factor: the tokens of a step.
    """
    notes, numbers = [], np.unique(lines[:, 2])
    has_numbers = numbers[0] in (0, 1) and (numbers == np.rint(numbers)).all()
    if has_numbers:  # 0, 0, 1, 1 ..., not how many are complete; the steps may begin again with each
        lines = lines[lines[:, 2] == numbers[0]]
    goes_back = np.diff(lines[:, 0]) < 0
    if (lines[1:, 0][goes_back] <= lines[0, 0]).any():
        raise CorpusError(f"{where}: the tokens, or steps, begin again: leave one run or epoch, in its order")
    if goes_back.any():
        kept = np.append(lines[:-1, 0] < np.minimum.accumulate(lines[:0:-1, 0])[::-1], True)
        notes.append(f"the run was resumed: {np.count_nonzero(~kept):,} lines that it made again are not counted")
        lines = lines[kept]
    n_lines, lines = len(lines), lines[np.diff(lines[:, 0], prepend=-1.0) != 0]  # several ranks may print a line
    if len(lines) <= 2 < n_lines / 8:
        raise CorpusError(f"{where}: {n_lines:,} lines, but {len(lines)} numbers of tokens, or steps, so far")
    if factor:
        lines[:, 0] = (lines[:, 0] + (lines[0, 0] == 0 and not is_heldout)) * factor  # step 0 is the first one
    begin, apart = lines[0, 0], np.median(np.diff(lines[:, 0])) / factor if factor and len(lines) > 1 else 0.0
    if apart > 1 and not is_heldout:
        notes.append(f"lines are {apart:,.0f} steps apart: where each has the loss of one step, the sum is too low")
    if is_heldout:
        before = f"the log begins at {begin:,.0f} tokens: what is before is not counted"
        notes += [INTEGRAL, before] if begin else [INTEGRAL]
    elif begin == 0 or (len(lines) > 1 and begin > LATE * (lines[1, 0] - begin)):
        notes.append(f"the log begins at {begin:,.0f} tokens: its first line is the start, and its loss is not counted")
    else:
        lines = np.vstack([np.zeros(3), lines])
    tokens, _, epochs = lines.T
    n_first = tokens[-1] if has_numbers else np.rint(np.interp(1.0, np.maximum.accumulate(epochs), tokens))
    if n_first < tokens[-1] or (has_numbers and len(numbers) > 1):
        notes.append(f"only the first epoch counts, {n_first - tokens[0]:,.0f} tokens: later ones read its data again")
    return lines, float(n_first), notes


def _summed(lines: np.ndarray, most: float, shift: float) -> tuple[np.ndarray, np.ndarray]:
    """The tokens and the nats of each line up to `most` tokens."""
    parts = np.diff(np.minimum(lines[:, 0], most))
    counts = parts > 0
    return parts[counts], (parts * lines[1:, 1])[counts]


def _integral(lines: np.ndarray, most: float, shift: float) -> tuple[np.ndarray, np.ndarray]:
    """As `_summed`, in N_PIECES pieces or more: between two lines the loss is linear in log(tokens + shift)."""
    tokens, first = np.unique(lines[:, 0], return_index=True)
    losses = lines[first, 1]
    if len(tokens) < 2 or most <= tokens[0]:
        return np.zeros(0), np.zeros(0)
    last = min(most, tokens[-1])
    edges = np.unique(np.append(np.linspace(tokens[0], last, N_PIECES + 1), tokens[tokens < last]))
    x = tokens + (shift or (tokens[1] - tokens[0]) / 100)
    slopes = np.diff(losses) / np.diff(np.log(x))
    place = np.minimum(np.searchsorted(tokens, edges[:-1], side="right") - 1, len(slopes) - 1)
    begin, end = edges[:-1] + x[0] - tokens[0], edges[1:] + x[0] - tokens[0]
    logs = end * np.log(end) - end - begin * np.log(begin) + begin
    parts = np.diff(edges)
    return parts, parts * losses[place] + slopes[place] * (logs - parts * np.log(x[place]))
