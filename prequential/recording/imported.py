"""Logs of earlier training runs as runs: the mean loss of each line, times the tokens since the line before."""

import hashlib
import io
import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from prequential.arguments import check_arguments
from prequential.errors import ConfigError, CorpusError
from prequential.evaluation.curves import Curve
from prequential.evaluation.runs import PathLike, Run
from prequential.files import common_mode, read_regular, reading
from prequential.recording.run import check_texts, save_run, training_record
from prequential.records import IMPORTED

if TYPE_CHECKING:
    import pandas

MAX_LOG_BYTES = 1 << 28
BITS_PER_NAT = 1 / math.log(2.0)
STEPS = ("step", "global_step", "iteration", "iter", "_step", "trainer/global_step")
EPOCH = re.compile(r"(.* - )?(train/)?epoch", re.IGNORECASE)  # Weights & Biases puts the name of the run first
LATE = 2.0  # a first line after so many times the tokens of the second one is the start, not the first part
MAX_LOSS, MAX_TOKENS = 1e6, 1e17


def import_log(
    path: PathLike,
    folder: PathLike = "runs",
    *,
    tokens: str,
    loss: str,
    bytes_per_token: float,
    tokens_per_step: int | None = None,
    name: str | None = None,
    data: str | None = None,
    arguments: Mapping[str, Any] | None = None,
) -> Run:
    """A run folder from the log of a training run: trainer_state.json of transformers, CSV (Weights & Biases), or JSON lines.

    tokens: the column of the tokens so far; or of the steps so far, with tokens_per_step. loss: the column of the mean training
    loss since the line before, in nats per token. bytes_per_token: of the tokenizer on this text. name: of the
    learner; data: of what it learned. Runs of data of one name and length can be compared; nothing checks that it is.

    Lines without one of the two are left out. After a line that goes back, the run was resumed: what it had after that point is
    dropped. A log that begins late begins with its first line. Steps that begin with 0 are counted from 0. Where a column `epoch`
    says when it ends, only the first epoch counts: its data is new. The notes of the record say what is not counted.

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
    check_texts(name, data, dict(arguments or {}))
    for argument, value in (("bytes_per_token", bytes_per_token), ("tokens_per_step", tokens_per_step)):
        if value is not None and not (isinstance(value, int | float) and 0 < value < 1e9):
            raise ConfigError(f"import_log: {argument} is {value!r}: give a positive number")
    if tokens.lower() in STEPS and tokens_per_step is None:
        raise ConfigError(f"import_log: the column {tokens!r} counts steps: give tokens_per_step=")
    where = repr(str(path))
    parts, nats, notes = _counted(_read(path, tokens, loss), tokens_per_step, where)
    ends = np.rint(np.cumsum(parts) * bytes_per_token).astype(np.int64)
    if (np.diff(ends, prepend=0) <= 0).any():
        raise CorpusError(f"{where}: two lines are less than a byte apart")
    curve = Curve(n_bytes=ends, bits=np.cumsum(parts * nats * BITS_PER_NAT))
    declared = data.encode() if data else curve.bits.tobytes()  # a log whose data nobody named equals only itself
    digest = hashlib.blake2b(declared + f"/{ends[-1]}".encode(), digest_size=32).hexdigest()
    stem = Path(path).stem
    record = training_record(
        curve,
        coding=IMPORTED,
        corpus={"name": data or stem, "kind": "declared", "n_bytes": int(ends[-1]), "blake2b": digest},
        learner={"name": name or stem, "arguments": dict(arguments or {})},
        reported={"source": Path(path).name, "n_steps": len(ends)},
        n_tokens=int(parts.sum()),
        notes=notes,
    )
    return save_run(folder, record, curve, mode=common_mode(path))


def _counted(lines: np.ndarray, tokens_per_step: int | None, where: str) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """The tokens of each line that counts, its loss, and what is to be noted. lines: as `_read` gives them."""
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
    if tokens_per_step:
        lines[:, 0] = (lines[:, 0] + (lines[0, 0] == 0)) * tokens_per_step  # step 0 is the first one
    begin = lines[0, 0]
    if begin == 0 or (len(lines) > 1 and begin > LATE * (lines[1, 0] - begin)):
        notes.append(f"the log begins at {begin:,.0f} tokens: its first line is the start, and its loss is not counted")
    else:
        lines = np.vstack([np.zeros(3), lines])
    tokens, losses, epochs = lines.T
    last = tokens[-1]
    n_first = last if has_numbers else np.rint(np.interp(1.0, np.maximum.accumulate(epochs), tokens))
    parts = np.diff(np.minimum(tokens, n_first))
    if not (counts := parts > 0).any():
        raise CorpusError(f"{where} has no line of the first epoch after its start, and only that counts")
    if n_first < last or (has_numbers and len(numbers) > 1):
        notes.append(f"only the first epoch counts, {parts.sum():,.0f} tokens: later ones read its data again")
    return parts[counts], losses[1:][counts], notes


# ---- reading


def _read(path: PathLike, tokens: str, loss: str) -> np.ndarray:
    """Tokens (or steps) so far, loss and epoch of each line with a loss, (n, 3) float64. Raises CorpusError."""
    import pandas

    log = repr(str(path))
    with reading(path):
        text = read_regular(path, MAX_LOG_BYTES)
    try:
        table = _table(text.decode("utf-8-sig"))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        kinds = "neither a table (CSV), nor JSON lines, nor a trainer_state.json with a log_history"
        raise CorpusError(f"{log} is {kinds}: {str(error)[:200]}") from error
    columns = [str(name) for name in table.columns]
    if tokens not in columns or loss not in columns:
        known = ", ".join(map(repr, columns[:12])) or "none"
        raise CorpusError(f"{log} has no columns {tokens!r} and {loss!r}; it has {known}")
    given = table[[tokens, loss]].notna()
    lines = np.zeros((len(table), 3))
    for i, (name, most) in enumerate(((tokens, MAX_TOKENS), (loss, MAX_LOSS))):
        lines[:, i] = pandas.to_numeric(table[name], errors="coerce")
        if (wrong := given[name] & ~((lines[:, i] >= 0) & (lines[:, i] <= most))).any():
            value = table[name][wrong.argmax()]
            raise CorpusError(f"{log}, row {wrong.argmax() + 1}: {name!r} is {value}: no number from 0 to {most:g}")
    for name in filter(EPOCH.fullmatch, columns):
        lines[:, 2] = pandas.to_numeric(table[name], errors="coerce").ffill().fillna(0.0)
    lines = lines[given.all(axis=1)]
    if not len(lines):
        raise CorpusError(f"{log} has no line with numbers in {tokens!r} and {loss!r}")
    return lines


def _table(text: str) -> "pandas.DataFrame":
    """The lines of a log. Empty cells are missing."""
    import pandas

    if text.lstrip()[:1] != "{":
        return pandas.read_csv(io.StringIO(text), dtype=object, keep_default_na=False, na_values=[""])
    try:
        state = json.loads(text, parse_constant=str)  # NaN is a text then, and not a missing cell
        lines = state.get("log_history", [state])
    except ValueError:
        lines = [json.loads(line, parse_constant=str) for line in text.splitlines() if line.strip()]
    return pandas.DataFrame.from_records(lines)
