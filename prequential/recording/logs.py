"""Logs of training runs as tables: standard output of known programs, JSON, CSV, TensorBoard's event files and W&B's own.

Each gives the steps or tokens so far, the training loss and the held-out loss of its lines, under the names of `Log`. A loss is
in nats per token.
"""

import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from prequential.errors import ConfigError, CorpusError
from prequential.files import PathLike, read_regular, reading

if TYPE_CHECKING:
    import pandas

MAX_LOG_BYTES = 1 << 28
SAMPLE = 1 << 22  # letters in which a program is recognised; some logs begin with its source
NUMBER = r"-?(?:[0-9.]+(?:[eE][-+]?[0-9]+)?|nan|inf)"
# Of standard output, by what a line begins with. modded-nanogpt, llm.c and nanoGPT print the loss of a step; nanochat smooths it.
PROGRAMS: Mapping[str, Sequence[str]] = {
    "modded-nanogpt": (
        rf"^step:(?P<step>\d+)/\d+ train_loss:(?P<loss>{NUMBER})",
        rf"^step:(?P<step>\d+)/\d+ val_loss:(?P<heldout>{NUMBER})",
    ),
    "llm.c": (
        rf"^s:(?P<step>\d+) trl:(?P<loss>{NUMBER})",
        rf"^s:(?P<step>\d+) tel:(?P<heldout>{NUMBER})",
        rf"^step +(?P<step>\d+)/\d+ \| (?:train )?loss (?P<loss>{NUMBER})",
    ),
    "nanoGPT": (
        rf"^iter (?P<step>\d+): loss (?P<loss>{NUMBER})",
        rf"^step (?P<step>\d+): train loss (?:{NUMBER}), val loss (?P<heldout>{NUMBER})",
    ),
    "nanochat": (rf"^step (?P<step>\d+)/\d+ [^|]*\| loss: (?P<loss>{NUMBER})",),
    "torchtitan": (rf"^\[.*\bstep: *(?P<step>\d+) +loss: *(?P<loss>{NUMBER})",),
}
# Names of columns, the best first. Weights & Biases exports put the name of a run and " - " before their own.
COLUMNS: Mapping[str, Sequence[str]] = {
    "tokens": (
        "num_input_tokens_seen", "num_tokens", "n_tokens_seen", "n_tokens", "tokens_seen", "seen_tokens", "tokens",
        "total_tokens", "train/tokens", "train/num_input_tokens_seen", "train/tokens_seen", "seen",
    ),
    "step": ("step", "global_step", "trainer/global_step", "train/global_step", "iteration", "iter", "_step", "Step"),
    "loss": (
        "loss", "train_loss", "train/loss", "loss/train", "training_loss", "train/train_loss",
        "loss_metrics/global_avg_loss", "Value",
    ),
    "heldout": (
        "val_loss", "eval_loss", "val/loss", "eval/loss", "loss/val", "valid_loss", "validation_loss", "test_loss",
    ),
}  # fmt: skip
SPLITS = ("split", "phase", "mode", "stage", "subset")  # columns that say of what a loss is: train, val, ...
GENERIC = re.compile(  # names that say nothing of a run: its folder does
    r"(log|logs|train|training|trainer_state|output|out|stdout|history|metrics|main|wandb|files|tensorboard|version_\d+"
    r"|checkpoint-\d+|events\.out\.tfevents.*|(offline-)?run-.*|[0-9a-f]{8}[0-9a-f-]*)(\.\w+)?",
    re.IGNORECASE,
)
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
WANDB_HEADER, WANDB_BLOCK = 7, 1 << 15  # bytes
DECODE = json.JSONDecoder(parse_constant=str).decode  # NaN is a text then, and not a missing cell


class Log(NamedTuple):
    """A log as a table. kind: what it was taken for. columns: names in the table of those of COLUMNS. name: of the run."""

    kind: str
    table: "pandas.DataFrame"
    columns: dict[str, str]
    name: str = ""


def log_name(path: PathLike) -> str:
    """The name of a run by its file, or by the first folder above it whose name says more than `log`, a digest and the like."""
    file = Path(path).absolute()
    names = [file.stem if file.suffix in (".csv", ".json", ".jsonl", ".log", ".txt") else file.name]
    return next((n for n in [*names, *(p.name for p in file.parents)] if n and not GENERIC.fullmatch(n)), names[0])


def read_log(path: PathLike, pattern: str | None = None) -> Log:
    """A log of one of the kinds above. pattern: a regular expression for the lines of any other program, with groups of COLUMNS.

    Raises CorpusError for a file that is none of them, ConfigError for a pattern without these groups or a missing library.
    """
    patterns = None if pattern is None else [_checked(pattern)]
    with reading(path):
        contents = read_regular(path, MAX_LOG_BYTES)
    try:
        if Path(path).suffix == ".wandb" or contents.startswith(b":W&B"):
            name, rows = _wandb_rows(contents)
            return _of_rows("an offline run of W&B", rows)._replace(name=name)
        if ".tfevents." in Path(path).name:
            log = _of_rows("an event file of TensorBoard", _tensorboard_rows(path))
        else:
            text = COLOURS.sub("", contents.decode("utf-8-sig"))
            log = _parse(text.replace("\r\n", "\n").replace("\r", "\n"), patterns)
        return log._replace(name=log_name(path))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        known = f"{', '.join(PROGRAMS)}, a table (CSV), JSON lines, trainer_state.json, TensorBoard, W&B"
        what = f"{str(path)!r} is not a log of a known kind: {known}"
        raise CorpusError(f"{what} ({str(error)[:200]}); for others give pattern=") from error


