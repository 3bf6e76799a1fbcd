"""Rates of `make gpu-check`: the newest of each device, of the same configuration only."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from prequential import Config, ConfigError
from prequential.estimation.estimate import Estimate
from prequential.estimation.estimate_text import format_run_cost
from prequential.estimation.measured_rates import read_measured_rates
from prequential.estimation.run_cost import RunCost
from prequential.model.presets import preset
from prequential.online.flops import Flops

CONFIG = preset(5)


def record(device="H100", config: Config = CONFIG, commit="0123456789", **values) -> dict:
    run = {"corpus": "text8", "n_bytes": 100_000, "level": "5", "config": config.to_dict(), "identical": True}
    run |= {"compress_gpu_kb_per_s": 50.0, "decompress_gpu_kb_per_s": 5.0} | values
    return {"kind": "gpu", "device": {"name": device}, "runs": [run], "environment": {"git_commit": commit}}


def write(path: Path, *records: dict) -> Path:
    path.write_text("".join(json.dumps(r) + "\n" for r in records))
    return path


def test_the_newest_run_of_each_device_with_this_configuration_counts(tmp_path):
    path = write(
        tmp_path / "gpu.jsonl", record(compress_gpu_kb_per_s=30.0), record("H200"), record(commit="new"),
        record(config=preset(9), compress_gpu_kb_per_s=9.0), record(identical=False, compress_gpu_kb_per_s=99.0),
    )  # fmt: skip
    found = {rate.device: rate for rate in read_measured_rates(path, replace(CONFIG, seed=7))}
    assert found.keys() == {"H100", "H200"}
    assert (found["H100"].compress_bytes_per_s, found["H100"].git_commit) == (50e3, "new")
    assert found["H100"].decompress_bytes_per_s == 5e3


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "no run of this configuration"),
        (json.dumps(record(config=preset(9))), "no run of this configuration"),
        (json.dumps(record(compress_gpu_kb_per_s=0)), "line 1: not a record"),
        (json.dumps(record(compress_gpu_kb_per_s=None)), "line 1: not a record"),
        (json.dumps({"runs": [{"identical": True}]}), "line 1: not a record"),
        (json.dumps(record()) + "\n[]", "line 2: not a record"),
        (json.dumps(record()) + "\n{", "line 2: not a record"),
    ],
)
def test_another_file_is_refused_in_one_line(tmp_path, content, message):
    (tmp_path / "gpu.jsonl").write_text(content)
    with pytest.raises(ConfigError, match=message) as error:
        read_measured_rates(tmp_path / "gpu.jsonl", CONFIG)
    assert "\n" not in str(error.value)


def test_the_estimate_prints_the_times_at_these_rates(tmp_path):
    flops = Flops(reading=1)
    estimate = Estimate(
        n_bytes=36_000_000, probe_bytes=1, startup_s=1.0, compress_s=1.0, decompress_s=1.0, peak_memory_bytes=1,
        model_memory_bytes=1, archive_bytes=1, archive_low=1, archive_high=1, flops=flops, n_segments=1,
    )  # fmt: skip
    measured = read_measured_rates(write(tmp_path / "gpu.jsonl", record()), CONFIG)
    cost = RunCost(
        config=CONFIG,
        estimate=estimate,
        rates=(),
        work=None,
        devices=(),
        traffic=None,
        suggestions=(),
        measured=measured,
    )
    line = format_run_cost(cost).splitlines()[-1]
    assert " ".join(line.split()) == "H100 12.0 min, 50.0 kB/s 2.0 h, 5.0 kB/s 100,000 bytes of text8 0123456"
    assert cost.to_record({})["measured"] == [asdict(measured[0])]
