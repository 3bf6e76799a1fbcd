"""Records of held-out losses compared: the planted difference, pairs of documents, refusals, and files of records."""

import json
from pathlib import Path

import msgspec
import numpy as np
import pytest
from prequential_corpora.corpus import Document

from prequential.comparison.clusters import Clusters
from prequential.comparison.documents import (
    DocumentLosses,
    compare_documents,
    difference_of,
    document_losses,
    read_document_losses,
    sentence,
)
from prequential.errors import CorpusError
from prequential.evaluation.curves import MODEL
from prequential.evaluation.trace import Trace
from prequential.heldout_loss.summary import summarise_heldout
from prequential.records import parse_object

N = 40  # documents
CONFIG = {"seed": 0, "gpt": None, "mixer": {"contexts": ["1"], "table_bits": 10}}


def record(shift: float, *, n: int = N, context: str = "carried", blake2b: str = "ab" * 32, **fields) -> dict:
    """A held-out record of n documents whose bytes cost about 2 bits + shift; only the dynamic and the frozen loss."""
    lengths = np.random.default_rng(1).integers(50, 400, n)
    rates = np.random.default_rng(2).normal(2, 0.4, n) + np.random.default_rng(3).normal(shift, abs(shift) / 4, n)
    ends = np.cumsum(lengths)
    trace = Trace((MODEL,), int(ends[-1]))
    trace.append(MODEL, np.round(np.repeat(rates, lengths) * 2**22) / 2**22)
    documents = [
        Document(f"{i}.txt", int(end - k), int(k)) for i, (end, k) in enumerate(zip(ends, lengths, strict=True))
    ]
    loss = msgspec.to_builtins(summarise_heldout(trace, documents))
    return {
        "schema": 1,
        "kind": "heldout",
        "test": {"name": "test", "n_bytes": int(ends[-1]), "blake2b": blake2b},
        "train": {"name": "train", "n_bytes": 2000},
        "config": CONFIG,
        "policy": f"{context}: in words",
        "frozen": loss,
        "dynamic": loss,
        "untrained": None,
        **fields,
    }


def test_a_planted_difference_has_its_size_and_an_interval_that_excludes_0() -> None:
    a, b = (document_losses(record(shift), name) for shift, name in ((0.0, "a"), (-0.03, "b")))
    (frozen, dynamic) = compare_documents([a, b]).differences
    assert (frozen.loss, dynamic.loss, frozen.clusters.n_documents) == ("frozen", "dynamic", N)
    assert dynamic.bits_per_byte == pytest.approx(-0.03, abs=0.005)
    assert dynamic.equal.low_bits_per_byte < -0.03 < dynamic.equal.high_bits_per_byte < 0 and dynamic.decides
    (back, _) = compare_documents([b, a]).differences
    assert back.equal.low_bits_per_byte == -frozen.equal.high_bits_per_byte


def clusters(n_bytes: list[int], rates: list[float]) -> Clusters:
    bits = tuple(float(n * rate) for n, rate in zip(n_bytes, rates, strict=True))
    return Clusters(n_documents=len(n_bytes), n_bytes=tuple(n_bytes), bits=bits, by="commit")


def test_a_verdict_is_over_commits_of_equal_weight_and_names_a_contrary_largest_one() -> None:
    """STATS: weighted by bytes, the largest of uneven commits hides what all the others say."""
    sizes, rates = [10, 12, 9, 11, 10, 14, 9, 8, 11, 10, 5000], [2.0] * 11
    lower = [2.0 - 0.05 - 0.002 * i for i in range(11)]
    for last, words in (
        (lower[10], ". Take B for commits like these: a commit "),
        (2.01, ", so choose by what you will read: a commit "),
    ):
        difference = difference_of("dynamic", "B", clusters(sizes, rates), clusters(sizes, [*lower[:10], last]))
        assert sentence(difference, "A", "B").count(words) == 1
    assert "B is lower for a mean commit, A over all bytes" in sentence(difference, "A", "B")
    assert difference.clusters.n_effective < 1.1 and difference.clusters.largest_share > 0.97
    divided = difference_of("dynamic", "B", clusters(sizes, rates), clusters(sizes, [1.9, 2.1] * 5 + [1.95]))
    assert "11 commits do not tell which is better, score more" in sentence(divided, "A", "B")


def test_several_models_are_judged_together() -> None:
    sizes, rates = [100] * 6, [2.0] * 6
    some = [2.0 + each for each in (-0.01, -0.03, -0.02, 0.004, -0.01, -0.02)]
    alone = difference_of("dynamic", "B", clusters(sizes, rates), clusters(sizes, some))
    assert alone.decides and 0.02 < alone.equal.p_value < 0.05
    losses = [{"dynamic": clusters(sizes, each)} for each in (rates, some, some, some)]
    test = {"name": "t", "n_bytes": 600, "blake2b": "00"}
    records = [
        DocumentLosses(where="w", learner="l", train="t", test=test, context=None, losses=each) for each in losses
    ]
    assert not any(each.decides for each in compare_documents(records).differences)


