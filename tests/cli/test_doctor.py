"""An audited run of the command line."""

import pytest


@pytest.fixture
def folder(tmp_path, text, archive):
    (tmp_path / "a").write_bytes(text)
    (tmp_path / "named-otherwise").write_bytes(archive)
    return tmp_path


def test_an_audited_run_makes_the_same_archive_and_reads_it(run, folder, text, archive):
    assert run(folder, "compress", "--audit-every", "2", "a").returncode == 0
    done = run(folder, "decompress", "--audit-every", "1", "-c", "a.pq")
    assert (done.returncode, done.stdout) == (0, text)
    (folder / "b").mkdir()
    assert run(folder, "compress", "-o", "b/a.pq", "a").returncode == 0
    assert (folder / "b" / "a.pq").read_bytes() == (folder / "a.pq").read_bytes()
    assert run(folder, "compress", "--audit-every", "-2", "-f", "a").returncode == 2
