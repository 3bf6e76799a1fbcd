"""A worker of test_worker_environment: meets the others, then the first one prints where they and torchrun listen, as JSON."""

import json
import os
import socket
from pathlib import Path

from prequential.online.workers.team import Team

LISTENS = "0A"


def addresses(process: int) -> list[str]:
    """The addresses at which a process listens."""
    links = {str(path.readlink()) for path in Path(f"/proc/{process}/fd").iterdir() if path.is_symlink()}
    found = []
    for table, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        path = Path("/proc/net", table)
        for line in path.read_text().splitlines()[1:] if path.exists() else ():
            words = line.split()
            if words[3] == LISTENS and f"socket:[{words[9]}]" in links:
                groups = bytes.fromhex(words[1].split(":")[0])  # words of 32 bits in the order of the host
                packed = b"".join(groups[i : i + 4][::-1] for i in range(0, len(groups), 4))
                found.append(socket.inet_ntop(family, packed))
    return sorted(found)


if __name__ == "__main__":
    team = Team()
    own = json.dumps(addresses(os.getpid())).encode()
    values = [json.loads(value) for value in team.gather(own.ljust(1000))]
    if team.rank == 0:
        print(json.dumps({"workers": values, "torchrun": addresses(os.getppid())}))
    team.leave()
