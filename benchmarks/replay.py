"""What a TorchLearner saves by replay: windows of what it has read, from random places, beside the newest one.

    python benchmarks/replay.py [--bytes 100000] [--rows 4] [--seeds 0 1 2]

prints one JSON line for each seed, without replay and with rows - 1 replayed windows: bits a byte of sample:christmas_carol, and
seconds of the processor.
"""

import argparse
import json
import time
from typing import Any

import torch

import prequential
from prequential.adapters import TorchLearner

WINDOW, WIDTH = 128, 64


class GPT(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.ids, self.places = torch.nn.Embedding(256, WIDTH), torch.nn.Embedding(WINDOW, WIDTH)
        layer = torch.nn.TransformerEncoderLayer(WIDTH, 2, 4 * WIDTH, 0.0, batch_first=True, norm_first=True)
        self.layers, self.head = (
            torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False),
            torch.nn.Linear(WIDTH, 256),
        )
        self.mask = torch.nn.Transformer.generate_square_subsequent_mask(WINDOW)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n = x.shape[1]
        return self.head(self.layers(self.ids(x) + self.places.weight[:n], mask=self.mask[:n, :n], is_causal=True))


def measure(n_rows: int, seed: int, n_bytes: int) -> dict[str, Any]:
    def learner() -> TorchLearner:
        torch.manual_seed(seed)
        module = GPT()
        optimiser = torch.optim.AdamW(module.parameters(), lr=2e-3)
        return TorchLearner(module, optimiser, window=WINDOW, rows=n_rows, seed=seed)

    start_s = time.process_time()
    found = prequential.evaluate("sample:christmas_carol", learner=learner, limit=n_bytes, baselines=())
    rate = found.code_bits / found.corpus["n_bytes"]
    cost = {"bits_per_byte": round(rate, 4), "processor_s": round(time.process_time() - start_s, 1)}
    return {"rows": n_rows, "seed": seed, "n_bytes": n_bytes, **cost}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bytes", type=int, default=100_000)
    parser.add_argument("--rows", type=int, default=4)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    args = parser.parse_args()
    torch.set_num_threads(1)
    for seed in args.seeds:
        for n_rows in (1, args.rows):
            print(json.dumps(measure(n_rows, seed, args.bytes)), flush=True)
