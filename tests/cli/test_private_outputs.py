"""Who may read the outputs of each command: those who may read all that they were made of, and nobody else."""

import json
import shutil
from contextlib import chdir
from pathlib import Path

import git_history
import pytest
from programs import mode_of
from studies import TINY

from prequential.cli.main import COMMANDS, main
from prequential.evaluation.runs import read_runs

LADDER = Path(__file__).parents[2] / "benchmarks" / "forecasts" / "enwik8-contexts" / "ladder.jsonl.zst"
PRIVATE, PUBLIC = 0o600, 0o644
WRITE_NOTHING = {"test", "list", "labels", "compare", "doctor"}
# Command lines in their order, and what they write. RUN: the run folder of `evaluate`; MIXER, GPT: a small configuration.
CASES = {
    "compress a -o a.pq MIXER": "a.pq",
    "compress pages -o pages.pq MIXER": "pages.pq",
    "compress shards:pages -o shards.pq MIXER": "shards.pq",
    "compress public --given a -o given.pq MIXER": "given.pq",
    "decompress a.pq -o b": "b",
    "decompress pages.pq -o restored": "restored",
    "evaluate a --runs runs --baselines gzip MIXER": "runs/a-*",
    "runs pack runs -o packed.jsonl": "packed.jsonl",
    "import log.csv --tokens seen --loss loss --bytes-per-token 4 --runs imported": "imported/*-*",
    "report RUN -o page.html": "page.html",
    "train a -o model GPT": "model",
    "heldout --train model --test public --runs held": "held/heldout.jsonl",
    "heldout --test git:repo?since=HEAD~1 --documents commits.jsonl": "commits.jsonl",
    "monorepo repo --since HEAD~1 --series mono.jsonl MIXER": "mono.jsonl",
    "sweep a --runs swept --limit 600 GPT": "swept/a-*",
    "forecast ladder.jsonl --target-width 512 --target-bytes 200M -o forecast.json": "forecast.json",
}


def write_sources(text: bytes, mode: int) -> None:
    Path("gpt.json").write_text(json.dumps(TINY.to_dict()))
    Path("public").write_bytes(text[2000:3500])
    Path("a").write_bytes(text[:2000])
    Path("log.csv").write_text("seen,loss\n100,3.5\n200,2.5\n")
    Path("pages").mkdir()
    for i in range(3):
        Path(f"pages/{i}.txt").write_bytes(text[300 * i : 300 * i + 250])
    shutil.copy(LADDER, "ladder.jsonl")
    for name in ("a", "pages/1.txt", "ladder.jsonl", "log.csv"):
        Path(name).chmod(mode)
    code = "".join(f"value_{i} = compute({i * i})\n" for i in range(30)).encode()
    git_history.make(Path("repo"), {1: {b"a.py": code}, 2: {b"b.py": code.replace(b"value", b"other")}})
    Path("repo").chmod(mode | 0o100 | (mode & 0o444) >> 2)


@pytest.mark.first_quick
@pytest.mark.parametrize("mode", [PRIVATE, pytest.param(PUBLIC, marks=pytest.mark.thorough)])
@pytest.mark.usefixtures("usual_umask", "no_warm_up")
def test_the_outputs_of_every_command_can_be_read_by_those_who_can_read_its_sources(
    mode: int, text: bytes, small_config: Path, tmp_path: Path
) -> None:
    assert {each.name for group in COMMANDS.values() for each in group} == {
        case.split()[0] for case in CASES
    } | WRITE_NOTHING
    with chdir(tmp_path):
        shutil.copy(small_config, "mixer.json")
        write_sources(text, mode)
        for case, pattern in CASES.items():
            words = case.replace("MIXER", "--config mixer.json").replace("GPT", "--config gpt.json")
            if "RUN" in words:
                words = words.replace("RUN", str(read_runs("runs")[0].path))
            assert main([*words.split(), "-q"]) == 0, case
            tops = list(tmp_path.glob(pattern))
            assert tops, pattern
            for path in [*tops, *(inner for top in tops for inner in top.rglob("*"))]:
                assert mode_of(path) == (mode | 0o100 | (mode & 0o444) >> 2 if path.is_dir() else mode), path
