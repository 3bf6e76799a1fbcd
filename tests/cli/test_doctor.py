"""doctor --law: a table or JSON on stdout, archives recognised by their first bytes, and one line for a broken law."""

import json

import pytest

from prequential.cli import main
from prequential.proof import law
from prequential.proof.law import CODE, FUTURE, ROUND_TRIP, Verdict


@pytest.fixture
def folder(tmp_path, text, archive):
    (tmp_path / "a").write_bytes(text)
    (tmp_path / "named-otherwise").write_bytes(archive)
    return tmp_path


def test_a_corpus_is_encoded_and_an_archive_decoded(run, folder, small_config):
    chosen = ("--config", str(small_config), "--kernels", "fused", "--samples", "2")
    done = run(folder, "doctor", *chosen, "--limit", "3000", "--law", "a", "named-otherwise")
    assert (done.returncode, done.stderr) == (0, b"")
    lines = done.stdout.decode().splitlines()
    assert [line for line in lines if len(line.split()) == 1] == ["a", "named-otherwise"]
    assert sum(line.endswith("ok") for line in lines) == 8
    trips = [line.split()[-2:] for line in lines if line.startswith(ROUND_TRIP)]
    assert trips == [["3000", "ok"], ["3072", "ok"]]  # the archive up to the end of a block
    record = json.loads(run(folder, "doctor", *chosen, "--json", "--limit", "1K", "--law", "a").stdout)
    assert record["name"] == "a"
    assert {"check": ROUND_TRIP, "times": 1024, "failure": ""} in record["checks"]


def test_a_broken_law_is_one_line_and_exit_code_1(folder, small_config, monkeypatch, capsys):
    broken = Verdict(check=FUTURE, times=3, failure="before byte 7 costs change")
    monkeypatch.setattr(law, "check_corpus", lambda *_: [Verdict(check=CODE, times=2), broken])
    monkeypatch.chdir(folder)
    assert main.main(["doctor", "--config", str(small_config), "--law", "a"]) == 1
    out, err = capsys.readouterr()
    assert [line.split()[-1] for line in out.splitlines()] == ["a", "result", "ok", "FAILED"]
    assert err == f"prequential: a: this check failed: {FUTURE}: before byte 7 costs change\n"


def test_an_audited_run_makes_the_same_archive_and_reads_it(run, folder, text, archive):
    assert run(folder, "compress", "--audit-every", "2", "a").returncode == 0
    done = run(folder, "decompress", "--audit-every", "1", "-c", "a.pq")
    assert (done.returncode, done.stdout) == (0, text)
    (folder / "b").mkdir()
    assert run(folder, "compress", "-o", "b/a.pq", "a").returncode == 0
    assert (folder / "b" / "a.pq").read_bytes() == (folder / "a.pq").read_bytes()
    assert run(folder, "compress", "--audit-every", "-2", "-f", "a").returncode == 2
