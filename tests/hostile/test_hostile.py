"""Hostile archives, crafted and mutated, give the exact original or a clean refusal, in bounded time and memory.

The fuzzer mutate.py can be run for longer by hand.
"""

import io
import json
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import make
import mutate
import numpy as np
import pytest
import torch
from forge import Draft
from fuzzing import BrokenRuleError, sandbox
from limits import TooLargeError, TooSlowError, bounded, peak_bytes
from make import EXACT, Case
from mutate import Mutant, judged
from prequential_codecs.archive import summarise
from programs import program, script
from seeds import MAX_MEMORY_BYTES, MIXER, PURE, RUNTIME, SCHEDULE, seeds, tree_archive
from watch import ForbiddenError, confined

import prequential
from prequential.errors import ConfigError, PrequentialError
from prequential.exact import fused
from prequential.online.costs import memory_bytes
from prequential.printable import printable

REFUSED_MIB = 64  # limit for a refusal: less than any learner above MAX_MEMORY_BYTES
ESCAPED = Path("/tmp/escaped")  # the target of crafted names


@pytest.fixture(scope="module", autouse=True)
def warm() -> None:
    """Compiles the kernels, so that this does not count for an archive."""
    for seed in seeds().values():
        assert prequential.decompress(seed.archive, runtime=RUNTIME) == seed.original


def refusal(data: bytes, folder: Path) -> str:
    """The reason of the refusal, EXACT if the archive decodes: the same from memory, to a path, and byte by byte.

    Its summary must be refused, too, or true.
    """
    archive, output = folder / "a.pq", folder / "out"
    archive.write_bytes(data)
    reasons = []
    for source, sink in ((data, None), (archive, output), (Trickle(data), None)):
        try:
            with bounded(extra_bytes=REFUSED_MIB << 20), confined(folder):
                prequential.decompress(source, sink, runtime=replace(RUNTIME, max_memory_bytes=MAX_MEMORY_BYTES))  # type: ignore[call-overload]
            reasons.append(EXACT)
        except mutate.REFUSALS as error:
            reasons.append(str(error))
    assert len(set(reasons)) == 1 and len(reasons[0]) < 1000, reasons
    assert not output.is_file() or any(output.read_bytes() == seed.original for seed in seeds().values())
    with bounded(extra_bytes=REFUSED_MIB << 20), confined(folder):
        try:
            summary = summarise(archive)
        except mutate.REFUSALS[:2]:
            assert reasons[0] != EXACT
        else:
            assert sum(block.n_bytes for block in summary.blocks) == summary.header.n_bytes
    mutate.check_left(folder, decoded=reasons[0] == EXACT)
    return reasons[0]


class Trickle(io.RawIOBase):
    """A stream that gives one byte at a time and cannot seek."""

    def __init__(self, data: bytes) -> None:
        self._data = io.BytesIO(data)

    def read(self, n_bytes: int = -1) -> bytes:
        return self._data.read(min(n_bytes, 1))


def wrong(case: Case, reason: str) -> bool:
    if reason == EXACT:
        return not case.may_decode
    return case.reason == EXACT or not re.search(case.reason, reason)


@pytest.mark.parametrize("group", make.GROUPS)
@pytest.mark.first_quick
def test_crafted_archives_are_refused_for_the_right_reason(group: str, tmp_path: Path) -> None:
    found = {case.name: refusal(case.data, tmp_path) for case in make.cases(group)}
    assert len(found) > 5
    assert {case.name: found[case.name] for case in make.cases(group) if wrong(case, found[case.name])} == {}


def test_a_model_beyond_the_default_limit_is_refused_before_it_is_built(tmp_path: Path) -> None:
    huge = {case.name: case.data for case in make.cases("configs")}["huge-everything"]
    with bounded(1.0, extra_bytes=16 << 20), pytest.raises(prequential.ConfigError, match="more than the limit"):
        prequential.decompress(huge)


def extreme(**fields: object) -> prequential.Config:
    assert PURE.gpt
    return replace(PURE, gpt=replace(PURE.gpt, **fields))  # type: ignore[arg-type]


EXTREMES = {
    "integers for numbers": extreme(matrix_step=1, vector_step=1, momentum=0, beta1=0, beta2=0),
    "largest steps": extreme(matrix_step=1.0, vector_step=1.0, momentum=0.999, beta1=0.0, beta2=0.9999),
    "no steps": extreme(matrix_step=-0.0, vector_step=0.0, momentum=-0.0, beta1=-0.0, beta2=0.0),
    "denormal steps": extreme(matrix_step=5e-324, vector_step=1e-300, momentum=1e-310, beta1=5e-324, beta2=1e-320),
    "narrowest heads": extreme(width=128, n_heads=64, window=2),
    "widest heads": extreme(width=256, n_heads=2, window=512, mlp_factor=8),
    "deepest": extreme(n_layers=64),
    "longest decay": extreme(warmup_updates=100000, decay_updates=10**9),
    "blocks of one symbol": replace(MIXER, schedule=replace(SCHEDULE, block_symbols=1)),
    "segments of one symbol": replace(
        PURE, schedule=replace(SCHEDULE, first_segment_symbols=1, segment_symbols=1, row_symbols=1, n_rows=1)
    ),
    "longest segments": replace(
        MIXER, schedule=replace(SCHEDULE, first_segment_symbols=8192, segment_symbols=1, row_symbols=512, n_rows=16)
    ),
    "every context": replace(MIXER, mixer=prequential.MixerConfig(table_bits=6, match_bits=4)),
    "largest seed": replace(PURE, seed=2**63 - 1),
}


