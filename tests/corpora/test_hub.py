"""Data sets on the hub, through the real `datasets` package: with a local hub for tests, without a hub, and with the cache."""

import http.server
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("datasets")

COMMIT = "e6281661ce1c48d982bc483cf8a173c1bbeb5d31"
FILES = {"train.jsonl": b'{"text": "from the hub"}\n'}


class LocalHub(http.server.BaseHTTPRequestHandler):
    """One data set, owner/texts, with one commit and the tag v1; only the part of the protocol that loading uses."""

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if re.fullmatch(f"/api/datasets/owner/texts/revision/(v1|{COMMIT})", path):
            self.answer_json({"id": "owner/texts", "sha": COMMIT, "siblings": [{"rfilename": name} for name in FILES]})
        elif path.startswith(f"/api/datasets/owner/texts/tree/{COMMIT}"):
            entries = [{"type": "file", "oid": "0" * 40, "size": len(FILES[name]), "path": name} for name in FILES]
            self.answer_json(entries)
        elif (name := path.removeprefix(f"/datasets/owner/texts/resolve/{COMMIT}/")) in FILES:
            self.answer(200, FILES[name], {"ETag": '"etag"', "X-Repo-Commit": COMMIT})
        else:
            missing = "EntryNotFound" if COMMIT in path else "RevisionNotFound"
            self.answer(404, b"{}", {"X-Error-Code": missing, "X-Repo-Commit": COMMIT})

    do_HEAD = do_GET  # noqa: N815  # the names that the server calls

    def answer_json(self, value: object) -> None:
        self.answer(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Prints nothing; the default prints each request."""


@pytest.fixture
def hub() -> Iterator[str]:
    """The address of a running test hub."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), LocalHub) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def open_in_new_process(spec: str, home: Path, **environment: str) -> tuple[str, float]:
    """The last line that a new process prints when it opens `spec` with the cache `home`, and its wall time in seconds."""
    program = "import sys, prequential_corpora.sources as c; print(c.open_corpus(sys.argv[1]).bytes().tobytes())"
    command = [sys.executable, "-c", program, spec]
    env = {**os.environ, "HF_HOME": str(home), **environment}
    started_s = time.monotonic()
    process = subprocess.run(command, env=env, stdout=-1, stderr=subprocess.STDOUT, text=True, timeout=60)
    return process.stdout.strip().splitlines()[-1], time.monotonic() - started_s


def test_a_tag_on_the_hub_is_resolved_to_its_commit(hub: str, tmp_path: Path) -> None:
    program = "import prequential_corpora.sources as c; print(c.open_corpus('hf:owner/texts@v1').describe()['commit'])"
    env = {**os.environ, "HF_HOME": str(tmp_path), "HF_ENDPOINT": hub, "HF_HUB_OFFLINE": "0"}
    said = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, check=True, timeout=60).stdout
    assert said.decode() == f"{COMMIT}\n"


def test_the_rows_of_a_data_set_on_the_hub_are_the_corpus(hub: str, tmp_path: Path) -> None:
    said, _ = open_in_new_process(f"hf:owner/texts@{COMMIT}", tmp_path, HF_ENDPOINT=hub, HF_HUB_OFFLINE="0")
    assert said == r"b'from the hub\x00'"


