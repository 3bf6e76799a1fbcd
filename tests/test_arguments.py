"""Arguments of public functions are checked before any work, in words of Python."""

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small import BOTH, CONFIGS

import prequential
from prequential.cli.streams import OPTIONS, in_options
from prequential.exact.matmul import BACKEND_NAMES
from prequential.online.runtime import BACKENDS
from prequential.sweeps.plans import Plan

PROJECT = Path(__file__).parents[1]
FUSED = prequential.Runtime(kernels="fused")
SMALL = CONFIGS["mixer"]
PLAN = Plan(variants=())


def work(*_: object) -> None:
    raise AssertionError("the work has begun")


def calling(function: Callable[..., object], **good: Any) -> Callable[..., object]:
    """The call with good arguments, of which one is replaced."""
    return lambda **wrong: function(**{**good, **wrong})


compress = calling(prequential.compress, source=b"text", config=SMALL, runtime=FUSED, on_progress=work)
decompress = calling(prequential.decompress, archive=b"", runtime=FUSED, on_progress=work)
sweep = calling(prequential.sweep, source="sample:christmas_carol", plan=PLAN, folder="none", on_outcome=work)
labels = calling(prequential.labels, rows=[], label="a", config=SMALL, runtime=FUSED, on_progress=work)
compared = calling(prequential.compare, runs=["a", "b"])
forecast = calling(prequential.forecast, runs="none", target_bytes=9, target_width=8)
sweep_plan = calling(prequential.sweep_plan, base=BOTH)
written = calling(prequential.write_report, results="none", path="page.html")


def evaluate(**wrong: Any) -> object:
    learner = {} if {"learner", "level"} & {*wrong} else {"config": SMALL}
    return prequential.evaluate(**{"source": b"text" * 99, "runtime": FUSED, "on_progress": work, **learner, **wrong})


WRONG: list[tuple[Callable[..., object], str, Any]] = [
    *((compress, name, 5) for name in ("source", "output", "config", "given", "runtime", "overwrite", "on_progress")),
    (compress, "source", np.zeros(4)), (compress, "source", None), (compress, "resume", "yes"), (compress, "source", ""),
    *((decompress, name, 5) for name in ("archive", "output", "given", "runtime", "overwrite", "resume", "on_progress")),
    (decompress, "max_output_bytes", "1K"), (decompress, "max_output_bytes", -1),
    *((evaluate, name, 5) for name in ("source", "config", "learner", "given", "runtime", "verify", "draft", "on_progress")),
    *((evaluate, "baselines", value) for value in (5, None, "gzip", ["gzp"], [5], ["gzip", "x"])),
    *((evaluate, "limit", value) for value in (-1, 1e6, "1X", "0", True)),
    *((sweep, name, 5) for name in ("source", "plan", "folder", "runtime", "on_outcome")),
    (sweep, "limit", "K"),
    *((labels, name, 5) for name in ("rows", "label", "given_field", "config", "runtime", "on_progress")),
    *((sweep_plan, name, 5) for name in ("base", "replay", "widths", "layers", "update_symbols", "seeds", "runtime")),
    (sweep_plan, "widths", "64"), (sweep_plan, "replay", ["a"]), (sweep_plan, "seeds", [1.5]),
    (lambda **wrong: prequential.without(**{"config": BOTH, **wrong}), "config", 5),
    *((prequential.preset, "level", value) for value in ("-9", 10, 5.5, True, None, [1])),
    *((evaluate, "level", value) for value in (5.5, "best", 9, [1])), (evaluate, "runs", 5),
    *((written, name, 5) for name in ("results", "path", "overwrite")), (written, "results", [5]),
    (lambda **wrong: prequential.preset(5, **wrong), "pure", "no"), (lambda **wrong: prequential.preset(5, **wrong), "seed", "a"),
    *((prequential.Runtime, name, "a") for name in ("threads", "backend", "kernels", "device")),
    *((prequential.Runtime, name, "a") for name in ("audit_every", "max_memory_bytes")),
    (prequential.Runtime, "threads", 0), (prequential.Runtime, "device", []),
    *((prequential.Config, name, 5) for name in ("gpt", "mixer", "schedule")),
    *((compared, "runs", value) for value in (5, "ab", [5, 6])),
    *((forecast, name, "a") for name in ("target_bytes", "target_seed", "after_the_fact")),
    (forecast, "runs", 5), (forecast, "target_bytes", 0), (forecast, "target_width", None),
    (prequential.runs_frame, "runs", [5]),
    (prequential.DraftFolder, "path", 5), (prequential.DraftFolder, "path", Path("none")),
    (prequential.memory_bytes, "config", 5),
    (lambda **wrong: prequential.memory_bytes(SMALL, **wrong), "n_threads", "a"),
    (prequential.progress, "title", 5),
    *((lambda read=read, **wrong: read(**wrong), "path", 5)
      for read in (prequential.read_run, prequential.read_runs, prequential.read_series, prequential.read_forecast)),
    (lambda **wrong: prequential.read_runs("none", **wrong), "on_bad", 5),
]  # fmt: skip


