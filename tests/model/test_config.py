"""Configurations of other versions: archives need every name, and old records keep their meaning."""

from dataclasses import replace

import pytest

from prequential.errors import ConfigError
from prequential.model.config import GPT_CONTEXTS, Config
from prequential.model.presets import preset

NEW = ("contexts", "context_bits", "context_step")


def before_contexts(config):
    values = config.to_dict()
    values["gpt"] = {name: value for name, value in values["gpt"].items() if name not in NEW}
    return values


def test_a_record_older_than_contexts_is_of_a_gpt_without_them():
    config = replace(preset(5), gpt=replace(preset(5).gpt, contexts=(), context_bits=18, context_step=0.1))
    assert Config.from_record(before_contexts(config)) == config


def test_a_record_of_today_is_read_as_it_is():
    for config in (preset(5, pure=True), preset(1), preset(5)):
        assert Config.from_record(config.to_dict()) == config
    assert Config.from_record(preset(5, pure=True).to_dict()).gpt.contexts == GPT_CONTEXTS


def test_an_archive_must_name_everything():
    with pytest.raises(ConfigError, match="missing"):
        Config.from_dict(before_contexts(preset(5)))


@pytest.mark.parametrize("values", [None, [], {"gpt": 3}, {}])
def test_values_that_are_not_a_configuration_are_refused(values):
    with pytest.raises(ConfigError):
        Config.from_record(values)
