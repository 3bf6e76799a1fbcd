"""Crafted archives give the exact original or a clean refusal, in bounded time and memory. dev/fuzz/mutate.py draws more."""

import io
import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import make
import numpy as np
import pytest
from limits import TooLargeError, TooSlowError, bounded, peak_bytes
from make import EXACT
from prequential_codecs.archive import summarise
from programs import FUZZ, HERE, program, script
from seeds import MAX_MEMORY_BYTES, MIXER, PURE, RUNTIME, SCHEDULE, seeds, tree_archive
from watch import ForbiddenError, confined

import prequential
from prequential.errors import ConfigError, CorruptArchiveError, OutputError, PrequentialError, UnsupportedVersionError
from prequential.online.costs import memory_bytes
from prequential.printable import printable

REFUSED_MIB = 64  # limit for a refusal: less than any learner above MAX_MEMORY_BYTES


@pytest.fixture(scope="module", autouse=True)
def warm() -> None:
    """Compiles the kernels, so that this does not count for an archive."""
    for seed in seeds().values():
        assert prequential.decompress(seed.archive, runtime=RUNTIME) == seed.original


class Trickle(io.RawIOBase):
    """A stream that gives one byte at a time and cannot seek."""

    def __init__(self, data: bytes) -> None:
        self._data = io.BytesIO(data)

    def read(self, n_bytes: int = -1) -> bytes:
        return self._data.read(min(n_bytes, 1))


def refusal(data: bytes, folder: Path) -> str:
    """The reason of the refusal, EXACT if the archive decodes: the same from memory, to a path, and byte by byte.

    Its summary must be refused, too, or true. Only a correct beginning of the original may be left.
    """
    archive, output = folder / "a.pq", folder / "out"
    archive.write_bytes(data)
    runtime, reasons = replace(RUNTIME, max_memory_bytes=MAX_MEMORY_BYTES), []
    for source, sink in ((data, None), (archive, output), (Trickle(data), None)):
        try:
            with bounded(extra_bytes=REFUSED_MIB << 20), confined(folder):
                prequential.decompress(source, sink, runtime=runtime)  # type: ignore[call-overload]
            reasons.append(EXACT)
        except (CorruptArchiveError, UnsupportedVersionError, ConfigError) as error:
            reasons.append(str(error))
    assert len(set(reasons)) == 1 and len(reasons[0]) < 1000, reasons
    is_exact = reasons[0] == EXACT
    with bounded(extra_bytes=REFUSED_MIB << 20), confined(folder):
        try:
            summary = summarise(archive)
        except (CorruptArchiveError, UnsupportedVersionError):
            assert not is_exact
        else:
            assert sum(block.n_bytes for block in summary.blocks) == summary.header.n_bytes
    originals = [seed.original for seed in seeds().values()]
    archive.unlink()
    for path in folder.iterdir():
        if path.is_dir():
            assert is_exact
            shutil.rmtree(path)
        else:
            left = path.read_bytes()
            assert is_exact and path.name == "out" and left in originals
            path.unlink()
    return reasons[0]


@pytest.mark.parametrize("group", make.GROUPS)
@pytest.mark.first_quick
def test_crafted_archives_are_refused_for_the_right_reason(group: str, tmp_path: Path) -> None:
    wrong = {}
    assert len(make.cases(group)) > 5
    for name, data, expected in make.cases(group):
        reason = refusal(data, tmp_path)
        may_decode = expected == EXACT or "-payload-" in name  # not all bits of the last word of a payload matter
        if not may_decode if reason == EXACT else expected == EXACT or not re.search(expected, reason):
            wrong[name] = reason
    assert wrong == {}


def extreme(**fields: object) -> prequential.Config:
    assert PURE.gpt
    return replace(PURE, gpt=replace(PURE.gpt, **fields))  # type: ignore[arg-type]


def cut(config: prequential.Config, **fields: int) -> prequential.Config:
    return replace(config, schedule=replace(SCHEDULE, **fields))


