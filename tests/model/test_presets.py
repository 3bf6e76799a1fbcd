"""The name of a configuration: the options that give it again."""

import dataclasses
import json

import pytest

from prequential.cli.main import build_parser
from prequential.cli.options import learner_config
from prequential.errors import ConfigError
from prequential.exact.pool import MAX_DEFAULT_THREADS
from prequential.model.presets import DEVICE_PRESETS, PRESETS, PURE, name_of, preset
from prequential.online.costs import MAX_MEMORY_BYTES, check_limits
from prequential.sweeps.ladder import n_weights


@pytest.mark.parametrize("pure", [False, True])
def test_the_name_of_a_preset_are_the_options_that_select_it(pure: bool) -> None:
    for level in (*(PURE if pure else PRESETS), *DEVICE_PRESETS):
        for seed in (0, 7):
            config = preset(level, pure=pure, seed=seed)
            words = (name_of(json.loads(json.dumps(config.to_dict()))) or "").split()
            assert learner_config(build_parser().parse_args(["compress", "FILE", *words])) == config


def test_unknown_presets_are_refused() -> None:
    for level in (0, 10, "gpu-tiny"):
        with pytest.raises(ConfigError, match="gpu-small"):
            preset(level)
    with pytest.raises(ConfigError, match="preset 4 has no GPT; choose 5 to 9"):
        preset(4, pure=True)


def test_the_preset_for_devices_has_the_weights_that_its_help_says_and_fits() -> None:
    config = DEVICE_PRESETS["gpu-small"]
    check_limits(config, MAX_MEMORY_BYTES, n_threads=MAX_DEFAULT_THREADS)
    assert config.gpt is not None
    assert round(n_weights(config.gpt) / 1e6) == 7


def test_another_configuration_has_no_name() -> None:
    config = preset(1)
    assert config.mixer is not None
    changed = dataclasses.replace(config, mixer=dataclasses.replace(config.mixer, table_bits=10))
    assert name_of(changed.to_dict()) is None
    assert name_of({"learner": {"name": "Mine"}}) is None
