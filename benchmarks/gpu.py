"""Compares a GPU with the processor: equal archives in both directions, and the time of each. `make gpu-check` runs this.

    python benchmarks/gpu.py [FILE...] [--levels 5 6 gpu-small 5-pure] [--limit N] [--device cuda|cpu]

Each corpus is compressed at each preset with the GPT on the processor and on the device. Each archive is decoded on the other
one. The parts are timed alone, too: a step, the reading of a segment, a column of a decoder on the processor, and the mixer; on a
device also as graphs, and as graphs of Triton's kernels. The script counts the operations of a step that a device launches,
except views, with the CUDA path of matrix products, and the bytes that they read and write; with Triton (if it is installed)
their number. The counts are the same on every machine. The script prints one table, appends one record to benchmarks/gpu.jsonl,
and fails if two archives differ. Before that, it prints each result to stderr as soon as it is known. --device cpu tests the
script itself.
"""

import argparse
import dataclasses
import hashlib
import io
import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from prequential_codecs.archive import ArchiveReader
from prequential_codecs.archive_header import Header
from prequential_codecs.bit_coder import SCORE, BitCoder
from prequential_corpora.sources import open_corpus
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from prequential.errors import PrequentialError
from prequential.evaluation.evaluation import warm_up
from prequential.exact import matmul, plain
from prequential.exact.arrays import random_words
from prequential.exact.backend import Arithmetic
from prequential.exact.pool import Pool
from prequential.exact.tables import HOST
from prequential.model.config import COLUMNS_AT_ONCE, Config
from prequential.model.gpt.device import Accelerator, DeviceGPT
from prequential.model.gpt.gpt import GPT
from prequential.model.gpt.weights import phases_of_rows
from prequential.model.presets import preset
from prequential.online import coding, loop
from prequential.online.accelerators import places_of_test
from prequential.online.runtime import Runtime
from prequential.printable import format_table
from prequential.records import append_record, environment

RECORDS = Path(__file__).parent / "gpu.jsonl"
PARTS = ("cpu", "gpu", "gpu_captured", "gpu_triton")  # where and how a part is timed
COLUMNS = 64
STEPS = 5  # timed, after as many that are not
KB = 1e3


