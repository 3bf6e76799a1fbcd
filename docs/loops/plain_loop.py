"""A training loop like nanoGPT's, with a Recorder: five lines are for it. python plain_loop.py [RUNS]"""

import sys

import torch

import prequential


class Model(torch.nn.Module):
    """A small causal transformer over bytes."""

    def __init__(self, width: int = 64, n_layers: int = 2, window: int = 128) -> None:
        super().__init__()
        self.bytes = torch.nn.Embedding(256, width)
        self.places = torch.nn.Embedding(window, width)
        layer = torch.nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = torch.nn.TransformerEncoder(layer, n_layers, enable_nested_tensor=False)
        self.head = torch.nn.Linear(width, 256)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n = x.shape[1]
        mask = torch.nn.Transformer.generate_square_subsequent_mask(n, device=x.device)
        return self.head(self.layers(self.bytes(x) + self.places.weight[:n], mask=mask, is_causal=True))


def batches(n_columns: int = 128, n_rows: int = 8) -> list[torch.Tensor]:
    """The sample text in rows of n_columns + 1 bytes, n_rows at a time."""
    text = torch.frombuffer(
        bytearray(prequential.sample_path("christmas_carol").read_bytes()), dtype=torch.uint8
    ).long()
    rows = text[: len(text) // (n_columns + 1) * (n_columns + 1)].view(-1, n_columns + 1)
    return list(rows[: len(rows) // n_rows * n_rows].view(-1, n_rows, n_columns + 1))


def train(folder: str = "runs") -> prequential.Run:
    torch.manual_seed(0)
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    rec = prequential.Recorder(folder, name="plain-loop", model=model, optimizer=optimizer, units="bytes", data="carol")
    for batch in batches():
        x, y = batch[:, :-1], batch[:, 1:]
        logits = model(x)
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), y.flatten())
        rec.score(logits=logits, targets=y, inputs=x)  # before the step that learns from these rows
        loss.backward()
        optimizer.step()  # the recorder sees it
        optimizer.zero_grad()
    return rec.finish()


if __name__ == "__main__":
    print(train(*sys.argv[1:]))
