"""compress, decompress and list: their files and their output; damaged archives, of which tests/hostile/make.py has many more."""

import json
import os
import subprocess
import sys

import pytest


def test_decompress_gives_the_bytes_back_with_mode_and_time_and_prints_nothing(run, text, tmp_path):
    source = tmp_path / "a"
    source.write_bytes(text)
    source.chmod(0o640)
    os.utime(source, ns=(10**18, 10**18))
    for done in (run(tmp_path, "compress", "a"), run(tmp_path, "decompress", "-o", "b", "a.pq")):
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert source.read_bytes() == (tmp_path / "b").read_bytes() == text
    assert (tmp_path / "a.pq").stat().st_size < len(text)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "a.pq", "b"]
    for name in ("a.pq", "b"):
        status = (tmp_path / name).stat()
        assert (status.st_mode & 0o777, status.st_mtime_ns) == (0o640, 10**18)


def test_standard_input_goes_to_standard_output_and_back(run, text, tmp_path):
    packed = run(tmp_path, "compress", stdin=text)
    assert run(tmp_path, "decompress", "-", stdin=packed.stdout).stdout == text
    assert list(tmp_path.iterdir()) == []


@pytest.mark.thorough
def test_interpreted_kernels_make_the_same_archive_without_a_warning(run, small_config, tmp_path):
    (tmp_path / "a").write_bytes(b"It was the best of times, it was the worst of times. " * 8)
    assert run(tmp_path, "compress", "a", "-o", "compiled.pq").returncode == 0
    command = [sys.executable, "-m", "prequential", "compress", "--config", small_config, "a", "-o", "interpreted.pq"]
    env = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, b"")
    assert (tmp_path / "interpreted.pq").read_bytes() == (tmp_path / "compiled.pq").read_bytes()


def test_an_audited_run_makes_the_same_archive_and_reads_it(run, text, archive, tmp_path):
    (tmp_path / "a").write_bytes(text)
    assert run(tmp_path, "compress", "--audit-every", "2", "a").returncode == 0
    done = run(tmp_path, "decompress", "--audit-every", "1", "-c", "a.pq")
    assert (done.returncode, done.stdout) == (0, text)
    assert run(tmp_path, "compress", "-o", "b.pq", "a").returncode == 0
    assert (tmp_path / "b.pq").read_bytes() == (tmp_path / "a.pq").read_bytes()


def test_of_a_damaged_archive_a_stream_gets_the_good_beginning_and_a_file_nothing(run, archive, text, tmp_path):
    (tmp_path / "a.pq").write_bytes(archive[: len(archive) * 2 // 3])
    done = run(tmp_path, "decompress", "a.pq")
    kept = run(tmp_path, "decompress", "-c", "a.pq").stdout
    assert 0 < len(kept) < len(text) and text.startswith(kept)
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    assert f"{len(kept)} bytes before it are good" in done.stderr.decode()
    assert [path.name for path in tmp_path.iterdir()] == ["a.pq"]


def test_an_incomplete_archive_is_listed_with_its_blocks(run, archive, text, tmp_path):
    (tmp_path / "a.pq.partial").write_bytes(archive[: len(archive) * 2 // 3])
    done = run(tmp_path, "list", "a.pq.partial")
    assert done.returncode == 0
    assert b"(incomplete: the first 1024 bytes)" in done.stdout
    entry = json.loads(run(tmp_path, "list", "--json", "a.pq.partial").stdout)
    assert (entry["n_bytes"], entry["n_bytes_held"], len(entry["blocks"])) == (len(text), 1024, 1)
