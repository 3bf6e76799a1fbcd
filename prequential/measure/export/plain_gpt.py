"""A GPT that predicts bytes, in plain PyTorch: trained and exported by prequential, and independent of it.

    from gpt import GPT

    model = GPT.load(".")                    # the folder of config.json and model.safetensors
    model.bits_per_byte(b"It was the best of times")
    model(torch.tensor([[0, 73, 116]]))      # logits, in nats, of what follows "", "I" and "It"

h = the sum of embeddings of the last E symbols, a table for each, and of contexts that several symbols make together, rows of one
hashed table. Pre-norm residual layers: h += attention(norm(h)); h += mlp(norm(h)); logits = head(norm(h)). norm divides by the
root mean square; there are no gains or biases. Rotary positions, normalised queries and keys, squared ReLU. A symbol is a byte;
before the first one there was symbol 0.

Letters: B streams, T time, D width, H heads, K = D/H, V symbols, E embeddings, W window, L layers.
"""

import json
import math
from collections.abc import Sequence
from os import PathLike
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, embedding, pad, relu, rms_norm, scaled_dot_product_attention

PEAK = 0.18 * 64  # of a normalised query and key that agree: their dot product is K, and is scaled to this
TURN = 4096  # positions of the slowest rotary pair's turn; the fastest makes 652 turns meanwhile, about a radian a position


def norm(x: Tensor) -> Tensor:
    """x over the root mean square of its last axis."""
    return rms_norm(x, x.shape[-1:], eps=1e-12)


def rotary_angles(n_time: int, n_pairs: int) -> Tensor:
    """(T, K/2): how far each pair is turned at each position, in radians; whole turns in TURN positions."""
    top = 652.0
    waves = [math.floor(top ** ((n_pairs - 1 - i) / max(1, n_pairs - 1)) + 1e-6) for i in range(n_pairs)]
    turns = torch.tensor(waves if n_pairs > 1 else [int(top)])
    return (torch.arange(n_time)[:, None] * turns % TURN) * (2 * math.pi / TURN)


def rotate(x: Tensor, angles: Tensor) -> Tensor:
    """Pairs (i, i + K/2) of the last axis turned by angles (T, K/2)."""
    first, second = x.chunk(2, -1)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)


class Layer(nn.Module):
    """Attention over the last W positions, and an MLP."""

    def __init__(self, width: int, n_heads: int, mlp_factor: int) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.up = nn.Linear(width, mlp_factor * width, bias=False)
        self.down = nn.Linear(mlp_factor * width, width, bias=False)

    def forward(self, h: Tensor, angles: Tensor, seen: Tensor) -> Tensor:
        """(B, T, D) to (B, T, D); seen (T, T): which position sees which."""
        h = h + self.out(self.attention(self.qkv(norm(h)), angles, seen))
        return h + self.down(relu(self.up(norm(h))).square())

    def attention(self, qkv: Tensor, angles: Tensor, seen: Tensor) -> Tensor:
        """(B, T, 3D) to (B, T, D)."""
        n_streams, n_time, _ = qkv.shape
        q, k, v = qkv.view(n_streams, n_time, 3, self.n_heads, -1).permute(2, 0, 3, 1, 4)  # each (B, H, T, K)
        q, k = norm(rotate(q, angles)), norm(rotate(k, angles))
        y = scaled_dot_product_attention(q, k, v, attn_mask=seen, scale=PEAK / q.shape[-1])
        return y.transpose(1, 2).flatten(2)


KINDS = ("2", "3", "4", "5", "6", "word", "word2")
REACH = 16  # symbols that a context may look back


def hashed(a: Tensor, b: Tensor | int) -> Tensor:
    """32 bits of two numbers of 32 bits, int64."""
    h = (a * 0x2F0B4C47 + b * 0x3C6EF35F + 0x7F4A7C15) & 0xFFFFFFFF
    h = ((h ^ (h >> 15)) * 0x2C1B3C6D) & 0xFFFFFFFF
    return h ^ (h >> 13)


