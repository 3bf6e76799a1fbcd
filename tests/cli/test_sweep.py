"""sweep and sweep --ladder: the plan, runs that are kept, tables, JSON, and usage errors."""

import json
import re
from contextlib import chdir, redirect_stdout
from functools import cache
from io import StringIO

import pytest
from studies import TINY

import prequential
from prequential import Config
from prequential.cli.main import build_parser

pytestmark = pytest.mark.usefixtures("no_warm_up")

STUDIES = {
    "sweep": ("sweep", "a", "--config", "gpt.json", "--limit", "2K", "--replay", "1,2,1.1", "--seeds", "0,1"),
    "ladder": ("sweep", "--ladder", "a", "--config", "gpt.json", "--limit", "1500", "--sizes", "16x1,24x1,32x1"),
}
COMPUTED = ("--kernels", "fused", "--threads", "1")


def called(folder, *args):
    """The exit code and stdout."""
    with redirect_stdout(StringIO()) as shown, chdir(folder):
        given = build_parser().parse_args([*args, *COMPUTED])
        return given.command.run(given), shown.getvalue()


@pytest.fixture(scope="module")
def folder(text, tmp_path_factory):
    folder = tmp_path_factory.mktemp("studies")
    (folder / "a").write_bytes(text)
    (folder / "gpt.json").write_text(json.dumps(TINY.to_dict()))
    return folder


@pytest.fixture(scope="module")
def studied(folder, no_warm_up):
    """Makes the runs of a study, once: what the command printed, the JSON object of a second one, and the runs."""

    @cache
    def printed(name):
        runs = f"runs of {name}"
        args = (*STUDIES[name], "--runs", runs, *(("--seeds", "0") if name == "ladder" else ()))
        code, shown = called(folder, *args)
        again, record = called(folder, *args, "--json")
        assert (code, again) == (0, 0)
        return shown, json.loads(record), prequential.read_runs(folder / runs)

    return printed


PLANS = {
    "sweep": r"""4 runs of 2,048 bytes: 2 configurations; 0 finished already; \S+ FLOPs in all
refused: replay 1\.1, width 16, layers 1, update 128: replay 1\.1 of 128 symbols does not fill.*""",
    "ladder": r"""5 runs of 1,500 bytes: 3 configurations; 0 finished already.*""",
}


@pytest.mark.parametrize("name", PLANS)
def test_a_dry_run_shows_the_plan_and_runs_nothing(name, folder):
    code, shown = called(folder, *STUDIES[name], "--dry-run", "--runs", "none")
    assert (code, (folder / "none").exists()) == (0, False)
    for line in PLANS[name].splitlines():
        assert re.search(f"^{line}$", shown, re.MULTILINE), line


def test_a_plan_says_the_memory_of_a_run_and_too_many_jobs_are_refused(folder):
    code, shown = called(folder, *STUDIES["sweep"], "--dry-run", "--json", "--part", "2/2")
    plan = json.loads(shown)["plan"]
    assert code == 0 and [len(variant["configs"]) for variant in plan] == [1, 1]
    least = prequential.memory_bytes(Config.from_dict(plan[0]["configs"][0]))
    assert least < plan[0]["memory_bytes"] < least + (1 << 30)
    with pytest.raises(prequential.ConfigError, match="--jobs 1000000 may need"):
        called(folder, *STUDIES["sweep"], "--dry-run", "--jobs", "1000000")


@pytest.mark.parametrize(("name", "n_runs"), [("sweep", 4), ("ladder", 3)])
@pytest.mark.first_quick
def test_a_second_command_finds_the_runs_and_makes_none(name, n_runs, studied):
    _, record, runs = studied(name)
    assert [run["is_new"] for run in record["runs"]] == [False] * n_runs
    assert len(runs) == n_runs
    assert record["kind"] == name
    planned = [Config.from_dict(config) for variant in record["plan"] for config in variant["configs"]]
    assert {Config.from_dict(run.record["config"]) for run in runs} == set(planned)


def test_a_sweep_shows_its_configurations(studied):
    shown, record, _ = studied("sweep")
    rows = re.findall(r"^(replay \d) +2 +(\S+) +(\S+) +(\S+) ", shown, re.MULTILINE)
    assert [row[0] for row in rows] == ["replay 1", "replay 2"]
    assert (record["corpus"]["n_bytes"], len(record["refused"])) == (2048, 1)
    bits = [run["bits_per_byte"] for run in record["runs"]]
    assert [result["bits_per_byte"] for result in record["results"]] == [sum(bits[:2]) / 2, sum(bits[2:]) / 2]
    assert record["results"][0]["on_front"]


def test_a_ladder_is_shown_at_every_prefix(studied):
    shown, record, runs = studied("ladder")
    for run in runs:
        size, rate = f"{run.record['config']['gpt']['width']}x1", run.record["code_bits"] / 1500
        assert re.search(rf"^{size}, seed 0 .* {rate:.4f}$", shown, re.MULTILINE)
    assert record["diverged"] == {}


def test_a_run_that_fails_is_one_line_and_the_others_continue(folder, tmp_path, monkeypatch, capsys):
    def failing(source, *, config, **options):
        if config.seed == 0:
            raise prequential.ConfigError("the GPT has diverged")
        return prequential.evaluate(source, config=config, **options)

    monkeypatch.setattr("prequential.sweeps.plans.evaluate", failing)
    code, shown = called(folder, *STUDIES["sweep"], "--limit", "300", "--runs", str(tmp_path))
    lines = capsys.readouterr().err.splitlines()
    assert (code, len(lines)) == (1, 2)
    assert lines[0] == "prequential: replay 1, width 16, layers 1, update 128, seed 0: the GPT has diverged"
    assert "as a multiple of" in shown
    assert len(list(tmp_path.iterdir())) == shown.count("archive ")  # a failed run leaves nothing
