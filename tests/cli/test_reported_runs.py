"""Runs of a training loop, and of a log: every command reads them and says what they are, or refuses them in one line."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import prequential

REPORTED, IMPORTED = "reported by a training loop", "imported from a log: order and repeats unknown"
LOSSES = [6.0, 4.0, 3.5]


def record(folder: Path, rows: torch.Tensor, divisor: float) -> str:
    """A run in `folder` whose losses depend on the targets alone, in steps of four rows of two groups; the name of its folder."""
    rec = prequential.Recorder(folder, name="mine", units="bytes", data="carol", arguments={"lr": divisor})
    for x in rows.split(4):
        rec.score(nll=(x % 7 + 1) / divisor, targets=x, inputs=x.roll(1, 1), groups=x[:, 0] % 2)
        rec.step()
    return rec.finish().name


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A folder of runs, and what is special about each."""
    folder = tmp_path_factory.mktemp("reported")
    rows = torch.randint(0, 256, (520, 16), generator=torch.Generator().manual_seed(0))
    names = {
        "a": record(folder, rows, 3.0),
        "b": record(folder, rows, 2.0),
        "other order": record(folder, rows.flip(0), 2.0),
        "other rows": record(folder, rows[:512], 2.0),
    }
    for name, data in (("log a", "web"), ("log b", "web"), ("log of other data", "books"), ("log without data", None)):
        lines = [f"{1000 * i},{loss + len(name) / 100}" for i, loss in enumerate(LOSSES, 1)]
        (folder / "log.csv").write_text("\n".join(["seen,loss", *lines]))
        options = {"tokens": "seen", "loss": "loss", "bytes_per_token": 4.0, "name": "theirs", "data": data}
        names[name] = prequential.import_log(folder / "log.csv", folder, **options).name
    return folder, names


def printed(run: Any, folder: Path, *args: str) -> str:
    done = run(folder, *args)
    assert (done.returncode, done.stderr) == (0, b"") and b"archive" not in done.stdout
    return str(done.stdout.decode())


def test_the_list_says_reported_where_others_are_verified(run: Any, made: Any) -> None:
    folder, names = made
    lines = [line.split() for line in printed(run, folder, "runs", "list", ".").splitlines()]
    loop, log = (next(line for line in lines if names[name].startswith(line[0])) for name in ("a", "log a"))
    rate = f"{sum(LOSSES) / 3 / 4 / 0.693147 + 0.05 / 4 / 0.693147:.4f}"
    assert loop[-1] == "reported" and log[-2:] == [rate, "imported"]
    listed = [json.loads(line) for line in run(folder, "runs", "list", "--json", ".").stdout.splitlines()]
    assert {each["coding"] for each in listed} == {REPORTED, IMPORTED}


@pytest.mark.parametrize(("name", "words"), [("a", REPORTED), ("log a", IMPORTED)])
def test_show_and_the_page_say_that_nothing_is_proved(run: Any, made: Any, name: str, words: str) -> None:
    folder, names = made
    for command in (("runs", "show"), ("report", "-c")):
        assert f"{words}; not proved" in printed(run, folder, *command, names[name])
    assert words in repr(prequential.read_run(folder / names[name]))


@pytest.mark.parametrize(
    ("others", "rows"),
    [
        (("a", "b"), "the same rows, in the same order"),
        (("b", "other order"), "the same rows, in another order or in other steps"),
        (("log a", "log b"), "declared equal, not checked"),
    ],
)
def test_compare_says_whether_rows_and_order_are_equal(run: Any, made: Any, others: Any, rows: str) -> None:
    folder, names = made
    pair = [names[other] for other in others]
    text = printed(run, folder, "compare", *pair)
    assert f"rows  {rows}" in text and "; not proved" in text
    assert rows in json.loads(run(folder, "compare", "--json", *pair).stdout)["rows"]
    assert rows in printed(run, folder, "report", "-c", *pair)


@pytest.mark.parametrize(
    ("name", "other", "reason"),
    [
        ("a", "other rows", "different rows, or rows of another tokenizer (8,320 and 8,192 bytes)"),
        ("a", "log a", "they have rows of a training loop and declared data of a log"),
        ("a", "evaluated", "they have rows of a training loop and bytes that were coded"),
        ("log a", "log of other data", "the logs declare different data"),
        ("log a", "log without data", "the logs declare different data"),
    ],
)
def test_compare_refuses_other_rows_with_the_reason(
    run: Any, made: Any, text: bytes, name: str, other: str, reason: str
) -> None:
    folder, names = made
    if other == "evaluated":
        (folder / "text").write_bytes(text[:2048])
        names[other] = run(folder, "evaluate", "text").stdout.decode().partition("\nrun ")[2].split()[0]
    done = run(folder, "compare", names[name], names[other])
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (1, b"", 1) and reason in done.stderr.decode()


def test_runs_whose_size_is_not_known_are_no_ladder_and_the_reason_is_said(run: Any, made: Any) -> None:
    done = run(made[0], "forecast", ".", "--target-parameters", "64", "--target-bytes", "100K", "-o", "forecast.json")
    assert done.returncode == 1 and b"its size is not known: give model= to the Recorder" in done.stderr


def test_the_cost_of_each_group_is_shown_and_compared(run: Any, made: Any) -> None:
    folder, names = made
    shown = printed(run, folder, "runs", "show", names["a"])
    compared = printed(run, folder, "compare", names["a"], names["b"])
    assert re.search(r"\n1 +[\d,]+", shown)
    assert re.search(r"\ngroup +bytes +A b/B +B b/B +B - A %\n[01] .*\+50\.000\n[01] .*\+50\.000\n", compared)


def test_an_unfinished_run_is_followed_until_it_ends(tmp_path: Path) -> None:
    rows = torch.randint(0, 256, (640, 8), generator=torch.Generator().manual_seed(0))
    rec = prequential.Recorder(tmp_path / "runs", name="live", units="bytes")

    def go(steps: torch.Tensor) -> None:
        for x in steps.split(4):
            rec.score(nll=torch.full(x.shape, 2.0), targets=x)
            rec.step()

    go(rows[:320])
    command = [sys.executable, "-m", "prequential", "runs", "show", "--follow"]
    with subprocess.Popen([*command, "live"], cwd=tmp_path, stdout=subprocess.PIPE, text=True) as followed:
        assert followed.stdout
        assert "step 64  2,048 bytes  2.8854 bits/byte" in followed.stdout.readline()
        go(rows[320:])
        assert "step 128  4,096 bytes" in followed.stdout.readline()
        rec.finish()
        assert followed.wait(60) == 0
    done = subprocess.run([*command, "live"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode and "no unfinished training run" in done.stderr
