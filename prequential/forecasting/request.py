"""A forecast and its score as results: the one path of the command and of `prequential.forecast`."""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from prequential.arguments import check_arguments
from prequential.errors import ConfigError, CorpusError, check_number
from prequential.evaluation.runs import PathLike, Run, mode_of_all, read_run
from prequential.files import common_mode, output_file
from prequential.forecasting.forecast import (
    Target,
    by_link,
    conclusion,
    forecast_record,
    format_forecast,
    target_digest,
    target_runs,
)
from prequential.forecasting.members import read_ladder
from prequential.forecasting.sealed import format_score, read_sealed, score, score_sentence
from prequential.online.source import mode_of
from prequential.sweeps.ladder import Ladder, Parameters, Size

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, kw_only=True, repr=False)
class ForecastScore:
    """How far a forecast was from the run that it forecast. str() is the report of the command. record: docs/STUDIES.md.

    Examples:
        >>> import prequential
        >>> prequential.ForecastScore(record={"percent": 1.0, "hit": True, "skill": 0.5})
        <The forecast was 1.0 % too high, within its interval; every naive forecast was farther off.>
    """

    record: dict[str, Any]

    def to_frame(self) -> "pandas.DataFrame":
        """One row: point, low, high and actual in bits, percent (forecast over actual, minus 1), hit, skill and more."""
        import pandas

        values = {name: value for name, value in self.record.items() if not isinstance(value, dict)}
        return pandas.DataFrame([values])

    def __str__(self) -> str:
        return format_score(self.record)

    def __repr__(self) -> str:
        return f"<{score_sentence(self.record)}>"


@dataclass(frozen=True, kw_only=True, repr=False)
class Forecast:
    """The total bits of a run that is not made yet, with a 90 % interval. str() is the report of the command.

    record: JSON values with the digest of all others, so that a later change is noticed (docs/STUDIES.md). mode: permissions that
    all files have of which it was made; a file of the forecast gets no others.

    Examples:
        >>> import prequential
        >>> found = prequential.read_forecast("benchmarks/forecasts/enwik8-contexts/forecast.json")
        >>> found.low_bits < found.bits < found.high_bits, found.to_frame().forecast[0]
        (True, 'forecast')
    """

    record: dict[str, Any]
    mode: int = 0o777

    @property
    def bits(self) -> float:
        """The forecast of the ideal code length of the complete target, in bits."""
        return float(self.record["forecasts"]["total_bits"]["point"])

    @property
    def low_bits(self) -> float:
        """The lower end of the interval."""
        return float(self.record["forecasts"]["total_bits"]["low"])

    @property
    def high_bits(self) -> float:
        """The upper end of the interval."""
        return float(self.record["forecasts"]["total_bits"]["high"])

    def to_frame(self) -> "pandas.DataFrame":
        """A row for the forecast, for each link to a proxy that counts, and for each naive forecast: bits and bits_per_byte.

        low_bits, high_bits: of the first row.
        """
        import pandas

        made, n_bytes = self.record["forecasts"]["total_bits"], self.record["target"]["n_bytes"]
        naive = {f"naive: {name.replace('_', ' ')}": bits for name, bits in made["naive"].items()}
        found = {"forecast": self.bits, **by_link(made.get("assumptions", ())), **naive}
        frame = pandas.DataFrame({"forecast": list(found), "bits": list(found.values())})
        ends = {"low_bits": self.low_bits, "high_bits": self.high_bits}
        frame = frame.assign(bits_per_byte=frame["bits"] / n_bytes)
        return frame.join(pandas.DataFrame([ends]))

    def save(self, path: PathLike) -> None:
        """Writes the forecast to a file, for `read_forecast`. Raises OutputError, also for a file that exists."""
        with output_file(path, mode=self.mode) as sink:
            sink.write(json.dumps(self.record, indent=1, sort_keys=True).encode() + b"\n")

    def score(self, run: Run | PathLike) -> ForecastScore:
        """How far it is from the target's run. Nothing is written.

        Raises CorpusError if the run is not the target's, or if it began before the forecast was frozen, unless that was made
        after the fact.
        """
        return ForecastScore(record=score(self.record, run if isinstance(run, Run) else read_run(run)))

    def __str__(self) -> str:
        return format_forecast(self.record)

    def __repr__(self) -> str:
        return f"<{conclusion(self.record)}>"