@pytest.mark.parametrize(("call", "name", "value"), WRONG)
def test_a_wrong_argument_is_named_before_any_work(call: Callable[..., object], name: str, value: Any) -> None:
    with pytest.raises(prequential.ConfigError) as error:
        call(**{name: value})
    assert re.search(rf"\b{name.removesuffix('s')}", str(error.value))


def test_every_public_function_is_among_those_whose_arguments_are_checked() -> None:
    functions = {name for name in prequential.__all__ if type(getattr(prequential, name)).__name__ == "function"}
    assert functions - {"sample_path"} == {
        "compare", "compress", "decompress", "evaluate", "forecast", "heldout", "import_log", "labels",
        "memory_bytes", "monorepo", "preset", "progress", "read_forecast", "read_run", "read_runs",
        "read_series", "runs_frame", "sweep", "sweep_plan", "without", "write_report",
    }  # fmt: skip
    listed = [name for name in dir(prequential) if not name.startswith("__")]
    assert [name for name in listed if name not in prequential.__all__] == ["plots"]
    assert BACKENDS == BACKEND_NAMES


def test_a_mistyped_baseline_is_answered_with_the_nearest_one() -> None:
    with pytest.raises(prequential.ConfigError, match="unknown baseline 'gzp': the baselines are"):
        evaluate(baselines=["gzp"])


# ---- words of the library and of the command line


def messages() -> Iterator[tuple[str, str]]:
    """Every text of the library's errors, with its module."""
    rooms = {
        "adapters",
        "exact",
        "files",
        "learners",
        "model",
        "online",
        "report",
        "compression.py",
        "decompression.py",
    }
    for path in sorted((PROJECT / "prequential").rglob("*.py")):
        if path.relative_to(PROJECT / "prequential").parts[0] not in rooms:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and re.search(r"(Error|\badd_note)$", ast.unparse(node.func)):
                parts = (part for part in ast.walk(node) if isinstance(part, ast.Constant))
                yield str(path), "".join(str(part.value) for part in parts)


def test_no_error_of_the_library_speaks_of_options_of_the_command_line() -> None:
    option = re.compile(r"(?<![\w`-])(--[a-z][a-z-]+|-[foqv]\b)")
    assert len(list(messages())) > 150
    assert [(path, text) for path, text in messages() if option.search(text)] == []


def test_messages_in_words_of_the_command_line_keep_quoted_names() -> None:
    shown = in_options("'overwrite=True' exists; overwrite=True replaces it")
    assert shown == "'overwrite=True' exists; -f replaces it"
    assert in_options("the run's end: raise max_memory_bytes= of 'a'") == "the run's end: raise --max-memory of 'a'"
    assert [in_options(name) for name in OPTIONS] == list(OPTIONS.values())


def test_a_folder_or_file_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    for read in (prequential.read_runs, prequential.read_series):
        with pytest.raises(prequential.CorpusError, match="'nope' does not exist: name "):
            read("nope")
    assert prequential.read_runs(tmp_path) == []
    (tmp_path / "a").write_bytes(b"")
    with pytest.raises(prequential.OutputError, match="or overwrite=True replaces it"):
        prequential.compress(b"text", tmp_path / "a", config=SMALL, runtime=FUSED)
