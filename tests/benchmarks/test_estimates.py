"""estimates.py: its table has the newest run of each file and preset, and medians of the known errors."""

from scripts import load

estimates = load("estimates")


def record(name, compress_error, decompress_error):
    def figure(error):
        return {"estimated": 2.0, "actual": 1.0, "relative_error": error}

    errors = {
        "compress_s": compress_error,
        "decompress_s": decompress_error,
        "peak_memory_bytes": 0.0,
    }
    estimate = {name: figure(error) for name, error in errors.items()}
    return {
        "corpus": {"name": name, "n_bytes": 1000},
        "options": ["-1"],
        "estimate": estimate,
        "environment": {"machine": {"cpu": "a processor"}, "threads": 2},
    }


def test_the_table_has_medians_of_the_absolute_errors_of_the_newest_runs_by_preset():
    """Of five records the first is not the newest, and the fourth has no estimate."""
    other = [{**record("c", 1, 1), "estimate": None}, {**record("a", 0.5, 0.5), "options": ["-2"]}]
    records = [record("a", 9.0, 9.0), record("a", 0.1, None), record("b", -0.3, -0.2), *other]
    assert estimates.table(estimates.estimated(records)).splitlines()[2:] == [
        "| -1 | 2 | 20.0% | 20.0% | 0.0% |",
        "| -2 | 1 | 50.0% | 50.0% | 0.0% |",
        "| all | 3 | 30.0% | 35.0% | 0.0% |",
        "",
        "Machines: a processor, 2 threads.",
    ]
    assert "| -1 | 1 | 10.0% | - |" in estimates.table([record("a", 0.1, None)])


def test_the_committed_table_is_the_one_that_the_script_makes_of_the_committed_records():
    committed = estimates.PAGE.read_text("utf-8").partition(estimates.BEGIN)[2].partition(estimates.END)[0]
    assert committed.strip() == estimates.table(estimates.estimated(estimates.read(estimates.RECORDS)))
