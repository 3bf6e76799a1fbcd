"""ablate: the plan, runs that are kept, tables and verdicts, and usage errors."""

import json
import re
from contextlib import chdir, redirect_stdout
from io import StringIO

import pytest

import prequential
from prequential import Config, GPTConfig, ScheduleConfig
from prequential.cli.main import build_parser

TINY = Config(
    gpt=GPTConfig(n_layers=1, width=16, n_heads=1, window=8),
    mixer=None,
    schedule=ScheduleConfig(
        first_segment_symbols=16, segment_symbols=16, row_symbols=16, n_rows=2, history_bits=14, block_symbols=1024
    ),
)
OPTIONS = (
    "--kernels",
    "plain",
    "--threads",
    "1",
    "--config",
    "gpt.json",
    "--limit",
    "1100",
    "--features",
    "replay,decay",
)
SIZES = ("--sizes", "16x1,32x1,33x1")


@pytest.fixture(scope="module")
def folder(text, tmp_path_factory):
    folder = tmp_path_factory.mktemp("ablate")
    (folder / "a").write_bytes(text)
    (folder / "gpt.json").write_text(json.dumps(TINY.to_dict()))
    return folder


@pytest.fixture(scope="module")
def ablated(folder):
    """(exit code, stdout) of an ablation, and of a second one from both sides as JSON."""

    def printed(*args):
        with redirect_stdout(StringIO()) as shown, chdir(folder):
            given = build_parser().parse_args(["ablate", "a", *OPTIONS, *SIZES, *args])
            return given.run(given), shown.getvalue()

    return printed(), printed("--from", "both", "--json")


def test_a_dry_run_shows_the_plan_and_runs_nothing(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    args = build_parser().parse_args(["ablate", "a", *OPTIONS, *SIZES, "--dry-run", "--runs", "none"])
    assert args.run(args) == 0
    shown = capsys.readouterr().out
    assert "8 runs of 1,100 bytes: 8 configurations, sizes 16x1, 32x1, seeds of each: 1; 0 finished already" in shown
    assert "refused: 33x1: width = 33 must be a multiple" in shown
    assert re.search(r"^replay +a step learns from more rows", shown, re.MULTILINE)
    assert not (folder / "none").exists()


def test_the_table_has_every_feature_at_every_size_with_an_interval_and_a_verdict(ablated):
    code, shown = ablated[0]
    assert code == 0
    number = r"([+-]\d\.\d{4})"
    rows = re.findall(rf"^(replay|decay) +(16x1|32x1) +{number} +\[{number}, {number}\] ", shown, re.MULTILINE)
    assert [row[:2] for row in rows] == [(f, s) for f in ("replay", "decay") for s in ("16x1", "32x1")]
    assert all(float(low) <= float(saved) <= float(high) for _, _, saved, low, high in rows)
    verdicts = re.findall(rf"^(replay|decay) +{number} +\[{number}, {number}\] +(\w[\w ]*)$", shown, re.MULTILINE)
    assert [row[0] for row in verdicts] == ["replay", "decay"]
    assert "other text of this length and kind, under this seed" in shown


def test_the_json_object_agrees_with_the_run_folders_and_only_new_runs_were_made(ablated, folder):
    code, record = ablated[1][0], json.loads(ablated[1][1])
    assert (code, record["kind"], record["sizes"]) == (0, "ablation", ["16x1", "32x1"])
    assert sum(run["is_new"] for run in record["runs"]) == 0  # of two features, from full is from base
    bits = {
        Config.from_dict(run.record["config"]): run.record["code_bits"]
        for run in prequential.read_runs(folder / "runs")
    }
    configs = {setting["name"]: Config.from_dict(setting["configs"][0]) for setting in record["plan"]}
    for result in record["results"]:
        names = {
            "base": ("base", f"base + {result['feature']}"),
            "full": (f"base + {'decay' if result['feature'] == 'replay' else 'replay'}", "full"),
        }[result["direction"]]
        for effect in result["effects"]:
            off, on = (bits[configs[f"{effect['size']}, {name}"]] for name in names)
            assert effect["saved"]["bits"] == off - on
    assert len(record["results"]) == 4
    assert record["choice_bits"] == 3.0


def test_a_run_that_fails_is_one_line_and_results_that_need_it_are_left_out(folder, tmp_path, monkeypatch, capsys):
    def failing(source, **options):
        raise prequential.ConfigError("the GPT has diverged")

    monkeypatch.setattr("prequential.sweeps.plans.evaluate", failing)
    monkeypatch.chdir(folder)
    args = build_parser().parse_args(["ablate", "a", *OPTIONS, "--sizes", "16x1", "--runs", str(tmp_path)])
    assert args.run(args) == 1
    shown = capsys.readouterr()
    assert shown.err.splitlines()[0] == "prequential: 16x1, base, seed 0: the GPT has diverged"
    assert len(shown.err.splitlines()) == 4
    assert "Added to base" not in shown.out


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--sizes", "64"), "'64' is not a list of sizes WIDTHxLAYERS"),
        (("--sizes", "0x1"), "'0x1' is not a list of sizes"),
        (("--sizes", "64x1,"), "'64x1,' is not a list of sizes"),
        (("--sizes", "33x1"), "no size is left"),
        (("--features", "reply"), "no feature 'reply'; the features are embeddings, contexts, recall, window"),
        (("--features", "words", "--pure"), "has no 'words'"),
        (("--features", "words,mixer"), "'words' makes no difference without mixer"),
        (("--confidence", "1"), "confidence 1.0 is outside (0, 1)"),
        (("--seeds", "0", "--seed", "1"), "leave out --seed"),
        (("-1",), "varies the size of the GPT, and this configuration has none"),
    ],
)
def test_an_impossible_ablation_is_a_usage_error(args, message, capsys):
    with pytest.raises(SystemExit) as end:
        parsed = build_parser().parse_args(["ablate", "missing", *args])
        parsed.run(parsed)
    shown = capsys.readouterr().err
    assert end.value.code == 2
    assert message in shown
    assert len(shown.splitlines()) == 1
