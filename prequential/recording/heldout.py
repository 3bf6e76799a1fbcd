"""Held-out documents that a training loop scores: the last scores of each name become a record that `compare` reads."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from prequential_codecs.bit_coder import UNIT_BITS

from prequential.comparison.clusters import cluster, folders_of
from prequential.errors import ConfigError
from prequential.recording.account import impossible_rows, on_host
from prequential.recording.score import FIELDS, Scores, Units, row_sums
from prequential.recording.totals import UNITS_PER_NAT, mix
from prequential.records import REPORTED, ClusterFields, HeldoutRecord, digest_of, now, record_of

POLICY = "as the loop called the model"
# Of each document: bytes, units of 2**-22 bits, the mixed hashes of its rows, and its bytes as a number modulo PRIME.
Sums = dict[str, list[Any]]
PRIME = (1 << 127) - 1


def checked_name(name: Any) -> str:
    """The name of a set of documents, which becomes part of a file's name. Raises ConfigError."""
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name):
        raise ConfigError(f"rec.heldout(): the name is {name!r}: give letters, digits, dots, dashes or underscores")
    return name


def add_documents(sums: Sums, documents: Sequence[Any], scores: Scores, units: Units) -> int:
    """Adds rows to the sums of their documents; returns how many had impossible values and are left out. Raises ConfigError.

    Where the bytes of ids are known, rows of a document come in its order: its digest is then that of its scored bytes, whatever
    the tokenizer.
    """
    names = [str(each) for each in (documents.tolist() if hasattr(documents, "tolist") else documents)]
    if len(names) != (n_rows := len(scores.targets)):
        raise ConfigError(f"rec.heldout(): {len(names)} documents for {n_rows} rows: give the document of each row")
    rows, _ = on_host([(0, row_sums(scores, units))], FIELDS)
    wrong = np.any(list(impossible_rows(rows).values()), axis=0)
    hashes, nats = mix(rows["targets"].view(np.uint64)), rows["nats"].view(np.float64)
    for i in np.flatnonzero(~wrong):
        total, content = sums.setdefault(names[i], [0, 0, [], 0]), int(hashes[i])
        if content not in total[2]:  # otherwise the step's evaluation is made again
            total[0] += int(rows["bytes"][i])
            total[1] += round(nats[i] * UNITS_PER_NAT)
            total[2].append(content)
            if units.pieces:
                text = b"".join(units.stretches(scores.targets[i].tolist()))
                total[3] = (total[3] * pow(256, len(text), PRIME) + int.from_bytes(text)) % PRIME
    return int(wrong.sum())


def joined(parts: Iterable[Sums]) -> Sums:
    """The sums of all ranks."""
    sums: Sums = {}
    for part in parts:
        for name, values in part.items():
            sums[name] = [a + b for a, b in zip(sums.get(name, [0, 0, [], 0]), values, strict=True)]
    return sums


def heldout_record(name: str, sums: Sums, step: int, run: dict[str, Any]) -> dict[str, Any]:
    """A record of held-out loss; documents are in the order of their names. run: the record of the training."""
    ordered = sorted(sums.items())
    sizes, bits = [values[0] for _, values in ordered], [values[1] * UNIT_BITS for _, values in ordered]
    clusters = cluster(sizes, bits, folders_of([document for document, _ in ordered]))
    group = {"name": name, "n_documents": len(sizes), "n_bytes": sum(sizes), "bits": float(sum(bits))}
    group["bits_per_byte"] = group["bits"] / max(1, group["n_bytes"])
    text = "\n".join(f"{document} {values[3] or sum(values[2]) & (1 << 64) - 1}" for document, values in ordered)
    return record_of(
        HeldoutRecord,
        time=now(),
        train={"name": f"{run['config']['learner']['name']}, step {step}"},
        test={"name": name, "n_bytes": group["n_bytes"], "blake2b": digest_of(text.encode())},
        config=run["config"],
        coding=REPORTED,
        learner_digest=digest_of(repr(bits).encode()),
        policy=POLICY,
        frozen={
            "total": group,
            "documents": group,
            "outside": {"name": "outside", "n_documents": 0, "n_bytes": 0, "bits": 0.0},
            "bits_per_byte": group["bits_per_byte"],
            "clusters": record_of(ClusterFields, clusters, n_bytes=list(clusters.n_bytes), bits=list(clusters.bits)),
        },
        environment=run["environment"],
    )