@pytest.mark.parametrize("config", EXTREMES.values(), ids=EXTREMES)
@pytest.mark.first_quick
def test_learners_at_the_ends_of_every_range_decode_their_own_archives(config: prequential.Config) -> None:
    data = bytes(30) + np.random.default_rng(2).bytes(10) + b"ab" * 10
    archive = prequential.compress(data, config=config, runtime=RUNTIME)
    with bounded():
        assert prequential.decompress(archive, runtime=RUNTIME) == data


# ---- folders and names


@pytest.mark.parametrize("name", make.TREES)
def test_an_invalid_stream_of_a_folder_is_refused_and_leaves_no_file(name: str, tmp_path: Path) -> None:
    archive, inside = tmp_path / "a.pq", tmp_path / "inside"
    inside.mkdir()
    archive.write_bytes(tree_archive(make.TREES[name]))
    with bounded(), confined(inside), pytest.raises(PrequentialError) as refused:
        prequential.decompress(archive, inside / "out", runtime=RUNTIME)
    assert str(refused.value).isprintable()
    left = {path.name: path.read_bytes() for path in inside.iterdir()}
    assert left in ({}, {"out.from-0": make.TREES[name]})  # the stream itself, which the archive holds
    assert not ESCAPED.exists()


# ---- the command line


def is_plain(output: bytes) -> bool:
    """Whether the output has only printable characters and line ends."""
    text = output.decode()
    return printable(text, multiline=True) == text and "\t" not in text


def test_list_shows_names_without_their_escapes(tmp_path: Path) -> None:
    for name, corpus in make.NAMES.items():
        (tmp_path / f"{name}.pq").write_bytes(make.described_corpus(corpus))
    files = [f"{name}.pq" for name in make.NAMES]
    table, lines = program(tmp_path, "list", *files), program(tmp_path, "list", "--json", *files)
    for done in (table, lines):
        assert (done.returncode, done.stderr, is_plain(done.stdout)) == (0, b"", True)
    assert [json.loads(line)["corpus"] for line in lines.stdout.splitlines()] == list(make.NAMES.values())


TRIED = (
    "foreign", "deflate-bomb", "json-[]", "config-escapes", "huge-table_bits", "n_bytes-1152921504606846976", "swapped",
    "raw-payload-beyond-file", "index-of-1099511627776-blocks", "tail", "digest-zero", "state-digest-1",
)  # fmt: skip


@pytest.mark.parametrize("command", ["test", "list", "decompress"])
@pytest.mark.first_quick
def test_the_command_line_refuses_in_one_plain_line_each(command: str, tmp_path: Path) -> None:
    data = {case.name: case.data for case in make.cases()}
    for name in TRIED:
        (tmp_path / f"{name}.pq").write_bytes(data[name])
    limit = [] if command == "list" else ["--max-memory", "64M"]
    done = program(tmp_path, command, *limit, *[f"{name}.pq" for name in TRIED])
    lines = done.stderr.decode("ascii").splitlines()
    assert (done.returncode, is_plain(done.stderr)) == (1, True)
    refused = [name for name in TRIED if any(line.startswith(f"prequential: {name}.pq: ") for line in lines)]
    assert len(refused) == len(lines)
    if command != "list":  # list reads neither payloads nor configurations
        assert refused == list(TRIED)
    left = {path.name for path in tmp_path.iterdir()} - {f"{name}.from-0" for name in TRIED}
    assert left == {f"{name}.pq" for name in TRIED}


# ---- former weaknesses


def test_a_block_that_declares_more_than_its_payload_holds_is_refused_soon() -> None:
    stretched = make.stretch("zeros", 1 << 25)
    stretched.blocks[0].payload = np.random.default_rng(1).bytes(16)
    archive = stretched.sealed()
    assert len(archive) < 200
    with bounded(6.0), pytest.raises(prequential.CorruptArchiveError):
        prequential.decompress(archive, runtime=RUNTIME)


def test_an_index_of_many_empty_records_takes_no_memory(tmp_path: Path) -> None:
    draft = Draft.of(seeds()["empty"].archive)
    draft.n_blocks, draft.entries = 500_000, [(0, 0)] * 500_000
    (tmp_path / "a.pq").write_bytes(draft.sealed())
    with bounded(extra_bytes=8 << 20), pytest.raises(prequential.CorruptArchiveError):
        summarise(tmp_path / "a.pq")


