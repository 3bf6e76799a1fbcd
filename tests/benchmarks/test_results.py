"""results.py: which records its tables show, and that the text around them is unchanged."""

import json

import pytest

from prequential import preset


def evaluation(*, archive_bytes, level=5, name="a", digest="aa", commit="1" * 40, **extra):
    config = json.loads(json.dumps(preset(level).to_dict()))
    return {
        "kind": "evaluation",
        "time": "2026-01-02T03:04:05+00:00",
        "corpus": {"kind": "file", "name": name, "n_bytes": 1000, "blake2b": digest},
        "config": config,
        "archive_bits": 8 * archive_bytes,
        "archive_bytes": archive_bytes,
        "code_bits_per_byte": 1.0,
        "coder_overhead_ppm": 1.0,
        "wall_s": 2.0,
        "decoder_bytes": 1000,
        "verified": True,
        "verify_wall_s": 3.0,
        "peak_memory_bytes": 1 << 20,
        "baselines": [{"name": "gzip", "label": "gzip -9", "compressed_bytes": 500, "wall_s": 0.1}],
        "environment": {
            "machine": {"cpu": "a processor"},
            "threads": 2,
            "backend": "int8",
            "kernels": "fused",
            "versions": {"prequential": "0.1.0", "python": "3.11.7"},
            "git_commit": commit,
        },
        **extra,
    }


def peer(name, compressed_bytes, *, digest="aa", restored=True):
    return {
        "corpus": {"name": "a", "n_bytes": 1000, "blake2b": digest},
        "name": name,
        "label": f"{name} program",
        "version": "9.9",
        "compressed_bytes": compressed_bytes,
        "wall_s": 0.5,
        "decompress_wall_s": 0.25,
        "restored": restored,
        "peak_memory_bytes": None,
    }


@pytest.fixture
def tables(results, tmp_path):
    """The text that the script writes, from records and from the earlier text of the file."""

    def tables(records, peers=(), text="# Results\n"):
        path = tmp_path / "RESULTS.md"
        path.write_text(text)
        results.write_tables(path, list(records), list(peers))
        return path.read_text()

    return tables


def lines_of(text, start):
    return [line for line in text.splitlines() if line.startswith(start)]


def test_the_committed_tables_are_those_that_the_script_makes_of_the_committed_records(tables, results):
    committed = results.RESULTS.read_text("utf-8")
    assert tables(results.read(results.RECORDS), results.read(results.PEERS), text=committed) == committed


def test_one_table_holds_presets_and_peers_smallest_first(tables):
    text = tables([evaluation(archive_bytes=300), evaluation(archive_bytes=400, level=1)], [peer("zpaq", 350)])
    assert [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("| ")] == [
        "compressor", "---", "**prequential -5**", "zpaq program", "**prequential -1**", "gzip -9",
    ]  # fmt: skip
    assert lines_of(text, "| **prequential -5") == [
        "| **prequential -5** | 1111111 | 300 | 2.4000 | 1,302 | yes | 2.00 | 3.00 | 0.50 | 1 |"
    ]
    assert lines_of(text, "| zpaq") == ["| zpaq program | 9.9 | 350 | 2.8000 | - | yes | 0.50 | 0.25 | 2.00 | - |"]


def test_the_newest_record_of_a_preset_counts_and_none_of_a_preset_that_has_changed(tables):
    changed = evaluation(archive_bytes=200, level=1, options=["-5"])
    text = tables([evaluation(archive_bytes=300), evaluation(archive_bytes=250), changed])
    assert [line.split("|")[3].strip() for line in lines_of(text, "| **")] == ["250"]


def test_times_of_a_run_beside_other_programs_are_those_of_the_record_before(tables, results, monkeypatch):
    monkeypatch.setattr(results, "SLOWED", {"2222222"})
    slowed = evaluation(archive_bytes=200, commit="2" * 40, wall_s=50.0)
    text = tables([evaluation(archive_bytes=300), slowed, slowed])
    assert lines_of(text, "| **")[0].startswith(
        "| **prequential -5** | 2222222 | 200 | 1.6000 | 1,202 | yes | 2.00 | 3.00 | 0.50 |"
    )
    assert "; times of commit 1111111" in text
    assert "| 50.00 |" in tables([slowed])


