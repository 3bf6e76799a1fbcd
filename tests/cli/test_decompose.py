"""decompose: tables, JSON, and one line for each refusal."""

import json
import re

import pytest
from studies import TINY

GPT = ("--config", "pure.json", "--kernels", "fused")


@pytest.fixture(scope="module")
def folder(tmp_path_factory, text):
    folder = tmp_path_factory.mktemp("decompose")
    (folder / "a").write_bytes(text[:1200])
    (folder / "pure.json").write_text(json.dumps(TINY.to_dict()))
    return folder


def test_the_parts_in_the_table_add_up(run, folder):
    done = run(folder, "decompose", *GPT, "--limit", "800", "a")
    assert (done.returncode, done.stderr) == (0, b"")
    text = done.stdout.decode()
    whole, data, learning, hindsight, regret = (
        float(re.search(rf"^{name} +([\d,]+)  ", text, re.MULTILINE)[1].replace(",", ""))
        for name in (
            "prequential code length",
            "= data, at the expected final rate",
            r"\+ learning \(epiplexity, estimated\)",
            "hindsight.*",
            "regret.*",
        )
    )
    assert re.search(r"^Give a longer text: \d cells are too few for intervals, 64 are needed.$", text, re.MULTILINE)
    assert abs(whole - data - learning) <= 1 and abs(whole - hindsight - regret) <= 1  # each is rounded


def test_a_rate_that_is_never_reached_has_an_open_surplus(run, folder):
    done = run(folder, "decompose", *GPT, "--limit", "800", "--epsilon", "0.5", "--epsilon", "9", "a")
    found = re.findall(r"^surplus over (\S+) bits/byte +(>?) *[\d,]+  ", done.stdout.decode(), re.MULTILINE)
    assert found == [("0.5", ">"), ("9", "")]


def test_json_has_the_corpus_the_configuration_and_the_versions(run, folder):
    done = run(folder, "decompose", *GPT, "--limit", "600", "--epsilon", "0.5", "--json", "a", "missing")
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    record = json.loads(done.stdout)
    assert (record["kind"], record["corpus"]["n_bytes"], record["n_bytes"]) == ("decomposition", 600, 600)
    assert record["config"] == json.loads(json.dumps(TINY.to_dict()))
    assert [t["epsilon"] for t in record["thresholds"]] == [0.5]
    assert "torch" in record["environment"]["versions"]
