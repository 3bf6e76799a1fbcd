"""One text under two tokenizers and in two packings: one digest of its documents, in which what was scored is looked up."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import prequential
from prequential.errors import CorpusError
from prequential.recording.text import CHUNK, Text, sampled

tokenizers = pytest.importorskip("tokenizers")
END = 0  # the id between documents


@pytest.fixture(scope="module")
def documents() -> list[str]:
    text = prequential.sample_path("christmas_carol").read_text()
    return [text[i : i + 700 + 13 * (i % 7)] for i in range(0, 60_000, 2000)]


def _tokenizer(documents: list[str], size: int) -> Any:
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        documents,
        tokenizers.trainers.BpeTrainer(
            vocab_size=size, special_tokens=["<end>"], initial_alphabet=alphabet, show_progress=False
        ),
    )
    return made


def _run(folder: Path, documents: list[str], size: int, columns: int, **options: Any) -> prequential.Run:
    """A run whose losses are known: each byte costs 2 bits (and a token of n bytes n times as much)."""
    tokenizer = _tokenizer(documents, size)
    rec = prequential.Recorder(folder, name=f"bpe-{size}", tokenizer=tokenizer, **options)
    ids = [END, *(i for each in documents for i in [*tokenizer.encode(each).ids, END])]
    sizes = torch.from_numpy(rec._units.n_bytes).clamp(min=0)
    for start in range(0, len(ids) - 1, columns):
        row = torch.tensor(ids[start : start + columns + 1])  # the next row begins with the last id of this one
        x, y = row[None, :-1], row[None, 1:]
        rec.score(nll=sizes[y] * 2.0 * np.log(2.0), targets=y, inputs=x)
        rec.step()
    return prequential.read_run(rec.finish().path)


def test_runs_of_one_text_compare_across_tokenizers_and_packings(tmp_path: Path, documents: list[str]) -> None:
    a = _run(tmp_path, documents, 300, 128, text=documents)
    b = _run(tmp_path, documents, 400, 100, text=list(reversed(documents)))
    text = a.record["reported"]["text"]
    assert text["n_scored_bytes"] == text["n_bytes"] == sum(len(each.encode()) for each in documents)
    assert text["n_samples"] > 20 and text["n_unknown"] == 0
    assert text["digest"] == b.record["reported"]["text"]["digest"]  # the order of documents does not matter
    comparison = prequential.compare([a, b])
    assert comparison.differences[0].percent == pytest.approx(0.0, abs=1e-3)
    assert "one declared text" in str(comparison)


def test_one_changed_byte_another_text_and_unscored_bytes_are_refused(tmp_path: Path, documents: list[str]) -> None:
    a = _run(tmp_path, documents, 300, 128, text=documents)
    changed = [*documents[:-1], documents[-1][:-1] + "#"]
    half = documents[: len(documents) // 2]
    for other, message in (
        (_run(tmp_path, changed, 400, 100, text=changed), "texts that they declare differ"),
        (_run(tmp_path, half, 400, 100, text=documents), "% of the bytes of its text were never scored"),
        (_run(tmp_path, [each[::-1] for each in documents], 400, 100, text=documents), "not in the declared one"),
        (_run(tmp_path, documents, 400, 100), "declares no text"),
    ):
        with pytest.raises(CorpusError, match=message):
            prequential.compare([a, other])


def test_the_digest_is_of_the_documents_and_samples_do_not_depend_on_the_cut(tmp_path: Path) -> None:
    data = np.random.default_rng(0).integers(0, 256, CHUNK + 5000, np.uint8)
    (tmp_path / "one.bin").write_bytes(data.tobytes())
    whole = Text.of(str(tmp_path / "one.bin"))
    assert np.array_equal(whole.samples, np.unique(sampled(data))) and 14_000 < len(whole.samples) < 19_000
    assert whole.count([data[1000:200_000].tobytes()])[1] == 0
    n, unknown = whole.count([data[1000:200_000][::-1].tobytes()])
    assert n > 500 and unknown == n
    assert (
        Text.of([data.tobytes()]).digest
        == Text.of(data.tobytes()).digest
        == whole.digest
        != Text.of([data[1:].tobytes()]).digest
    )


def test_held_out_documents_are_the_same_for_all_tokenizers(tmp_path: Path, documents: list[str]) -> None:
    names = [f"d{i}" for i in range(6)]
    for size, columns in ((300, 64), (400, 50)):
        tokenizer = _tokenizer(documents, size)
        rec = prequential.Recorder(tmp_path, name=f"bpe-{size}", tokenizer=tokenizer)
        rec.score(nll=torch.ones(1, 3), targets=torch.tensor([[5, 6, 7]]))
        rec.step()
        for name, document in zip(names, documents, strict=False):
            for part in torch.tensor(tokenizer.encode(document).ids).split(columns):
                rec.heldout("val", nll=torch.ones(1, len(part)), targets=part[None], documents=[name])
        rec.finish()
    paths = sorted(tmp_path.glob("bpe-*/heldout-val.jsonl"))
    comparison = prequential.compare(list(map(str, paths)))
    assert len(comparison.differences) == 1 and comparison.differences[0].bits_per_byte != 0
