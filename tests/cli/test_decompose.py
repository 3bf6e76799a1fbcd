"""decompose: tables, JSON, and one line for each refusal."""

import json
import re

import pytest

import prequential

PURE = prequential.Config(
    gpt=prequential.GPTConfig(n_layers=1, width=32, n_heads=2, window=16),
    mixer=None,
    schedule=prequential.ScheduleConfig(
        first_segment_symbols=128, segment_symbols=256, row_symbols=64, n_rows=6, history_bits=14
    ),
)
GPT = ("--config", "pure.json", "--kernels", "fused")


@pytest.fixture(scope="module")
def folder(tmp_path_factory, text):
    folder = tmp_path_factory.mktemp("decompose")
    (folder / "a").write_bytes(text[:1200])
    (folder / "pure.json").write_text(json.dumps(PURE.to_dict()))
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
    assert re.search(r"^no intervals: \d cells, 64 are needed$", text, re.MULTILINE)
    assert abs(whole - data - learning) <= 1 and abs(whole - hindsight - regret) <= 1  # each is rounded


def test_json_has_the_corpus_the_configuration_and_the_versions(run, folder):
    done = run(folder, "decompose", *GPT, "--limit", "600", "--epsilon", "0.5", "--json", "a", "missing")
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    record = json.loads(done.stdout)
    assert (record["kind"], record["corpus"]["n_bytes"], record["n_bytes"]) == ("decomposition", 600, 600)
    assert record["config"] == json.loads(json.dumps(PURE.to_dict()))
    assert [t["epsilon"] for t in record["thresholds"]] == [0.5]
    assert "torch" in record["environment"]["versions"]
