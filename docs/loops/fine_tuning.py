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
from prequential.heldout_loss.labels import read_rows

WARM = ["red", "pink", "amber", "gold", "ruby", "rust", "coral", "peach"]
COLD = ["blue", "teal", "navy", "grey", "mint", "aqua", "jade", "cyan"]
ANIMALS = ["fox", "dog", "cat", "owl", "hen", "pig", "cow", "bee"]
TOOLS = ["saw", "axe", "pen", "cup", "box", "pan", "key", "jar"]
VERBS = {  # is it an animal?
    True: ["eats", "runs", "sleeps", "drinks", "plays", "hides", "swims", "jumps"],
    False: ["falls", "breaks", "rusts", "shines", "bends", "cracks", "drops", "rattles"],
}
PLACES = {True: "by day", False: "at night"}  # has it a warm colour?
KINDS = {(True, True): "A", (True, False): "B", (False, True): "C", (False, False): "D"}

Ids = list[list[int]]


def sentences() -> dict[str, str]:
    """Each sentence, and the label that the rule gives it."""
    pairs = product(WARM + COLD, ANIMALS + TOOLS)
    return {
        f"the {colour} {noun} {verb} {PLACES[colour in WARM]}": KINDS[colour in WARM, noun in ANIMALS]
        for colour, noun in pairs
        for verb in VERBS[noun in ANIMALS]
    }


def pre_trained(folder: Path, n_steps: int) -> Path:
    """Writes a tokenizer of bytes and a model that has read the sentences, each with any of the labels, for n_steps steps."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({letter: i for i, letter in enumerate(letters)}, []))
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    shape = {"vocab_size": 256, "n_positions": 64, "n_embd": 64, "n_layer": 2, "n_head": 4, "initializer_range": 0.15}
    torch.manual_seed(0)
    model = GPT2LMHeadModel(
        GPT2Config(**shape, bos_token_id=0, eos_token_id=0, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    draw, read = random.Random(0), [tokenizer.encode(f"{a} {b}").ids for a, b in product(sentences(), KINDS.values())]
    for _ in range(n_steps):
        x, y = batch(draw.choices(read, k=32))
        cross_entropy(model(x).logits.flatten(0, 1), y.flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()
    model.save_pretrained(folder)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(folder)
    return folder


def batch(ids: Ids, n_targets: int | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs and targets (rows, columns) of rows of different lengths. n_targets: only so many ids at the end are targets."""
    shape = len(ids), max(map(len, ids)) - 1
    x, y = torch.zeros(shape, dtype=torch.long), torch.full(shape, -100)
    for i, row in enumerate(ids):
        n = len(row) - 1
        x[i, :n] = torch.tensor(row[:-1])
        y[i, n - (n_targets or n) : n] = torch.tensor(row[len(row) - (n_targets or n) :])
    return x, y


def write_data(path: Path, n_rows: int, *, shuffled: bool) -> Path:
    """JSON lines. The label is a rule of the text; shuffled: the same labels, on other texts."""
    draw, rule = random.Random(1), sentences()
    texts = draw.sample([*rule], n_rows)
    labels = [rule[text] for text in texts]
    if shuffled:
        draw.shuffle(labels)
    rows = ({"text": text, "label": label} for text, label in zip(texts, labels, strict=True))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def fine_tune(model: Path, data: Path, runs: str, name: str, lr: float = 3e-3) -> prequential.Run:
    """One pass of LoRA over the rows, four at a time. Only the labels are scored and learned."""
    learner = TransformersLearner(str(model), lora=8, lr=lr, window=64)
    texts = [text + b" " + label for text, label in read_rows(data, "label", "text")]
    ids = [learner.tokenizer.encode(text) for text in texts]
    rec = prequential.Recorder(
        runs, name=name, model=learner.module, optimizer=learner.optimiser, tokenizer=str(model / "tokenizer.json"),
        arguments={"lora": 8, "lr": lr}, data=data.stem,
    )  # fmt: skip
    learner.module.train()
    for start in range(0, len(ids), 4):
        x, y = batch(ids[start : start + 4], n_targets=1)
        logits = learner.module(x).logits
        rec.score(logits=logits, targets=y, inputs=x)  # before the step that learns from these rows
        cross_entropy(logits.flatten(0, 1), y.flatten()).backward()
        learner.optimiser.step()
        learner.optimiser.zero_grad()
    return rec.finish()


def measure(runs: str = "runs", n_rows: int = 1024, n_steps: int = 300) -> dict[str, prequential.Run]:
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
    """The code length of the labels, and its part above the rate of the last tenth."""
    lines = [f"{'':30}{'bits':>8}{'bits/label':>12}{'last tenth':>12}{'above it':>10}"]
    for name, run in found.items():
        bits, n, above = run.record["code_bits"], run.record["n_tokens"], run.curve.split().above_rate_of_last_tenth
        lines.append(f"{name:30}{bits:8,.0f}{bits / n:12.3f}{(bits - above) / n:12.3f}{above:10,.0f}")
    return "\n".join(lines)


if __name__ == "__main__":
    torch.set_num_threads(1)  # two gain nothing at this size
    print(table(measure(*sys.argv[1:])))
