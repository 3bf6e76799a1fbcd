"""transformers.Trainer with a Recorder. python trainer_loop.py [RUNS]. It needs transformers and accelerate."""

import sys
import tempfile

import torch
from plain_loop import batches
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

import prequential


def train(folder: str = "runs") -> prequential.Run:
    torch.manual_seed(0)
    rows = torch.cat(batches())
    shape = {"vocab_size": 256, "n_positions": 129, "n_embd": 64, "n_layer": 2, "n_head": 4}
    model = GPT2LMHeadModel(
        GPT2Config(**shape, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0)
    )
    rec = prequential.Recorder(folder, name="trainer", units="bytes", data="carol")
    with tempfile.TemporaryDirectory() as output:
        trainer = Trainer(
            model,
            TrainingArguments(
                output, per_device_train_batch_size=8, num_train_epochs=1, learning_rate=3e-3, lr_scheduler_type="constant",
                train_sampling_strategy="sequential", save_strategy="no", report_to="none", use_cpu=True, disable_tqdm=True,
            ),
            train_dataset=[{"input_ids": row, "labels": row} for row in rows],
            callbacks=[rec.hf_callback()],  # it scores each batch, saves beside checkpoints, resumes and finishes
        )  # fmt: skip
        trainer.train()
    return rec.finish()


if __name__ == "__main__":
    print(train(*sys.argv[1:]))
