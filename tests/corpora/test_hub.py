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


def open_in_new_process(
    spec: str, home: Path, hub: str | None = None, shown: str = "bytes().tobytes()"
) -> tuple[str, float]:
    """The last line of a new process that opens `spec` with the cache `home`, offline without a hub; and its wall time in s."""
    program = f"import sys, prequential_corpora.sources as c; print(c.open_corpus(sys.argv[1]).{shown})"
    env = {**os.environ, "HF_HOME": str(home), "HF_HUB_OFFLINE": "0" if hub else "1"}
    env |= {"HF_ENDPOINT": hub} if hub else {}
    started_s = time.monotonic()
    command = [sys.executable, "-c", program, spec]
    process = subprocess.run(command, env=env, stdout=-1, stderr=subprocess.STDOUT, text=True, timeout=60)
    return process.stdout.strip().splitlines()[-1], time.monotonic() - started_s


def test_a_tag_on_the_hub_is_resolved_to_its_commit_whose_rows_are_the_corpus(hub: str, tmp_path: Path) -> None:
    assert open_in_new_process("hf:owner/texts@v1", tmp_path, hub, "describe()['commit']")[0] == COMMIT
    assert open_in_new_process(f"hf:owner/texts@{COMMIT}", tmp_path, hub)[0] == r"b'from the hub\x00'"


@pytest.mark.first_quick
def test_csv_tables_of_the_hub_are_read_as_they_are_written(
    hub: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(FILES, "train.jsonl")
    monkeypatch.setitem(FILES, "train.csv", b"n,text\n1,NA\n2,007\n")
    spec = f"hf:owner/texts@{COMMIT}?column=text"
    assert open_in_new_process(spec, tmp_path, hub)[0] == r"b'NA\x00007\x00'"
    program = f"import datasets; datasets.load_dataset('owner/texts', revision='{COMMIT}')"  # leaves a table of guesses
    env = {**os.environ, "HF_HOME": str(tmp_path), "HF_ENDPOINT": hub, "HF_HUB_OFFLINE": "0"}
    subprocess.run([sys.executable, "-c", program], env=env, check=True, capture_output=True, timeout=60)
    said, _ = open_in_new_process(spec, tmp_path)
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
    said, _ = open_in_new_process(f"hf:owner/texts@{COMMIT}", tmp_path / "home", hub)
    assert "CorpusError" in said and reason in said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home", "secret.jsonl"]


@pytest.mark.parametrize(
    ("spec", "where", "reason"),
    [
        ("hf:owner/texts@v2", "hub", "the hub does not give owner/texts@v2 to you: RevisionNotFoundError"),
        (f"hf:squad@{COMMIT}", "http://127.0.0.1:9", "cannot reach the hub for squad@e6281661"),
        (f"hf:squad@{COMMIT}", None, "cannot load the data set 'squad'"),
        ("hf:squad@v1", None, "squad@v1 cannot be looked up offline; give the commit's full 40-digit hash"),
    ],
    ids=["another revision", "no connection", "offline, not in the cache", "offline, a tag"],
)
def test_what_cannot_be_loaded_is_refused_at_once(
    spec: str, where: str | None, reason: str, hub: str, tmp_path: Path
) -> None:
    said, wall_s = open_in_new_process(spec, tmp_path, hub if where == "hub" else where)
    assert f"CorpusError: {reason}" in said
    assert wall_s < 15  # mostly for the import of the package


@pytest.mark.slow
def test_a_hub_that_does_not_answer_is_reported_after_a_few_seconds(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        said, wall_s = open_in_new_process("hf:squad@v1", tmp_path, f"http://127.0.0.1:{silent.getsockname()[1]}")
    assert "CorpusError: cannot reach the hub for squad@v1: ReadTimeout" in said
    assert wall_s < 20


@pytest.mark.first_quick
def test_offline_only_the_commit_in_the_cache_is_opened(hub: str, tmp_path: Path) -> None:
    open_in_new_process("hf:owner/texts@v1", tmp_path, hub)
    assert open_in_new_process(f"hf:owner/texts@{COMMIT}", tmp_path)[0] == r"b'from the hub\x00'"
    said, _ = open_in_new_process(f"hf:owner/texts@{'f' * 40}", tmp_path)
    assert "CorpusError: the cache has another revision of 'owner/texts' than ffffffff" in said
