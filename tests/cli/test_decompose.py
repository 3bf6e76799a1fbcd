"""decompose: tables, JSON, and one line for each refusal."""

import json
import re

import pytest
from studies import TINY

import prequential

GPT = ("--config", "pure.json", "--kernels", "fused")


@pytest.fixture(scope="module")
def folder(tmp_path_factory, text):
    folder = tmp_path_factory.mktemp("decompose")
    (folder / "a").write_bytes(text[:1200])
    (folder / "pure.json").write_text(json.dumps(TINY.to_dict()))
    return folder


def test_the_command_prints_what_the_function_returns(run, folder):
    done = run(folder, "decompose", *GPT, "--limit", "800", "a")
    found = prequential.decompose(folder / "a", TINY, prequential.Runtime(kernels="fused"), limit_bytes=800)
    lines = done.stdout.decode().splitlines()
    assert (done.returncode, done.stderr, lines[1:-1]) == (0, b"", str(found).splitlines()[1:])
    rate = r"\d\.\d\d"
    assert re.fullmatch(
        rf"{rate} bits/byte; the last tenth of the bytes {rate}, the tenth before it {rate}.", lines[-2]
    )


def test_json_has_the_corpus_the_configuration_and_the_versions(run, folder):
    done = run(folder, "decompose", *GPT, "--limit", "600", "--json", "a", "missing")
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    record = json.loads(done.stdout)
    assert (record["kind"], record["corpus"]["n_bytes"], record["n_bytes"]) == ("decomposition", 600, 600)
    assert record["config"] == json.loads(json.dumps(TINY.to_dict()))
    assert "torch" in record["environment"]["versions"]
