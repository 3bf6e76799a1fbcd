"""estimate: figures before a run, compared with the run; and usage errors."""

import json

import pytest

from prequential import Config, GPTConfig, MixerConfig, ScheduleConfig

SMALL = Config(
    gpt=GPTConfig(n_layers=1, width=16, n_heads=1, window=8),
    mixer=MixerConfig(contexts=("1", "2"), table_bits=8, match_bits=8),
    schedule=ScheduleConfig(
        first_segment_symbols=32, segment_symbols=64, row_symbols=16, n_rows=4, history_bits=14, block_symbols=1024
    ),
)
OPTIONS = ("--kernels", "fused", "--config", "learner.json", "--probe", "200")


@pytest.fixture(scope="module")
def folder(text, tmp_path_factory):
    folder = tmp_path_factory.mktemp("estimate")
    (folder / "a").write_bytes(text)
    (folder / "learner.json").write_text(json.dumps(SMALL.to_dict()))
    return folder


def test_the_json_object_has_time_memory_and_size(run, folder, text):
    done = run(folder, "estimate", *OPTIONS, "--json", "a", "missing")
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)  # the corpus that is missing
    record = json.loads(done.stdout)
    assert (record["kind"], record["n_bytes"]) == ("estimate", len(text))
    assert 200 <= record["probe_bytes"] < len(text)
    assert all(record[name] > 0 for name in ("startup_s", "compress_s", "decompress_s", "faster_s"))
    assert record["peak_memory_bytes"] > 50 << 20
    assert 0 < record["archive_low"] < record["archive_bytes"] < record["archive_high"] < 8 * len(text)


@pytest.mark.first_quick
def test_an_evaluation_records_its_estimate_and_the_actual_cost(run, folder):
    done = run(folder, "evaluate", "--estimate", "--verify", "--no-run", "--json", "--baselines", "none",
               *OPTIONS[:4], "--limit", "300", "a")  # fmt: skip
    assert done.returncode == 0
    assert done.stderr.decode().startswith("a: estimate: compress ")
    record = json.loads(done.stdout)
    accuracy = record["estimate"]
    assert accuracy["compress_s"]["actual"] == record["wall_s"]
    assert accuracy["decompress_s"]["actual"] == record["verify_wall_s"]
    assert accuracy["archive_bytes"]["actual"] == record["archive_bytes"]
    assert accuracy["archive_low"] <= record["archive_bytes"] + 16
    for name in ("compress_s", "peak_memory_bytes", "archive_bytes"):
        figure = accuracy[name]
        assert figure["relative_error"] == (figure["estimated"] - figure["actual"]) / figure["actual"]
    assert abs(accuracy["archive_bytes"]["relative_error"]) < 0.05  # the probe coded the complete corpus
