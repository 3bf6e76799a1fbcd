"""peers.py with small real programs: one restores all bytes, one loses some, one fails."""

import json
import shutil
import sys
from dataclasses import replace

import pytest
from scripts import load

from prequential.model.presets import preset


@pytest.fixture(scope="module")
def peers_script():
    return load("peers")


@pytest.fixture
def peers(peers_script, tmp_path, monkeypatch):
    """The script with test programs, and its rows in a temporary folder."""

    def peer(compress, decompress="cp archive copy"):
        return peers_script.Peer(
            label=compress, package="coreutils", version="echo v1.25", compress=compress, decompress=decompress
        )

    monkeypatch.setattr(peers_script, "ROWS", tmp_path / "results.csv")
    monkeypatch.setattr(peers_script, "machine", lambda: {"cpu": "of a test"})
    programs = {
        "keeps": peer("cp original archive"),
        "loses": peer("head -c 10 original >archive"),
        "refuses": peer("cp missing archive"),
        "absent": peer("no-such-program original >archive"),
    }
    monkeypatch.setattr(peers_script, "PEERS", programs)
    (tmp_path / "corpus").write_bytes(bytes(range(256)) * 8)
    return peers_script


def rows(peers):
    """The last row of each program, by its name in PEERS."""
    names = {peer.label: name for name, peer in peers.PEERS.items()}
    return {names[row.program]: row for row in peers.read(peers.ROWS)}


def test_restored_means_that_every_byte_is_equal_and_a_missing_program_is_named(peers, tmp_path, capsys):
    assert peers.main([str(tmp_path / "corpus")]) == 0
    results = {name: (row.decoded, row.archive_bytes) for name, row in rows(peers).items()}
    assert results == {"keeps": ("yes", "2048"), "loses": ("no", "10"), "refuses": ("no", "")}
    assert "not on PATH: no-such-program" in capsys.readouterr().err
    kept = rows(peers)["keeps"]
    assert kept.version == "1.25" and float(kept.seconds) > 0 and float(kept.decode_seconds) > 0


def test_a_program_that_restored_the_corpus_runs_again_only_with_the_option(peers, tmp_path):
    n_rows = []
    for options in ([], [], ["--again"]):
        peers.main([*options, str(tmp_path / "corpus")])
        n_rows.append(len(peers.read(peers.ROWS)))
    assert n_rows == [3, 5, 8]  # the second run repeats the programs that failed


def test_every_installed_program_restores_a_text(peers_script, tmp_path, monkeypatch):
    monkeypatch.setattr(peers_script, "ROWS", tmp_path / "results.csv")
    monkeypatch.setattr(peers_script, "machine", lambda: {"cpu": "of a test"})
    (tmp_path / "corpus").write_bytes(b"".join(b"line %d of a text\n" % i for i in range(500)))
    peers_script.main([str(tmp_path / "corpus")])
    last = rows(peers_script)
    assert set(last) == {name for name, peer in peers_script.PEERS.items() if shutil.which(peer.program)}
    assert [name for name, row in last.items() if row.decoded != "yes" or not row.version] == []


# ---- records of a GPU


@pytest.fixture(scope="module")
def gpu_script():
    return load("gpu")


def small(level):
    """The preset with small tables, which take their time only to be made."""
    config = preset(int(level.partition("-")[0]), pure=level.endswith("-pure"))
    gpt, mixer = config.gpt, config.mixer
    return replace(
        config,
        gpt=gpt and replace(gpt, context_bits=12, memory_bits=min(gpt.memory_bits, 14)),
        mixer=mixer and replace(mixer, table_bits=14),
    )


@pytest.mark.thorough
def test_a_record_holds_runs_and_steps(gpu_script, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(gpu_script, "_config", small)
    monkeypatch.setattr(gpu_script, "STEPS", 1)
    record = tmp_path / "gpu.jsonl"
    options = ["--device", "cpu", "--limit", "3000", "--levels", "5", "--parts", "1", "5-pure", "--record", str(record)]
    monkeypatch.setattr(sys, "argv", ["gpu.py", "sample:christmas_carol", *options])
    assert gpu_script.main() == 0
    (measured,) = map(json.loads, record.read_text().splitlines())
    (run,), (step, alone) = measured["runs"], measured["steps"]
    assert run["identical"] and run["n_bytes"] == 3000 and run["archive_bytes"] < 3000
    assert measured["device"]["name"] == "cpu" and run["compress_gpu_kb_per_s"] > 0
    assert step["step_gpu_s"] > 0 and step["reading_gpu_s"] > 0 and run["mixer_kb_per_s"] > 0
    assert step["operations"] > step["operations_a_layer"] > step["reading_operations"] > 100
    assert step["bytes"] > 128 * 1024 * step["bytes_a_unit"] > 0  # width 128, 8 rows of 128, one layer
    assert alone["level"] == "5-pure" and step["column_cpu_s"] > 0  # -1 has no GPT
    _, line, line_alone = capsys.readouterr().out.splitlines()
    assert line.split()[:2] == ["sample:christmas_carol", "5"] and line.split()[-1] == "yes"
    assert line_alone.split()[:2] == ["-", "5-pure"] and line_alone.split()[-1] == "-"


def test_archives_that_differ_are_a_failure(gpu_script, monkeypatch, capsys, tmp_path):
    real_run = gpu_script.run
    monkeypatch.setattr(gpu_script, "run", lambda *arguments: real_run(*arguments) | {"identical": False})
    options = ["--device", "cpu", "--limit", "500", "--levels", "1", "--parts", "--record", str(tmp_path / "gpu.jsonl")]
    monkeypatch.setattr(sys, "argv", ["gpu.py", "sample:christmas_carol", *options])
    assert gpu_script.main() == 1
    assert capsys.readouterr().err.splitlines()[-1] == "gpu: sample:christmas_carol -1: the archives differ"