def context_rows(hashes: Tensor, kind: str, n_rows: int) -> Tensor:
    """The rows of a table of n_rows, a power of two, where contexts of this kind lie."""
    return (hashed(hashes, KINDS.index(kind) + 1) >> 3) & (n_rows - 1)


def context_hashes(recent: Sequence[Tensor]) -> dict[str, Tensor]:
    """By kind, from the last REACH symbols, newest first: the last 2 .. 6 together; the word so far; it and that before."""
    hashes, h = {}, recent[0] + 1
    for order in range(2, 7):
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


class GPT(nn.Module):
    """See the module's text."""

    def __init__(
        self,
        *,
        n_layers: int,
        width: int,
        n_heads: int,
        mlp_factor: int,
        n_embeddings: int,
        contexts: Sequence[str],
        context_bits: int,
        window: int,
        n_symbols: int = 256,
    ) -> None:
        super().__init__()
        self.window = window
        self.embedding = nn.Parameter(
            torch.zeros(n_embeddings, n_symbols, width)
        )  # (E, V, D), the newest symbol's first
        self.kinds = list(contexts)
        self.contexts = nn.Parameter(torch.zeros(1 << context_bits, width)) if contexts else None
        self.layers = nn.ModuleList(Layer(width, n_heads, mlp_factor) for _ in range(n_layers))
        self.head = nn.Linear(width, n_symbols, bias=False)
        self.n_pairs = width // n_heads // 2

    @classmethod
    def load(cls, folder: str | PathLike[str]) -> "GPT":
        """The model that config.json and model.safetensors of `folder` describe."""
        model = cls(**json.loads((Path(folder) / "config.json").read_text(encoding="utf-8"))["model"])
        model.load_state_dict(load_file(Path(folder) / "model.safetensors"))
        return model.eval()

    def forward(self, symbols: Tensor) -> Tensor:
        """Logits (B, T, V), in nats, of what follows each of symbols (B, T) int64, given it and those before it.

        To predict a stream's first symbol, begin with symbol 0. Memory grows with T * T; what lies further back than
        `memory` symbols changes nothing.
        """
        n_time = symbols.shape[1]
        recent = [pad(symbols, (i, 0))[:, :n_time] for i in range(self.reach)]  # the newest first
        places = zip(recent, self.embedding, strict=False)  # the last E of them
        h = torch.stack([embedding(symbol, table) for symbol, table in places]).sum(0)  # (B, T, D)
        if self.contexts is not None:
            hashes = context_hashes(recent)
            for kind in self.kinds:
                h = h + embedding(context_rows(hashes[kind], kind, len(self.contexts)), self.contexts)
        angles = rotary_angles(n_time, self.n_pairs).to(self.embedding)
        seen = torch.ones(n_time, n_time, dtype=torch.bool, device=symbols.device).tril()
        seen = seen & ~seen.tril(-self.window)  # the last W positions, its own among them
        for layer in self.layers:
            h = layer(h, angles, seen)
        return self.head(norm(h))

    @property
    def memory(self) -> int:
        """How many symbols before the last one a prediction depends on: L * (W - 1), and what its inputs are made of."""
        return len(self.layers) * (self.window - 1) + self.reach - 1

    @property
    def reach(self) -> int:
        """How many of the last symbols an input is made of."""
        return max(len(self.embedding), REACH if self.kinds else 0)

    @torch.no_grad()
    def code_bits(self, data: bytes, n_at_once: int = 1024) -> float:
        """-log2 of the probability of `data`, read as one stream from its beginning, n_at_once positions at a time."""
        symbols = torch.tensor(list(data), device=self.embedding.device)
        before = pad(symbols[:-1], (1, 0))  # what each symbol follows
        bits = 0.0
        for start in range(0, len(symbols), n_at_once):
            first = max(0, start - self.memory)
            logits = self(before[None, first : start + n_at_once])[0, start - first :]
            nats = cross_entropy(logits, symbols[start : start + n_at_once], reduction="none")
            bits += float(nats.double().sum()) / math.log(2)
        return bits

    def bits_per_byte(self, data: bytes) -> float:
        """`code_bits` over the length of `data`, which is not empty."""
        return self.code_bits(data) / len(data)
