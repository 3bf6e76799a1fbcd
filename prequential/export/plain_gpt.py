"""A GPT that predicts bytes, in plain PyTorch. prequential trained and exported it; this file does not need prequential.

    from gpt import GPT

    model = GPT.load(".")                    # the folder with config.json and model.safetensors
    model.bits_per_byte(b"It was the best of times")
    model(torch.tensor([[0, 73, 116]]))      # logits, in nats, of the symbols after "", "I" and "It"

h is the sum of embeddings of the last E symbols, with one table for each position, and of embeddings of contexts, which several
symbols form together and which are rows of one hashed table. Some of these say what followed other contexts in the text that the
model has learned, which `recall` holds. Pre-norm residual layers: h += attention(norm(h));
h += mlp(norm(h)); logits = head(norm(h)). norm divides by the root mean square, without gains or biases. Rotary positions,
normalised queries and keys, squared ReLU. A symbol is a byte. Symbol 0 precedes the first byte.

Letters: B streams, T time, D width, H heads, K = D/H, V symbols, E embeddings, W window, L layers.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, embedding, pad, relu, rms_norm, scaled_dot_product_attention

N_SYMBOLS = 256
PEAK = 0.18 * 64  # the scaled dot product of an equal normalised query and key; unscaled it is K
# positions in one turn of the slowest rotary pair; the fastest makes 652 turns, about 1 radian per position
TURN = 4096


def norm(x: Tensor) -> Tensor:
    """x divided by the root mean square of its last axis."""
    return rms_norm(x, x.shape[-1:], eps=1e-12)


def rotary_angles(n_time: int, n_pairs: int) -> Tensor:
    """(T, K/2): the angle of each pair at each position, in radians. In TURN positions it makes an integer number of turns."""
    top = 652.0
    waves = [math.floor(top ** ((n_pairs - 1 - i) / max(1, n_pairs - 1)) + 1e-6) for i in range(n_pairs)]
    turns = torch.tensor(waves if n_pairs > 1 else [int(top)])
    return (torch.arange(n_time)[:, None] * turns % TURN) * (2 * math.pi / TURN)


def rotate(x: Tensor, angles: Tensor) -> Tensor:
    """Rotates the pairs (i, i + K/2) of the last axis by angles (T, K/2)."""
    first, second = x.chunk(2, -1)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)


class Layer(nn.Module):
    """Attention over the last W positions, and an MLP."""

    def __init__(self, width: int, n_heads: int, mlp_factor: int) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.qkv: nn.Linear = nn.Linear(width, 3 * width, bias=False)
        self.out: nn.Linear = nn.Linear(width, width, bias=False)
        self.up: nn.Linear = nn.Linear(width, mlp_factor * width, bias=False)
        self.down: nn.Linear = nn.Linear(mlp_factor * width, width, bias=False)

    def forward(self, h: Tensor, angles: Tensor, visible: Tensor) -> Tensor:
        """(B, T, D) to (B, T, D). visible (T, T): entry (t, s) says whether position t attends to position s."""
        h = h + self.out(self.attention(self.qkv(norm(h)), angles, visible))
        return h + self.down(relu(self.up(norm(h))).square())

    def attention(self, qkv: Tensor, angles: Tensor, visible: Tensor) -> Tensor:
        """(B, T, 3D) to (B, T, D)."""
        n_streams, n_time, _ = qkv.shape
        q, k, v = qkv.view(n_streams, n_time, 3, self.n_heads, -1).permute(2, 0, 3, 1, 4)  # each (B, H, T, K)
        q, k = norm(rotate(q, angles)), norm(rotate(k, angles))
        y = scaled_dot_product_attention(q, k, v, attn_mask=visible, scale=PEAK / q.shape[-1])
        return y.transpose(1, 2).flatten(2)


HASHED = ("2", "3", "4", "5", "6", "word", "word2")
RECALLED = ("2", "3", "4", "6", "8", "12", "16", "word", "word2")  # the contexts of the tables of `recall`
OTHERS = ("4", "6", "word")
KINDS = (*HASHED, *(f"after{name}" for name in RECALLED), *(f"other{name}" for name in OTHERS))
REACH = 16  # a context depends on at most so many symbols


def hashed(a: Tensor, b: Tensor | int) -> Tensor:
    """A 32-bit hash of two 32-bit numbers, int64."""
    h = (a * 0x2F0B4C47 + b * 0x3C6EF35F + 0x7F4A7C15) & 0xFFFFFFFF
    h = ((h ^ (h >> 15)) * 0x2C1B3C6D) & 0xFFFFFFFF
    return h ^ (h >> 13)


def context_rows(hashes: Tensor, kind: str, n_rows: int) -> Tensor:
    """The rows of contexts of this kind in a table of n_rows rows, a power of two."""
    return (hashed(hashes, KINDS.index(kind) + 1) >> 3) & (n_rows - 1)


def context_hashes(recent: Sequence[Tensor]) -> dict[str, Tensor]:
    """Hashes of contexts by kind, from the last REACH symbols, the newest first.

    The kinds: the last 2 to 16 symbols; the letters of the current word so far; the current word and the word before it.
    """
    hashes, h = {}, recent[0] + 1
    for order in range(2, REACH + 1):
        h = hashes[str(order)] = hashed(h, recent[order - 1] + 1)
    h, n_marks = torch.full_like(recent[0], 7), torch.zeros_like(recent[0])
    hashes["word"] = h
    for symbol in recent:
        capital = (symbol >= 65) & (symbol <= 90)
        letter = capital | ((symbol >= 97) & (symbol <= 122)) | (symbol >= 128)
        n_marks = n_marks + ~letter
        h = torch.where(n_marks < 2, hashed(h, torch.where(letter, symbol + 32 * capital, 1)), h)
        hashes["word"] = torch.where(n_marks == 0, h, hashes["word"])
    return hashes | {"word2": h}


def recalled(hashes: dict[str, Tensor], tables: Tensor) -> dict[str, Tensor]:
    """What followed the contexts before, by kind. tables (len(RECALLED), a power of two) int32, four bytes in each entry.

    The bytes, from the highest: of the context's hash; the symbol before the last that differed from it; how often the last one
    came in succession; the last symbol that followed.
    """
    values = {}
    for name, table in zip(RECALLED, tables, strict=True):
        h = hashes[name]
        entry = table[h & (len(table) - 1)].long() & 0xFFFFFFFF
        known = (entry != 0) & (entry >> 24 == h >> 24)
        values[f"after{name}"] = torch.where(known, entry & 0xFFFF, 0)
        if name in OTHERS:
            repeated = torch.where(entry >> 8 & 255 > 1, 512, 256)
            values[f"other{name}"] = torch.where(known, repeated | entry >> 16 & 255, 0)
    return values


@dataclass(frozen=True, kw_only=True)
class Shape:
    """The shape of a GPT, as config.json stores it."""

    n_layers: int
    width: int
    n_heads: int
    mlp_factor: int
    n_embeddings: int
    contexts: Sequence[str]
    context_bits: int
    window: int


class GPT(nn.Module):
    """The docstring of this file describes the model."""

    contexts: nn.Parameter | None
    layers: nn.ModuleList

    recall: Tensor  # if a kind of context needs it

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        width = shape.width
        self.window: int = shape.window
        # (E, V, D), the newest symbol's first
        self.embedding: nn.Parameter = nn.Parameter(torch.zeros(shape.n_embeddings, N_SYMBOLS, width))
        self.kinds: list[str] = list(shape.contexts)
        self.contexts = nn.Parameter(torch.zeros(1 << shape.context_bits, width)) if shape.contexts else None
        self.recalls: bool = any(kind not in HASHED for kind in self.kinds)
        if self.recalls:
            self.register_buffer("recall", torch.zeros(len(RECALLED), 2 << shape.context_bits, dtype=torch.int32))
        self.layers = nn.ModuleList(Layer(width, shape.n_heads, shape.mlp_factor) for _ in range(shape.n_layers))
        self.head: nn.Linear = nn.Linear(width, N_SYMBOLS, bias=False)
        self.n_pairs: int = width // shape.n_heads // 2

    @classmethod
    def load(cls, folder: str | PathLike[str]) -> "GPT":
        """The model in a folder with config.json and model.safetensors."""
        model = cls(Shape(**json.loads((Path(folder) / "config.json").read_text(encoding="utf-8"))["model"]))
        model.load_state_dict(load_file(Path(folder) / "model.safetensors"))
        return model.eval()

    def forward(self, symbols: Tensor) -> Tensor:
        """Logits (B, T, V), in nats, of the symbol after each of symbols (B, T) int64, given it and the symbols before it.

        To predict the first symbol of a stream, begin with symbol 0. Memory grows with T * T. A logit does not depend on symbols
        more than `memory` positions back.
        """
        n_time = symbols.shape[1]
        recent = [pad(symbols, (i, 0))[:, :n_time] for i in range(self.reach)]  # the newest first
        newest = zip(recent, self.embedding, strict=False)  # the last E symbols
        h = torch.stack([embedding(symbol, table) for symbol, table in newest]).sum(0)  # (B, T, D)
        if self.contexts is not None:
            hashes = context_hashes(recent)
            if self.recalls:
                hashes |= recalled(hashes, self.recall)
            for kind in self.kinds:
                h = h + embedding(context_rows(hashes[kind], kind, len(self.contexts)), self.contexts)
        angles = rotary_angles(n_time, self.n_pairs).to(self.embedding)
        visible = torch.ones(n_time, n_time, dtype=torch.bool, device=symbols.device).tril()
        visible = visible & ~visible.tril(-self.window)  # the last W positions, including its own
        for layer in self.layers:
            h = layer(h, angles, visible)
        return self.head(norm(h))

    @property
    def memory(self) -> int:
        """The number of symbols before the last one that a prediction depends on: L * (W - 1) and the reach of an input."""
        return len(self.layers) * (self.window - 1) + self.reach - 1

    @property
    def reach(self) -> int:
        """The number of last symbols that the input of one position depends on."""
        return max(len(self.embedding), REACH if self.kinds else 0)

    @torch.no_grad()
    def code_bits(self, data: bytes, n_at_once: int = 1024) -> float:
        """-log2 of the probability of `data`, read as one stream from the beginning, n_at_once positions at a time."""
        symbols = torch.tensor(list(data), device=self.embedding.device)
        previous = pad(symbols[:-1], (1, 0))  # the symbol before each symbol
        bits = 0.0
        for start in range(0, len(symbols), n_at_once):
            first = max(0, start - self.memory)
            logits = self(previous[None, first : start + n_at_once])[0, start - first :]
            nats = cross_entropy(logits, symbols[start : start + n_at_once], reduction="none")
            bits += float(nats.double().sum()) / math.log(2)
        return bits

    def bits_per_byte(self, data: bytes) -> float:
        """`code_bits` divided by the length of `data`, which must not be empty."""
        return self.code_bits(data) / len(data)
