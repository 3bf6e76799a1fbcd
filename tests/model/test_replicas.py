"""Replicas: each learns from its share of the rows, and their mean is the mean of GPTs that learn alone from these shares."""

import numpy as np
import pytest
import torch

from prequential import ConfigError
from prequential.exact import plain
from prequential.exact.backend import Backend
from prequential.exact.matmul import Matmul
from prequential.exact.pool import Pool
from prequential.model.config import Config, GPTConfig, MixerConfig, ReplicaConfig
from prequential.model.gpt.gpt import GPT
from prequential.model.gpt.replicas import Replicas

SHAPE = GPTConfig(n_layers=1, width=16, n_heads=1, mlp_factor=2, window=8, warmup_updates=1)
ARGUMENTS = SHAPE, 0, Backend(plain, Matmul("float64"), Pool(1))


def rows(n: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    made = torch.from_numpy(np.random.default_rng(seed).integers(97, 105, (n, 12, SHAPE.n_inputs + 1)))
    return made[..., 1:], made[..., 0], torch.zeros_like(made[..., 0])  # without contexts, places do not matter


def learned(
    n_replicas: int, sync_every: int, n_steps: int, shares: list[slice]
) -> tuple[Replicas, list[dict[str, torch.Tensor]]]:
    """Replicas after some steps, and separate GPTs that learned from the same shares."""
    made = Replicas(ReplicaConfig(n_replicas=n_replicas, sync_every=sync_every), *ARGUMENTS)
    alone = [GPT(*ARGUMENTS) for _ in shares]
    for step in range(n_steps):
        drawn = rows(shares[-1].stop, step)
        made.update(*drawn)
        for gpt, share in zip(alone, shares, strict=True):
            gpt.update(*(part[share] for part in drawn))
    return made, [gpt.learned_state() for gpt in alone]


def test_between_two_means_each_replica_learns_like_a_gpt_from_its_share() -> None:
    made, alone = learned(3, 100, 3, [slice(0, 2), slice(2, 5), slice(5, 7)])
    for one, other in zip((made, *made.others), alone, strict=True):
        for name, tensor in one.learned_state().items():
            assert torch.equal(tensor, other[name]), name


def test_all_become_their_mean() -> None:
    made, (first, second) = learned(2, 2, 2, [slice(0, 2), slice(2, 4)])
    for name, tensor in made.learned_state().items():
        mean = (first[name].double() + second[name].double()).float() * 0.5
        assert torch.equal(tensor, torch.where(mean.abs() < plain.TINY, 0.0, mean)), name
        assert torch.equal(tensor, made.others[0].learned_state()[name]), name
    assert not torch.equal(first["head"], second["head"])
    fresh = GPT(*ARGUMENTS)
    fresh.load_state(made.state() | {"counters": torch.tensor([2, 0])})
    levels = made._weights.inference_tensors()
    for name, tensor in fresh._weights.inference_tensors().items():  # rounded again, from the mean
        assert torch.equal(tensor, levels[name]), name


def test_a_replica_without_rows_waits() -> None:
    made = Replicas(ReplicaConfig(n_replicas=3, sync_every=1), *ARGUMENTS)
    before = made.learned_state()["head"].clone()
    made.update(*rows(1))
    changed = GPT(*ARGUMENTS)
    changed.update(*rows(1))
    total = before + changed.learned_state()["head"] + before
    assert torch.equal(made.learned_state()["head"], total * (1.0 / 3))
    assert {gpt._n_updates for gpt in (made, *made.others)} == {1}


@pytest.mark.parametrize(
    "values", [{"gpt": None, "mixer": MixerConfig()}, {"gpt": GPTConfig(contexts=("2",))}], ids=["no GPT", "contexts"]
)
def test_configurations_without_possible_replicas_are_refused(values: dict) -> None:
    with pytest.raises(ConfigError, match="replicas"):
        Config(**values, replicas=ReplicaConfig())


def test_the_name_replicas_is_in_a_configuration_only_if_there_are_some() -> None:
    config = Config(replicas=ReplicaConfig(n_replicas=4, sync_every=8))
    assert Config.from_dict(config.to_dict()) == config
    assert "replicas" not in Config().to_dict()
    for wrong in (None, {"n_replicas": 1, "sync_every": 8}, {"n_replicas": 2}, 3):
        with pytest.raises(ConfigError):
            Config.from_dict(Config().to_dict() | {"replicas": wrong})
