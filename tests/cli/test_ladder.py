"""ladder: the plan with its cost, runs that are kept, the rule of step sizes, and usage errors."""

import json
import re

import pytest

import prequential
from prequential import Config, ConfigError, GPTConfig, ScheduleConfig
from prequential.cli.main import build_parser

GPT = Config(
    gpt=GPTConfig(n_layers=1, width=16, n_heads=1, window=8),
    mixer=None,
    schedule=ScheduleConfig(
        first_segment_symbols=64, segment_symbols=128, row_symbols=32, n_rows=4, history_bits=14, block_symbols=1024
    ),
)
LADDER = ("ladder", "a", "--kernels", "fused", "--config", "gpt.json", "--limit", "1500", "--sizes", "16x1,24x1,32x1")


pytestmark = pytest.mark.usefixtures("no_warm_up")


@pytest.fixture(scope="module")
def folder(text, tmp_path_factory):
    folder = tmp_path_factory.mktemp("ladder")
    (folder / "a").write_bytes(text)
    (folder / "gpt.json").write_text(json.dumps(GPT.to_dict()))
    return folder


def ran(folder, monkeypatch, capsys, *args):
    """The exit code and what was printed."""
    monkeypatch.chdir(folder)
    parsed = build_parser().parse_args(list(args))
    return parsed.run(parsed), capsys.readouterr()


def test_a_plan_shows_runs_weights_and_predicted_time_and_runs_nothing(folder, monkeypatch, capsys):
    code, shown = ran(folder, monkeypatch, capsys, *LADDER, "--dry-run", "--runs", "none")
    assert (code, shown.err, (folder / "none").exists()) == (0, "", False)
    assert "5 runs of 1,500 bytes, which contain the runs over every prefix; 0 finished already" in shown.out
    assert re.search(r"about [\d,]+ s by a short probe", shown.out)
    assert re.search(r"^24x1 +13,056 +0, 1, 2 ", shown.out, re.MULTILINE)  # 24 * 24 * 12 + 24 * 256


def test_a_ladder_is_run_once_and_shown_at_every_prefix(folder, monkeypatch, capsys):
    code, shown = ran(folder, monkeypatch, capsys, *LADDER, "--seeds", "0")
    assert (code, shown.err) == (0, "")
    runs = prequential.read_runs(folder / "ladder")
    assert len(runs) == 3
    last = {run.record["config"]["gpt"]["width"]: run.record["code_bits"] / 1500 for run in runs}
    for width, rate in last.items():
        assert re.search(rf"^{width}x1, seed 0 .* {rate:.4f}$", shown.out, re.MULTILINE)
    code, shown = ran(folder, monkeypatch, capsys, *LADDER, "--seeds", "0", "--json")
    record = json.loads(shown.out)
    assert [run["is_new"] for run in record["runs"]] == [False] * 3
    assert record["diverged"] == {}
    assert [Config.from_dict(one["config"]).gpt.width for one in record["plan"]] == [16, 24, 32]


def test_the_rule_of_steps_is_measured_in_a_separate_folder(folder, monkeypatch, capsys):
    code, shown = ran(folder, monkeypatch, capsys, *LADDER, "--runs", "checked", "--check-steps", "--json")
    record = json.loads(shown.out)
    assert code == 0
    assert [check["size"] for check in record["step_checks"]] == [[16, 1], [24, 1], [32, 1]]
    runs = prequential.read_runs(folder / "checked" / "steps")
    assert sorted({run.record["config"]["gpt"]["matrix_step"] for run in runs}) == [0.02, 0.04, 0.08]
    tried = [bits for check in record["step_checks"] for bits in check["bits_per_byte"]]
    assert sorted(tried) == sorted(run.record["code_bits_per_byte"] for run in runs)
    code, shown = ran(folder, monkeypatch, capsys, *LADDER, "--runs", "checked", "--check-steps")
    assert "drift of the best factor for each doubling of the weights" in shown.out


def test_a_failed_run_leaves_out_its_size_alone(folder, monkeypatch, capsys):
    def evaluated(*args, config, **more):
        if config.gpt.width == 24 and config.gpt.matrix_step > 0.05:
            raise ConfigError("this run fails")
        return prequential.evaluate(*args, config=config, **more)

    monkeypatch.setattr("prequential.sweeps.plans.evaluate", evaluated)
    check = (*LADDER, "--runs", "failed", "--check-steps")
    code, shown = ran(folder, monkeypatch, capsys, *check)
    failed, left_out = shown.err.splitlines()
    assert code == 1 and "this run fails" in failed
    assert "the check of 24x1 needs the step factor 1 and two others" in left_out
    assert left_out.endswith("this size is left out")
    table = shown.out.partition("bits/byte, steps")[2]
    assert re.findall(r"^(\d+x1) ", table, re.MULTILINE) == ["16x1", "32x1"]
    code, shown = ran(folder, monkeypatch, capsys, *check, "--json")
    assert [check["size"] for check in json.loads(shown.out)["step_checks"]] == [[16, 1], [32, 1]]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--sizes", "16"), "'16' is not a list of sizes"),
        (("--sizes", "33x1"), "multiple of 2"),
        (("--seeded", "64x1"), "names sizes that --sizes does not"),
        (("--seed", "1"), "leave out --seed"),
    ],
)
def test_an_impossible_ladder_is_a_usage_error(folder, monkeypatch, capsys, args, message):
    monkeypatch.chdir(folder)
    with pytest.raises(SystemExit) as end:
        parsed = build_parser().parse_args([*LADDER, *args])
        parsed.run(parsed)
    shown = capsys.readouterr().err
    assert end.value.code == 2
    assert message in shown
    assert len(shown.splitlines()) == 1
