"""A command line of every command that writes something, over sources with given permissions."""

import json
import os
import shutil
from pathlib import Path

from git_history import make
from studies import TINY

from prequential.cli.main import main
from prequential.evaluation.runs import read_runs

FORECASTS = Path(__file__).parents[2] / "benchmarks" / "forecasts" / "enwik8-contexts"
RUN = "RUN"  # stands for the run folder of `evaluate`
BAD = "decompress bad.pq -o bad FUSED"  # of a damaged archive: exit code 1
# Command lines in their order, and the patterns of what they write.
SHORT = {
    "FUSED": "--kernels fused",
    "MIXER": "--config mixer.json --kernels fused",
    "GPT": "--config gpt.json --kernels fused",
}
CASES = {
    "compress a -o a.pq MIXER": "a.pq",
    "compress pages -o pages.pq MIXER": "pages.pq",
    "compress shards:shards -o shards.pq MIXER": "shards.pq",
    "compress public --given a -o given.pq MIXER": "given.pq",
    "decompress a.pq -o b FUSED": "b",
    "decompress pages.pq -o restored FUSED": "restored",
    BAD: "bad.from-0",
    "evaluate a --runs runs --baselines gzip MIXER": "runs/a-*",
    "evaluate public --given a --runs given --baselines none MIXER": "given/public-*",
    "runs pack runs -o packed.jsonl": "packed.jsonl",
    "import log.csv --tokens seen --loss loss --bytes-per-token 4 --runs imported": "imported/log-*",
    f"report {RUN} -o page.html": "page.html",
    f"report packed.jsonl/{RUN} -o packed.html": "packed.html",
    "train a -o model GPT": "model",
    "heldout --train a --test public --runs held MIXER": "held/heldout.jsonl",
    "heldout --train model --test public --runs held2 FUSED": "held2/heldout.jsonl",
    f"heldout --train {RUN} --test public --runs held3 FUSED": "held3/heldout.jsonl",
    "heldout --test a --documents documents.jsonl": "documents.jsonl",
    "heldout --test git:repo?since=HEAD~1 --documents commits.jsonl": "commits.jsonl",
    "monorepo repo --since HEAD~1 --series mono.jsonl MIXER": "mono.jsonl",
    "sweep a --runs swept --limit 600 GPT": "swept/a-*",
    "sweep --ladder a --runs ladder --limit 600 --sizes 16x1 --seeds 0 GPT": "ladder/a-*",
    "forecast ladder.jsonl --target-width 512 --target-bytes 200M -o forecast.json": "forecast.json",
    "forecast ladder.jsonl --score frozen.json": "scores.jsonl",
}


def write_sources(text: bytes, mode: int) -> None:
    Path("gpt.json").write_text(json.dumps(TINY.to_dict()))
    Path("public").write_bytes(text[2000:3500])
    for folder in ("pages", "open", "shards"):
        Path(folder).mkdir()
        for i in range(3):
            (Path(folder) / f"{i}.txt").write_bytes(text[300 * i : 300 * i + 250])
    rows = [{"t": f"a row with number {i}", "y": "odd" if i % 2 else "even"} for i in range(20)]
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    Path("a").write_bytes(text[:2000])
    Path("log.csv").write_text("seen,loss\n100,3.5\n200,2.5\n")
    shutil.copy(FORECASTS / "ladder.jsonl.zst", "ladder.jsonl")
    shutil.copy(FORECASTS / "forecast.json", "frozen.json")
    for name in ("a", "pages/1.txt", "shards/1.txt", "rows.jsonl", "ladder.jsonl", "log.csv"):
        Path(name).chmod(mode)
    make_repository(mode)


def make_repository(mode: int) -> None:
    files = {f"{name}.py": "".join(f"value_{i} = compute_{name}({i * i})\n" for i in range(30)) for name in "ab"}
    make(Path("repo"), {day: {name.encode(): text.encode()} for day, (name, text) in enumerate(files.items(), start=1)})
    Path("repo").chmod(mode | 0o100 | (mode & 0o444) >> 2)


def make_damaged_archive() -> None:
    """With good blocks before the damaged one."""
    Path("noise").write_bytes(os.urandom(4000))
    assert main(["compress", "noise", "-o", "bad.pq", "-q", *SHORT["MIXER"].split()]) == 0
    archive = bytearray(Path("bad.pq").read_bytes())
    archive[len(archive) // 2] ^= 1
    Path("bad.pq").write_bytes(archive)
    Path("bad.pq").chmod(Path("a").stat().st_mode)


def words_of(case: str) -> list[str]:
    """The arguments of a command line, with the name of the run folder of `evaluate`."""
    for short, options in SHORT.items():
        case = case.replace(short, options)
    if RUN in case:
        (run,) = read_runs("runs")
        case = case.replace(f"/{RUN}", f"/{run.name}").replace(RUN, str(run.path))
    return case.split()
