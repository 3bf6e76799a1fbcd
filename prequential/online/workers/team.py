"""The processes that torchrun started for one command: how they find each other, and how they exchange values.

Workers trust each other: nobody is authenticated and nothing is encrypted. On one machine they listen on the loopback interface.
"""

import os
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta

import torch
import torch.distributed as dist

from prequential.errors import ConfigError, WorkerLostError
from prequential.online.workers.environment import local_workers, n_restarts, workers

Tensor = torch.Tensor

STEP_TIMEOUT = timedelta(minutes=30)  # for a worker that does not answer; the end of one is noticed at once
BACKEND, WITH_DEVICES = "gloo", "cpu:gloo,cuda:nccl"
GLOO_INTERFACE, NCCL_INTERFACE = "GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"
IDLE_TIMEOUT = timedelta(days=7)  # between two commands of the first worker


def meet() -> tuple[dist.Store, int, int]:
    """The key-value store of all processes of one torchrun, which of them this is, and how many there are."""
    restart = n_restarts()
    with _reaching():
        store, rank, size = next(dist.rendezvous("env://"))
    # torchrun keeps the store when it restarts the workers: entries of the earlier ones must not be read
    return dist.PrefixStore(f"start {restart}", store), rank, size


def choose_interfaces() -> None:
    """Loopback for gloo and NCCL, unless the user has named other interfaces, as for several machines. Raises ConfigError."""
    if GLOO_INTERFACE not in os.environ and local_workers() < workers()[0]:
        raise ConfigError(
            f"these workers are on several machines: name the network interface between them, such as {GLOO_INTERFACE}=eth0; "
            "whoever can connect to it is trusted (docs/MACHINES.md)"
        )
    loopback = [name for _, name in socket.if_nameindex() if name in ("lo", "lo0")]
    for variable in (GLOO_INTERFACE, NCCL_INTERFACE) if loopback and local_workers() == workers()[0] else ():
        os.environ.setdefault(variable, loopback[0])


class Team:
    """The workers of one torchrun, connected by torch.distributed. All of them call every method except `turn`, in one order.

    Methods raise WorkerLostError when another worker has ended, or has not answered for STEP_TIMEOUT.
    """

    rank: int
    size: int

    def __init__(self, *, with_devices: bool = False) -> None:
        """with_devices: also exchange tensors on CUDA devices, by NCCL; each worker has its own device."""
        backend = WITH_DEVICES if with_devices else BACKEND
        self.n_local: int = local_workers()  # workers on this machine
        choose_interfaces()
        store, rank, size = meet()
        with _reaching():
            dist.init_process_group(backend, timeout=STEP_TIMEOUT, store=store, rank=rank, world_size=size)
            self._idle = dist.new_group(timeout=IDLE_TIMEOUT, backend=BACKEND)
        self.rank, self.size = rank, size
        self._lock = threading.RLock()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """One command of the first worker with all its exchanges: no other thread of that worker interrupts it."""
        with self._lock:
            yield

    def leave(self) -> None:
        """Closes the connection in order: gloo's threads must not outlive the interpreter, which they sometimes abort."""
        with _reaching():
            dist.destroy_process_group()

    def send_command(self, command: int, *numbers: int) -> None:
        """From the first worker to all others, which wait in `receive_command`: a command and up to three numbers."""
        message = torch.zeros(4, dtype=torch.int64)
        message[: 1 + len(numbers)] = torch.tensor([command, *numbers])
        self.broadcast(message)

    def receive_command(self) -> list[int]:
        """The first worker's next command and three numbers."""
        message = torch.zeros(4, dtype=torch.int64)
        with _reaching():
            dist.broadcast(message, 0, group=self._idle)
        return [int(n) for n in message]

    def broadcast(self, tensor: Tensor) -> None:
        """Every worker's tensor becomes the first worker's."""
        if tensor.dtype == torch.int16:  # which gloo does not know
            tensor = tensor.view(torch.uint8)
        with _reaching():
            dist.broadcast(tensor, 0, group=self._idle)

    def maximum_(self, magnitudes: Tensor) -> None:
        """float32 >= 0, in place: at each place the maximum over all workers. Such floats are ordered as their bits are."""
        with _reaching():
            dist.all_reduce(magnitudes.view(torch.int32), dist.ReduceOp.MAX)

    def sum_(self, integers: Tensor) -> None:
        """int32, in place: the sum over all workers."""
        with _reaching():
            dist.all_reduce(integers)

    def broadcast_each(self, tensors: Sequence[Tensor]) -> None:
        """tensors[i] becomes worker i's; they may have any sizes."""
        with _reaching():
            for work in [dist.broadcast(t, i, async_op=True) for i, t in enumerate(tensors) if t.numel()]:
                work.wait()

    def gather(self, value: bytes) -> list[bytes]:
        """Every worker's value, all of one length."""
        own = torch.frombuffer(bytearray(value), dtype=torch.uint8)
        values = [torch.empty_like(own) for _ in range(self.size)]
        with _reaching():
            dist.all_gather(values, own)
        return [bytes(v.tolist()) for v in values]


@contextmanager
def _reaching() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        raise WorkerLostError("another worker has ended or does not answer; the run ends") from error
