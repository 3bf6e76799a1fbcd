"""What a Recorder costs: the time of a training step with it and without it, by turns, for models of some sizes.

    python benchmarks/recorder.py [--device cuda] [--steps 60]

prints one JSON line for each model: parameters, vocabulary, seconds a step without a recorder (median), and the share that the
recorder adds when it scores logits, and when it scores losses that the loop has anyway.
"""

import argparse
import json
import tempfile
import time
from statistics import median

import torch
from torch.nn.functional import cross_entropy

import prequential

SIZES = {"10M": (256, 8, 8192, 4, 256), "100M": (768, 10, 32000, 2, 512)}  # width, layers, vocabulary, rows, columns


class Model(torch.nn.Module):
    def __init__(self, width: int, n_layers: int, vocabulary: int, columns: int) -> None:
        super().__init__()
        self.ids, self.places = torch.nn.Embedding(vocabulary, width), torch.nn.Embedding(columns, width)
        layer = torch.nn.TransformerEncoderLayer(width, width // 64, 4 * width, 0.0, batch_first=True, norm_first=True)
        self.layers = torch.nn.TransformerEncoder(layer, n_layers, enable_nested_tensor=False)
        self.head = torch.nn.Linear(width, vocabulary)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = torch.nn.Transformer.generate_square_subsequent_mask(x.shape[1], device=x.device)
        return self.head(self.layers(self.ids(x) + self.places.weight[: x.shape[1]], mask=mask, is_causal=True))


def measure(name: str, device: str, n_steps: int) -> dict[str, object]:
    width, n_layers, vocabulary, n_rows, columns = SIZES[name]
    torch.manual_seed(0)
    model = Model(width, n_layers, vocabulary, columns).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    modes = ("none", "logits", "nll")
    # Every mode has its own recorder or none, on the same model; the hooks of the others are off while a mode is timed.
    recorders = {
        mode: prequential.Recorder(tempfile.mkdtemp(), name=mode, units=[4] * vocabulary, model=model, audit_every=0)
        for mode in modes[1:]
    }
    seconds: dict[str, list[float]] = {mode: [] for mode in modes}
    for step in range(n_steps * len(modes)):
        mode = modes[step % len(modes)]
        ids = torch.randint(0, vocabulary, (n_rows, columns + 1), device=device)
        x, y = ids[:, :-1], ids[:, 1:]
        start_s = _now(device)
        optimizer.zero_grad()
        logits = model(x)
        if mode == "nll":
            nll = cross_entropy(logits.flatten(0, 1), y.flatten(), reduction="none")
            loss = nll.mean()
        else:
            loss = cross_entropy(logits.flatten(0, 1), y.flatten())
        added_s = 0.0
        if mode != "none":
            before_s = _now(device)
            given = {"logits": logits} if mode == "logits" else {"nll": nll}
            recorders[mode].score(targets=y, inputs=x, **given)
            added_s = _now(device) - before_s
        loss.backward()
        optimizer.step()
        if mode != "none":
            before_s = _now(device)
            recorders[mode].step()
            added_s += _now(device) - before_s
        seconds[mode].append(_now(device) - start_s)
        for other, rec in recorders.items():
            if other != mode:
                rec._account._called.clear()  # this call was not theirs
        if mode != "none" and step >= 2 * len(modes):
            seconds.setdefault(f"{mode} alone", []).append(added_s)
    bare_s = median(seconds["none"])
    shares = {f"share_{mode}": median(seconds[f"{mode} alone"]) / bare_s for mode in modes[1:]}
    return {
        "model": name,
        "device": device,
        "n_parameters": sum(p.numel() for p in model.parameters()),
        "vocabulary": vocabulary,
        "tokens_a_step": n_rows * columns,
        "step_s": bare_s,
        **shares,
    }


def _now(device: str) -> float:
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--models", nargs="+", default=list(SIZES), choices=list(SIZES))
    args = parser.parse_args()
    for each in args.models:
        print(json.dumps(measure(each, args.device, args.steps)), flush=True)
