"""peers.py with small real programs: one restores all bytes, one loses some, one fails."""

import json
import shutil

import pytest
from scripts import load


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

    monkeypatch.setattr(peers_script, "ROWS", tmp_path / "peers.jsonl")
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
    return {row["name"]: row for row in map(json.loads, peers.ROWS.read_text().splitlines())}


def test_restored_means_that_every_byte_is_equal(peers, tmp_path):
    assert peers.main([str(tmp_path / "corpus")]) == 0
    found = rows(peers)
    assert {name: row["restored"] for name, row in found.items()} == {"keeps": True, "loses": False, "refuses": False}
    sizes = {name: row["compressed_bytes"] for name, row in found.items()}
    assert sizes == {"keeps": 2048, "loses": 10, "refuses": None}
    kept = found["keeps"]
    assert kept["version"] == "1.25" and kept["wall_s"] > 0 and kept["decompress_wall_s"] > 0


def test_a_program_that_is_not_installed_is_named_and_skipped(peers, tmp_path, capsys):
    peers.main([str(tmp_path / "corpus")])
    assert "not on PATH: no-such-program" in capsys.readouterr().err


def test_a_program_that_restored_the_corpus_runs_again_only_with_the_option(peers, tmp_path):
    runs = [["corpus"], ["corpus"], ["--again", "corpus"]]
    n_rows = []
    for run in runs:
        peers.main([str(tmp_path / arg) if arg == "corpus" else arg for arg in run])
        n_rows.append(len(peers.ROWS.read_text().splitlines()))
    assert n_rows == [3, 5, 8]  # the second run repeats the programs that failed


def test_every_installed_program_restores_a_text(peers_script, tmp_path, monkeypatch):
    monkeypatch.setattr(peers_script, "ROWS", tmp_path / "peers.jsonl")
    monkeypatch.setattr(peers_script, "machine", lambda: {"cpu": "of a test"})
    (tmp_path / "corpus").write_bytes(b"".join(b"line %d of a text\n" % i for i in range(500)))
    peers_script.main([str(tmp_path / "corpus")])
    found = rows(peers_script)
    assert set(found) == {name for name, peer in peers_script.PEERS.items() if shutil.which(peer.program)}
    assert [name for name, row in found.items() if not row["restored"] or not row["version"]] == []
