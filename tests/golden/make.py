"""Makes the golden archives of this folder. Replaces none."""

from pathlib import Path

import numpy as np
from prequential_corpora.sources import sample_path

import prequential

FOLDER = Path(__file__).parent
TEXT = sample_path("christmas_carol").read_bytes()
NOISE = np.random.default_rng(1).bytes(300)


def make(name: str, data: bytes, config: prequential.Config) -> None:
    with (FOLDER / f"{name}.pq").open("xb") as file:
        file.write(prequential.compress(data, config=config))


for level in range(1, 7):
    make(f"v1-preset{level}", TEXT[: 4000 if level <= 5 else 1500], prequential.preset(level))
make("v1-pure", TEXT[:2000], prequential.preset(5, pure=True))
make("v1-empty", b"", prequential.preset(5))
make("v1-raw", NOISE, prequential.preset(1))
(FOLDER / "v1-raw.bin").write_bytes(NOISE)
