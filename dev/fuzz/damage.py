"""Damage to records: to their bytes, to their JSON values, to the lines of a file of records, and to tables of curves."""

import io
import json
from collections.abc import Callable
from copy import deepcopy
from random import Random
from typing import Any

import pyarrow
import pyarrow.parquet
from fuzzing import damaged_bytes

# ---- JSON

RAW = "\ue000raw"  # begins a string that stands for text which is not JSON of Python
RAW_TEXTS = [
    "9" * 400, "-" + "9" * 400, "9" * 5000, "1e400", "-1e400", "1e-400", "1" + "0" * 400 + ".5", "NaN", "Infinity", "-Infinity",
    "-0.0", "[" * 100_000, "[" * 3000 + "]" * 3000, '{"a":' * 900 + "1" + "}" * 900, '{"a":' * 100_000,
    "[0" + ",0" * 200_000 + "]", '{"name":1,"name":2}', "tru", "0x10", "1_000", "'a'", '"\\ud800"', '"\x01"', '"\\u0000"',
]  # fmt: skip
TEXTS = [
    "", "x", "\x1b[31mred", "a\nprequential: forged", "\u202egnp.exe", "\ud800", "\x00", "\x7f\x9b2J",
    "</script><script>alert(1)</script>", "<svg onload=x>", "]]>", "&amp;\"'", "../../../etc/passwd", "/dev/zero", "C:\\nul",
    "x" * 3000, "\u0301" * 500, "{0.__class__}", "%s%n", "2026-01-01T00:00:00+00:00", "9999-12-31T23:59:59-23:59",
    "0001-01-01T00:00:00+14:00", "2026-01-01T00:00:00", "not a date", "evaluation", "forecast", "monorepo", "packed run",
    "\u0663", "1e5", "1", "gzip", "model", "nan", "$a^2$", "\\frac", "x" * 300_000,
]  # fmt: skip
NUMBERS = [
    0, -1, 1, 2, 3, 7, 64, 255, 1 << 16, 1 << 31, 1 << 32, (1 << 53) + 1, (1 << 63) - 1, 1 << 63, 1 << 64, 10**20, -(10**20),
    10**300, 10**400, 0.0, -0.0, 0.5, 1.5, -1.5, 1e-9, 1e9, 1e18, 1e19, 1e154, 1e155, 1e300, 1e308, -1e308, 5e-324,
    float("nan"), float("inf"), -float("inf"),
]  # fmt: skip
OTHERS = [None, True, False, [], {}, [[]], [None], {"": None}, ["x"], [1], {"a": 1}, [{}], [[1, 2], [3]]]


def hostile_value(rng: Random) -> Any:
    """A value of any type."""
    kind = rng.randrange(8)
    if kind < 3:
        return rng.choice(NUMBERS)
    if kind < 5:
        return rng.choice(TEXTS)
    return deepcopy(rng.choice(OTHERS)) if kind < 7 else RAW + str(rng.randrange(len(RAW_TEXTS)))


def damaged_value(value: Any, rng: Random) -> Any:
    """A copy with one to three changes at random places."""
    value = deepcopy(value)
    for _ in range(rng.choice((1, 1, 1, 1, 2, 3))):
        places = list(_places(value))
        if not places or rng.random() < 0.01:
            return hostile_value(rng)
        container, key = rng.choice(places)
        _change(container, key, value, rng)
    return value


def _places(value: Any) -> Any:
    """(container, key) of every value in it."""
    if isinstance(value, dict):
        keys = list(value)
    elif isinstance(value, list):
        keys = list(range(len(value)))
    else:
        return
    for key in keys:
        yield value, key
        yield from _places(value[key])


def _change(container: Any, key: Any, root: Any, rng: Random) -> None:
    """Replaces, removes or renames the value at this place, or puts another one beside it."""
    old, (other, other_key) = container[key], rng.choice(list(_places(root)))
    how = rng.randrange(14)
    if how < 2:
        del container[key]
    elif how == 2 and isinstance(container, list):
        container.insert(rng.randint(0, len(container)), hostile_value(rng))
    elif how == 2:
        container[rng.choice(TEXTS)] = hostile_value(rng)
    elif how == 3 and isinstance(container, dict):
        container[rng.choice(TEXTS)] = container.pop(key)
    elif how < 6:
        container[key] = deepcopy(other[other_key])
    elif how < 10:
        container[key] = _near(old, rng)
    else:
        container[key] = rng.choice((hostile_value(rng),) * 3 + ([old], {"name": old}, str(old)[:1000]))


def _near(old: Any, rng: Random) -> Any:
    """Another value of the same type; of texts, lists and objects also repetitions."""
    if isinstance(old, bool):
        return not old
    if isinstance(old, int | float):
        same = (n for n in NUMBERS if type(n) is type(old))
        return rng.choice((*same, old + 1, old - 1, -old, old * 2, old / 2, float(old)))
    if isinstance(old, dict):
        return rng.choice(({}, {f"{name}{i}": value for i in range(100) for name, value in old.items()}))
    if old is None:
        return hostile_value(rng)
    more = old * rng.choice((2, 3, 100, 20_000 if len(str(old)) < 100 else 4))
    return rng.choice((*TEXTS, old[:-1], old + "0", old[::-1], more) if isinstance(old, str) else (old[:-1], more))


