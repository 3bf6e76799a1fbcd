"""Bad archives: one line, exit code 1, and no output that looks complete. tests/hostile/make.py has many more."""

import io
import json

import pytest
from prequential_codecs.archive import ArchiveWriter
from prequential_codecs.archive_header import Header

import prequential


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


@pytest.mark.parametrize("command", ["decompress", "test"])
def test_an_archive_that_takes_long_can_be_refused(run, archive, tmp_path, command):
    mixer = prequential.MixerConfig(contexts=("1",), table_bits=8, match_bits=8)
    config = prequential.Config(gpt=None, mixer=mixer)
    (tmp_path / "long.pq").write_bytes(headed(config.to_dict(), n_bytes=6 << 30))
    (tmp_path / "short.pq").write_bytes(archive)
    refused = run(tmp_path, command, "--max-time", "10m", "long.pq")
    assert (refused.returncode, len(refused.stderr.splitlines())) == (1, 1)
    assert b"decoding takes about 10 h, more than the limit of 10 min; raise --max-time if you trust" in refused.stderr
    assert run(tmp_path, command, "--max-time", "1m", "short.pq").stderr == b""


def test_a_long_decoding_is_announced_when_it_has_begun(archive, monkeypatch, caplog):
    prequential.decompress(archive)
    assert not caplog.records
    monkeypatch.setattr("prequential.decompression.LONG_S", 0.0)
    prequential.decompress(archive)
    assert [each.message for each in caplog.records] == ["decoding takes about 0 s on a processor of 2026"]