@pytest.mark.parametrize("odd", [float("nan"), -float("nan"), float("inf"), -float("inf")])
def test_kernels_survive_logits_that_are_not_finite(odd: float) -> None:
    """A GPT that has diverged must not crash the process: these loops check no index."""
    logits = torch.randn(4, 256, generator=torch.Generator().manual_seed(1))
    logits[1], logits[2, 7], logits[3, ::2] = odd, odd, odd
    assert fused.frequencies(logits).shape == (4, 256)


# ---- work and memory


def test_a_small_archive_cannot_demand_hours_of_work() -> None:
    """24 bytes, and after each a step of a GPT with 84 million parameters: half a minute a byte if the GPT were built."""
    assert PURE.gpt
    draft = Draft.of(seeds()["raw"].archive)
    gpt = replace(PURE.gpt, width=2048, n_heads=16, mlp_factor=8)
    schedule = replace(SCHEDULE, first_segment_symbols=1, segment_symbols=1)
    config = replace(PURE, gpt=gpt, schedule=schedule).to_dict()
    archive = draft.described({"config": config, "corpus": {}}).sealed()
    assert len(archive) < 300
    with bounded(20.0, extra_bytes=1 << 30), pytest.raises(ConfigError, match="operations a byte"):
        prequential.decompress(archive, runtime=RUNTIME)


@pytest.mark.slow
def test_the_estimate_of_memory_covers_every_thread() -> None:
    assert PURE.gpt
    gpt = replace(PURE.gpt, n_layers=4, width=768, n_heads=8, mlp_factor=8)
    config, runtime = replace(PURE, gpt=gpt), prequential.Runtime(threads=8)
    prequential.compress(b"a" * 33, config=PURE, runtime=runtime)
    with bounded(300.0, extra_bytes=8 << 30):
        before = peak_bytes()  # starts at the present memory of the process
        prequential.compress(bytes(range(33)), config=config, runtime=runtime)
        grown = peak_bytes() - before
    assert grown <= memory_bytes(config, n_threads=runtime.n_threads)


# ---- the fuzzers


def long(*counts: int) -> list[Any]:
    """A short run and a slow one."""
    return [
        pytest.param(n, marks=mark) for n, mark in zip(counts, (pytest.mark.thorough, pytest.mark.slow), strict=True)
    ]


@pytest.mark.parametrize("count", long(1, 100))
def test_runs_killed_at_random_moments_give_the_same_bytes(count: int) -> None:
    report = script("kill.py", f"--count={count}", "--seed=1")
    assert all(counts["identical"] == count and counts["kills"] >= count for counts in report.values())


@pytest.mark.parametrize("count", long(1000, 50_000))
def test_mutated_archives_are_exact_or_refused(count: int, tmp_path: Path) -> None:
    report = script("mutate.py", f"--count={count}", f"--seed={count}", f"--keep={tmp_path}")
    assert (report["n_mutants"], report["broken"]) == (count, [])


@pytest.mark.thorough
def test_mutants_reach_every_layer() -> None:
    """A fuzzer whose damage never passes a checksum would find nothing."""
    rng, found = Random(3), set()
    with sandbox() as box:
        for _ in range(400):
            found.add(judged(mutate.mutant(rng), box, to_path=False).removeprefix("CorruptArchiveError: "))
    assert {"exact", "header or configuration", "blocks", "learner", "complete original", "index and end"} <= found


def test_a_program_that_breaks_a_rule_is_noticed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(*_: object, **__: object) -> bytes:
        Path("left").touch()
        raise prequential.CorruptArchiveError("no")

    broken: dict[str, tuple[Callable[..., object], type[Exception]]] = {
        "differs from the header": (lambda *_, **__: b"something else", BrokenRuleError),
        "other files were left": (refuse, BrokenRuleError),
        "escaped": (lambda *_, **__: (tmp_path / "escaped").touch(), ForbiddenError),
        "through": (lambda *_, **__: Path("..", "through").touch(), ForbiddenError),
        "mkdir": (lambda *_, **__: (tmp_path / "new").mkdir(), ForbiddenError),
        "symlink": (lambda *_, **__: (tmp_path / "new").symlink_to("a.pq"), ForbiddenError),
        "rename": (lambda *_, **__: Path("a.pq").rename(tmp_path / "new"), ForbiddenError),
        "os.system": (lambda *_, **__: os.system("true"), ForbiddenError),
    }
    for reason, (decompress, error) in broken.items():
        monkeypatch.setattr(prequential, "decompress", decompress, raising=False)
        with sandbox() as box, pytest.raises(error, match=reason):
            judged(Mutant(seeds()["mixer"].archive, "none"), box, to_path=False)
    assert list(tmp_path.iterdir()) == []


def test_work_beyond_the_bounds_on_time_and_memory_is_noticed() -> None:
    with pytest.raises(TooSlowError), bounded(0.2):
        while True:
            pass
    with pytest.raises(TooLargeError), bounded(extra_bytes=32 << 20):
        np.ones(16 << 20)
