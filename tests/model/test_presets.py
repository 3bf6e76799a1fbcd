"""Configurations: the options that give one again, archives that need every name, and old records that keep their meaning."""

import dataclasses
import json

import pytest

from prequential.cli.main import build_parser
from prequential.cli.options import learner_config
from prequential.errors import ConfigError
from prequential.machine.facts import MAX_DEFAULT_THREADS
from prequential.model.config import Config
from prequential.model.presets import DEFAULT_PRESET, DEVICE_PRESETS, FEATURES, PRESETS, name_of, preset, without
from prequential.online.costs import MAX_MEMORY_BYTES, check_limits, memory_bytes
from prequential.sweeps.ladder import n_weights


@pytest.mark.parametrize("pure", [False, True])
def test_the_name_of_a_preset_are_the_options_that_select_it_and_no_other(pure: bool) -> None:
    for level in (*((DEFAULT_PRESET,) if pure else PRESETS), *DEVICE_PRESETS):
        for seed in (0, 7):
            config = preset(level, pure=pure, seed=seed)
            words = (name_of(json.loads(json.dumps(config.to_dict()))) or "").split()
            assert f"-{level}" in words or str(level) in words
            assert learner_config(build_parser().parse_args(["compress", "FILE", *words])) == config


def test_a_level_may_be_spelled_as_its_option() -> None:
    assert preset("-6") == preset("6") == preset(6) and preset("gpu-small").gpt


def test_unknown_presets_are_refused() -> None:
    for level in (0, 10, "gpu-tiny"):
        with pytest.raises(ConfigError, match="gpu-small"):
            preset(level)
    for level in (4, 6):
        with pytest.raises(ConfigError, match="only preset 5 has a GPT that is used alone"):
            preset(level, pure=True)


def test_the_preset_for_devices_has_the_weights_that_its_help_says_and_fits() -> None:
    config = DEVICE_PRESETS["gpu-small"]
    check_limits(config, memory_bytes(config, n_threads=MAX_DEFAULT_THREADS), MAX_MEMORY_BYTES)
    assert config.gpt is not None
    assert round(n_weights(config.gpt) / 1e6) == 7


def test_another_configuration_has_no_name() -> None:
    config = preset(1)
    assert config.mixer is not None
    changed = dataclasses.replace(config, mixer=dataclasses.replace(config.mixer, table_bits=10))
    assert name_of(changed.to_dict()) is None
    assert name_of({"learner": {"name": "Mine"}}) is None


@pytest.mark.parametrize("values", [None, [], {"gpt": 3}, {}])
def test_values_that_are_not_a_configuration_are_refused(values: object) -> None:
    with pytest.raises(ConfigError):
        Config.from_dict(values)


def test_features_are_removed_in_any_order_and_each_level_with_a_gpt_has_them():
    names = [name for name in FEATURES if name != "mixer"]
    lean = without(preset(6), *names)
    assert without(preset(6), *reversed(names)) == lean != preset(6)
    assert lean.gpt.contexts == () and 0 < len(lean.mixer.contexts) < len(preset(6).mixer.contexts)
    for name in FEATURES:
        less = without(preset(6), name)
        assert sum(getattr(less, part) != getattr(preset(6), part) for part in ("gpt", "mixer", "schedule")) == 1
        with pytest.raises(ConfigError, match=f"no '{name}' that could be removed"):
            without(less, name)


def test_a_feature_that_does_not_exist_is_named():
    with pytest.raises(ConfigError, match="no feature 'reply'; the features are embeddings"):
        without(preset(5), "reply")
