"""Other machines: the time of a segment on them, and the tables that describe them."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from prequential import ConfigError
from prequential.estimation.devices import Device, built_in_devices, read_devices, segment_time_s, select_devices
from prequential.estimation.segment_work import SegmentWork

WORK = SegmentWork(
    wall_s=0.1, cpu_s=0.18, mixer_s=0.02, products_s=0.05, n_operations=10**10, n_products=100, n_threads=2, bandwidth=1e10
)  # fmt: skip
LAPTOP = Device(
    name="a", kind="cpu", cores=2, int8_tops=1.0, memory_gb_per_s=50.0, memory_gb=8.0, source="made up"
)  # fmt: skip


def test_a_machine_that_is_better_in_every_figure_is_faster() -> None:
    better = replace(LAPTOP, cores=4, int8_tops=4.0, memory_gb_per_s=100.0)
    assert segment_time_s(better, WORK) < segment_time_s(LAPTOP, WORK)


def test_no_machine_is_faster_than_the_mixer_which_runs_bit_by_bit() -> None:
    endless = {"int8_tops": 1e6, "memory_gb_per_s": 1e6}
    for device in (replace(LAPTOP, **endless), replace(LAPTOP, kind="gpu", cores=None, **endless)):
        assert segment_time_s(device, replace(WORK, n_products=1))[0] >= WORK.mixer_s


def test_a_file_adds_devices_and_replaces_those_of_the_same_name(tmp_path: Path) -> None:
    known = built_in_devices()[0]
    ours = [LAPTOP, replace(known, cores=64)]
    (tmp_path / "more.json").write_text(json.dumps([vars(device) for device in ours]))
    table = read_devices(tmp_path / "more.json")
    assert len(table) == len(built_in_devices()) + 1
    assert select_devices(table, ["a", known.name]) == ours
    assert select_devices(table, []) == table


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{}", "must contain a list"),
        ("[1]", "exactly the fields"),
        ('[{"name": "x"}]', "exactly the fields"),
        ("[", "not JSON"),
        (json.dumps([{**vars(LAPTOP), "cores": None}]), "numbers above 0"),
        (json.dumps([{**vars(LAPTOP), "int8_tops": "many"}]), "numbers above 0"),
        (json.dumps([{**vars(LAPTOP), "kind": "abacus"}]), "one of cpu, gpu"),
    ],
)
def test_a_file_of_another_form_is_refused_in_one_line(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "bad.json").write_text(content)
    with pytest.raises(ConfigError, match=message) as error:
        read_devices(tmp_path / "bad.json")
    assert "\n" not in str(error.value)


def test_an_unknown_device_is_named_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="unknown device 'Z80'; choose one of laptop"):
        select_devices(built_in_devices(), ["Z80"])