def read_forecast(path: PathLike) -> Forecast:
    """The forecast in a file. Raises CorpusError if the file holds none, or was changed after it was frozen.

    Examples:
        >>> import prequential
        >>> prequential.read_forecast("benchmarks/forecasts/enwik8-contexts/forecast.json").record["target"]["n_bytes"]
        460000
    """
    check_arguments(path=path)
    return Forecast(record=read_sealed(path), mode=common_mode(path))


def forecast(
    runs: PathLike,
    *,
    target_bytes: int,
    target_width: int | None = None,
    target_layers: int | None = None,
    target_parameters: int | None = None,
    target_seed: int = 0,
    corpus: PathLike | None = None,
    proxies: Sequence[Run | PathLike] = (),
    after_the_fact: bool = False,
) -> Forecast:
    """A forecast of the code length of a larger run, from a ladder of smaller ones. Nothing is written: see `Forecast.save`.

    runs: the folder of a ladder, or a file of packed runs. target_bytes: the length of the corpus that the target reads. Its
    model: target_width and target_layers (default: those of the largest size) of a GPT and target_seed; or target_parameters, for
    a ladder of training loops. corpus: of the target, whose digest is frozen. proxies: cheap runs over the target's bytes.
    after_the_fact: the target may have been run; the record says so.

    Raises ConfigError for a target that the ladder cannot forecast, or that has been run; CorpusError for runs that are no
    ladder, and for a corpus or a proxy of other bytes.

    Examples:
        >>> import prequential
        >>> ladder = "benchmarks/forecasts/enwik8-contexts/ladder.jsonl"
        >>> prequential.forecast(ladder, target_bytes=1_000_000)
        Traceback (most recent call last):
        prequential.errors.ConfigError: name the target's size: target_width= of a GPT, or target_parameters= of a training loop
    """
    check_arguments(runs=runs, after_the_fact=after_the_fact)
    check_number("target_bytes", target_bytes, 1, 1 << 50)
    check_number("target_seed", target_seed, 0, (1 << 63) - 1)
    if (target_width is None) == (target_parameters is None):
        raise ConfigError("name the target's size: target_width= of a GPT, or target_parameters= of a training loop")
    ladder, left_out = read_ladder(runs)
    target = _target(ladder, target_bytes, target_width, target_layers, target_parameters, target_seed)
    if not after_the_fact and (found := target_runs(runs, target, ladder)):
        raise ConfigError(
            f"the target has been run already: {str(found[0].path)!r}; to forecast it nevertheless, give after_the_fact=True, "
            "which the record says"
        )
    opened = [proxy if isinstance(proxy, Run) else read_run(proxy) for proxy in proxies]
    if len({proxy.name for proxy in opened}) < len(opened):
        raise ConfigError("two proxies have one name, so one would be lost: rename one of the folders")
    digest = None if corpus is None else target_digest(os.fspath(corpus), ladder, target)
    for proxy in opened if digest else ():
        if (proxy.record["corpus"]["n_bytes"], proxy.record["corpus"]["blake2b"]) != (target.n_bytes, digest):
            raise CorpusError(
                f"the proxy {str(proxy.path)!r} did not read the target's {target.n_bytes} bytes of {str(corpus)!r}"
            )
    record = forecast_record(
        ladder, target, proxies=opened, target_blake2b=digest, after_the_fact=after_the_fact, left_out=left_out
    )
    mode = mode_of(corpus) & mode_of_all([*(rung.run for rung in ladder.rungs), *opened])
    return Forecast(record=record, mode=mode)


def _target(
    ladder: Ladder, n_bytes: int, width: int | None, n_layers: int | None, parameters: int | None, seed: int
) -> Target:
    if parameters is not None:
        check_number("target_parameters", parameters, 1, 1 << 60)
        return Target(size=Parameters(parameters), n_bytes=n_bytes)
    assert width is not None
    depth = getattr(ladder.sizes[-1], "n_layers", 1) if n_layers is None else n_layers
    for name, value in (("target_width", width), ("target_layers", depth)):
        check_number(name, value, 1, 1 << 20)
    return Target(size=Size(width, int(depth)), n_bytes=n_bytes, seed=seed)
