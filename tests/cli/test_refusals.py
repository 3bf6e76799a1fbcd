"""Mistakes on the command line: exit code, and one line that names the option, level, file or command that was meant."""

import json
import shlex
from pathlib import Path

import numpy as np
import own_learners
import pytest
from series import write_run
from studies import FUSED, TINY

from prequential.online.model_store import save_model

REFUSALS = [
    # Usage
    ("comprss a", 2, "'comprss'"),
    ("list --no-such-option a", 2, "--no-such-option; see prequential list --help"),
    ("compress -9 a", 2, "unrecognized arguments: -9"),
    ("compress --device tpu a", 2, "--device"),
    ("compress -o x a b", 2, "several inputs"),
    ("compress a ''", 2, "a name is empty"),
    ("list - a -", 2, "- is given twice"),
    ("compress -1 --pure a", 2, "only preset 5 has a GPT that is used alone"),
    ("compress --threads 0 a", 2, "threads = 0"),
    ("compress --audit-every x a", 2, "--audit-every: 'x' is not an integer"),
    ("compress --config missing.json a", 1, "cannot read 'missing.json'"),
    ("compress --config a a", 2, "--config 'a': "),
    # Archives
    ("compress .", 1, "no file name to name the archive after: give -o NAME.pq"),
    ("decompress a", 1, "the name does not end in .pq; name the output with -o"),
    ("decompress a -o b2", 1, "not a .pq archive"),
    ("compress -1 -o b a", 1, "'b' exists; choose another name, or -f replaces it"),
    ("compress -1 -o /dev/full a", 1, "a: cannot write '/dev/full': No space left on device"),
    ("test missing archive", 1, "cannot read 'missing': No such file"),
    ("test --max-output 4Q archive", 2, "'4Q' is not a number of bytes such as 65536, 64K, 10M or 4G"),
    # Measures
    ("evaluate --configs-tried=0 a", 2, "'0' is not an integer of 1 or more"),
    ("evaluate --no-run --baselines gzip,arj a", 1, "unknown baseline 'arj'"),
    ("evaluate --resume runs/.run-none a", 1, "is not a folder that an interrupted evaluation left"),
    ("evaluate --resume x a b", 2, "exactly one corpus"),
    *(
        (line, 1, "the corpus 'hollow' is empty")
        for line in (
            "evaluate -1 hollow",
            "heldout -1 --train a --test hollow",
            "heldout -1 --train hollow --test a",
            "sweep --config gpt.json hollow",
            "train -1 hollow -o m3",
        )
    ),
    ("evaluate -1 .", 1, "'runs' lies in '.', which it would change: choose a place outside, such as ../runs"),
    ("evaluate -1 --given . a", 1, "'runs' lies in '.'"),
    ("evaluate -1 shards:.?column=x", 1, "'runs' lies in 'shards:."),
    ("sweep --config gpt.json --dry-run --runs x/y .", 2, "'x/y' lies in '.'"),
    ("compress -1 . -o x.pq", 1, "'x.pq' lies in '.'"),
    ("compress -1 a --given .", 1, "'a.pq' lies in '.'"),
    ("train -1 . -o m2", 2, "'m2' lies in '.'"),
    ("labels --config small.json --label q rows.jsonl", 1, "line 1: no field 'q'"),
    ("labels --config small.json --label y --given y rows.jsonl", 2, "'y' cannot be both coded and given"),
    ("heldout --train model --test b -2", 2, "leave out the level or --config, --learner"),
    ("heldout --train a --test b --stride 4", 2, "--stride needs --static"),
    ("heldout --config gpt.json --train a --test b --max-memory 1M", 2, "more than the limit"),
    ("heldout --config small.json --train a --test empty", 1, "is empty"),
    ("heldout --config small.json --train empty --test a", 1, "nothing to learn from"),
    ("compare a0 other", 1, "not comparable: they are of other bytes"),
    ("compare b0 b1", 2, "the 2 runs form one group"),
    ("compare a0", 2, "two runs or more"),
    ("runs list none", 1, "there is no such folder"),
    ("runs show nothing", 1, "the run 'nothing' does not exist"),
    ("train a -o model --config gpt.json", 1, "exists"),
    ("train a -o no/m --config gpt.json", 1, "does not exist or is not writable"),
    # Studies
    ("sweep a --replay 0", 2, "no combination is left"),
    ("sweep a --width 64,", 2, "'64,' is not a list of integers of 1 or more"),
    ("sweep a --seeds 0 --seed 1", 2, "leave out --seed"),
    ("sweep a -1", 2, "a sweep varies the GPT, which this configuration lacks: choose -5 or -6"),
    ("sweep a --ladder --width 16", 2, "a ladder has its own options: leave out --width"),
    ("sweep a --ladder --seeded 64x1 --sizes 32x1", 2, "64x1 is to run with all seeds"),
    ("forecast a0 --target-width 48 --target-bytes 6000 -o b", 1, "'b' exists; choose another name\n"),
    ("forecast a0 --target-width 48", 2, "needs --target-width or --target-parameters, --target-bytes, and -o"),
    ("forecast a0 --target-width 48 --target-bytes 6000 -o f.json --proxy a0", 2, "--proxy needs --corpus"),
    ("forecast a0 --score a --after-the-fact -o x", 2, "makes no forecast: leave out --after-the-fact, --output"),
    # Learners of one's own
    *(
        (f"evaluate --no-run --baselines none {words} a", code, part)
        for words, code, part in [
            ("--learner mine.py:LearnsInSecret", 1, "prediction of symbol 0 moves"),
            ("--learner mine.py:Nothing", 2, "has no 'Nothing'"),
            ("--learner no_module:f", 2, "cannot be imported"),
            ("--learner mine.py:Counts --learner-arg x=1", 2, "cannot be made"),
            ("--learner mine.py:Counts -1", 2, "leave out -1"),
            ("--learner-arg x=1", 2, "leave out --learner-arg"),
            ("--learner mine.py:Counts --given b", 1, "a given text is for learners of this program"),
            ("-1 --static hf:missing-folder", 2, ""),
        ]
    ),
]