def test_presets_for_devices_have_rows_and_columns_of_their_own(tables, results):
    options = results.options_of("gpu-small")
    records = [
        evaluation(archive_bytes=300, level="gpu-small", options=options),
        evaluation(archive_bytes=9, digest="b"),
    ]
    assert options == ["--preset", "gpu-small"]
    assert results.options_of("5-pure") == ["-5", "--pure"]
    assert lines_of(tables(records), "| file")[0].endswith(
        "| **prequential -5** | **prequential --preset gpu-small** |"
    )
    changed = evaluation(archive_bytes=200, level=9, options=options)
    assert lines_of(tables([*records, changed]), "| **prequential --preset")[0].split("|")[3].strip() == "300"


def test_a_configuration_that_is_no_preset_is_named_by_its_model(tables):
    other = evaluation(archive_bytes=300)
    other["config"]["gpt"]["n_layers"] = 7
    assert "| **prequential, GPT 7 x " in tables([other])


def test_a_peer_is_shown_only_for_the_same_bytes_and_if_it_is_not_a_baseline(tables):
    text = tables([evaluation(archive_bytes=300)], [peer("gzip", 501), peer("zpaq", 350, digest="bb")])
    assert "gzip program" not in text
    assert "zpaq program" not in text


def test_a_peer_that_lost_bytes_has_no_size_and_is_named(tables):
    text = tables([evaluation(archive_bytes=300)], [peer("zpaq", 10, restored=False)])
    assert lines_of(text, "| zpaq") == []
    assert lines_of(text, "Did not restore") == ["Did not restore the file: zpaq program (9.9)."]


def test_several_files_have_a_common_table(tables):
    text = tables([evaluation(archive_bytes=300), evaluation(archive_bytes=100, name="b", digest="bb")])
    assert lines_of(text, "| file")[0] == "| file | bytes | gzip -9 | **prequential -5** |"
    assert lines_of(text, "| a ") == ["| a | 1,000 | 4.0000 | 2.4000 |"]
    assert lines_of(text, "| b ") == ["| b | 1,000 | 4.0000 | 0.8000 |"]


def test_text_around_the_markers_is_kept_and_a_second_run_changes_nothing(tables, results):
    records = [evaluation(archive_bytes=300)]
    once = tables(records, text=f"# Before\n\n{results.BEGIN}\nold\n{results.END}\n\nAfter.\n")
    assert once.startswith("# Before\n")
    assert once.endswith("After.\n")
    assert "old" not in once
    assert tables(records, text=once) == once


def test_the_pareto_front_of_presets_is_marked(tables):
    seconds_and_bytes = {1: (1.0, 400), 2: (2.0, 350), 3: (3.0, 360), 5: (9.0, 300)}
    records = [evaluation(archive_bytes=n, level=level, wall_s=s) for level, (s, n) in seconds_and_bytes.items()]
    text = tables(records)
    (row,) = [line for line in lines_of(text, "| ") if line.count("(") == 4]
    assert row.endswith("| 3.2000 (1.00) * | 2.8000 (0.50) * | 2.8800 (0.33) | 2.4000 (0.11) * |")
    assert "bits against time" not in tables(records[:3])


def test_a_row_says_whether_its_archive_was_decoded(tables):
    """In the table of all files, the size of one that was not has a mark."""
    records = [
        evaluation(archive_bytes=300, verified=False, verify_wall_s=None),
        evaluation(archive_bytes=9, digest="b"),
    ]
    text = tables(records, [])
    assert "| 300 | 2.4000 | 1,302 | no |" in text and "| 2.4000 † |" in text and "0.0720 †" not in text


def test_a_run_of_a_tree_with_changes_is_left_out(tables):
    records = [evaluation(archive_bytes=300), evaluation(archive_bytes=200, level=1, commit="2" * 40 + "-dirty")]
    text = tables(records, [])
    assert "prequential -5" in text and "prequential -1" not in text
