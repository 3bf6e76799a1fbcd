"""Orders and seeds as one population: components of variance, coverage, the files of drawn orders, and the command."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from prequential_corpora.bundled import sample_path
from studies import TINY

from prequential.cli.main import main
from prequential.errors import ConfigError
from prequential.online.source import drawn_order
from prequential.sweeps.orders import order_files, population


@pytest.mark.thorough
@pytest.mark.parametrize(("n_orders", "n_seeds"), [(3, 3), (5, 3), (3, 10), (20, 3)])
@pytest.mark.parametrize("deviations", [(1, 0, 0.3), (1, 1, 0.3), (0, 1, 0.3), (1, 1, 1), (0, 0, 1)], ids=str)
def test_the_interval_covers_the_mean_over_all_orders_and_seeds(n_orders, n_seeds, deviations) -> None:
    random, n, hits = np.random.default_rng([n_orders, n_seeds]), 600, 0
    of_order, of_seed, of_run = deviations
    for _ in range(n):
        rates = 2 + of_order * random.normal(size=(n_orders, 1)) + of_seed * random.normal(size=(1, n_seeds))
        found = population(rates + of_run * random.normal(size=(n_orders, n_seeds)))
        hits += found.low_bits_per_byte <= 2 <= found.high_bits_per_byte
    assert hits >= 0.9 * n


def test_the_components_are_those_of_two_crossed_effects() -> None:
    random = np.random.default_rng(0)
    parts = [
        0.5 * random.normal(size=(200, 1)),
        0.2 * random.normal(size=(1, 200)),
        0.1 * random.normal(size=(200, 200)),
    ]
    found = population(2 + sum(parts))
    assert found.deviations == pytest.approx({"order": 0.5, "seed": 0.2, "rest": 0.1}, rel=0.15)
    assert "over 200 seeds and 200 orders; a single run is off by 0.5" in found.to_text()
    assert found.to_text().endswith("more orders help most")
    orders_only = population(np.array([[1.0], [2.0], [3.0]]))
    assert (orders_only.freedom, orders_only.deviations) == (2.0, {"order": 1.0})
    assert orders_only.high_bits_per_byte == pytest.approx(2 + 4.302653 / np.sqrt(3))
    one = population(np.array([[2.0]]), is_ordered=False)
    assert one.low_bits_per_byte is None and one.to_text().startswith(
        "2.0000 bits/byte over 1 seed and its own order: give 3"
    )
    two = population(np.array([[1.0, 2.0], [3.0, 5.0], [7.0, 4.0]]))
    assert two.high_bits_per_byte is None and two.to_text().endswith("give 3 or more of what varies for an interval")
    equal = population(np.full((3, 4), 2.0))
    assert (equal.low_bits_per_byte, equal.high_bits_per_byte) == (2.0, 2.0)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of six documents in the working folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    text = sample_path("christmas_carol").read_bytes()
    for i in range(6):
        (tmp_path / "docs" / f"{i}.txt").write_bytes(text[900 * i :][: 100 + 20 * i])
    return tmp_path / "docs"


def test_each_file_has_all_documents_in_an_order_of_its_own_and_is_deleted(folder: Path) -> None:
    documents = [path.read_bytes() + b"\0" for path in sorted(folder.iterdir())]
    with order_files(folder, 3) as files:
        found = [(path, path.read_bytes()) for path in files]
        assert not any(path.exists() for path, _ in found)
    assert [data for _, data in found] == [b"".join(documents[i] for i in drawn_order(6, seed)) for seed in range(3)]
    assert len({data for _, data in found}) == 3
    with pytest.raises(ConfigError, match="one document"), order_files(folder / "1.txt", 2):
        pass


@pytest.mark.thorough
def test_the_command_runs_every_order_with_every_seed_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("config.json").write_text(json.dumps(TINY.to_dict()))
    options = "--config config.json --kernels fused --orders 3 --seeds 3 --quiet"
    args = ["evaluate", "docs", *options.split()]
    assert main([*args, "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert (record["kind"], record["n_orders"], record["n_seeds"]) == ("population", 3, 3)
    assert [(run["seed"], run["is_new"]) for run in record["runs"]] == [(0, True), (1, True), (2, True)] * 3
    assert record["low_bits_per_byte"] < record["bits_per_byte"] < record["high_bits_per_byte"]
    assert {"order", "seed", "rest"} == set(record["deviations"])
    assert main(args) == 0
    out = capsys.readouterr().out
    assert re.search(r"expect \d\.\d{4} bits/byte, .* \(95 %\) over 3 seeds and 3 orders; .* help most\n$", out)
    assert len([path for path in Path("runs").iterdir() if path.is_dir()]) == 9  # none was repeated


@pytest.mark.parametrize("option", ["--verify", "--no-run", "--seeds-tried 3", "--given docs"])
def test_options_of_one_run_are_refused(folder: Path, capsys: pytest.CaptureFixture[str], option: str) -> None:
    with pytest.raises(SystemExit):
        main(["evaluate", "docs", "-1", "--orders", "2", *option.split()])
    assert f"make several runs: leave out {option.split()[0]}" in capsys.readouterr().err
