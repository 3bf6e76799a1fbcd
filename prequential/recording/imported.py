"""Logs of earlier training runs as runs: the mean loss of each line, times the tokens since the line before."""

import codecs
import csv
import hashlib
import io
import math
import re
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from prequential.arguments import check_arguments
from prequential.errors import ConfigError, CorpusError
from prequential.evaluation.curves import Curve
from prequential.evaluation.runs import PathLike, Run
from prequential.files import common_mode, read_regular, reading
from prequential.files.strict_json import check_json_size, parse_row
from prequential.recording.run import TrainingRun
from prequential.records import IMPORTED

MAX_LOG_BYTES = 1 << 28
BITS_PER = {"nats/token": 1 / math.log(2.0), "bits/token": 1.0}
STEPS = ("step", "global_step", "iteration", "iter", "_step", "trainer/global_step")
EVALUATIONS = re.compile(r"(.*/)?(eval|val|valid|validation|test)([_/].*)?")
EPOCH = re.compile(r"(.* - )?(train/)?epoch", re.IGNORECASE)  # Weights & Biases puts the name of the run first
THOUSANDS = re.compile(r"-?\d{1,3}(,\d{3})+(\.\d*)?")
LATE = 2.0  # a first line after so many times the tokens of the second one is the start, not the first part
MAX_LOSS, MAX_TOKENS = 1e6, 1e17
HIGH_BITS = 20.0  # per token: no model of a million ids begins with more


