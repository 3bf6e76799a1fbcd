"""select: the order as JSON lines, the subset as one file, both complete or absent; and usage errors."""

import json

import pytest
from prequential_corpora.sources import open_corpus

import prequential
from prequential.cli.main import build_parser

PARTS = {f"{i}.txt": b"page %d: the quick brown fox jumps over the lazy dog\n" % i * (3 + i) for i in range(5)}
PARTS |= {"copy.txt": PARTS["4.txt"], "empty.txt": b""}


@pytest.fixture(scope="module")
def folder(small_config, tmp_path_factory):
    folder = tmp_path_factory.mktemp("select")
    (folder / "pages").mkdir()
    for name, content in PARTS.items():
        (folder / "pages" / name).write_bytes(content)
    (folder / "small.json").write_bytes(small_config.read_bytes())
    return folder


OPTIONS = ("--kernels", "fused", "--config", "small.json", "--budget", "600")


@pytest.fixture
def select(folder, monkeypatch, capsys):
    """Runs `prequential select` in the folder in this process; returns stdout."""

    def select(*args):
        monkeypatch.chdir(folder)
        given = build_parser().parse_args(["select", *args])
        assert given.run(given) == 0
        return capsys.readouterr().out

    return select


def lines(text):
    head, *documents = map(json.loads, text.splitlines())
    assert (head["kind"], {d["kind"] for d in documents}) == ("selection", {"document"})
    return head, documents


def test_the_order_and_the_subset_agree_with_the_corpus(run, folder):
    done = run(folder, "select", "pages", *OPTIONS, "--by", "surprise", "-o", "order.jsonl", "--write", "chosen")
    assert (done.returncode, done.stderr) == (0, b"")
    head, documents = lines((folder / "order.jsonl").read_text())
    assert [d["rank"] for d in documents] == list(range(1, 7))
    assert [d["score"] for d in documents] == sorted((d["score"] for d in documents), reverse=True)
    assert (head["n_documents"], head["n_empty"]) == (6, 1)
    with open_corpus(str(folder / "pages")) as corpus:
        source = corpus.bytes().tobytes()
        assert head["corpus"]["blake2b"] == corpus.blake2b
    for d in documents:
        assert source[d["start"] : d["start"] + d["n_bytes"]] == PARTS[d["name"]]
        assert d["score"] == d["bits"] / d["n_bytes"]
    chosen = sorted((d for d in documents if d["selected"]), key=lambda d: d["start"])
    assert (folder / "chosen").read_bytes() == b"".join(PARTS[d["name"]] for d in chosen)
    assert head["selected_bytes"] == (folder / "chosen").stat().st_size <= 600
    assert prequential.Config.from_dict(head["config"]).gpt is None
    assert b"of 6 documents chosen" in done.stdout


def test_with_json_the_order_goes_to_standard_output_and_is_the_same_every_time(select):
    first = select("pages", *OPTIONS, "--by", "progress", "--target", "pages/0.txt", "--json")
    assert select("pages", *OPTIONS, "--by", "progress", "--target", "pages/0.txt", "--json") == first
    head, documents = lines(first)
    assert (head["by"], head["target"]["name"], len(documents)) == ("progress", "0.txt", 6)


def test_with_json_and_a_file_both_get_the_order(run, folder):
    done = run(folder, "select", "pages", *OPTIONS, "--by", "surprise", "-o", "both.jsonl", "--json")
    assert done.returncode == 0 and done.stdout == (folder / "both.jsonl").read_bytes()


def test_without_json_a_table_is_printed(select):
    shown = select("pages", *OPTIONS, "--by", "surprise").splitlines()
    assert "of 6 documents chosen" in shown[0] and shown[2].split() == [
        "document",
        "rank",
        "bytes",
        "bits",
        "bits/byte",
        "chosen",
    ]


def test_by_novel_bytes_a_copy_is_last(select):
    documents = lines(select("pages", *OPTIONS, "--by", "novel", "--json"))[1]
    assert (documents[-1]["name"], documents[-1]["bits"]) == ("copy.txt", 0.0)  # after 4.txt in the stream


def test_a_file_is_ranked_by_shards_and_written_by_rank(select, folder):
    out = ("--write", "shards", "--write-order", "rank", "-f")
    shown = select("pages/4.txt", *OPTIONS, "--by", "surprise", "--shard", "100", "--order", "low", "--json", *out)
    documents = lines(shown)[1]
    assert {d["name"] for d in documents} == {f"4.txt:{at}" for at in range(0, len(PARTS["4.txt"]), 100)}
    expected = b"".join(PARTS["4.txt"][d["start"] : d["start"] + d["n_bytes"]] for d in documents if d["selected"])
    assert (folder / "shards").read_bytes() == expected


def test_an_existing_output_is_refused_before_the_work(folder, monkeypatch):
    monkeypatch.chdir(folder)
    (folder / "there").write_bytes(b"mine")
    for option in ("-o", "--write"):
        args = build_parser().parse_args(["select", "missing", *OPTIONS, "--by", "novel", option, "there"])
        with pytest.raises(prequential.PrequentialError, match="'there' exists"):
            args.run(args)
    assert (folder / "there").read_bytes() == b"mine"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--by", "loss"), "invalid choice: 'loss'"),
        ((), "the following arguments are required: --by"),
        (("--by", "novel", "--shard", "0"), "must be at least 1"),
        (("--by", "novel", "-o", "x", "--write", "./x"), "name the same file"),
        (("--by", "novel", "-c"), "unrecognized arguments: -c"),
    ],
)
def test_wrong_options_are_usage_errors(args, message, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    with pytest.raises(SystemExit) as end:
        parsed = build_parser().parse_args(["select", "pages/1.txt", *OPTIONS, *args])
        parsed.run(parsed)
    shown = capsys.readouterr().err
    assert end.value.code == 2
    assert message in shown
    assert len(shown.splitlines()) == 1


def test_a_single_document_is_a_usage_error_with_a_remedy(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    parsed = build_parser().parse_args(["select", "pages/1.txt", *OPTIONS, "--by", "surprise"])
    with pytest.raises(SystemExit) as end:
        parsed.run(parsed)
    assert end.value.code == 2
    assert "is one document: cut it into pieces with --shard BYTES" in capsys.readouterr().err


def test_a_budget_below_every_document_is_refused_before_the_work(folder, monkeypatch):
    monkeypatch.chdir(folder)
    args = build_parser().parse_args(["select", "pages", *OPTIONS, "--by", "surprise", "--budget", "10"])
    with pytest.raises(prequential.ConfigError, match="no document fits into 10 bytes: the shortest has"):
        args.run(args)
