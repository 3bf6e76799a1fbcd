"""heldout: tables, a record, and one line for each refusal."""

import json
from dataclasses import replace

import pytest
from small import MIXER
from studies import TINY

BOTH = replace(TINY, mixer=MIXER)


@pytest.fixture
def folder(tmp_path, text):
    (tmp_path / "train").write_bytes(text[:2000])
    (tmp_path / "tests").mkdir()
    for i, name in enumerate(("a.py", "b.py", "c.rs", "d")):
        (tmp_path / "tests" / name).write_bytes(text[3000 + 200 * i : 3150 + 200 * i] + bytes([65 + i]) * 60)
    (tmp_path / "config.json").write_text(json.dumps(BOTH.to_dict()))
    return tmp_path


def heldout(run, folder, *args, config=("--config", "config.json")):
    return run(folder, "heldout", *config, "--kernels", "fused", *args)


def test_the_tables_begin_with_the_policy_and_the_record_is_appended(run, folder):
    done = heldout(run, folder, "--train", "train", "--test", "tests", "--context", "isolated")
    lines = done.stdout.decode().splitlines()
    assert done.returncode == 0 and "mostly seen" not in lines[0]
    assert lines[0].startswith("test: tests, all ") and "4 documents" in lines[0]
    assert lines[1] == "train: train, 2,000 bytes (corpus)"
    assert any("isolated: each document begins with" in line for line in lines[:5])
    assert [row for row in ("Python", "Rust", "(none)") if any(line.startswith(row + " ") for line in lines)] != []
    (first,) = map(json.loads, (folder / "runs" / "heldout.jsonl").read_text().splitlines())
    assert first["saved_bits"] == first["untrained"]["total"]["bits"] - first["dynamic"]["total"]["bits"]
    assert (first["test"]["n_bytes"], first["train"]["n_bytes"]) == (first["frozen"]["total"]["n_bytes"], 2000)
    assert first["config"] == json.loads(json.dumps(BOTH.to_dict()))


def test_a_test_set_that_was_seen_in_training_gives_a_warning(run, folder, text):
    (folder / "seen").write_bytes(text[500:1500])
    done = heldout(run, folder, "--train", "train", "--test", "seen", "--no-run", "--json")
    (line,) = done.stderr.decode().splitlines()
    assert line.startswith("prequential: warning: the test set is mostly seen")
    record = json.loads(done.stdout)
    assert record["overlap"]["warning"] in line
    assert not (folder / "runs").exists()


def test_a_corpus_and_a_stored_model_make_the_same_learner(run, folder):
    made = run(folder, "train", "train", "-o", "model", "--config", "config.json", "--kernels", "fused")
    assert made.returncode == 0, made.stderr
    options = ("--test", "tests", "--json", "--no-run")
    trained = heldout(run, folder, "--train", "train", *options)
    stored = heldout(run, folder, "--train", "model", *options, config=())
    records = [json.loads(done.stdout) for done in (trained, stored)]
    assert [record["train"]["source"] for record in records] == ["corpus", "model"]
    assert records[0]["learner_digest"] == records[1]["learner_digest"]
    assert records[0]["dynamic"]["total"] == records[1]["dynamic"]["total"]
    assert [record["train"]["n_bytes"] for record in records] == [2000] * 2
    assert records[0]["overlap"] and records[1]["overlap"] is None


def test_a_repeated_command_measures_what_is_missing_and_says_so(run, folder):
    command = ("--train", "train", "--no-overlap", "--test")
    first, again = (heldout(run, folder, *command, "tests").stdout.decode() for _ in range(2))
    assert first.endswith("\nappended to runs/heldout.jsonl: 1\n")
    assert again.endswith("\nnothing is new: runs/heldout.jsonl had all records\n")
    assert first.splitlines()[:-1] == again.splitlines()[:-1]
    both = heldout(run, folder, *command, "tests", "--test", "missing", "--test", "train")
    assert both.returncode == 1 and both.stderr.startswith(b"prequential: cannot read 'missing'")
    assert both.stdout.decode().startswith(first.rpartition("\nappended")[0])
    assert both.stdout.endswith(b"\nappended to runs/heldout.jsonl: 1\n")


@pytest.mark.thorough
def test_jobs_give_the_records_of_one_process_and_one_that_fails_leaves_the_others(run, folder):
    tests, kept = (
        ("--test", "tests", "--test", "missing", "--test", "train"),
        ("test", "learner_digest", "frozen", "key"),
    )
    found = []
    for options in ((), ("--jobs", "2")):
        done = heldout(run, folder, "--train", "train", *tests, "--json", "--no-run", *options)
        assert (done.returncode, len(done.stderr.splitlines())) == (1, 3)  # two warnings of text that was seen
        found.append([json.loads(line) for line in done.stdout.splitlines()])
    assert len(found[0]) == 2
    assert [[record[name] for name in kept] for record in found[0]] == [[r[name] for name in kept] for r in found[1]]