def to_text(value: Any, rng: Random, *, indent: int | None = None) -> bytes:
    """The value as JSON, with the raw texts in it, in UTF-8 or almost."""
    text = json.dumps(value, ensure_ascii=rng.random() < 0.5, indent=indent)
    for i, raw in enumerate(RAW_TEXTS):
        for mark in (f'"{RAW}{i}"', json.dumps(f"{RAW}{i}")):
            text = text.replace(mark, raw)
    return text.encode("utf-8", "surrogatepass")


def damaged_json(data: bytes, rng: Random, seal: Callable[[Any], Any] = lambda value: value) -> bytes:
    """A file of one JSON value. seal: corrects a digest in the value."""
    how = rng.random()
    if how < 0.15:
        return damaged_bytes(data, rng)
    value = damaged_value(json.loads(data), rng)
    if rng.random() < 0.9:
        value = seal(value)
    return _recoded(to_text(value, rng) + b"\n", rng)


def _recoded(data: bytes, rng: Random) -> bytes:
    """Nearly always as it is; else in another encoding, or between other bytes."""
    if rng.random() > 0.07:
        return data
    others = (b"\xef\xbb\xbf" + data, b"\0" * 10 + data, data + b"\0" * 10, data.replace(b"\n", b"\r\n"), b"", b"\n")
    others += (data.decode("utf-8", "replace").encode("utf-16"), data.replace(b" ", b"\n"), data * 2, b"\xff" + data)
    return rng.choice((*others, data + b" " * (1 << 20)))


def damaged_lines(data: bytes, rng: Random, value: Callable[[Any, Random], Any] = damaged_value) -> bytes:
    """A file with a JSON value in each line. value: changes one of them."""
    lines = data.splitlines(keepends=True)
    how, i = rng.randrange(20), rng.randrange(len(lines))
    if how < 2:
        return damaged_bytes(data, rng)
    if how == 2:
        lines.insert(rng.randint(0, len(lines)), lines[i])
    elif how == 3:
        del lines[i]
    elif how == 4:
        rng.shuffle(lines)
    elif how == 5:
        lines.insert(
            i, rng.choice((b"\n", b"null\n", b"[]\n", b"{}\n", b"\x0c\n", b"\xe2\x80\xa8\n", b"x" * 3_000_000 + b"\n"))
        )
    elif how == 6:
        lines[-1] = lines[-1].rstrip(b"\n")
    elif how == 7:
        lines = lines * rng.choice((2, 50))
    else:
        lines[i] = to_text(value(json.loads(lines[i]), rng), rng) + b"\n"
    return _recoded(b"".join(lines), rng)


# ---- tables of curves

CELLS: dict[str, list[Any]] = {
    "series": [None, *(text.encode("utf-8", "replace").decode() for text in TEXTS)],
    "n_bytes": [0, -1, 1, 1 << 31, 1 << 53, (1 << 63) - 1, -(1 << 63), None],
    "bits": [float("nan"), float("inf"), -float("inf"), -1.0, 0.0, 5e-324, 1e308, -1e308, 1e300, None],
}
KINDS = {"series": pyarrow.string(), "n_bytes": pyarrow.int64(), "bits": pyarrow.float64()}


def damaged_table(data: bytes, rng: Random) -> bytes:
    """A table of curves with other rows or values, or a column less; or with damaged bytes, also of its description."""
    if rng.random() < 0.35:
        n = int.from_bytes(data[-8:-4], "little")
        footer = damaged_bytes(data[-8 - n : -8], rng)
        long = data[: -8 - n] + footer + len(footer).to_bytes(4, "little") + b"PAR1"
        return rng.choice((damaged_bytes(data, rng), long))
    rows = pyarrow.parquet.read_table(pyarrow.BufferReader(data)).to_pylist()
    name, at = rng.choice(list(CELLS)), rng.randrange(len(rows))
    value, many = rng.choice(CELLS[name]), [{"series": f"s{i}", "n_bytes": 2000, "bits": 1.0} for i in range(3000)]
    others = (
        rows[:1],
        rows[: len(rows) // 2],
        rows * 2,
        rows[::-1],
        rows + many,
        [{**row, name: value} for row in rows],
    )
    one = [{**row, name: value} if i == at else row for i, row in enumerate(rows)]
    rows = rng.choice((*others, *[one] * 6))
    table = pyarrow.table({key: pyarrow.array([row[key] for row in rows], kind) for key, kind in KINDS.items()})
    out = io.BytesIO()
    pyarrow.parquet.write_table(table.drop_columns([name] * (rng.random() < 0.1)), out)
    return out.getvalue()
