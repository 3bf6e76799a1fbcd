"""The name of a configuration: the options that give it again."""

import dataclasses
import json

import pytest

from prequential.model.presets import PRESETS, PURE, name_of, preset


@pytest.mark.parametrize("pure", [False, True])
def test_the_name_of_a_preset_selects_the_same_configuration(pure: bool) -> None:
    for level in PURE if pure else PRESETS:
        for seed in (0, 7):
            config = preset(level, pure=pure, seed=seed)
            words = (name_of(json.loads(json.dumps(config.to_dict()))) or "").split()
            named = preset(
                int(words[0].removeprefix("-")),
                pure="--pure" in words,
                seed=int(words[-1]) if "--seed" in words else 0,
            )
            assert named == config


def test_another_configuration_has_no_name() -> None:
    config = preset(1)
    assert config.mixer is not None
    changed = dataclasses.replace(config, mixer=dataclasses.replace(config.mixer, table_bits=10))
    assert name_of(changed.to_dict()) is None
    assert name_of({"learner": {"name": "Mine"}}) is None