def _checked(pattern: str) -> str:
    try:
        groups = re.compile(pattern).groupindex
    except re.error as error:
        raise ConfigError(f"the pattern is not a regular expression: {error}") from error
    if not {"step", "tokens"} & groups.keys() or not {"loss", "heldout"} & groups.keys():
        raise ConfigError("the pattern needs a group (?P<step>...) or tokens, and one of loss or heldout")
    return pattern


def _parse(text: str, patterns: Sequence[str] | None) -> Log:
    import pandas

    if patterns is not None:
        return _of_rows("lines of the pattern", _matches(text, patterns))
    start = text.lstrip()[:1]
    if start == "{":
        return _json_log(text)
    counts = {name: len(_matches(text[:SAMPLE], each)) for name, each in PROGRAMS.items()}
    if any(counts.values()):
        name = max(counts, key=lambda name: counts[name])
        return _of_rows(f"standard output of {name}", _matches(text, PROGRAMS[name]))
    table = pandas.read_csv(io.StringIO(text), dtype=object, keep_default_na=False, na_values=[""])
    return _of_rows("a table", table)


def _json_log(text: str) -> Log:
    try:
        state = DECODE(text)
    except ValueError:
        *lines, last = filter(str.strip, text.splitlines())
        rows = [DECODE(line) for line in lines]
        with suppress(ValueError):  # it may have been cut off
            rows.append(DECODE(last))
        return _of_rows("JSON lines", rows)
    return _of_rows("trainer_state.json", state.get("log_history", [state]))


def _matches(text: str, patterns: Sequence[str]) -> "pandas.DataFrame":
    """The groups of the lines that a pattern matches; those of each pattern in the order of the text."""
    import pandas

    names = dict.fromkeys(name for each in patterns for name in re.compile(each).groupindex)
    rows = [match.groupdict() for each in patterns for match in re.finditer(each, text, re.MULTILINE)]
    return pandas.DataFrame(rows, columns=[*names], dtype=object).replace({"": None})


def _of_rows(kind: str, rows: Any) -> Log:
    import pandas

    table = pandas.DataFrame.from_records(rows) if isinstance(rows, list) else rows
    if not len(table):
        raise ValueError("no line has a loss")
    split = next((name for name in SPLITS if name in table and "loss" in table), None)
    if split:
        of = table[split].fillna("train").astype(str).str.lower()
        is_training = of.str.startswith("train")
        for name, part in table["loss"][~is_training].groupby(of):
            table[f"{name}_loss"] = part
        table = table.assign(loss=table["loss"].where(is_training)).dropna(axis="columns", how="all")
    return Log(kind, table, _named(table.columns))


def _named(columns: Any) -> dict[str, str]:
    """The columns of COLUMNS, by their usual names. Names that several runs share are left out: the caller must say which."""
    own: dict[str, list[str]] = {}
    for name in map(str, columns):
        own.setdefault(name.rpartition(" - ")[2], []).append(name)
    known = {kind: next((own[each] for each in (kind, *names) if each in own), []) for kind, names in COLUMNS.items()}
    return {kind: names[0] for kind, names in known.items() if len(names) == 1}


# ---- files of other libraries


def _imported(library: str, module: str) -> Any:
    try:
        return import_module(f"{library}.{module}")
    except ImportError as error:
        raise ConfigError(f"this log needs the library {library}: pip install {library}") from error


def _tensorboard_rows(path: PathLike) -> list[dict[str, Any]]:
    """A row for each step, with its scalars."""
    accumulator = _imported("tensorboard", "backend.event_processing.event_accumulator")
    events = accumulator.EventAccumulator(str(path), size_guidance={"scalars": 0})
    events.Reload()
    rows = dict[int, dict[str, Any]]()
    for tag in events.Tags()["scalars"]:
        for each in events.Scalars(tag):
            value = "nan" if each.value != each.value else each.value  # a missing cell would be left out
            rows.setdefault(each.step, {"step": each.step})[tag] = value
    return [rows[step] for step in sorted(rows)]


def _wandb_rows(contents: bytes) -> tuple[str, list[dict[str, Any]]]:
    """The name of the run, and a row for each call of `wandb.log`."""
    Record = _imported("wandb", "proto.wandb_internal_pb2").Record
    name, rows = "run", []
    for part in _wandb_records(contents):
        record = Record.FromString(part)
        name = record.run.display_name or record.run.run_id or name
        if items := record.history.item:
            rows.append({each.key or "/".join(each.nested_key): DECODE(each.value_json) for each in items})
    return name, rows


def _wandb_records(contents: bytes) -> Iterator[bytes]:
    """The records of a .wandb file: the log format of LevelDB, blocks of pieces with checksum, length and type."""
    record, at = b"", WANDB_HEADER
    while at + 7 <= len(contents):
        if WANDB_BLOCK - at % WANDB_BLOCK < 7:  # the rest of a block is empty
            at += WANDB_BLOCK - at % WANDB_BLOCK
            continue
        size, kind = int.from_bytes(contents[at + 4 : at + 6], "little"), contents[at + 6]
        record = (b"" if kind in (1, 2) else record) + contents[at + 7 : at + 7 + size]  # 1: whole, 2: first
        at += 7 + size
        if kind in (1, 4):  # 4: last
            yield record
