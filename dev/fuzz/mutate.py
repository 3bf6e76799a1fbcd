"""Mutation fuzzer: damaged archives decode to the exact original or are refused cleanly, in bounded time and memory.

    python dev/fuzz/mutate.py --count 100000 --seed 1

Each mutant is a small valid archive (seeds.py) with damage to its bytes, or to its parts with correct checksums, so that the
damage reaches the deeper layers. A result is exact if it has the length
and the BLAKE2b digest of the header. The program may leave no file except a correct beginning of the original.
"""

import hashlib
import io
import json
import logging
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from unittest import mock

import fuzzing
from damage import damaged_value
from forge import CODED, RAW, Draft, canonical
from fuzzing import NUMBERS, BrokenRuleError, Report, damaged_bytes, emptied, sandbox
from limits import bounded
from make import stretch
from prequential_codecs.archive import ArchiveReader, summarise
from prequential_corpora.sources import open_corpus
from seeds import MAX_MEMORY_BYTES, RUNTIME, seeds
from watch import confined

import prequential
from prequential.errors import ConfigError, CorruptArchiveError, OutputError, UnsupportedVersionError

# Seeds, repeated by their weight in the draw: GPTs take five times as long.
DRAWN = ["mixer"] * 6 + ["mixed"] * 4 + ["raw"] * 3 + ["empty"] * 2 + ["zeros"] * 3 + ["tree"] * 6 + ["pure", "both"]
REFUSALS = (CorruptArchiveError, UnsupportedVersionError, ConfigError)


@dataclass(frozen=True)
class Mutant:
    """A damaged archive, and the kind of its damage."""

    data: bytes
    how: str


# ---- damage


def mutant(rng: Random) -> Mutant:
    """Draws a mutant."""
    name = rng.choice(DRAWN)
    seed = seeds()[name]
    if rng.random() < 0.7:
        parts = _mutated_parts(Draft.of(seed.archive), rng, name)
        if rng.random() < 0.8:
            return Mutant(parts, "parts, sealed")
        return Mutant(_mutated_bytes(parts, rng), "parts, then bytes")
    # otherwise most damage would be in the header
    kept = len(Draft.of(seed.archive).header()) if rng.random() < 0.6 else 0
    return Mutant(seed.archive[:kept] + _mutated_bytes(seed.archive[kept:], rng), "bytes")


def _mutated_bytes(data: bytes, rng: Random) -> bytes:
    """Damaged bytes; sometimes followed by the rest of another archive."""
    if rng.random() < 0.1:
        other, at = seeds()[rng.choice(DRAWN)].archive, rng.randint(0, len(data))
        data = data[:at] + other[rng.choice((at, rng.randint(0, len(other)))) :]
    return damaged_bytes(data, rng)


def _mutated_parts(draft: Draft, rng: Random, name: str) -> bytes:
    """Damage to one to three fields, with valid checksums."""
    if rng.random() < 0.01 and len(draft.blocks) == 1:
        return stretch(name, rng.choice((draft.n_bytes - 1, draft.n_bytes + 1, 500, 600))).sealed()
    for _ in range(rng.choice((1, 1, 2, 3))):
        change = rng.choice(PART_MUTATIONS if draft.blocks else PART_MUTATIONS[:5])
        change(draft, rng)
    return draft.sealed()


def _change_length(draft: Draft, rng: Random) -> None:
    draft.n_bytes = rng.choice((*NUMBERS, draft.n_bytes + rng.randint(0, 3)))


def _change_digest(draft: Draft, rng: Random) -> None:
    digest = hashlib.blake2b(rng.choice((b"", seeds()[rng.choice(DRAWN)].original)), digest_size=32).digest()
    draft.blake2b = rng.choice((digest, _mutated_bytes(draft.blake2b, rng)[:32].ljust(32, b"\0")))


def _change_text(draft: Draft, rng: Random) -> None:
    draft.text = _mutated_bytes(draft.text, rng)


def _change_config(draft: Draft, rng: Random) -> None:
    with suppress(ValueError, RecursionError):  # it is not JSON any more
        draft.text = canonical(damaged_value(json.loads(draft.text), rng))


def _change_end(draft: Draft, rng: Random) -> None:
    entries = [(len(block.record()) + 4, block.n_bytes) for block in draft.blocks]
    changes = {
        "n_blocks": rng.choice(NUMBERS),
        "entries": rng.choice(
            ([*entries, (rng.choice(NUMBERS), rng.choice(NUMBERS))], rng.sample(entries, len(entries)))
        ),
        "end_bytes": rng.choice(NUMBERS) & 0xFFFFFFFF,
        "tail": rng.randbytes(rng.randint(1, 20)),
        "has_end": False,
    }
    name = rng.choice(list(changes))
    setattr(draft, name, changes[name])


def _change_block(draft: Draft, rng: Random) -> None:
    changes = {"kind": rng.choice((RAW, CODED, rng.randrange(256))), "state_digest": rng.randbytes(8)}
    changes |= {name: rng.choice(NUMBERS) for name in ("n_bytes", "n_symbols", "payload_bytes")}
    name = rng.choice(list(changes))
    setattr(rng.choice(draft.blocks), name, changes[name])


def _change_record(draft: Draft, rng: Random) -> None:
    block = rng.choice(draft.blocks)
    block.damaged = _mutated_bytes(block.record(), rng)


