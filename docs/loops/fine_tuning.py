"""What the labels of a small data set cost a pre-trained model under LoRA, and which part of it is learning.

python fine_tuning.py [RUNS]. It needs transformers and peft. The model is made here: a tiny GPT-2 that reads sentences first.
"""

import json
import random
import sys
import tempfile
from itertools import product
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from torch.nn.functional import cross_entropy
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

import prequential
from prequential.adapters import TransformersLearner
from prequential.decomposition.decompose import expected_curve
from prequential.labels import read_rows

WARM = ["red", "pink", "amber", "gold", "ruby", "rust", "coral", "peach"]
COLD = ["blue", "teal", "navy", "grey", "mint", "aqua", "jade", "cyan"]
ANIMALS = ["fox", "dog", "cat", "owl", "hen", "pig", "cow", "bee"]
TOOLS = ["saw", "axe", "pen", "cup", "box", "pan", "key", "jar"]
VERBS = {True: ["eats", "runs", "sleeps", "drinks"], False: ["falls", "breaks", "rusts", "shines"]}  # is it an animal?
PLACES = {True: "by day", False: "at night"}  # has it a warm colour?
KINDS = {(True, True): "A", (True, False): "B", (False, True): "C", (False, False): "D"}

Ids = list[list[int]]


def sentences() -> list[str]:
    """What the model reads first: the kinds of colours and of nouns are in it, and the letters, but not the rule of the labels."""
    pairs = product(WARM + COLD, ANIMALS + TOOLS, KINDS.values())
    return [
        f"{letter} the {a} {n} {verb} {PLACES[a in WARM]}\n" for a, n, letter in pairs for verb in VERBS[n in ANIMALS]
    ]


def pre_trained(folder: Path, n_steps: int) -> Path:
    """Writes a tokenizer of bytes and a model that has read the sentences for n_steps steps, as `save_pretrained` does."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({letter: i for i, letter in enumerate(letters)}, []))
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    shape = {"vocab_size": 256, "n_positions": 64, "n_embd": 64, "n_layer": 2, "n_head": 4, "initializer_range": 0.15}
    torch.manual_seed(0)
    model = GPT2LMHeadModel(
        GPT2Config(**shape, bos_token_id=0, eos_token_id=0, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    texts, draw = [tokenizer.encode(text).ids for text in sentences()], random.Random(0)
    for _ in range(n_steps):
        x, y = batch(draw.choices(texts, k=32))
        cross_entropy(model(x).logits.flatten(0, 1), y.flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()
    model.save_pretrained(folder)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(folder)
    return folder


def batch(ids: Ids, n_targets: int | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs and targets (rows, columns) of rows of different lengths. n_targets: only so many ids at the end are targets."""
    x, y = torch.zeros(len(ids), 63, dtype=torch.long), torch.full((len(ids), 63), -100)
    for i, row in enumerate(ids):
        n = len(row) - 1
        x[i, :n] = torch.tensor(row[:-1])
        y[i, n - (n_targets or n) : n] = torch.tensor(row[len(row) - (n_targets or n) :])
    return x, y


def write_data(path: Path, n_rows: int, *, shuffled: bool) -> Path:
    """JSON lines. The label is a rule of the text; shuffled: the same labels, on other texts."""
    draw = random.Random(1)
    texts = draw.sample([*product(WARM + COLD, WARM + COLD, ANIMALS + TOOLS)], n_rows)
    labels = [KINDS[second in WARM, noun in ANIMALS] for _, second, noun in texts]
    if shuffled:
        draw.shuffle(labels)
    rows = ({"text": f"the {' '.join(text)}", "label": label} for text, label in zip(texts, labels, strict=True))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def fine_tune(model: Path, data: Path, runs: str, name: str, lr: float = 3e-3) -> prequential.Run:
    """One pass of LoRA over the rows, eight at a time. Only the labels are scored and learned."""
    learner = TransformersLearner(str(model), lora=8, lr=lr)
    texts = [text + b" " + label for text, label in read_rows(data, "label", "text")]
    tokenizer = learner.tokenizer.prepared(texts)
    ids = [tokenizer.encode(text) for text in texts]
    rec = prequential.Recorder(
        runs, name=name, model=learner.module, optimizer=learner.optimiser, tokenizer=str(model / "tokenizer.json"),
        arguments={"lora": 8, "lr": lr}, data=data.stem,
    )  # fmt: skip
    learner.module.train()
    for start in range(0, len(ids), 8):
        x, y = batch(ids[start : start + 8], n_targets=1)
        logits = learner.module(x).logits
        rec.score(logits=logits, targets=y, inputs=x)  # before the step that learns from these rows
        cross_entropy(logits.flatten(0, 1), y.flatten()).backward()
        learner.optimiser.step()
        learner.optimiser.zero_grad()
    return rec.finish()


def measure(runs: str = "runs", n_rows: int = 2048, n_steps: int = 600) -> dict[str, prequential.Run]:
    """Runs of a pre-trained model on true labels and on shuffled ones, and of one that has read nothing."""
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        read, fresh = pre_trained(folder / "read", n_steps), pre_trained(folder / "fresh", 0)
        true = write_data(folder / "labels.jsonl", n_rows, shuffled=False)
        shuffled = write_data(folder / "shuffled.jsonl", n_rows, shuffled=True)
        return {
            "pre-trained": fine_tune(read, true, runs, "pre-trained"),
            "pre-trained, shuffled labels": fine_tune(read, shuffled, runs, "pre-trained"),
            "not pre-trained": fine_tune(fresh, true, runs, "not-pre-trained"),
        }


def table(found: dict[str, prequential.Run]) -> str:
    """The code length of the labels, and the part of it that is learning."""
    lines = [f"{'':30}{'bits':>8}{'bits/label':>12}{'learning':>10}{'at the end':>12}"]
    for name, run in found.items():
        law = expected_curve(run.curves["model"])
        bits, n = run.record["code_bits"], run.record["n_tokens"]
        lines.append(
            f"{name:30}{bits:8,.0f}{bits / n:12.3f}{law.learning_bits.point:10,.0f}{law.final_rate.point:12.3f}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(measure(*sys.argv[1:])))