def test_records_of_equal_costs_are_equal() -> None:
    report = str(compare_documents([document_losses(record(-0.03), name) for name in "ab"]))
    assert report.splitlines()[-1] == "B and A are equal: they cost the same everywhere"


def test_points_of_two_series_are_compared_as_held_out_records_are() -> None:
    held_out = [record(shift) for shift in (0.0, 0.1)]
    points = []
    for each in held_out:
        setting = {"config": {}, "languages": None, "train_limit_bytes": None, "context": "carried"}
        losses = {name: each["dynamic"] | {"kinds": []} for name in ("frozen", "dynamic", "untrained")}
        points.append({**each, **losses, "kind": "monorepo", "environment": {}, "setting": setting})
    found, expected = (compare_documents([document_losses(each, "x") for each in e]) for e in (points, held_out))
    assert found.differences[:2] == expected.differences


def test_the_report_says_why_there_is_no_interval_or_no_comparison() -> None:
    few = compare_documents([document_losses(record(shift, n=2), "x") for shift in (0.0, 0.1)])
    assert [difference.equal for difference in few.differences] == [None, None]
    assert "but 2 documents say nothing about others: score more documents" in str(few)
    a, b = (document_losses(record(0.0, context=context), context) for context in ("carried", "isolated"))
    other_contexts = compare_documents([a, b])
    assert [difference.loss for difference in other_contexts.differences] == ["dynamic"]
    assert "their contexts are carried and isolated" in str(other_contexts)


def test_the_report_and_the_json_agree() -> None:
    comparison = compare_documents([document_losses(record(shift), f"x.jsonl:{shift}") for shift in (0.0, 0.1, -0.1)])
    report, values = " ".join(str(comparison).split()), json.loads(json.dumps(comparison.to_dict()))
    assert [each["label"] for each in values["records"]] == ["A", "B", "C"]
    for difference in values["differences"]:
        equal = difference["equal"]
        ends = f"{equal['low_bits_per_byte']:+.4f} to {equal['high_bits_per_byte']:+.4f}"
        assert f"{equal['bits_per_byte']:+.4f} {ends} lower in {equal['n_lower']} of {N}" in report
        assert f"{difference['bits_per_byte']:+.4f} exact" in report
    assert "C: 1 contexts, trained on 2,000 bytes of train (x.jsonl:-0.1)" in report


def test_records_of_other_documents_are_refused() -> None:
    cut_elsewhere = record(0.0)
    clusters = cut_elsewhere["dynamic"]["clusters"]
    clusters["n_bytes"][:2] = [clusters["n_bytes"][0] + 1, clusters["n_bytes"][1] - 1]
    for other in (record(0.0, blake2b="cd" * 32), record(0.0, n=N + 1), cut_elsewhere):
        with pytest.raises(CorpusError, match="scored other documents"):
            compare_documents([document_losses(record(0.0), "a"), document_losses(other, "b")])


def test_records_with_other_clusters_are_refused_with_the_remedy() -> None:
    by_commit = with_clusters(by="commit")
    with pytest.raises(CorpusError, match="clusters are a document and a commit: measure both with one cluster="):
        compare_documents([document_losses(record(0.0), "a"), document_losses(by_commit, "b")])


def without_clusters() -> dict:
    old = record(0.0)
    del old["dynamic"]["clusters"]
    return old


def with_clusters(**values) -> dict:
    other = record(0.0)
    other["dynamic"]["clusters"] |= values
    return other


@pytest.mark.parametrize(
    ("bad", "part"),
    [
        ({"kind": "evaluation"}, "not the record"),
        ([], "not the record"),
        (without_clusters(), "missing required field `clusters`"),
        (with_clusters(bits=[1.0]), "do not match"),
        (with_clusters(n_bytes=[0] * N), "do not match"),
        (with_clusters(n_documents=3), "do not match"),
        (with_clusters(n_documents=N, n_bytes=[], bits=[]), "do not match"),
        (with_clusters(n_bytes=["1"] * N), "not a complete record"),
    ],
)
def test_a_bad_record_is_refused_with_its_place(bad, part) -> None:
    with pytest.raises(CorpusError, match=f"f.jsonl:1 .*{part}"):
        document_losses(parse_object(json.dumps(bad).encode(), "f.jsonl:1"), "f.jsonl:1")


def test_a_record_is_found_by_its_number_and_the_last_one_without_a_number(tmp_path: Path) -> None:
    path = tmp_path / "heldout.jsonl"
    path.write_text("".join(json.dumps(record(shift)) + "\n" for shift in (0.0, 0.1, 0.2)))
    expected = [document_losses(record(shift), "").losses for shift in (0.0, 0.1, 0.2)]
    assert [read_document_losses(f"{path}:{i}").losses for i in (1, 2, 3)] == expected
    assert read_document_losses(str(path)).losses == expected[-1]
    assert read_document_losses(str(path)).where == f"{path}:3"
    for name in (f"{path}:0", f"{path}:x", f"{path}x", str(tmp_path / "none.jsonl"), "run"):
        assert read_document_losses(name) is None
    with pytest.raises(CorpusError, match="has 3 records, so there is no record 4"):
        read_document_losses(f"{path}:4")
