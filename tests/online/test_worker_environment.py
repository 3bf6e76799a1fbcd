"""Variables of torchrun that are missing or wrong are named in one line, and workers of one machine listen on loopback."""

import ipaddress
import json
import os
import socket
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest
import torch.distributed as dist

from prequential.cli.main import main
from prequential.errors import ConfigError
from prequential.online.workers import team
from prequential.online.workers.environment import launched, workers
from prequential.online.workers.team import Team, choose_interfaces

PROJECT = Path(__file__).parents[2]
FIRST_OF_TWO = {
    "TORCHELASTIC_RUN_ID": "x", "WORLD_SIZE": "2", "RANK": "0", "LOCAL_WORLD_SIZE": "2", "LOCAL_RANK": "0",
    "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500", "TORCHELASTIC_RESTART_COUNT": "0",
}  # fmt: skip
INTERFACES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")
LOOPBACK = next((name for _, name in socket.if_nameindex() if name in ("lo", "lo0")), "")


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The variables of the first of two workers on this machine, without interfaces."""
    for name in INTERFACES:
        monkeypatch.setenv(name, "")  # so that it is restored
        monkeypatch.delenv(name)
    for name, value in FIRST_OF_TWO.items():
        monkeypatch.setenv(name, value)
    return monkeypatch


# ---- variables


WRONG = (None, "x", "", "-1", "1e3", "٣", "9" * 5000)


@pytest.mark.parametrize("values", [WRONG[:2], pytest.param(WRONG, marks=pytest.mark.thorough)])
def test_a_missing_or_wrong_variable_is_one_line(values, environment, tmp_path, capsys) -> None:
    (tmp_path / "a").write_bytes(b"text")
    for name, value in product(set(FIRST_OF_TWO) - {"TORCHELASTIC_RUN_ID", "LOCAL_RANK"}, values):
        if name == "MASTER_ADDR" and value:  # any text may be an address
            continue
        with environment.context() as changed:
            changed.delenv(name) if value is None else changed.setenv(name, value)
            assert main(["compress", "-5", "-o", str(tmp_path / "b"), str(tmp_path / "a")]) == 1, (name, value)
        said = capsys.readouterr()
        assert said.err.count("\n") == 1 and len(said.err) < 1200
        assert said.err.startswith(f"prequential: TORCHELASTIC_RUN_ID is set, but {name} is ")
        assert said.err.endswith("start this command with torchrun, or unset TORCHELASTIC_RUN_ID\n")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_run_id_alone_is_one_line_for_every_command(environment, capsys) -> None:
    for name in FIRST_OF_TWO:
        if name != "TORCHELASTIC_RUN_ID":
            environment.delenv(name)
    assert main(["list", "a.pq"]) == 1
    assert "WORLD_SIZE is missing" in capsys.readouterr().err


def test_a_rank_of_no_worker_is_refused(environment) -> None:
    environment.setenv("RANK", "2")
    with pytest.raises(ConfigError, match="RANK is not a number from 0 to 1 but '2'"):
        workers()


def test_without_torchrun_the_other_variables_are_not_read(environment) -> None:
    environment.delenv("TORCHELASTIC_RUN_ID")
    environment.setenv("RANK", "x")
    assert workers() == (1, 0) and not launched()


# ---- interfaces


@pytest.mark.skipif(not LOOPBACK, reason="this machine has no loopback interface")
def test_workers_of_one_machine_listen_on_loopback_before_they_connect(environment) -> None:
    seen = []

    def connect(*_: object, **__: object) -> None:
        seen.append([os.environ.get(name) for name in INTERFACES])
        raise KeyboardInterrupt

    environment.setattr(team, "meet", lambda: (dist.HashStore(), 0, 2))
    environment.setattr(dist, "init_process_group", connect)
    with pytest.raises(KeyboardInterrupt):
        Team()
    assert seen == [[LOOPBACK, LOOPBACK]]


def test_an_interface_that_the_user_names_is_kept(environment) -> None:
    environment.setenv("GLOO_SOCKET_IFNAME", "eth7")
    choose_interfaces()
    assert os.environ["GLOO_SOCKET_IFNAME"] == "eth7"
    environment.setenv("LOCAL_WORLD_SIZE", "1")
    choose_interfaces()
    assert os.environ["GLOO_SOCKET_IFNAME"] == "eth7"


def test_workers_on_several_machines_need_an_interface(environment, tmp_path, capsys) -> None:
    (tmp_path / "a").write_bytes(b"text")
    environment.setenv("LOCAL_WORLD_SIZE", "1")
    assert main(["compress", "-5", str(tmp_path / "a"), "-o", str(tmp_path / "b")]) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "name the network interface between them, such as GLOO_SOCKET_IFNAME=eth0" in said
    assert not any(name in os.environ for name in INTERFACES)


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="reads Linux's tables of sockets")
@pytest.mark.parametrize("standalone", [False, True])
@pytest.mark.first_quick
def test_all_sockets_of_workers_are_on_loopback(standalone: bool) -> None:
    """torchrun itself listens on all addresses: one port, and with --standalone a second one. The documents say so."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    how = ["--standalone"] if standalone else ["--master-port", str(port)]
    torchrun = [sys.executable, "-m", "torch.distributed.run", *how, "--nproc-per-node=2"]
    variables = {name: value for name, value in os.environ.items() if name not in INTERFACES}
    child = subprocess.run(
        [*torchrun, str(Path(__file__).with_name("listening_child.py"))],
        env={**variables, "PYTHONPATH": str(PROJECT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert child.returncode == 0, child.stderr
    found = json.loads(child.stdout)
    assert all(found["workers"])
    assert all(ipaddress.ip_address(address).is_loopback for own in found["workers"] for address in own)
    assert len(found["torchrun"]) == 1 + standalone
