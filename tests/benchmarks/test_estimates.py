"""estimates.py: its table has the newest run of each file and preset, and medians of the known errors."""

import json


def record(name, compress_error, decompress_error, size=100):
    def figure(error):
        return {"estimated": 2.0, "actual": 1.0, "relative_error": error}

    estimate = {
        "compress_s": figure(compress_error),
        "decompress_s": figure(decompress_error),
        "peak_memory_bytes": figure(0.0),
        "archive_bytes": figure(0.0),
        "archive_low": 90,
        "archive_high": 110,
    }
    return {
        "corpus": {"name": name, "n_bytes": 1000},
        "options": ["-1"],
        "estimate": estimate,
        "archive_bytes": size,
        "environment": {"machine": {"cpu": "a processor"}, "threads": 2},
    }


def test_the_table_has_the_newest_runs_and_medians_of_absolute_errors(estimates, tmp_path):
    records, page = tmp_path / "records", tmp_path / "page"
    lines = [
        record("a", 9.0, 9.0),
        record("a", 0.1, None),
        record("b", -0.3, -0.2, 120),
        {**record("c", 1, 1), "estimate": None},
    ]
    records.write_text("".join(json.dumps(line) + "\n" for line in lines))
    page.write_text(f"before\n{estimates.BEGIN}\nold\n{estimates.END}\nafter\n")
    estimates.write_table(page, estimates.read(records))
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "old" not in text
    assert "| a -1 | 1,000 | 2.0 (+10.0%) | 2.0 (-) |" in text
    assert "| b -1 | 1,000 | 2.0 (-30.0%) | 2.0 (-20.0%) |" in text
    assert "| median error |  | 20.0% | 20.0% |" in text
    assert "1 of 2 archives lie within the bounds" in text
