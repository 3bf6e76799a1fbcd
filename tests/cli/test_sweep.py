"""sweep: the plan, runs that are kept, the table, the cost of the choice, and usage errors."""

import json
import re

import pytest

import prequential
from prequential import Config, GPTConfig, ScheduleConfig
from prequential.cli.main import build_parser

GPT = Config(
    gpt=GPTConfig(n_layers=1, width=16, n_heads=1, window=8),
    mixer=None,
    schedule=ScheduleConfig(
        first_segment_symbols=64, segment_symbols=128, row_symbols=32, n_rows=4, history_bits=14, block_symbols=1024
    ),
)
GRID = ("--kernels", "fused", "--config", "gpt.json", "--limit", "2K", "--replay", "1,2,1.1", "--seeds", "0,1")


@pytest.fixture(scope="module")
def folder(text, tmp_path_factory):
    folder = tmp_path_factory.mktemp("sweep")
    (folder / "a").write_bytes(text)
    (folder / "gpt.json").write_text(json.dumps(GPT.to_dict()))
    return folder


@pytest.fixture(scope="module")
def planned(run, folder):
    return run(folder, "sweep", "a", *GRID, "--dry-run"), (folder / "runs").exists()


@pytest.fixture(scope="module")
def swept(run, folder, planned):
    """The sweep; and a second one as JSON, with one of its own runs as the baseline."""
    first = run(folder, "sweep", "a", *GRID)
    newest = prequential.read_runs(folder / "runs")[-1]
    again = run(folder, "sweep", "a", *GRID, "--json", "--baseline", str(newest.path))
    return first, again, newest


def test_a_dry_run_shows_the_plan_and_runs_nothing(planned):
    done, has_runs = planned
    shown = done.stdout.decode()
    assert (done.returncode, done.stderr, has_runs) == (0, b"", False)
    assert "4 runs of 2,048 bytes: 2 configurations, seeds of each: 2; 0 finished already" in shown
    assert "refused: replay 1.1, width 16, layers 1, update 128: replay 1.1 of 128 symbols does not fill" in shown


def test_every_run_leaves_a_complete_run_folder(swept, folder):
    runs = prequential.read_runs(folder / "runs")
    assert len(runs) == 4
    assert len({json.dumps(run.record["config"]) for run in runs}) == 4
    for run in runs:
        assert run.archive.stat().st_size == run.record["archive_bytes"]
        assert run.curves["model"].n_bytes[-1] == 2048


def test_the_table_has_a_row_for_each_configuration_and_the_cost_of_the_choice(swept):
    shown = swept[0].stdout.decode()
    assert (swept[0].returncode, swept[0].stderr) == (0, b"")
    rows = re.findall(r"^(replay \d), width 16, layers 1, update 128 +2 +(\S+) +(\S+) +(\S+) ", shown, re.MULTILINE)
    assert [row[0] for row in rows] == ["replay 1", "replay 2"]
    assert "among 2 configurations costs 1.00 bits, of a single run among 4 2.00 bits" in shown


def test_a_second_sweep_finds_its_runs_and_makes_none(swept, folder):
    done, record = swept[1], json.loads(swept[1].stdout)
    assert (done.returncode, len(prequential.read_runs(folder / "runs"))) == (0, 4)
    assert [run["is_new"] for run in record["runs"]] == [False] * 4


def test_the_json_object_has_plan_runs_and_results(swept):
    _, done, baseline = swept
    record = json.loads(done.stdout)
    assert [Config.from_dict(config).seed for config in record["plan"][0]["configs"]] == [0, 1]
    assert len(record["refused"]) == 1
    assert record["baseline"] == baseline.name
    assert record["corpus"]["n_bytes"] == 2048
    assert (record["choice_bits"], record["run_choice_bits"]) == (1.0, 2.0)
    bits = [run["bits_per_byte"] for run in record["runs"]]
    assert [result["bits_per_byte"] for result in record["results"]] == [sum(bits[:2]) / 2, sum(bits[2:]) / 2]
    assert record["results"][0]["on_front"]


def test_a_run_that_fails_is_one_line_and_the_others_continue(folder, tmp_path, monkeypatch, capsys):
    evaluate = prequential.evaluate

    def failing(source, **options):
        if options["config"].seed == 0:
            raise prequential.ConfigError("the GPT has diverged")
        return evaluate(source, **options)

    monkeypatch.setattr("prequential.sweeps.plans.evaluate", failing)
    monkeypatch.chdir(folder)
    args = build_parser().parse_args(["sweep", "a", *GRID, "--replay", "1", "--limit", "300", "--runs", str(tmp_path)])
    assert args.run(args) == 1
    shown = capsys.readouterr()
    name = "replay 1, width 16, layers 1, update 128"
    assert shown.err == f"prequential: {name}, seed 0: the GPT has diverged\n"
    assert re.search(rf"^{name} +1 ", shown.out, re.MULTILINE)


def test_a_baseline_of_other_bytes_is_refused_before_the_work(swept, folder, monkeypatch):
    monkeypatch.chdir(folder)
    other = ("--limit", "1K", "--runs", "none", "--baseline", str(swept[2].path))
    args = build_parser().parse_args(["sweep", "a", *GRID, *other])
    with pytest.raises(prequential.CorpusError, match="read other bytes"):
        args.run(args)
    assert not (folder / "none").exists()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--replay", "0"), "'0' is not a list of numbers above 0"),
        (("--replay", "nan"), "'nan' is not a list"),
        (("--width", "64,"), "'64,' is not a list of integers of 1 or more"),
        (("--seeds", "0", "--seed", "1"), "leave out --seed"),
        (("-1",), "a sweep varies the GPT, which this configuration lacks: choose a preset from 5 to 9"),
        (("--width", "33"), "no combination is left"),
    ],
)
def test_an_impossible_sweep_is_a_usage_error(args, message, capsys):
    given = build_parser().parse_args
    with pytest.raises(SystemExit) as end:
        parsed = given(["sweep", "missing", *args])
        parsed.run(parsed)
    shown = capsys.readouterr().err
    assert end.value.code == 2
    assert message in shown
    assert len(shown.splitlines()) == 1


def test_standard_input_is_refused_with_a_remedy(folder, monkeypatch):
    monkeypatch.chdir(folder)
    args = build_parser().parse_args(["sweep", "-", *GRID])
    with pytest.raises(prequential.CorpusError, match="save standard input to a file first"):
        args.run(args)


def test_a_plan_that_cannot_be_audited_is_refused_before_its_first_run(run, text, tmp_path):
    (tmp_path / "a").write_bytes(text)
    replicas = {"replicas": {"n_replicas": 2, "sync_every": 2}}
    (tmp_path / "gpt.json").write_text(json.dumps(GPT.to_dict() | replicas))
    grid = ("--kernels", "fused", "--config", "gpt.json", "--limit", "2K", "--seeds", "0,1")
    done = run(tmp_path, "sweep", "a", *grid, "--audit-every", "4")
    assert (done.returncode, done.stderr.count(b"\n")) == (2, 1)
    assert b"leave out --audit-every" in done.stderr
    assert not (tmp_path / "runs").exists()
