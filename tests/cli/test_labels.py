"""labels: a table, a record, standard input, and one line for each refusal."""

import json

import pytest


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("labels")
    rows = [{"t": f"row {i} is {'odd' if i % 2 else 'even'}", "y": "ab"[i % 2] * 2, "z": i} for i in range(200)]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "text").write_text("no rows")
    return folder


@pytest.fixture
def labels(run, folder, small_config):
    """Runs `labels ARGS` in the folder."""
    return lambda *args, **streams: run(folder, "labels", "--config", str(small_config), *args, **streams)


def test_labels_cost_less_than_their_entropy_if_their_inputs_tell_them(labels):
    record = json.loads(labels("--label", "y", "--given", "t", "--json", "rows.jsonl").stdout)
    assert (record["kind"], record["n_labels"]) == ("labels", 2) and record["online_bits"] < record["entropy_bits"]
    quiet = labels("--label", "y", "--given", "t", "-q", "rows.jsonl").stdout.decode()
    assert quiet == f"{record['online_bits'] / 200:.4f}\n"
    assert b"200 labels of 2 kinds" in labels("--label", "y", "rows.jsonl").stdout


def test_labels_are_read_from_standard_input(labels, folder):
    piped = labels("--label", "y", "--json", "-", stdin=(folder / "rows.jsonl").read_bytes()).stdout
    from_file = labels("--label", "y", "--json", "rows.jsonl").stdout
    assert json.loads(piped)["online_bits"] == json.loads(from_file)["online_bits"]
