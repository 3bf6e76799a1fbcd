"""Data sets of the hub, through the real library: with a local hub for tests, and without one."""

import http.server
import json
import os
import re
import subprocess
import sys
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from prequential_corpora.sources import open_corpus

from prequential.errors import CorpusError, MissingDependencyError

pytest.importorskip("huggingface_hub")

COMMIT = "e6281661ce1c48d982bc483cf8a173c1bbeb5d31"
FILES = {
    "README.md": b"---\nconfigs:\n- data_files: /etc/passwd\n---\n",
    "data/train-0.jsonl": b'{"text": "NA"}\n',
    "data/train-1.jsonl": b'{"text": "2024-01-01T10:00:00Z"}\n',
    "data/test.jsonl": b'{"text": "held out"}\n',
    ".hidden.jsonl": b'{"text": "hidden"}\n',
}


class LocalHub(http.server.BaseHTTPRequestHandler):
    """One data set, owner/texts, with one commit and the tag v1; only the part of the protocol that loading uses."""

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if re.fullmatch(f"/api/datasets/owner/texts/revision/(v1|{COMMIT})", path):
            self.answer_json({"id": "owner/texts", "sha": COMMIT, "siblings": [{"rfilename": name} for name in FILES]})
        elif (name := path.removeprefix(f"/datasets/owner/texts/resolve/{COMMIT}/")) in FILES:
            self.answer(200, FILES[name], {"ETag": f'"{zlib.crc32(FILES[name])}"', "X-Repo-Commit": COMMIT})
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


def open_in_new_process(spec: str, home: Path, hub: str | None = None, shown: str = "bytes().tobytes()") -> str:
    """The last line of a new process that opens `spec` with the cache `home`, offline without a hub."""
    program = f"""import sys, prequential_corpora.sources as c
value = c.open_corpus(sys.argv[1]).{shown}
if isinstance(value, dict): value["shards_blake2b"] = "LIST"
print(value)"""
    env = {**os.environ, "HF_HOME": str(home), "HF_HUB_OFFLINE": "0" if hub else "1"}
    env |= {"HF_ENDPOINT": hub} if hub else {}
    command = [sys.executable, "-c", program, spec]
    process = subprocess.run(command, env=env, stdout=-1, stderr=subprocess.STDOUT, text=True, timeout=60)
    return process.stdout.strip().splitlines()[-1]


def test_a_tag_is_resolved_to_its_commit_whose_files_are_shards(hub: str, tmp_path: Path) -> None:
    assert open_in_new_process("hf:owner/texts@v1?files=data/train-*", tmp_path, hub, "describe()") == str(
        {
            "kind": "dataset", "name": "owner/texts", "revision": "v1", "commit": COMMIT, "files": "data/train-*", "n_shards": 2,
            "n_skipped": 3, "shards_blake2b": "LIST", "column": "text", "separator": "\0", "shuffle_seed": None,
            "shuffle_buffer": None, "n_rows": 2,
        }
    )  # fmt: skip
    assert open_in_new_process(f"hf:owner/texts@{COMMIT}", tmp_path, hub) == (
        r"b'held out\x00NA\x002024-01-01T10:00:00Z\x00'"
    )


@pytest.mark.parametrize(
    ("spec", "where", "reason"),
    [
        ("hf:owner/texts@v2", "hub", "the hub does not give owner/texts@v2: RevisionNotFoundError"),
        ("hf:owner/texts@v1?files=x", "hub", "'owner/texts' contains no shard"),
        ("hf:squad@v1", "http://127.0.0.1:9", "the hub does not give squad@v1: "),
        ("hf:squad@v1", None, "the hub does not give squad@v1: OfflineModeIsEnabled"),
    ],
    ids=["another revision", "other files", "no connection", "offline"],
)
@pytest.mark.first_quick
def test_what_cannot_be_loaded_is_refused_in_one_line(
    spec: str, where: str | None, reason: str, hub: str, tmp_path: Path
) -> None:
    assert f"CorpusError: {reason}" in open_in_new_process(spec, tmp_path, hub if where == "hub" else where)


@pytest.mark.parametrize("name", ["a/b", "a/b@main", "a/b@refs/pr/1", "../b@v1", "rows.jsonl", "a/b@v1?split=x"])
def test_a_name_without_a_fixed_revision_and_unknown_options_are_refused(name: str) -> None:
    with pytest.raises(CorpusError, match=r"pin a revision|is not a name on the hub|cannot read the options"):
        open_corpus(f"hf:{name}")


def test_without_the_library_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'prequential\[hub\]'"):
        open_corpus("hf:a/b@v1")
