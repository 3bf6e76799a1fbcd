"""What a learner has read before the first byte is coded: another text, or a stored model. Then an archive needs it to decode.

The learner reads and learns from the given text as in `train`; nothing of it is coded. The header's configuration holds an entry
`given` with its digest, so that a decoder refuses any other text.
"""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias, TypeGuard

from prequential_codecs.archive_header import GIVEN, Header, name_of_given

from prequential.errors import ConfigError, CorpusError
from prequential.model.config import Config
from prequential.online.coding import config_of
from prequential.online.loop import Learner
from prequential.online.model_store import DESCRIPTION, load_model
from prequential.online.runtime import Runtime
from prequential.online.source import CorpusLike, in_memory, open_source
from prequential.online.training import train

Given: TypeAlias = CorpusLike  # or the folder of a stored model
MAX_HISTORY_BITS, MAX_MATCH_BITS = 28, 25  # 256 MiB each


def is_model(given: Given | None) -> TypeGuard[str | os.PathLike[str]]:
    """Whether it names the folder of a stored model."""
    # Path.is_file raises for a name that is too long
    return isinstance(given, str | os.PathLike) and os.path.isfile(Path(given) / DESCRIPTION)  # noqa: PTH113


def describe(config: Config | None, given: Given, runtime: Runtime) -> dict[str, Any]:
    """The `config` of archives of a learner that has read `given`, as `conditioned_learner` gives it. Nothing learns yet."""
    if is_model(given):
        return conditioned_learner(config, given, runtime)[1]
    if config is None:
        raise ConfigError("a learner that reads a text needs a configuration")
    if isinstance(given, str) and given == "-":  # of an array, == compares elements
        raise ConfigError("a given text is read more than once: save standard input to a file")
    source = open_source(given)
    runtime.check(with_history_for(config, source.n_bytes))
    entry = {"kind": "text", "blake2b": source.blake2b.hex(), "n_symbols": source.n_bytes}
    return {**config.to_dict(), GIVEN: entry}


def with_history_for(config: Config, n_given: int) -> Config:
    """The configuration of a learner that finds matches in a given text of n_given bytes while it reads another as long.

    An archive's header holds `config`: a decoder derives this one.
    """
    n_bits = (2 * n_given - 1).bit_length() if n_given else 0
    schedule, mixer = config.schedule, config.mixer
    schedule = replace(schedule, history_bits=max(schedule.history_bits, min(n_bits, MAX_HISTORY_BITS)))
    if mixer:
        mixer = replace(mixer, match_bits=max(mixer.match_bits, min(n_bits, MAX_MATCH_BITS)))
    return replace(config, schedule=schedule, mixer=mixer)


def conditioned_learner(
    config: Config | None, given: Given, runtime: Runtime, needed: Any = None
) -> tuple[Learner, dict[str, Any]]:
    """A learner that has read `given`, a corpus or a stored model, and the `config` of its archives.

    config: None for a stored model, which has its own. needed: the entry `given` of an archive; another one is refused before it
    is read. Raises what `open_source` and `load_model` raise, and ConfigError for a config that is not the model's.
    """
    given, model = in_memory(given), None
    if is_model(given):
        model = load_model(given, runtime)
        if config not in (None, model.config):
            raise ConfigError("a stored model has a configuration of its own: leave out the one that you gave")
        entry = {"kind": "model", "state_digest": model.digest, "n_symbols": model.learner.n_symbols}
        description = {**model.config.to_dict(), GIVEN: entry}
    else:
        description = describe(config, given, runtime)
    if needed not in (None, description[GIVEN]):
        raise ConfigError(f"the archive needs {name_of_given(needed)}, and given= names another one")
    if model:
        return model.learner, description
    assert config is not None
    learner = runtime.learner(with_history_for(config, description[GIVEN]["n_symbols"]))
    source = open_source(given)
    train(learner, source.symbols)
    if source.blake2b.hex() != description[GIVEN]["blake2b"]:
        raise CorpusError("the given text changed while it was read")
    return learner, description


def learner_of(header: Header, given: Given, runtime: Runtime) -> Learner:
    """The learner that an archive needs, before the first byte. Raises CorruptArchiveError, ConfigError for another `given`."""
    config, needed = config_of(header, knows_given=True), header.config.get(GIVEN)
    if needed is None:
        raise ConfigError("the archive was made without another text: leave out given=")
    return conditioned_learner(config, given, runtime, needed)[0]
