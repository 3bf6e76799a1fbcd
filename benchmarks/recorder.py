"""What a Recorder costs: training steps with it and without it, by turns, for models of some sizes.

    python benchmarks/recorder.py [--device cuda] [--models 10M 120M] [--steps 64] [--turns 3]
    python benchmarks/recorder.py --tokens 1000000000

prints one JSON line for each model. For a loop that gives the recorder logits, and for one that gives it the losses that the loop
has anyway: `inside`, the time within the recorder, and `whole`, the longer time of the complete loop, as shares of a bare step
(medians over turns). Both include the reading of all that was queued. On a processor times are of all its threads, so other
programs disturb them little. On a GPU the loop runs under autocast in bfloat16; `inside` is the time of the host, which a GPU
that is busy hides; `whole` is what a user waits.

With --tokens it simulates a run of so many tokens on one process, without a model: what remembering its rows and samples of text
takes in memory and time, and the size of a checkpoint's state and of the curve.
"""

import argparse
import io
import json
import resource
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager, nullcontext
from statistics import median
from typing import Any

import numpy as np
import torch
from torch.nn.functional import cross_entropy

import prequential
from prequential.recording.account import Account, Ranks
from prequential.recording.score import FIELDS, units_of

# width, layers, vocabulary, columns; rows on a processor and on a GPU
SIZES = {
    "10M": (256, 8, 8192, 256, 4, 64), "10M-bytes": (384, 6, 256, 256, 4, 64), "120M": (768, 10, 32000, 512, 2, 32),
}  # fmt: skip