@pytest.fixture(scope="module")
def folder(text: bytes, archive: bytes, small_config: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Corpora, an archive, configurations, runs, and a learner of one's own."""
    folder = tmp_path_factory.mktemp("refusals")
    files = {
        "a": text, "b": text[::-1], "archive": archive, "empty": b"", "small.json": small_config.read_bytes(),
        "gpt.json": json.dumps(TINY.to_dict()).encode(), "mine.py": Path(own_learners.__file__).read_bytes(),
        "rows.jsonl": b'{"x": "a", "y": "b"}\n',
    }  # fmt: skip
    (folder / "hollow" / "inside").mkdir(parents=True)  # folders without a file
    for name, data in files.items():
        (folder / name).write_bytes(data)
    for name, blake2b in (("a0", "ab"), ("b0", "ab"), ("b1", "ab"), ("other", "cd")):
        units = np.random.default_rng(1).integers(200 << 22, 300 << 22, 80)
        write_run(folder / name, units, seed=int(name == "b1"), model=name[0], blake2b=blake2b * 32)
    save_model(folder / "model", FUSED.learner(TINY), {})
    return folder


@pytest.mark.parametrize(("line", "code", "part"), REFUSALS)
def test_a_mistake_is_one_line_that_names_what_was_meant(run, folder: Path, line: str, code: int, part: str) -> None:
    before = {path.name for path in folder.iterdir()}
    done = run(folder, *shlex.split(line))
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (code, b"", 1), done.stderr
    assert done.stderr.startswith(b"prequential: ") and part in done.stderr.decode()
    assert {path.name for path in folder.iterdir()} - before <= {"runs"}  # without a run