def _change_payload(draft: Draft, rng: Random) -> None:
    block = rng.choice(draft.blocks)
    block.payload = rng.choice((_mutated_bytes(block.payload, rng), rng.randbytes(len(block.payload))))
    if block.kind == CODED and rng.random() < 0.7:
        block.payload = block.payload[: len(block.payload) // 4 * 4]


def _change_order(draft: Draft, rng: Random) -> None:
    block, at = rng.choice(draft.blocks), rng.randrange(len(draft.blocks))
    others = Draft.of(seeds()[rng.choice(DRAWN)].archive).blocks or draft.blocks
    change = rng.randrange(4)
    if change == 0:
        rng.shuffle(draft.blocks)
    elif change == 1:
        draft.blocks.insert(at, block)
    elif change == 2:
        del draft.blocks[at]
        draft.blocks = draft.blocks or [block]
    else:
        draft.blocks[at] = rng.choice(others)


def _change_kind(draft: Draft, rng: Random) -> None:
    """A block with the same payload, declared raw instead of coded or vice versa."""
    block = rng.choice(draft.blocks)
    block.kind = RAW + CODED - block.kind if block.kind in (RAW, CODED) else RAW
    block.payload = block.payload[: block.n_bytes].ljust(min(block.n_bytes, 1 << 12), b"\0")


# The first five need no blocks.
PART_MUTATIONS: list[Callable[[Draft, Random], None]] = [
    _change_length, _change_digest, _change_text, _change_config, _change_end,
    *[_change_block] * 2, *[_change_record] * 4, *[_change_payload] * 3, _change_order, _change_kind,
]  # fmt: skip


# ---- checks


def judged(mutant: Mutant, box: Path, *, to_path: bool) -> str:
    """The outcome: "exact", or the error of the refusal and its layer. Raises all other errors."""
    archive = box / "a.pq"
    archive.write_bytes(mutant.data)
    summary, outcome = None, "exact"
    with bounded(), confined(box), suppress(*REFUSALS[:2]):
        summary = summarise(archive)
    try:
        with bounded(), confined(box):
            digest, n_bytes = _decoded_to_path(archive, box / "out") if to_path else _decoded(mutant.data)
    except REFUSALS as error:
        outcome = f"{type(error).__name__}: {_layer(str(error))}"
    except OutputError as error:  # a file of a folder has a name that the file system does not accept
        outcome = type(error).__name__
        if not to_path:
            raise
    else:
        header = ArchiveReader(io.BytesIO(mutant.data)).header
        if (digest, n_bytes) != (header.blake2b, header.n_bytes):
            raise BrokenRuleError("the output differs from the header's digest or length")
        if summary is None:
            raise BrokenRuleError("decodes, but its summary is refused")
    check_left(box, decoded=to_path and outcome == "exact")
    return outcome


def check_left(box: Path, *, decoded: bool) -> None:
    """Empties the sandbox. Raises BrokenRuleError if it holds more than the archive and the output."""
    names = emptied(box)
    if names != ["a.pq", "out"][: 1 + decoded]:
        raise BrokenRuleError(f"other files were left: {names}")


def _layer(reason: str) -> str:
    """The part of the program that refused an archive; used for the report only."""
    marks = {
        "header: ": "header or configuration",
        "more than the limit": "memory",
        "archive format version": "version",
        "does not follow from the header": "sizes of blocks",
        "prequential doctor": "learner",
        "digest differs from the header": "complete original",
        "end of the archive": "index and end",
        "the file list": "folder",
    }
    return next((layer for mark, layer in marks.items() if mark in reason), "blocks")


def _decoded(data: bytes) -> tuple[bytes, int]:
    original = prequential.decompress(data, runtime=replace(RUNTIME, max_memory_bytes=MAX_MEMORY_BYTES))
    return hashlib.blake2b(original, digest_size=32).digest(), len(original)


def _decoded_to_path(archive: Path, output: Path) -> tuple[bytes, int]:
    prequential.decompress(archive, output, runtime=replace(RUNTIME, max_memory_bytes=MAX_MEMORY_BYTES))
    restored = open_corpus(output).bytes().tobytes() if output.is_dir() else output.read_bytes()
    return hashlib.blake2b(restored, digest_size=32).digest(), len(restored)


# ---- a run

LAYERS = {"exact", "header or configuration", "blocks", "learner", "complete original", "index and end"}


def check_itself(box: Path) -> None:
    """A program that gives other bytes, or leaves a file, breaks a rule."""

    def refuse(*_: object, **__: object) -> bytes:
        (box / "left").touch()
        raise CorruptArchiveError("no")

    for broken in (lambda *_, **__: b"something else", refuse):
        with mock.patch.object(prequential, "decompress", broken):
            try:
                judged(Mutant(seeds()["mixer"].archive, "none"), box, to_path=False)
            except BrokenRuleError:
                emptied(box)
                continue
        raise AssertionError("nothing was noticed")


def run(count: int, report: Report, *, seconds: float = float("inf")) -> Report:
    """Judges `count` mutants, or as many as fit into the time."""
    rng = Random(report.seed)
    for name in DRAWN:  # compiles the kernels, so that it does not count for a mutant
        _decoded(seeds()[name].archive)
    with sandbox() as box:
        check_itself(box)

        def one() -> None:
            drawn, to_path = mutant(rng), rng.random() < 1 / 8
            if not report.judge(drawn.how, lambda: judged(drawn, box, to_path=to_path), drawn.data):
                emptied(box)

        report.repeat(count, seconds, one)
    reached = {outcome.rpartition(": ")[2] for outcome in report.outcomes}
    assert count < 400 or reached >= LAYERS, f"the damage does not reach {LAYERS - reached}"
    return report


if __name__ == "__main__":
    logging.getLogger("prequential").addHandler(logging.NullHandler())  # that an archive takes long is no violation
    sys.exit(fuzzing.main(run, __doc__ or ""))
