"""Data sets of the library `datasets`: as objects, as folders, and from a local hub through the real library."""

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
from typing import Any

import pytest
from prequential_corpora.sources import open_corpus

from prequential.errors import CorpusError
from prequential.online.source import open_source

COMMIT = "e6281661ce1c48d982bc483cf8a173c1bbeb5d31"
FILES = {
    "README.md": b"---\nlicense: mit\n---\n",
    "data/train-0.jsonl": b'{"text": "NA"}\n',
    "data/train-1.jsonl": b'{"text": "2024-01-01T10:00:00Z"}\n{"text": ""}\n',
    "data/test.jsonl": b'{"text": "held out"}\n',
    ".hidden.jsonl": b'{"text": "hidden"}\n',
}


class LocalHub(http.server.BaseHTTPRequestHandler):
    """One data set, owner/texts, with one commit and the tag v1; only the part of the protocol that loading uses."""

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if re.fullmatch(f"/api/datasets/owner/texts(/revision/(v1|{COMMIT}))?", path):
            self.answer_json({"id": "owner/texts", "sha": COMMIT, "siblings": [{"rfilename": name} for name in FILES]})
        elif listed := re.fullmatch(f"/api/datasets/owner/texts/tree/{COMMIT}(/data)?", path):
            folder = {"type": "directory", "path": "data", "oid": "0"}
            files = [{"type": "file", "path": name, "size": len(data), "oid": "0"} for name, data in FILES.items()]
            self.answer_json(
                [folder] * (not listed[1]) + [each for each in files if "data/" in each["path"] or not listed[1]]
            )
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
for name in {{"shards_blake2b", "fingerprint"}} & set(value if isinstance(value, dict) else ()): value[name] = "DIGEST"
print(value)"""
    env = {**os.environ, "HF_HOME": str(home), "HF_HUB_OFFLINE": "0" if hub else "1"}
    env |= {"HF_ENDPOINT": hub} if hub else {}
    command = [sys.executable, "-c", program, spec]
    process = subprocess.run(command, env=env, stdout=-1, stderr=subprocess.STDOUT, text=True, timeout=60)
    return process.stdout.strip().splitlines()[-1]


def test_a_name_is_what_load_dataset_loads_and_a_moving_revision_is_resolved_to_its_commit(
    hub: str, tmp_path: Path
) -> None:
    loaded = {
        "config": "default",
        "split": "train",
        "fingerprint": "DIGEST",
        "column": "text",
        "separator": "\0",
        "n_rows": 3,
    }
    about = {"kind": "dataset", "name": "owner/texts", "revision": "main", "commit": COMMIT}
    assert open_in_new_process("hf:owner/texts?split=train", tmp_path, hub, "describe()") == str(about | loaded)
    expected = r"b'NA\x002024-01-01T10:00:00Z\x00\x00'"
    assert open_in_new_process(f"hf:owner/texts@{COMMIT}?split=train", tmp_path) == expected  # offline
    assert open_in_new_process("hf:owner/texts@v1?split=train&streaming=true", tmp_path, hub) == expected


def test_files_are_the_plain_files_of_a_commit_as_shards(hub: str, tmp_path: Path) -> None:
    assert open_in_new_process("hf:owner/texts@v1?files=data/train-*", tmp_path, hub, "describe()") == str(
        {
            "kind": "dataset", "name": "owner/texts", "revision": "v1", "commit": COMMIT, "files": "data/train-*", "n_shards": 2,
            "n_skipped": 3, "shards_blake2b": "DIGEST", "column": "text", "separator": "\0", "n_rows": 3,
        }
    )  # fmt: skip
    address = f"hf://datasets/owner/texts@{COMMIT}/data/*.jsonl"
    assert open_in_new_process(address, tmp_path, hub) == r"b'held out\x00NA\x002024-01-01T10:00:00Z\x00\x00'"


@pytest.mark.parametrize(
    ("spec", "where", "reason"),
    [
        ("hf:owner/texts", "hub", "the data set has the splits train, test: choose one"),
        ("hf:owner/texts@v2", "hub", "cannot read the data set owner/texts@v2: RevisionNotFoundError"),
        ("hf:owner/texts@v1?files=x", "hub", "'owner/texts' contains no shard"),
        ("hf:squad@v1", "http://127.0.0.1:9", "cannot read the data set squad@v1: "),
        ("hf:squad@v1", None, "cannot read the data set squad@v1: OfflineModeIsEnabled"),
    ],
    ids=["splits", "another revision", "other files", "no connection", "offline"],
)
@pytest.mark.first_quick
def test_what_cannot_be_loaded_is_refused_in_one_line(
    spec: str, where: str | None, reason: str, hub: str, tmp_path: Path
) -> None:
    assert f"CorpusError: {reason}" in open_in_new_process(spec, tmp_path, hub if where == "hub" else where)


@pytest.mark.parametrize("query", ["sed=1", "files=x&split=train", "streaming=yes"])
def test_unknown_and_contrary_options_are_refused(query: str) -> None:
    with pytest.raises(CorpusError, match=r"cannot read the options"):
        open_corpus(f"hf:a/b@v1?{query}")


# ---- objects and folders of the library

ROWS = {"prompt": ["2 + 2?", "NA"], "completion": ["4", "zwölf\r\n"], "n": [1, 2]}
PROMPTS = b"2 + 2?\0NA\0"


@pytest.fixture(scope="module")
def data() -> Any:
    import datasets

    return datasets.Dataset.from_dict(ROWS).with_format("numpy")  # a format does not change the texts


def coded(corpus: Any) -> tuple[bytes, dict[str, Any]]:
    source = open_source(corpus)
    return source.symbols.tobytes(), dict(source.origin)


def test_a_data_set_its_columns_and_its_streams_are_their_texts_as_stored(data: Any) -> None:
    import datasets

    named = data.rename_column("prompt", "text")
    about = {"kind": "dataset", "name": "data set", "config": None, "split": None, "fingerprint": named._fingerprint}
    assert coded(named) == (PROMPTS, about | {"column": "text", "separator": "\0", "n_rows": 2})
    assert coded(named.to_iterable_dataset())[0] == coded(datasets.DatasetDict(train=named))[0] == PROMPTS
    assert coded(data["prompt"])[1]["fingerprint"] == data._fingerprint
    assert coded(data.to_iterable_dataset()["prompt"])[0] == coded(data["prompt"])[0] == PROMPTS
    stream = datasets.IterableDataset.from_generator(lambda: iter([{"text": "a"}, {"text": ""}]))
    assert coded(stream)[0] == b"a\0\0"  # its columns are not known before the first row


def test_what_has_no_text_or_several_is_refused_by_name(data: Any) -> None:
    import datasets

    with pytest.raises(CorpusError, match=r"no column 'text'; choose .* from \['prompt', 'completion'\]$"):
        coded(data)
    with pytest.raises(CorpusError, match="row 1 of the data set: the text is null"):
        coded(datasets.Dataset.from_dict({"text": ["", None]}))
    with pytest.raises(CorpusError, match="the splits train, test: choose one"):
        coded(datasets.DatasetDict(train=data, test=data))


def test_a_folder_of_save_to_disk_is_its_texts_and_no_archive_takes_it_for_its_files(data: Any, tmp_path: Path) -> None:
    import datasets

    datasets.DatasetDict(train=data, test=data.select([0])).save_to_disk(tmp_path / "saved")
    several = f"hf:{tmp_path}/saved?split=train&column=prompt,completion"
    text, about = coded(several)
    assert (text, about["name"]) == ("2 + 2?\n4\0NA\nzwölf\r\n\0".encode(), "saved")
    data.rename_column("prompt", "text").save_to_disk(tmp_path / "one")
    assert coded(tmp_path / "one")[0] == PROMPTS
    with pytest.raises(CorpusError, match=r"cannot hold 'data-.* hf:FOLDER"):
        open_source(tmp_path / "one").check_complete()
    with pytest.raises(CorpusError, match=r"is not a folder of save_to_disk, .*; files of your own are shards:FOLDER"):
        open_corpus(f"hf:{tmp_path}")
