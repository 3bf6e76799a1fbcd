"""Small tokenizers of every family, made here as their files are: one tokenizer.json for each."""

import json
from functools import partial
from typing import Any

FIRST = "<|endoftext|>"
SPACE = "\u2581"
LINES = [
    "The cat sat on the mat. It was the best of times, it was the worst of times.",
    "Leading spaces, caf\u00e9 and \U0001f642; the end.",
] * 20
HARD = f"  The caf\u00e9 \u00e9, \U0001f642 {FIRST}</s>\r\n\tthe <s>end\n\n of it\u00a0\u0301 "
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
PREPEND = {"type": "Prepend", "prepend": SPACE}
REPLACE = {"type": "Replace", "pattern": {"String": " "}, "content": SPACE}


def _special(ids: dict[str, int]) -> list[dict[str, Any]]:
    return [added(name, i, special=True) for name, i in ids.items()]


def added(content: str, i: int, *, special: bool = False) -> dict[str, Any]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": i, "content": content, **flags, "special": special}


def byte_level(*, add_prefix_space: bool = False) -> dict[str, Any]:
    """As of GPT-2, Llama 3 or Qwen, with an added token of three spaces as of GPT-NeoX."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=add_prefix_space)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        LINES,
        trainers.BpeTrainer(vocab_size=320, special_tokens=[FIRST], initial_alphabet=alphabet, show_progress=False),
    )
    n = made.get_vocab_size()
    described: dict[str, Any] = json.loads(made.to_str())
    described["added_tokens"] += [added("   ", n), added("\u00e9\u00e9", n + 1)]
    return described


def sentencepiece(kind: str) -> dict[str, Any]:
    """`prepend`, as of Llama 2; `first` and `always`: of Metaspace; `older`: Metaspace of earlier files; `gemma`: no space is put
    before a text, and runs of spaces and line ends are tokens.
    """
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

    names = ["<unk>", "<s>", "</s>", *BYTES]
    made = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    made.normalizer = normalizers.Replace(" ", SPACE)
    made.pre_tokenizer = pre_tokenizers.Split(SPACE, "merged_with_next")
    made.train_from_iterator(
        [line.replace("\U0001f642", "") for line in LINES],
        trainers.BpeTrainer(vocab_size=330, special_tokens=names, show_progress=False),
    )
    described: dict[str, Any] = json.loads(made.to_str())
    described["added_tokens"] = _special({name: i for i, name in enumerate(names[:3])})
    described["pre_tokenizer"] = None
    described["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}},
    }
    metaspace = {"type": "Metaspace", "replacement": SPACE}
    if kind == "prepend":
        described["normalizer"] = {"type": "Sequence", "normalizers": [PREPEND, REPLACE]}
    elif kind == "gemma":
        vocab = described["model"]["vocab"]
        for content in ("\n", "\n\n", SPACE * 2):
            described["added_tokens"].append(added(content, vocab.setdefault(content, len(vocab))))
    else:
        more = {"add_prefix_space": True} if kind == "older" else {"prepend_scheme": kind, "split": False}
        described |= {"normalizer": None, "pre_tokenizer": metaspace | more}
    return described


def unigram() -> dict[str, Any]:
    """A unigram model, whose pieces hold the special tokens; with bytes."""
    pieces = [["<unk>", 0.0], ["<s>", 0.0], ["</s>", 0.0], *([name, -20.0] for name in BYTES)]
    letters = sorted({*SPACE, *"".join(LINES).replace(" ", SPACE), *"</s>"} - {"\u00e9", "\U0001f642"})
    pieces += [[letter, -8.0] for letter in letters] + [[f"{SPACE}the", -9.0]]
    return {
        "version": "1.0", "truncation": None, "padding": None, "normalizer": None, "post_processor": None, "decoder": None,
        "added_tokens": _special({"<unk>": 0, "<s>": 1, "</s>": 2}),
        "pre_tokenizer": {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": "always"},
        "model": {"type": "Unigram", "unk_id": 0, "vocab": pieces, "byte_fallback": True},
    }  # fmt: skip


FAMILIES: dict[str, Any] = {
    "byte-level": byte_level,
    "byte-level, space before": partial(byte_level, add_prefix_space=True),
    **{kind: partial(sentencepiece, kind) for kind in ("prepend", "first", "always", "older", "gemma")},
    "unigram": unigram,
}