@pytest.mark.first_quick
def test_csv_tables_of_the_hub_are_read_as_they_are_written(
    hub: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(FILES, "train.jsonl")
    monkeypatch.setitem(FILES, "train.csv", b"n,text\n1,NA\n2,007\n")
    spec = f"hf:owner/texts@{COMMIT}?column=text"
    said, _ = open_in_new_process(spec, tmp_path, HF_ENDPOINT=hub, HF_HUB_OFFLINE="0")
    assert said == r"b'NA\x00007\x00'"
    program = f"import datasets; datasets.load_dataset('owner/texts', revision='{COMMIT}')"  # leaves a table of guesses
    env = {**os.environ, "HF_HOME": str(tmp_path), "HF_ENDPOINT": hub, "HF_HUB_OFFLINE": "0"}
    subprocess.run([sys.executable, "-c", program], env=env, check=True, capture_output=True, timeout=60)
    said, _ = open_in_new_process(spec, tmp_path, HF_HUB_OFFLINE="1")
    assert "offline, the CSV tables of 'owner/texts' cannot be read as they are written; download them" in said


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("version: {home}/written", "has a version that cannot be the name of a folder"),
        ("data_files: {home}/secret.jsonl", "names data files outside the data set"),
        ("data_files: 'zip://*::http://127.0.0.1:9/x.zip'", "names data files outside the data set"),
    ],
)
@pytest.mark.first_quick
def test_metadata_on_the_hub_that_lead_out_of_the_repository_are_refused(
    line: str, reason: str, hub: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret.jsonl").write_bytes(b'{"text": "secret"}\n')
    text = f"---\nconfigs:\n- config_name: default\n  {line.format(home=tmp_path)}\n---\n"
    monkeypatch.setitem(FILES, "README.md", text.encode())
    said, _ = open_in_new_process(f"hf:owner/texts@{COMMIT}", tmp_path / "home", HF_ENDPOINT=hub, HF_HUB_OFFLINE="0")
    assert "CorpusError" in said and reason in said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home", "secret.jsonl"]


def test_a_revision_that_the_hub_does_not_have_is_refused(hub: str, tmp_path: Path) -> None:
    said, _ = open_in_new_process("hf:owner/texts@v2", tmp_path, HF_ENDPOINT=hub, HF_HUB_OFFLINE="0")
    assert "CorpusError: the hub does not give owner/texts@v2 to you: RevisionNotFoundError" in said


def test_a_hub_that_refuses_connections_is_reported_at_once(tmp_path: Path) -> None:
    said, wall_s = open_in_new_process(
        f"hf:squad@{COMMIT}", tmp_path, HF_ENDPOINT="http://127.0.0.1:9", HF_HUB_OFFLINE="0"
    )
    assert "CorpusError: cannot reach the hub for squad@e6281661" in said
    assert wall_s < 15  # mostly for the import of the package


@pytest.mark.slow
def test_a_hub_that_does_not_answer_is_reported_after_a_few_seconds(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        said, wall_s = open_in_new_process("hf:squad@v1", tmp_path, HF_ENDPOINT=endpoint, HF_HUB_OFFLINE="0")
    assert "CorpusError: cannot reach the hub for squad@v1: ReadTimeout" in said
    assert wall_s < 20


@pytest.mark.first_quick
def test_offline_a_commit_in_the_cache_is_opened(hub: str, tmp_path: Path) -> None:
    open_in_new_process("hf:owner/texts@v1", tmp_path, HF_ENDPOINT=hub, HF_HUB_OFFLINE="0")
    said, _ = open_in_new_process(f"hf:owner/texts@{COMMIT}", tmp_path, HF_HUB_OFFLINE="1")
    assert said == r"b'from the hub\x00'"


@pytest.mark.first_quick
def test_offline_another_commit_in_the_cache_is_refused(hub: str, tmp_path: Path) -> None:
    open_in_new_process("hf:owner/texts@v1", tmp_path, HF_ENDPOINT=hub, HF_HUB_OFFLINE="0")
    said, _ = open_in_new_process(f"hf:owner/texts@{'f' * 40}", tmp_path, HF_HUB_OFFLINE="1")
    assert "CorpusError: the cache has another revision of 'owner/texts' than ffffffff" in said


def test_offline_a_commit_that_is_not_in_the_cache_is_refused(tmp_path: Path) -> None:
    said, _ = open_in_new_process(f"hf:squad@{COMMIT}", tmp_path, HF_HUB_OFFLINE="1")
    assert "CorpusError: cannot load the data set 'squad'" in said


def test_offline_a_tag_is_refused_because_it_cannot_be_resolved(tmp_path: Path) -> None:
    said, _ = open_in_new_process("hf:squad@v1", tmp_path, HF_HUB_OFFLINE="1")
    assert "CorpusError: squad@v1 cannot be looked up offline; give the commit's full 40-digit hash" in said
