"""The environment in a record: present, plausible, JSON."""

import json

from prequential.measure import machine


def test_the_machine_is_described_in_json_values() -> None:
    assert json.loads(json.dumps(machine.machine())) == machine.machine()
    assert machine.machine()["cpu"]


def test_peak_memory_grows_with_what_is_held() -> None:
    before = machine.peak_memory_bytes()
    held = b"x" * (before + (64 << 20))  # more than the whole process had
    assert machine.peak_memory_bytes() - before >= 32 << 20
    assert len(held) > before


def test_versions_name_the_libraries_that_compute() -> None:
    assert {"python", "torch", "numpy"} <= machine.versions().keys()
