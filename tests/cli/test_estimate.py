"""estimate: figures before a run."""

import json

import pytest
from small import BOTH

OPTIONS = ("--kernels", "fused", "--config", "learner.json", "--probe", "200")


@pytest.fixture(scope="module")
def folder(text, tmp_path_factory):
    folder = tmp_path_factory.mktemp("estimate")
    (folder / "a").write_bytes(text)
    (folder / "learner.json").write_text(json.dumps(BOTH.to_dict()))
    return folder


def test_the_json_object_has_time_and_memory(run, folder, text):
    done = run(folder, "estimate", *OPTIONS, "--json", "a", "missing")
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)  # the corpus that is missing
    record = json.loads(done.stdout)
    assert (record["kind"], record["n_bytes"]) == ("estimate", len(text))
    assert 200 <= record["probe_bytes"] < len(text)
    assert all(record[name] > 0 for name in ("startup_s", "compress_s", "decompress_s"))
    assert record["peak_memory_bytes"] > 50 << 20