class Model(torch.nn.Module):
    def __init__(self, width: int, n_layers: int, vocabulary: int, columns: int) -> None:
        super().__init__()
        self.ids, self.places = torch.nn.Embedding(vocabulary, width), torch.nn.Embedding(columns, width)
        layer = torch.nn.TransformerEncoderLayer(width, width // 64, 4 * width, 0.0, batch_first=True, norm_first=True)
        self.layers = torch.nn.TransformerEncoder(layer, n_layers, enable_nested_tensor=False)
        self.head = torch.nn.Linear(width, vocabulary)
        self.mask = torch.nn.Transformer.generate_square_subsequent_mask(columns)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.mask = self.mask.to(x.device)
        hidden = self.ids(x) + self.places.weight[: x.shape[1]]
        return self.head(self.layers(hidden, mask=self.mask, is_causal=True))


class Watch:
    """The time between pairs of hooks around those of a recorder, and within its calls."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock, self.inside_s, self._since_s = clock, 0.0, 0.0

    def start(self, *_: Any) -> None:
        self._since_s = self.clock()

    def stop(self, *_: Any) -> None:
        self.inside_s += self.clock() - self._since_s

    @contextmanager
    def running(self) -> Any:
        self.start()
        yield
        self.stop()


def timed_loop(model: Model, optimizer: Any, mode: str, batches: list[torch.Tensor]) -> tuple[float, float]:
    """Seconds of a loop over the batches, and those within its recorder, if any. mode: bare, logits or nll."""
    device = batches[0].device.type
    watch, vocabulary = Watch(time.perf_counter if device == "cuda" else time.process_time), model.head.out_features
    hooks, rec = [model.register_forward_pre_hook(watch.start), optimizer.register_step_post_hook(watch.start)], None
    if mode != "bare":
        options = {"name": mode, "units": [4] * vocabulary, "audit_every": 0}
        rec = prequential.Recorder(tempfile.mkdtemp(), model=model, optimizer=optimizer, **options)
    hooks += [model.register_forward_pre_hook(watch.stop), optimizer.register_step_post_hook(watch.stop)]
    _wait(device)
    start_s = watch.clock()
    for rows in batches:
        _step(model, optimizer, rows[:, :-1], rows[:, 1:], rec, mode, watch)
    if rec:
        with watch.running():
            rec.state_dict()  # reads what is queued
    _wait(device)
    whole_s = watch.clock() - start_s
    for hook in hooks:
        hook.remove()
    if rec:
        rec.finish()
    return whole_s, watch.inside_s


def _step(model: Model, optimizer: Any, x: torch.Tensor, y: torch.Tensor, rec: Any, mode: str, watch: Watch) -> None:
    autocast: AbstractContextManager[Any] = torch.autocast("cuda", torch.bfloat16) if x.is_cuda else nullcontext()
    with autocast:
        logits = model(x)
        losses = cross_entropy(logits.flatten(0, 1), y.flatten(), reduction="none" if mode == "nll" else "mean")
    if rec:
        with watch.running():
            rec.score(targets=y, inputs=x, **({"logits": logits} if mode == "logits" else {"nll": losses}))
    losses.mean().backward()
    optimizer.step()
    optimizer.zero_grad()


def measure(name: str, device: str, n_steps: int, n_turns: int) -> dict[str, object]:
    *shape, n_rows, n_rows_gpu = SIZES[name]
    _, _, vocabulary, columns = shape
    torch.manual_seed(0)
    model = Model(*shape).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    size = (n_rows_gpu if device == "cuda" else n_rows, columns + 1)
    batches = [torch.randint(0, vocabulary, size, device=device) for _ in range(n_steps)]
    found: dict[str, list[tuple[float, float]]] = {mode: [] for mode in ("bare", "logits", "nll")}
    for mode in found:
        timed_loop(model, optimizer, mode, batches[:2])
    for _ in range(n_turns):
        for mode, seconds in found.items():
            seconds.append(timed_loop(model, optimizer, mode, batches))
    bare_s = median(whole_s for whole_s, _ in found["bare"])
    shares = {
        mode: {
            "inside": median(inside_s / bare_s for _, inside_s in found[mode]),
            "whole": median(a / b - 1 for (a, _), (b, _) in zip(found[mode], found["bare"], strict=True)),
        }
        for mode in ("logits", "nll")
    }
    return {
        "model": name, "device": torch.cuda.get_device_name() if device == "cuda" else device,
        "n_parameters": sum(p.numel() for p in model.parameters()), "vocabulary": vocabulary,
        "tokens_a_step": size[0] * columns, "n_steps": n_steps, "step_s": round(bare_s / n_steps, 5),
        **{mode: {key: round(share, 5) for key, share in each.items()} for mode, each in shares.items()},
    }  # fmt: skip


def simulate(n_tokens: int, columns: int = 1024, n_rows: int = 512) -> dict[str, object]:
    """A run of steps of n_rows rows, read every 64 steps, as Account.read does; hashes of rows and samples are random."""
    account, random, start_s = Account(Ranks(), units_of(None, "bytes")), np.random.default_rng(0), time.process_time()
    form = np.dtype([("step", np.int64), *((name, np.int64) for name in FIELDS)])
    n_steps, done = -(-n_tokens // (columns * n_rows)), 0
    while done < n_steps:
        until = min(done + 64, n_steps)
        rows = np.zeros((until - done) * n_rows, form)
        rows["step"] = np.repeat(np.arange(done, until), n_rows)
        rows["key"], rows["targets"] = random.integers(-(1 << 63), 1 << 63, (2, len(rows)))
        rows["tokens"] = rows["bytes"] = columns
        rows["nats"] = np.full(len(rows), 3.0 * columns).view(np.int64)
        account._add(rows, random.integers(-(1 << 63), 1 << 63, (len(rows), columns // 256)), until)
        done = until
    state = io.BytesIO()
    torch.save(account.state(), state)
    return {
        "tokens": n_tokens, "rows": account.totals.new[0], "cpu_s": round(time.process_time() - start_s, 1),
        "peak_MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024, "remembered": len(account._seen),
        "state_MB": round(len(state.getvalue()) / 1e6, 1), "points": len(account.totals.points),
    }  # fmt: skip


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int, default=64)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--models", nargs="+", default=list(SIZES), choices=list(SIZES))
    parser.add_argument("--tokens", type=int, help="simulate a run of so many tokens instead")
    args = parser.parse_args()
    if args.tokens:
        print(json.dumps(simulate(args.tokens)))
    for each in () if args.tokens else args.models:
        print(json.dumps(measure(each, args.device, args.steps, args.turns)), flush=True)