class OnTensorCores(matmul.Matmul):
    """Matrix products by the method of a CUDA device, on any device."""

    def __call__(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return matmul.tensor_core_product(a, b) if a.dim() == 2 else super().__call__(a, b)


class Operations(TorchDispatchMode):
    """Counts the operations whose results are neither views of their operands nor only memory."""

    def __init__(self) -> None:
        super().__init__()
        self.n = self.n_bytes = 0  # operations; bytes that they read and write

    def launch(self, *args: Any, **kwargs: Any) -> None:
        """Takes the place of a launch of a Triton kernel, which computes nothing then."""
        self.n += 1

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if not func.is_view and "empty" not in func.name():  # memory is not launched
            self.n += 1
            tensors = [x for x in tree_leaves((args, kwargs, result)) if isinstance(x, torch.Tensor)]
            self.n_bytes += sum(x.numel() * x.element_size() for x in tensors)
        return result


def main() -> int:
    """Measures as the command line says. Fails if any two archives differ."""
    args = _arguments()
    if args.device == "cuda" and not torch.cuda.is_available():
        print("gpu: torch sees no CUDA device", file=sys.stderr)
        return 1
    try:
        configs = {level: _config(level) for level in args.levels}
        corpora = {name: _read(name, args.limit) for name in args.files}
        parts = configs | {level: _config(level) for level in args.parts}
        steps = [_printed(step(level, config, args.device)) for level, config in parts.items() if config.gpt]
        runs = [
            _printed(run(name, level, data, configs[level], args.device))
            for name, data in corpora.items()
            for level in configs
        ]
    except (PrequentialError, RuntimeError) as error:
        print(f"gpu: {str(error).splitlines()[0]}", file=sys.stderr)
        return 1
    trials = {t.name: t.ops_per_s if t.exact else t.reason for t in matmul.trials(args.device)}
    record = {"kind": "gpu", "device": _device(args.device), "products": trials, "runs": runs, "steps": steps}
    about = environment(Runtime(device=args.device), next(iter(configs.values())))
    append_record(args.record, record | {"environment": about})
    print(_table(runs, steps))
    different = [f"{r['corpus']} -{r['level']}" for r in runs if not r["identical"]]
    for name in different:
        print(f"gpu: {name}: the archives differ", file=sys.stderr)
    return 1 if different else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("files", nargs="*", default=["sample:christmas_carol"], metavar="FILE")
    parser.add_argument(
        "--levels",
        nargs="+",
        default=["5", "6", "gpu-small", "5-pure"],
        metavar="N",
        help="presets: N, N-pure or the name of one for devices",
    )
    parser.add_argument(
        "--parts", nargs="*", default=[], metavar="N", help="more presets, of which only the parts are timed"
    )
    parser.add_argument("--limit", type=int, default=50_000, metavar="N", help="bytes of each (default: %(default)s)")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--record", type=Path, default=RECORDS, metavar="FILE", help="file to append the record to")
    return parser.parse_args()


def _printed(row: dict[str, Any]) -> dict[str, Any]:
    """Prints the row to stderr, without its configuration: a run may be cut off before the table. Returns the row."""
    print(json.dumps({name: value for name, value in row.items() if name != "config"}), file=sys.stderr, flush=True)
    return row


def _config(level: str) -> Config:
    number, _, pure = level.partition("-")
    return preset(int(number), pure=bool(pure)) if number.isdigit() else preset(level)


def _read(name: str, limit: int) -> np.ndarray:
    return np.array(open_corpus(name).bytes(limit))


def run(name: str, level: str, data: np.ndarray, config: Config, device: str) -> dict[str, Any]:
    """Archives made on each device and decoded on the other: whether all bytes are equal, and kB/s of the four runs."""
    header = Header(n_bytes=len(data), blake2b=hashlib.blake2b(data, digest_size=32).digest(), config=config.to_dict())
    row: dict[str, Any] = {"corpus": name, "n_bytes": len(data), "level": level, "config": config.to_dict()}
    archives = {}
    for where, place in {"cpu": "cpu", "gpu": device}.items():
        runtime, sink = Runtime(device=place), io.BytesIO()
        warm_up(runtime, config)
        with _timed(row, f"compress_{where}_kb_per_s", len(data)):
            for _ in coding.compress(data, header, sink, runtime.learner(config)):
                pass
        archives[where] = sink.getvalue()
    if config.mixer:
        _time_mixer(row, config, data)
    row |= {"archive_bytes": len(archives["cpu"]), "identical": archives["cpu"] == archives["gpu"]}
    for where, place, made in (("cpu", "cpu", "gpu"), ("gpu", device, "cpu")):
        out = io.BytesIO()
        with _timed(row, f"decompress_{where}_kb_per_s", len(data)):
            learner = Runtime(device=place).learner(config)
            for _ in coding.decompress(ArchiveReader(io.BytesIO(archives[made])), out, learner):
                pass
        row["identical"] &= out.getvalue() == data.tobytes()
    return row


def _time_mixer(row: dict[str, Any], config: Config, data: np.ndarray) -> None:
    """The rate of the mixer without a GPT."""
    learner = Runtime().learner(dataclasses.replace(config, gpt=None))
    with _timed(row, "mixer_kb_per_s", len(data)):
        for _ in loop.run(learner, BitCoder(SCORE), slice(0, len(data)), data.copy()):
            pass


def step(level: str, config: Config, device: str) -> dict[str, Any]:
    """A step and a segment of full size: their seconds on processor and device, also captured; counts, the device's memory."""
    host = Runtime().exact_backend()
    assert config.gpt and host
    found = Accelerator(torch.device(device), matmul.choose(device))
    gpts = {"cpu": GPT(config.gpt, 0, host), "gpu": DeviceGPT(found, config.gpt, 0, host)}
    if device == "cuda":
        captured = dataclasses.replace(found, captures=True)
        gpts["gpu_captured"] = DeviceGPT(captured, config.gpt, 0, host)
        if fused := triton_primitives():
            gpts["gpu_triton"] = DeviceGPT(dataclasses.replace(captured, primitives=fused), config.gpt, 0, host)
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    shape = config.schedule.n_rows, config.schedule.row_symbols, config.gpt.n_inputs + 1
    symbols = torch.from_numpy((random_words(0, "gpu", torch.Size(shape).numel()) >> 56).astype(np.int64)).view(shape)
    places = places_of_test(*shape[:2])
    rows = symbols[..., 1:].contiguous(), symbols[..., 0].contiguous(), places
    row: dict[str, Any] = {"level": level, "rows": shape[0], "columns": shape[1]}
    for where in PARTS:
        row[f"step_{where}_s"] = _step_s(gpts[where], rows, device) if where in gpts else None
        row[f"reading_{where}_s"] = _reading_s(gpts[where], config, device) if where in gpts else None
    row["column_cpu_s"] = _column_s(gpts["cpu"], config)
    row["device_bytes"] = torch.cuda.max_memory_allocated() if device == "cuda" else None
    return row | counts(config)


def triton_primitives() -> ModuleType | None:
    try:
        from prequential.exact.device import primitives
    except ImportError:
        return None
    return primitives


def counts(config: Config) -> dict[str, int | float]:
    """Operations and bytes of a step, and operations of reading a run of columns.

    Also the operations that a layer adds to a step, and the bytes that it adds for each position and unit of width, without Muon.
    """
    n = config.schedule.n_rows
    step, deeper = _counted(config, n), _counted(config, n, more_layers=1)
    per_row = [_counted(config, 2 * n, more_layers=k).n_bytes - c.n_bytes for k, c in enumerate((step, deeper))]
    fused = triton_primitives()
    launches = (
        {
            "operations_triton": _counted(config, n, 0, fused).n,
            "operations_a_layer_triton": _counted(config, n, 1, fused).n - _counted(config, n, 0, fused).n,
            "reading_operations_triton": _counted(config, 0, 0, fused).n,
        }
        if fused
        else {}
    )
    return launches | {
        "operations": step.n,
        "operations_a_layer": deeper.n - step.n,
        "bytes": step.n_bytes,
        "bytes_a_unit": (per_row[1] - per_row[0]) / (n * config.schedule.row_symbols * config.gpt.width),
        "reading_operations": _counted(config, 0).n,
    }


def _counted(config: Config, n_rows: int, more_layers: int = 0, primitives: ModuleType = plain) -> Operations:
    """The operations of a step on n_rows rows; with n_rows = 0, those of reading a run of columns. Triton's compute nothing."""
    gpt = dataclasses.replace(config.gpt, n_layers=config.gpt.n_layers + more_layers)
    inputs = torch.zeros(n_rows, config.schedule.row_symbols, gpt.n_inputs, dtype=torch.int64)
    phases_of_rows(gpt, config.schedule.row_symbols, HOST)  # cached, so that the step does not compute them
    counted, host = Operations(), Arithmetic(plain, matmul.Matmul("int8"), Pool(1))
    with ExitStack() as stack:
        if primitives is not plain:
            from prequential.exact.device import rounding

            stack.enter_context(patch.object(rounding, "launch", counted.launch))
        learner = DeviceGPT(Accelerator(HOST, OnTensorCores("int8"), primitives), gpt, 0, host)
        learner.begin(COLUMNS_AT_ONCE)
        counted.n = 0
        stack.enter_context(counted)
        if n_rows:
            learner.update(inputs, inputs[..., 0], places_of_test(*inputs.shape[:2]))
        else:
            learner.forward(torch.zeros(COLUMNS_AT_ONCE, gpt.n_inputs, dtype=torch.int64), 0)
    return counted


def _step_s(gpt: GPT, rows: tuple[torch.Tensor, ...], device: str) -> float:
    """Seconds of one step, a mean over STEPS."""

    def steps() -> None:
        for _ in range(STEPS):
            gpt.update(*rows)
            gpt.begin(0)
            gpt.end()
        if device == "cuda":
            torch.cuda.synchronize()

    steps()
    started = time.perf_counter()
    steps()
    return (time.perf_counter() - started) / STEPS


def _reading_s(gpt: GPT, config: Config, device: str) -> float:
    """Seconds of reading one segment of full size at once, with all copies, a mean over STEPS."""
    assert config.gpt
    n, seconds = config.schedule.segment_symbols, 0.0
    drawn = random_words(0, "gpu/segment", n * config.gpt.n_inputs) >> 56
    symbols = torch.from_numpy(drawn.astype(np.int64)).view(n, -1)
    for i in range(2 * STEPS):
        if device == "cuda":
            torch.cuda.synchronize()
        started = time.perf_counter()
        gpt.begin(n)
        gpt.forward(symbols, 0)
        gpt.end()
        if i >= STEPS:
            seconds += time.perf_counter() - started
    return seconds / STEPS


def _column_s(gpt: GPT, config: Config) -> float:
    """Seconds of one column, read as a decoder does: a mean over COLUMNS, after as many."""
    assert config.gpt
    for n in (config.gpt.window, COLUMNS, COLUMNS):
        symbols = torch.zeros(n, config.gpt.n_inputs, dtype=torch.int64)
        gpt.begin(n)
        started = time.perf_counter()
        for first, part in enumerate(symbols.split(1)):
            gpt.forward(part, first)
        seconds = time.perf_counter() - started
        gpt.end()
    return seconds / COLUMNS


@contextmanager
def _timed(row: dict[str, Any], name: str, n_bytes: int) -> Iterator[None]:
    started = time.perf_counter()
    yield
    row[name] = n_bytes / (time.perf_counter() - started) / KB


def _device(name: str) -> dict[str, Any]:
    if name == "cpu":
        return {"name": "cpu"}
    facts = torch.cuda.get_device_properties(0)
    capability = f"{facts.major}.{facts.minor}"
    return {
        "name": facts.name,
        "capability": capability,
        "memory_bytes": facts.total_memory,
        "cuda": torch.version.cuda,
    }


def _table(runs: Sequence[dict[str, Any]], steps: Sequence[dict[str, Any]]) -> str:
    """A line for each corpus and preset: milliseconds of the parts, kB/s of the runs, and whether all archives are identical."""
    parts_heads = ["gpu", "captured", "Triton"]
    heads = ["corpus", "preset", "step ms: cpu", *parts_heads, "segment ms: cpu", *parts_heads]
    heads += ["column ms: cpu", "mixer kB/s"]
    heads += ["kB/s: compress cpu", "gpu", "decompress cpu", "gpu", "identical"]
    parts = {row["level"]: row for row in steps}
    lines = []
    alone = [{"level": level} for level in parts if level not in {row["level"] for row in runs}]
    for run_row in [*runs, *alone]:
        part = parts.get(run_row["level"], {})
        times = [part.get(f"{kind}_{where}_s") for kind in ("step", "reading") for where in PARTS]
        times += [part.get("column_cpu_s")]
        rates = [
            run_row.get(f"{verb}_{where}_kb_per_s") for verb in ("compress", "decompress") for where in ("cpu", "gpu")
        ]
        lines.append([
            run_row.get("corpus", "-"), run_row["level"], *(_number(t, 1e3) for t in times),
            _number(run_row.get("mixer_kb_per_s")),
            *(_number(rate) for rate in rates), {True: "yes", False: "NO"}.get(run_row.get("identical"), "-"),
        ])  # fmt: skip
    return format_table(heads, lines)


def _number(x: float | None, factor: float = 1.0) -> str:
    return "-" if x is None else f"{x * factor:.3g}"


if __name__ == "__main__":
    sys.exit(main())
