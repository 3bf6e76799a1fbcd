"""Held-out documents that a training loop scores: the last scores of each name become a record that `compare` reads."""

from collections.abc import Iterable, Mapping, Sequence
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
# Of each document its rows by their hashes: bytes, units of 2**-22 bits, length of their text and its number modulo PRIME.
Sums = dict[str, dict[int, tuple[int, int, int, int]]]
PRIME = (1 << 127) - 1
NOISE, NOISE_NATS = 0.05, 0.05  # by which the loss of one row, scored twice, may differ


def add_documents(sums: Sums, documents: Sequence[Any], scores: Scores, units: Units) -> tuple[int, int]:
    """Adds rows to the sums of their documents, each once: an evaluation may be made again, a sampler fills up its last batch.

    Returns how many had impossible values, and how many the targets of another row, but not its loss; both are left out. Where
    the bytes of ids are known, rows of a document come in its order: its digest is then that of its scored bytes, whatever the
    tokenizer. Raises ConfigError.
    """
    names = [str(each) for each in (documents.tolist() if hasattr(documents, "tolist") else documents)]
    if len(names) != (n_rows := len(scores.targets)):
        raise ConfigError(f"rec.heldout(): {len(names)} documents for {n_rows} rows: give the document of each row")
    rows, _ = on_host([(0, row_sums(scores, units))], FIELDS)
    wrong = np.any(list(impossible_rows(rows).values()), axis=0)
    keys, nats, n_others = mix(rows["key"].view(np.uint64)).tolist(), rows["nats"].view(np.float64).tolist(), 0
    for i in np.flatnonzero(~wrong).tolist():
        known, cost = sums.setdefault(names[i], {}), round(nats[i] * UNITS_PER_NAT)
        if keys[i] in known:
            n_others += abs(known[keys[i]][1] - cost) > NOISE * cost + NOISE_NATS * UNITS_PER_NAT
            continue
        text = b"".join(units.stretches(scores.targets[i].tolist())) if units.pieces else b""
        known[keys[i]] = int(rows["bytes"][i]), cost, len(text), int.from_bytes(text) % PRIME
    return int(wrong.sum()), n_others


def joined(parts: Iterable[Sums]) -> Sums:
    """The sums of all ranks."""
    sums: Sums = {}
    for part in parts:
        for name, rows in part.items():
            known = sums.setdefault(name, {})
            known |= {key: row for key, row in rows.items() if key not in known}
    return sums


def _number(rows: Mapping[int, tuple[int, int, int, int]]) -> int:
    """The number of a document's text or, where the bytes of ids are not known, of its rows: equal for equal documents."""
    number = 0
    for _, _, n, part in rows.values():
        number = (number * pow(256, n, PRIME) + part) % PRIME
    return number or sum(rows) & (1 << 64) - 1


def heldout_record(name: str, sums: Sums, step: int, run: dict[str, Any]) -> dict[str, Any]:
    """A record of held-out loss; documents are in the order of their names. run: the record of the training."""
    ordered = sorted(sums.items())
    sizes = [sum(row[0] for row in rows.values()) for _, rows in ordered]
    bits = [sum(row[1] for row in rows.values()) * UNIT_BITS for _, rows in ordered]
    clusters = cluster(sizes, bits, folders_of([document for document, _ in ordered]))
    group: dict[str, Any] = {"name": name, "n_documents": len(sizes), "n_bytes": sum(sizes), "bits": float(sum(bits))}
    group["bits_per_byte"] = group["bits"] / max(1, group["n_bytes"])
    text = "\n".join(f"{document} {_number(rows)}" for document, rows in ordered)
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
