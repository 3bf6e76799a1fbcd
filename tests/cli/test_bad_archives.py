"""Bad archives: one line each, exit code 1, and no output that looks complete."""

import io
import json
import os

import pytest
from prequential_codecs.archive import ArchiveWriter
from prequential_codecs.archive_header import Header
from prequential_codecs.archive_summary import survey

import prequential
from prequential.model.config import Config, GPTConfig


def headed(config: dict, n_bytes: int = 1 << 40) -> bytes:
    """An archive without blocks, whose header is well formed and declares `config`."""
    sink = io.BytesIO()
    ArchiveWriter(sink, Header(n_bytes=n_bytes, blake2b=bytes(32), config=config))
    return sink.getvalue()


def test_each_bad_archive_is_one_line_and_the_next_one_is_tested(run, archive, tmp_path):
    """tests/hostile/make.py has many more."""
    middle = len(archive) // 2
    huge = Config(gpt=GPTConfig(n_layers=64, width=4096, n_heads=64)).to_dict()
    bad = {
        "empty": (b"", "ends early"),
        "foreign": (b"PK\3\4" + bytes(100), "not a .pq archive"),
        "other-version": (archive[:8] + b"\x63\0" + archive[10:], "version 99"),
        "flipped": (archive[:middle] + bytes([archive[middle] ^ 1]) + archive[middle + 1 :], "checksum mismatch"),
        "out-of-range": (headed({**Config().to_dict(), "seed": -5}), "seed = -5"),
        "huge-model": (headed(huge), "--max-memory"),
        "missing": (None, "No such file"),
        "folder": (None, "Is a directory"),
    }
    for name, (data, _) in bad.items():
        if data is not None:
            (tmp_path / name).write_bytes(data)
    (tmp_path / "folder").mkdir()
    (tmp_path / "good").write_bytes(archive)
    done = run(tmp_path, "test", *bad, "good")
    lines = done.stderr.decode().splitlines()
    assert (done.returncode, done.stdout, len(lines)) == (1, b"", len(bad))
    for line, (name, (_, reason)) in zip(lines, bad.items(), strict=True):
        assert line.startswith((f"prequential: {name}: ", f"prequential: cannot read {name!r}: ")) and reason in line


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


def test_keep_going_lists_intact_blocks_after_the_damage_and_saves_raw_ones(run, tmp_path):
    text, noise = b"how doth the little crocodile " * 70, os.urandom(2048)
    (tmp_path / "a").write_bytes(text[:2048] + noise + text[:2048])
    assert run(tmp_path, "compress", "a").returncode == 0
    (tmp_path / "a").unlink()
    archive = bytearray((tmp_path / "a.pq").read_bytes())
    head = survey(tmp_path / "a.pq").blocks[1]
    archive[head.offset + 6] ^= 8
    (tmp_path / "a.pq").write_bytes(archive)
    done = run(tmp_path, "decompress", "--keep-going", "a.pq")
    message = done.stderr.decode()
    assert done.returncode == 1
    assert len(message.splitlines()) == 1
    assert "block 1 (original bytes 1024-2048) damaged" in message
    assert "blocks 2-3 (original bytes 2048-4096) stored raw and intact" in message
    assert "blocks 4-5 (original bytes 4096-6144) intact, but coded" in message
    assert (tmp_path / "a.from-2048").read_bytes() + (tmp_path / "a.from-3072").read_bytes() == noise
    assert (tmp_path / "a.from-0").read_bytes() == text[:1024]
    for name in ("a.from-0", "a.from-2048"):
        (tmp_path / name).write_bytes(b"precious")
    message = run(tmp_path, "decompress", "--keep-going", "a.pq").stderr.decode()
    for number, start in ((2, 2048), (3, 3072)):
        place = f"block {number} (original bytes {start}-{start + 1024})"
        assert f"{place} stored raw and intact: not saved, because 'a.from-{start}' exists" in message
    assert "saved as" not in message
    assert (tmp_path / "a.from-0").read_bytes() == (tmp_path / "a.from-2048").read_bytes() == b"precious"
    message = run(tmp_path, "decompress", "--keep-going", "-f", "a.pq").stderr.decode()
    assert "blocks 2-3 (original bytes 2048-4096) stored raw and intact: saved as a.from-2048 to a.from-3072" in message
    assert (tmp_path / "a.from-0").read_bytes() == text[:1024]
    assert (tmp_path / "a.from-2048").read_bytes() == noise[:1024]


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
    monkeypatch.setattr("prequential.decoding_time.LONG_S", 0.0)
    prequential.decompress(archive)
    assert [each.message for each in caplog.records] == ["decoding takes about 0 s on a processor of 2026"]
