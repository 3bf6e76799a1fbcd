"""Lightning with a Recorder. python lightning_loop.py [RUNS]. It needs lightning."""

import sys
from typing import Any

import lightning
import torch
from plain_loop import Model, batches

import prequential


class Task(lightning.LightningModule):
    """Learns the next byte."""

    def __init__(self, rec: prequential.Recorder) -> None:
        super().__init__()
        self.model, self.rec = Model(width=48), rec

    def training_step(self, batch: torch.Tensor, index: int) -> torch.Tensor:
        x, y = batch[:, :-1], batch[:, 1:]
        logits = self.model(x)
        self.rec.score(logits=logits, targets=y, inputs=x)
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), y.flatten())

    def configure_optimizers(self) -> Any:
        return torch.optim.AdamW(self.model.parameters(), lr=3e-3)


def train(folder: str = "runs") -> prequential.Run:
    torch.manual_seed(0)
    rec = prequential.Recorder(folder, name="lightning", units="bytes", data="carol")
    task = Task(rec)
    rec.attach(model=task.model)  # its calls are checked
    trainer = lightning.Trainer(
        max_epochs=1, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, callbacks=[rec.lightning_callback()],
    )  # fmt: skip
    trainer.fit(task, torch.utils.data.DataLoader(torch.cat(batches()), batch_size=8))
    return rec.finish()


if __name__ == "__main__":
    print(train(*sys.argv[1:]))
