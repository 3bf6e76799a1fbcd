"""Bad archives: one line, exit code 1, and no output that looks complete. tests/hostile/make.py has many more."""

import io
import json

from prequential_codecs.archive import ArchiveWriter
from prequential_codecs.archive_header import Header


def headed(config: dict, n_bytes: int = 1 << 40) -> bytes:
    """An archive without blocks, whose header is well formed and declares `config`."""
    sink = io.BytesIO()
    ArchiveWriter(sink, Header(n_bytes=n_bytes, blake2b=bytes(32), config=config))
    return sink.getvalue()


def test_the_good_beginning_of_a_damaged_archive_is_kept_under_another_name(run, archive, text, tmp_path):
    (tmp_path / "a.pq").write_bytes(archive[: len(archive) * 2 // 3])
    done = run(tmp_path, "decompress", "a.pq")
    kept = (tmp_path / "a.from-0").read_bytes()
    assert 0 < len(kept) < len(text)
    assert text.startswith(kept)
    assert done.returncode == 1
    assert f"{len(kept)} bytes before it are good; they are in" in done.stderr.decode()
    assert len(done.stderr.splitlines()) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.from-0", "a.pq"]
    assert run(tmp_path, "decompress", stdin=(tmp_path / "a.pq").read_bytes()).stdout == kept
    (tmp_path / "b.pq").write_bytes(archive[: len(archive) // 4])  # damaged in its first block
    assert run(tmp_path, "decompress", "b.pq").returncode == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.from-0", "a.pq", "b.pq"]


def test_an_incomplete_archive_is_listed_with_its_blocks(run, archive, text, tmp_path):
    (tmp_path / "a.pq.partial").write_bytes(archive[: len(archive) * 2 // 3])
    done = run(tmp_path, "list", "a.pq.partial")
    assert done.returncode == 0
    assert b"(incomplete: the first 1024 bytes)" in done.stdout
    entry = json.loads(run(tmp_path, "list", "--json", "a.pq.partial").stdout)
    assert (entry["n_bytes"], entry["n_bytes_held"], len(entry["blocks"])) == (len(text), 1024, 1)