def import_log(
    path: PathLike,
    folder: PathLike = "runs",
    *,
    tokens: str,
    loss: str,
    bytes_per_token: float,
    tokens_per_step: int | None = None,
    epochs: float | None = None,
    unit: str = "nats/token",
    name: str | None = None,
    data: str | None = None,
    arguments: Mapping[str, Any] | None = None,
) -> Run:
    """A run folder from the log of a training run: trainer_state.json of transformers, CSV (Weights & Biases), or JSON lines.

    tokens: the column of the tokens so far; or of the steps so far, with tokens_per_step. loss: the column of the mean training
    loss since the line before, in `unit`: "nats/token" or "bits/token". bytes_per_token: of the tokenizer on this text. epochs:
    that the log covers, whatever its column `epoch` says. name: of the learner; data: of what it learned. Runs of data of one
    name and length can be compared; nothing checks that it is.

    Lines without one of the two are left out. After a line that goes back, the run was resumed: what it had after that point is
    dropped. A log that begins late begins with its first line. Steps that begin with 0 are counted from 0. Only the first epoch
    counts: its data is new. The notes of the record say what is not counted. Order and repeats of the data are unknown.

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
    _check_options(tokens, loss, bytes_per_token, tokens_per_step, epochs, unit)
    where = repr(str(path))
    parts, losses, notes = _counted(*_read(path, tokens, loss), tokens_per_step, epochs, where)
    ends = np.rint(np.cumsum(parts) * bytes_per_token).astype(np.int64)
    if (np.diff(ends, prepend=0) <= 0).any():
        raise CorpusError(f"{where}: two lines are less than a byte apart")
    bits = np.cumsum(parts * losses * BITS_PER[unit])
    declared = data.encode() if data else bits.tobytes()  # a log whose data nobody named equals only itself
    corpus = {
        "name": data or Path(path).stem,
        "kind": "declared",
        "n_bytes": int(ends[-1]),
        "blake2b": hashlib.blake2b(declared + f"/{ends[-1]}".encode(), digest_size=32).hexdigest(),
    }
    return TrainingRun(
        coding=IMPORTED,
        corpus=corpus,
        learner={"name": name or Path(path).stem, "arguments": dict(arguments or {})},
        reported={"source": Path(path).name, "n_steps": len(ends)},
        n_tokens=int(parts.sum()),
        curve=Curve(n_bytes=ends, bits=bits),
        notes=(*notes, *_doubts(losses * BITS_PER[unit])),
        mode=common_mode(path),
    ).save(folder)


def _check_options(tokens: str, loss: str, bytes_per_token: Any, per_step: Any, epochs: Any, unit: str) -> None:
    if unit not in BITS_PER:
        raise ConfigError(f"import_log: unit is {unit!r}: give {' or '.join(BITS_PER)}")
    for name, value in (("bytes_per_token", bytes_per_token), ("epochs", 1 if epochs is None else epochs)):
        if not isinstance(value, int | float) or not 0 < value < 1e6:
            raise ConfigError(f"import_log: {name} is {value!r}: give a positive number")
    if per_step is not None and not (isinstance(per_step, int) and 0 < per_step < 1 << 40):
        raise ConfigError(f"import_log: tokens_per_step is {per_step!r}: give a number of tokens")
    if tokens.lower() in STEPS and per_step is None:
        raise ConfigError(f"import_log: the column {tokens!r} counts steps: give tokens_per_step=")
    if EVALUATIONS.fullmatch(loss.lower()):
        raise ConfigError(f"import_log: {loss!r} is the loss of an evaluation: name that of the training")


# ---- what counts


def _counted(
    lines: np.ndarray, end: float, tokens_per_step: int | None, n_epochs: float | None, where: str
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """The tokens of each line that counts, its loss, and what is to be noted. lines, end: as `_read` gives them."""
    notes, start, numbers = [], np.zeros(3), np.unique(lines[:, 2])
    has_numbers = not n_epochs and numbers[0] in (0, 1) and (numbers == np.rint(numbers)).all()
    if has_numbers:  # 0, 0, 1, 1 ..., not how many are complete; the steps may begin again with each
        lines = lines[lines[:, 2] == numbers[0]]
    back = np.diff(lines[:, 0]) < 0
    if (lines[1:, 0][back] <= lines[0, 0]).any():
        raise CorpusError(
            f"{where}: the tokens, or steps, begin again: leave one run or epoch in the file, in its order"
        )
    later = np.minimum.accumulate(lines[::-1, 0])[::-1]
    kept = np.append(lines[:-1, 0] < later[1:], True)
    if back.any():
        notes.append(f"the run was resumed: {np.count_nonzero(~kept):,} lines that it made again are not counted")
    lines = lines[kept]
    if tokens_per_step:
        lines[:, 0] += lines[0, 0] == 0  # then step 0 is the first one
        lines[:, 0], end = lines[:, 0] * tokens_per_step, end * tokens_per_step
    if lines[0, 0] == 0 or (len(lines) > 1 and lines[0, 0] > LATE * (lines[1, 0] - lines[0, 0])):
        start, lines = lines[0], lines[1:]
        begin = f"the log begins at {start[0]:,.0f} tokens"
        notes.append(f"{begin}: its first line is the start, and its loss is not counted")
    if not len(lines):
        raise CorpusError(f"{where} has no line after its start")
    n_first = last = lines[-1, 0]
    if n_epochs:
        n_first = min(last, np.rint(max(end, last) / n_epochs))
    elif not has_numbers:
        epochs = np.maximum.accumulate([start[2], *lines[:, 2]])
        n_first = np.rint(np.interp(1.0, epochs, [start[0], *lines[:, 0]]))
    parts = np.diff(np.minimum(lines[:, 0], n_first), prepend=start[0])
    if not (counts := parts > 0).any():
        raise CorpusError(f"{where} has no line of the first epoch, and only that counts")
    if n_first < last or (has_numbers and len(numbers) > 1):
        notes.append(f"only the first epoch counts, {parts[counts].sum():,.0f} tokens: later ones read its data again")
    elif end > last:
        notes.append(f"{end - last:,.0f} tokens after the last line with a loss are not counted")
    return parts[counts], lines[counts, 1], notes


def _doubts(bits: np.ndarray) -> Iterator[str]:
    """Warnings of lines (n,) with so many bits per token."""
    if n := np.count_nonzero(bits > HIGH_BITS):
        high = f"more than {HIGH_BITS:.0f} bits a token in {n:,} of {len(bits):,} lines, at most {bits.max():,.1f}"
        yield f"warning: {high}: is the loss a sum over accumulation steps?"
    if n := np.count_nonzero(bits == 0):
        yield f"warning: a loss of exactly 0 in {n:,} of {len(bits):,} lines, whose tokens cost nothing here"


# ---- reading


def _read(path: PathLike, tokens: str, loss: str) -> tuple[np.ndarray, float]:
    """Tokens (or steps) so far, loss and epoch of each line with a loss, (n, 3) float64; and the tokens at the end of the log.

    Raises CorpusError.
    """
    with reading(path):
        text = read_regular(path, MAX_LOG_BYTES).removeprefix(codecs.BOM_UTF8)
    found, end, epoch, log = array("d"), 0.0, 0.0, repr(str(path))
    try:
        for where, cells in _cells(text, tokens, loss, log):
            try:
                seen, mean = _number(cells[0]), _number(cells[1])
            except ValueError as error:
                raise CorpusError(f"{log}, {where}: {error}") from error
            for cell in cells[2:]:  # nobody asked for it, so anything may stand there
                with suppress(ValueError, TypeError, OverflowError):
                    epoch = float(cell) if math.isfinite(float(cell)) else epoch
            if mean is None or seen is None or math.isnan(seen):
                end = max(end, seen or 0.0)
                continue
            for name, value, most in ((tokens, seen, MAX_TOKENS), (loss, mean, MAX_LOSS)):
                if not 0 <= value <= most:
                    raise CorpusError(f"{log}, {where}: {name!r} is {value:g}, and not from 0 to {most:g}")
            found.extend((seen, mean, epoch))
            end = seen
    except (ValueError, LookupError, TypeError, csv.Error) as error:
        kinds = "neither a table (CSV), nor JSON lines, nor a trainer_state.json with a log_history"
        raise CorpusError(f"{log} is {kinds}: {error}") from error
    if not found:
        raise CorpusError(f"{log} has no line with numbers in {tokens!r} and {loss!r}")
    return np.array(found).reshape(-1, 3), end


def _cells(text: bytes, tokens: str, loss: str, log: str) -> Iterator[tuple[str, Sequence[Any]]]:
    """The place of each line, and its cells: tokens, loss and, if there is one, epoch. Raises ValueError and csv.Error, too."""

    def wanted(names: Sequence[str]) -> list[str]:
        for name in (tokens, loss):
            if (n := names.count(name)) != 1:
                known = f"no column {name!r}; it has {', '.join(map(repr, names[:12])) or 'none'}"
                raise CorpusError(f"{log} has {f'two columns {name!r}: rename one' if n else known}")
        return [tokens, loss, *filter(EPOCH.fullmatch, names)]

    if text.lstrip()[:1] == b"{":
        lines = _objects(text, loss)
        asked = wanted(list(dict.fromkeys(name for _, line in lines for name in line)))
        yield from ((where, [line.get(name) for name in asked]) for where, line in lines)
        return
    table = csv.reader(io.StringIO(text.decode()))
    titles = next(table, [])
    places = [titles.index(name) for name in wanted(titles)]
    for row in table:
        yield f"line {table.line_num}", [row[i] if i < len(row) else None for i in places]


def _objects(text: bytes, loss: str) -> list[tuple[str, dict[str, Any]]]:
    """The objects of JSON lines, or of the log_history of a trainer_state.json, with their places."""
    check_json_size(text)
    lines = [(f"line {i}", line) for i, line in enumerate(text.splitlines(), 1) if line.strip()]
    try:
        found = [(where, parse_row(line)) for where, line in lines]
    except ValueError:  # an object of many lines
        found = [("", parse_row(text))]
    if "log_history" in found[0][1]:
        found = [(f"entry {i} of log_history", line) for i, line in enumerate(_history(found[0][1], loss), 1)]
    if not all(isinstance(line, dict) for _, line in found):
        raise ValueError("a line is no object")
    return found


def _history(state: Mapping[str, Any], loss: str) -> list[Any]:
    """The log_history, and the end of the run as one more line.

    Where the last steps are in no line, their loss follows from the mean of all, `train_loss`, unless that is of a part of them.
    """
    ends = {name: state.get(name) for name in ("global_step", "num_input_tokens_seen")}
    lines = [*state["log_history"], ends | {"step": state.get("global_step")}]
    with suppress(LookupError, TypeError, ArithmeticError):
        logged = [(0, 0.0), *((line["step"], line[loss]) for line in lines if loss in line)]
        total = sum(mean * (step - before) for (before, _), (step, mean) in pairwise(logged))
        last = [line for line in lines if "train_loss" in line][-1]
        rest = (last["train_loss"] * last["step"] - total) / (last["step"] - logged[-1][0])
        if 0 < rest <= max(mean for _, mean in logged):
            last[loss] = rest
    return lines


def _number(value: Any) -> float | None:
    """A number, also one that is not finite; None for an empty cell. Raises ValueError for something else."""
    with suppress(ValueError, OverflowError):
        if type(value) in (str, int, float):
            return float(value)
    text = "" if value is None else str(value).strip()
    if THOUSANDS.fullmatch(text):
        return float(text.replace(",", ""))
    if text.lower() not in ("", "null", "none"):
        raise ValueError(f"{text[:40]!r} is no number")
    return None
