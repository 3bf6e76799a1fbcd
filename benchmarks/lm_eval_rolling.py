"""The loss of a static model by this program and by lm-eval: the same text, the same model, one thread, processor time.

    pip install lm_eval
    python benchmarks/lm_eval_rolling.py [--bytes 60000] [--layers 2] [--width 128]

makes a GPT-2 with random weights and a vocabulary of 50,257, scores documents of about 4,000 bytes, and prints one line: nats
of both, their relative difference, and seconds of processor time of both.
"""

import argparse
import json
import tempfile
import time

import numpy as np
import torch
from prequential_corpora.bundled import sample_path
from prequential_corpora.corpus import Document
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

from prequential.adapters import StaticModel

VOCABULARY, DOCUMENT_BYTES = 50_257, 4_000


def made_model(folder: str, width: int, n_layers: int) -> None:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=8_000, special_tokens=["<|endoftext|>"], initial_alphabet=alphabet)
    tokenizer.train([str(sample_path("christmas_carol"))], trainer)
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<|endoftext|>", eos_token="<|endoftext|>"
    ).save_pretrained(folder)
    torch.manual_seed(0)
    shape = {"n_positions": 1024, "n_embd": width, "n_layer": n_layers, "n_head": width // 64}
    config = GPT2Config(vocab_size=VOCABULARY, **shape, bos_token_id=0, eos_token_id=0)
    GPT2LMHeadModel(config).save_pretrained(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bytes", type=int, default=60_000)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--width", type=int, default=128)
    args = parser.parse_args()
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM

    torch.set_num_threads(1)
    text = sample_path("christmas_carol").read_bytes()[: args.bytes].decode(errors="ignore")
    texts = [text[start : start + DOCUMENT_BYTES] for start in range(0, len(text), DOCUMENT_BYTES)]
    with tempfile.TemporaryDirectory() as folder:
        made_model(folder, args.width, args.layers)
        theirs = HFLM(pretrained=folder, device="cpu", batch_size=1, dtype="float32")
        ours = StaticModel(folder, context="document")
        start_s = time.process_time()
        requests = [Instance("loglikelihood_rolling", {}, (each,), i) for i, each in enumerate(texts)]
        other = -sum(map(float, theirs.loglikelihood_rolling(requests, disable_tqdm=True)))
        middle_s = time.process_time()
        documents = []
        for each in texts:
            documents.append(Document("", sum(d.n_bytes for d in documents), len(each.encode())))
        bits, _ = ours.costs(np.frombuffer("".join(texts).encode(), np.uint8), documents)
        end_s = time.process_time()
    nats = float(bits.sum() * np.log(2))
    found = {
        "n_bytes": len(bits),
        "documents": len(texts),
        "vocabulary": VOCABULARY,
        "nats": nats,
        "lm_eval_nats": other,
    }
    found |= {"relative": nats / other - 1, "cpu_s": end_s - middle_s, "lm_eval_cpu_s": middle_s - start_s}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
