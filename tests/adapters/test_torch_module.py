"""Modules of torch, models of transformers and classifiers as learners."""

import numpy as np
import own_learners as models
import pytest
import torch
from prequential_corpora.sources import sample_path

import prequential
from prequential.adapters import TorchLearner
from prequential.adapters.text_tokenizer import tokenizer_of
from prequential.errors import CausalityError, ConfigError

TEXT = sample_path("christmas_carol").read_bytes()[:3000]


class Small(torch.nn.Module):
    """A causal convolution over bytes; with `peeks` it sees the next byte."""

    def __init__(self, peeks=False, norm=None):
        super().__init__()
        torch.manual_seed(0)
        self.embedding, self.peeks = torch.nn.Embedding(256, 16), peeks
        self.convolution = torch.nn.Conv1d(16, 32, 3)
        self.head, self.norm = torch.nn.Linear(32, 256), norm

    def forward(self, ids):
        x = self.embedding(ids).transpose(1, 2)
        x = torch.nn.functional.pad(x, (1, 1) if self.peeks else (2, 0))
        x = torch.relu(self.convolution(x))
        if self.norm:
            x = self.norm(x)
        return self.head(x.transpose(1, 2))


def learner(window=32, **settings):
    module = Small(**{k: settings.pop(k) for k in ("peeks", "norm") if k in settings})
    return TorchLearner(module, torch.optim.AdamW(module.parameters(), lr=3e-3), window=window, rows=4, **settings)


def loop_of_ones_own(text, window=32, rows=4):
    """What TorchLearner does, written as a user would: predict a run, add its loss, take a step."""
    module = Small()
    optimiser, random = torch.optim.AdamW(module.parameters(), lr=3e-3), np.random.default_rng(0)
    ids, bits, run = np.frombuffer(text, np.uint8).astype(np.int64), 0.0, window // 2
    for start in range(0, len(ids), run):
        part = ids[start : start + run]
        known = np.concatenate(([0], ids))[max(0, start + len(part) - window + (start > 0)) : start + len(part)]
        module.eval()
        with torch.no_grad():
            rows_of = torch.log_softmax(module(torch.from_numpy(known[None]))[0, -len(part) :].double(), -1)
        bits -= rows_of[torch.arange(len(part)), torch.from_numpy(part)].sum().item() / np.log(2)
        n_seen = start + len(part)
        columns = min(window, n_seen - 1)
        module.train()
        ends = np.concatenate(([n_seen], random.integers(columns, n_seen, rows - 1, endpoint=True)))
        places = ends[:, None] - columns + np.arange(columns)
        logits = module(torch.from_numpy(ids[places - 1]))
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), torch.from_numpy(ids[places]).flatten())
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
    return bits


@pytest.mark.parametrize("as_object", [True, False])
def test_a_module_costs_what_its_own_loop_says_and_its_archive_decodes(as_object):
    text = TEXT[:900]
    result = prequential.evaluate(text, learner=learner() if as_object else learner, baselines=(), verify=True)
    assert result.code_bits == pytest.approx(loop_of_ones_own(text), rel=1e-3)
    assert result.verify_wall_s


@pytest.mark.parametrize(
    "settings",
    [{"peeks": True}, {"norm": torch.nn.InstanceNorm1d(32)}],
    ids=["a convolution without its mask", "a norm over the run"],
)
def test_a_module_that_is_not_causal_is_refused(settings):
    with pytest.raises(CausalityError, match="looks ahead"):
        prequential.evaluate(TEXT, learner=learner(**settings), baselines=())


def test_forward_and_step_can_be_ones_own():
    steps = []

    def step(module, optimiser, inputs, targets):
        steps.append((tuple(inputs.shape), inputs[0, 1:].tolist() == targets[0, :-1].tolist()))

    made = learner(forward=lambda module, ids: (module(ids), "loss")[0], step=step, steps=2)
    prequential.evaluate(TEXT[:100], learner=lambda: made, baselines=())
    assert len(steps) == 2 * 7 and steps[-1] == ((4, 32), True)


def test_what_cannot_be_used_is_one_line():
    module = Small()
    with pytest.raises(ConfigError, match="window >= 2"):
        TorchLearner(module, torch.optim.SGD(module.parameters(), lr=0.1), window=1)
    narrow = torch.nn.Embedding(256, 5)
    with pytest.raises(ConfigError, match="the optimiser has parameters"):
        TorchLearner(narrow, torch.optim.SGD(module.parameters(), lr=0.1), window=8)
    wrong = TorchLearner(narrow, torch.optim.SGD(narrow.parameters(), lr=0.1), window=8)
    with pytest.raises(ConfigError, match=r"a learner predicts 256 symbols \(bytes\), not 5"):
        prequential.evaluate(TEXT, learner=lambda: wrong, baselines=())

    def last_only(module, ids):
        return module(ids)[:, -1:]

    with pytest.raises(ConfigError, match=r"the module gives \(1, 1, 256\) for ids \(1, 32\)"):
        prequential.evaluate(TEXT, learner=lambda: learner(forward=last_only), baselines=())