EXTREMES = {
    "integers for numbers": extreme(matrix_step=1, vector_step=1, momentum=0, beta1=0, beta2=0),
    "largest steps": extreme(matrix_step=1.0, vector_step=1.0, momentum=0.999, beta1=0.0, beta2=0.9999),
    "no steps": extreme(matrix_step=-0.0, vector_step=0.0, momentum=-0.0, beta1=-0.0, beta2=0.0),
    "denormal steps": extreme(matrix_step=5e-324, vector_step=1e-300, momentum=1e-310, beta1=5e-324, beta2=1e-320),
    "narrowest heads": extreme(width=128, n_heads=64, window=2),
    "widest heads": extreme(width=256, n_heads=2, window=512, mlp_factor=8),
    "deepest": extreme(n_layers=64),
    "longest decay": extreme(warmup_updates=100000, decay_updates=10**9),
    "blocks of one symbol": cut(MIXER, block_symbols=1),
    "segments of one symbol": cut(PURE, first_segment_symbols=1, segment_symbols=1, row_symbols=1, n_rows=1),
    "longest segments": cut(MIXER, first_segment_symbols=8192, segment_symbols=1, row_symbols=512, n_rows=16),
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


@pytest.mark.parametrize("name", make.TREES)
def test_an_invalid_stream_of_a_folder_is_refused_and_leaves_no_file(name: str, tmp_path: Path) -> None:
    archive, inside = tmp_path / "a.pq", tmp_path / "inside"
    inside.mkdir()
    archive.write_bytes(tree_archive(make.TREES[name]))
    with bounded(), confined(inside), pytest.raises(PrequentialError) as refused:
        prequential.decompress(archive, inside / "out", runtime=RUNTIME)
    assert str(refused.value).isprintable()
    assert list(inside.iterdir()) == []
    assert not Path("/tmp/escaped").exists()  # the target of crafted names


# ---- the command line


def is_plain(output: bytes) -> bool:
    """Whether the output has only printable characters and line ends."""
    text = output.decode()
    return printable(text, multiline=True) == text and "\t" not in text


def test_list_shows_names_without_their_escapes(tmp_path: Path) -> None:
    data = {case.name: case.data for case in make.cases("digests")}
    for name in make.NAMES:
        (tmp_path / f"{name}.pq").write_bytes(data[f"corpus-{name}"])
    files = [f"{name}.pq" for name in make.NAMES]
    table, lines = program(tmp_path, "list", *files), program(tmp_path, "list", "--json", *files)
    for done in (table, lines):
        assert (done.returncode, done.stderr, is_plain(done.stdout)) == (0, b"", True)
    assert [json.loads(line)["corpus"] for line in lines.stdout.splitlines()] == list(make.NAMES.values())


TRIED = (
    "foreign", "deflate-bomb", "huge-table_bits", "n_bytes-1152921504606846976", "swapped", "raw-payload-beyond-file",
    "index-of-1099511627776-blocks", "tail", "digest-zero", "state-digest-1",
)  # fmt: skip


@pytest.mark.parametrize("command", ["test", "list", "decompress"])
@pytest.mark.first_quick
def test_the_command_line_refuses_in_one_plain_line_each(command: str, tmp_path: Path) -> None:
    data = {case.name: case.data for group in make.GROUPS for case in make.cases(group)}
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
    assert {path.name for path in tmp_path.iterdir()} == {f"{name}.pq" for name in TRIED}


@pytest.mark.parametrize("command", ["decompress", "test"])
@pytest.mark.parametrize("n_bytes", [4097, (1 << 63) - 1])
def test_an_original_beyond_max_output_is_refused_in_one_line_before_anything_is_made(
    n_bytes: int, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one_line: Callable[..., str]
) -> None:
    draft = make.draft()
    draft.n_bytes = n_bytes
    (tmp_path / "a.pq").write_bytes(draft.sealed())
    for name in ("check", "learner"):
        monkeypatch.setattr(
            prequential.Runtime, name, lambda *_: pytest.fail("the limit of the output is checked first")
        )
    said = one_line(command, "--max-output", "4K", str(tmp_path / "a.pq"))
    assert f"the original has {n_bytes:,} bytes, more than the limit of 4,096 bytes" in said
    assert [path.name for path in tmp_path.iterdir()] == ["a.pq"]


def test_an_original_of_exactly_the_limit_is_decoded_also_a_folder(tmp_path: Path) -> None:
    for name in ("mixer", "empty", "tree"):
        archive, n_bytes = seeds()[name].archive, len(seeds()[name].original)
        prequential.decompress(archive, tmp_path / name, runtime=RUNTIME, max_output_bytes=n_bytes)
        if n_bytes:
            with pytest.raises(OutputError, match=r"more than the limit.*raise max_output_bytes="):
                prequential.decompress(archive, tmp_path / "no", runtime=RUNTIME, max_output_bytes=n_bytes - 1)
    assert {path.name for path in tmp_path.iterdir()} == {"mixer", "empty", "tree"}


# ---- work and memory


def test_a_model_beyond_the_default_limit_is_refused_before_it_is_built() -> None:
    huge = {case.name: case.data for case in make.cases("configs")}["huge-everything"]
    with bounded(1.0, extra_bytes=16 << 20), pytest.raises(ConfigError, match="more than the limit"):
        prequential.decompress(huge)


def test_a_block_that_declares_more_than_its_payload_holds_is_refused_soon() -> None:
    stretched = make.stretch("zeros", 1 << 25)
    stretched.blocks[0].payload = np.random.default_rng(1).bytes(16)
    archive = stretched.sealed()
    assert len(archive) < 200
    with bounded(6.0), pytest.raises(CorruptArchiveError):
        prequential.decompress(archive, runtime=RUNTIME)


def test_an_index_of_many_empty_records_takes_no_memory(tmp_path: Path) -> None:
    draft = make.draft("empty")
    draft.n_blocks, draft.entries = 500_000, [(0, 0)] * 500_000
    (tmp_path / "a.pq").write_bytes(draft.sealed())
    with bounded(extra_bytes=8 << 20), pytest.raises(CorruptArchiveError):
        summarise(tmp_path / "a.pq")


def test_a_small_archive_cannot_demand_hours_of_work() -> None:
    """24 bytes, and after each a step of a GPT with 84 million parameters: half a minute a byte if the GPT were built."""
    config = cut(extreme(width=2048, n_heads=16, mlp_factor=8), first_segment_symbols=1, segment_symbols=1)
    archive = make.draft("raw").described({"config": config.to_dict(), "corpus": {}}).sealed()
    assert len(archive) < 300
    with bounded(20.0, extra_bytes=1 << 30), pytest.raises(ConfigError, match="operations a byte"):
        prequential.decompress(archive, runtime=RUNTIME)


@pytest.mark.slow
def test_the_estimate_of_memory_covers_every_thread() -> None:
    config, runtime = extreme(n_layers=4, width=768, n_heads=8, mlp_factor=8), prequential.Runtime(threads=8)
    prequential.compress(b"a" * 33, config=PURE, runtime=runtime)
    with bounded(300.0, extra_bytes=8 << 30):
        before = peak_bytes()  # starts at the present memory of the process
        prequential.compress(bytes(range(33)), config=config, runtime=runtime)
        grown = peak_bytes() - before
    assert grown <= memory_bytes(config, n_threads=runtime.n_threads)


# ---- scripts that draw their cases, and the tools of these tests


@pytest.mark.parametrize(
    "count", [pytest.param(1, marks=pytest.mark.thorough), pytest.param(100, marks=pytest.mark.slow)]
)
def test_runs_killed_at_random_moments_give_the_same_bytes(count: int) -> None:
    report = script(HERE / "kill.py", f"--count={count}", "--seed=1")
    assert all(counts["identical"] == count and counts["kills"] >= count for counts in report.values())


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "count"), [("mutate.py", 1000), ("fuzz_records.py", 100)])
def test_a_short_run_of_a_fuzzer_finds_nothing(name: str, count: int, tmp_path: Path) -> None:
    report = script(FUZZ / name, f"--count={count}", "--seed=2", f"--keep={tmp_path}")
    assert (report["n_mutants"], report["broken"]) == (count, [])


def test_writes_elsewhere_and_programs_are_noticed(tmp_path: Path) -> None:
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "a").touch()
    works: dict[str, Callable[[], object]] = {
        "open": lambda: (tmp_path / "escaped").write_bytes(b""),
        "mkdir": (tmp_path / "new").mkdir,
        "symlink": lambda: (tmp_path / "new").symlink_to("a"),
        "rename": lambda: (tmp_path / "inside" / "a").rename(tmp_path / "new"),
        "os.system": lambda: os.system("true"),
    }
    for reason, work in works.items():
        with pytest.raises(ForbiddenError, match=reason), confined(tmp_path / "inside"):
            work()
    assert [path.name for path in tmp_path.iterdir()] == ["inside"]


def test_work_beyond_the_bounds_on_time_and_memory_is_noticed() -> None:
    with pytest.raises(TooSlowError), bounded(0.2):
        while True:
            pass
    with pytest.raises(TooLargeError), bounded(extra_bytes=32 << 20):
        np.ones(16 << 20)