@pytest.mark.first_quick
def test_a_model_of_transformers_learns_and_has_no_archive(model_folder):
    from prequential.adapters import StaticModel, TransformersLearner

    text = TEXT[:1500]
    result = prequential.evaluate(
        text,
        learner=lambda: TransformersLearner(str(model_folder), lr=3e-3, window=32),
        baselines=[StaticModel(str(model_folder))],
    )
    assert not result.is_coded
    assert result.archive_bytes < result.baselines[0].compressed_bytes  # it learns


def test_low_rank_adapters_learn(model_folder):
    pytest.importorskip("peft")
    from prequential.adapters import TransformersLearner

    made = TransformersLearner(str(model_folder), lr=3e-3, window=32, lora=4)
    learned = sum(p.numel() for p in made.module.parameters() if p.requires_grad)
    assert 0 < learned < 0.5 * sum(p.numel() for p in made.module.parameters())
    assert prequential.evaluate(TEXT[:300], learner=lambda: made, baselines=()).code_bits > 0


# ---- ids, long runs, windows and replay


class OfIds(torch.nn.Module):
    """The next id by the last one; as many places as `positions`."""

    def __init__(self, n_symbols=300, positions=None):
        super().__init__()
        torch.manual_seed(0)
        self.embedding, self.head = torch.nn.Embedding(n_symbols, 8), torch.nn.Linear(8, n_symbols)
        self.places = torch.nn.Embedding(positions, 8) if positions else None

    def forward(self, ids):
        x = self.embedding(ids)
        return self.head(x + self.places(torch.arange(ids.shape[1])) if self.places else x)


def of_ids(tokenizer=None, positions=None, **settings):
    module = OfIds(300 if tokenizer else 256, positions)
    return TorchLearner(module, torch.optim.AdamW(module.parameters(), lr=1e-2), tokenizer=tokenizer, **settings)


@pytest.mark.parametrize("tokenizer", [None, models.Words()], ids=["bytes", "ids"])
def test_a_run_may_be_longer_than_the_window_and_is_predicted_and_learned_as_a_whole(tokenizer):
    learned = []

    def step(module, optimiser, inputs, targets):
        learned.append(targets.clone())

    made = of_ids(tokenizer, window=32, rows=3, run_symbols=500, step=step)
    result = prequential.evaluate(TEXT[:1700], learner=lambda: made, baselines=())
    ids = np.array(tokenizer.encode(TEXT[:1700])) if tokenizer else np.frombuffer(TEXT[:1700], np.uint8)
    assert [len(each) for each in learned[:3]] == [16 + 2] * 3 and len(learned) == -(-len(ids) // 500)
    newest = learned[1][:16].numpy()[::-1].reshape(-1)  # windows of 32 that end with the run
    assert newest[-500:].tolist() == ids[500:1000].tolist()
    with torch.no_grad():  # nothing was learned, so each id costs what the module says from the start
        rows = torch.log_softmax(made.module(torch.from_numpy(np.concatenate(([0], ids[:-1])))[None])[0], -1)
    bits = -rows[torch.arange(len(ids)), torch.from_numpy(ids.astype(np.int64))].sum().item() / np.log(2)
    assert result.code_bits == pytest.approx(bits, rel=1e-3)


def test_nll_is_that_of_the_predictions_for_runs_and_contexts_of_any_length():
    made, ids = of_ids(models.Words(), positions=32, window=32, rows=2), np.array(models.Words().encode(TEXT))
    for n_before in (0, 1, 15, 16, 31, 32, 33, 700):
        for n in (1, 15, 16, 17, 32, 33, 100):
            context, part = ids[:n_before], ids[n_before : n_before + n]
            rows, nats = made.predict(context, part), made.nll(context, part)
            assert rows.shape == (n, 300)
            assert np.allclose(-rows[np.arange(n), part].numpy(), nats.numpy(), atol=1e-5)


def test_a_window_longer_than_the_models_positions_is_refused_before_the_start():
    module = OfIds(256, positions=64)
    optimiser = torch.optim.SGD(module.parameters(), lr=0.1)
    with pytest.raises(ConfigError, match="cannot read a window of 65 symbols: give another window"):
        TorchLearner(module, optimiser, window=65)
    assert TorchLearner(module, optimiser, window=64).n_symbols == 256


def test_tokenizers_of_libraries_and_files_serve_a_torch_learner(tokenizer, tmp_path):
    tiktoken = pytest.importorskip("tiktoken")
    tokenizer.save_pretrained(tmp_path)
    ranks = {bytes([i]): i for i in range(256)} | {b"th": 256, b"the": 257}
    encoding = tiktoken.Encoding("small", pat_str=r"\w+|\W", mergeable_ranks=ranks, special_tokens={"<end>": 258})
    for each in (tokenizer, tokenizer.backend_tokenizer, tmp_path, tmp_path / "tokenizer.json", encoding):
        found = tokenizer_of(each)
        ids = found.encode(TEXT[:500])
        assert ids.dtype == np.int64 and len(ids) < 500
        assert b"".join(found.decode([i]) for i in ids.tolist()) == TEXT[:500]
    assert tokenizer_of(own := models.Words()) is own
    found = prequential.evaluate(TEXT[:500], learner=lambda: of_ids(encoding, window=32), baselines=())
    assert 0 < found.code_bits < 8 * 500 * 2
