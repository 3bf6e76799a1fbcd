"""Crafted archives. Each contains a false statement. Its checksums are valid, unless they are what the case is about.

The tests make them for each run, so that they follow changes of the format. No file is larger than 100 kB.
"""

import zlib
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from forge import CODED, RAW, START, Draft, Part, canonical, deflated, leb128
from prequential_corpora.tree_restore import MAGIC, MAX_DEPTH, TreeEntry
from seeds import seeds

EXACT = ""  # the reason of a case that must decode


class Case(NamedTuple):
    """A crafted archive. reason: a regular expression for the text of the refusal; EXACT for an archive that must decode."""

    name: str
    data: bytes
    reason: str


@cache
def cases(group: str) -> list[Case]:
    """The crafted archives of one of GROUPS."""
    return [Case(*case) for case in GROUPS[group]()]


Named = Iterator[tuple[str, bytes, str]]


def draft(name: str = "mixer") -> Draft:
    return Draft.of(seeds()[name].archive)


def _changed(seed: str = "mixer", **fields: Any) -> bytes:
    changed = draft(seed)
    for name, value in fields.items():
        assert hasattr(changed, name)
        setattr(changed, name, value)
    return changed.sealed()


# ---- the header


def _starts() -> Named:
    good = seeds()["mixer"].archive
    yield "empty", b"", "ends early"
    yield "magic-alone", START[:8], "ends early"
    yield "foreign", b"PK\3\4" + bytes(200), r"not a \.pq archive"
    yield "text-mode", good.replace(b"\r\n", b"\n", 1), r"not a \.pq archive"
    for version in (0, 2, 0xFFFF):
        yield f"version-{version}", START[:8] + version.to_bytes(2, "little") + good[10:], f"version {version};"
    yield "cut-in-header", good[:40], "ends early"
    assert good[10] == 46  # the length of the original
    for name, varint, reason in (
        ("overlong", leb128(46, 2), "shortest form"),
        ("64-bits", leb128(1 << 63), "exceeds 63 bits"),
        ("endless", b"\xff" * 1000, "exceeds 63 bits"),
    ):
        yield f"n_bytes-{name}", good[:10] + varint + good[11:], reason


def _descriptions() -> Named:
    good = draft()
    for declared in (1 << 16 | 1, 1 << 40, (1 << 63) - 1):
        yield f"description-of-{declared}-bytes", _changed(description_bytes=declared), "exceed the limit"
    yield "description-beyond-file", _changed(description_bytes=60_000), "ends early"
    for name, packed in {
        "nothing": b"",
        "noise": bytes(range(256)),
        "cut": deflated(good.text)[:-3],
        "no-last-block": zlib.compressobj(wbits=-15).flush(zlib.Z_SYNC_FLUSH),
        "tail": deflated(good.text) + b"tail",
        "zlib-header": zlib.compress(good.text),
    }.items():
        yield f"deflate-{name}", _changed(packed=packed), "cannot be decompressed|does not end"
    yield "deflate-bomb", _changed(packed=deflated(b"0" * 50_000_000)), "exceeds 65536 bytes"
    yield "deflate-bomb-of-json", _changed(packed=deflated(_json("[" + "0," * 8_000_000 + "0]"))), "exceeds 65536"
    yield "deflate-just-too-long", _changed(packed=deflated(_json('{"a":"' + "a" * 65536 + '"}'))), "exceeds 65536"
    reason = "canonical JSON|not both objects|unknown or missing|does not consist of"
    for text in (*DESCRIPTION_TEXTS, *map(_json, CONFIG_TEXTS)):
        yield f"json-{text[:40]!r}-{len(text)}", _changed(text=text), reason


CONFIG_TEXTS = (
    "[" * 30_000 + "]" * 30_000, '{"a":' * 10_000 + "1" + "}" * 10_000, "[" * 900 + "]" * 900, '{"a":1,"a":2}', '{"a":NaN}',
    '{"a":-Infinity}', '{"a":1e999}', '{"a":0.' + "3" * 5000 + "}", '{"a":9223372036854775808}', '{"a":' + "9" * 5000 + "}",
    '{"a":-0}', '{"a":01}', '{"a": 1}', '{"b":1,"a":1}', '{"a":"\\ud800"}', '{"a":"\\u0041"}', '{"a":1,}', "[]", '{"a":1',
)  # fmt: skip
DESCRIPTION_TEXTS = (
    b"", b"7", '{"config":{},"corpus":{}}'.encode("utf-16"), b'\xef\xbb\xbf{"config":{},"corpus":{}}',
    b'{"config":{"\xff":1},"corpus":{}}', b'{"config":{}}', b'{"config":{},"corpus":{},"x":{}}',
    b'{"config":{},"corpus":[]}', b'{"config":{},"config":{},"corpus":{}}',
)  # fmt: skip


def _json(config: str) -> bytes:
    return f'{{"config":{config},"corpus":{{}}}}'.encode()


# ---- the configuration

WRONG: tuple[Any, ...] = (
    None, True, "1", [], {}, [1], -1, 1.5, -1e300, 1e300, 1 << 62, -(1 << 63), "\x1b[2J\x07", "9" * 300,
)  # fmt: skip


def _configs() -> Named:
    """Every wrong value at every place of the configuration. A value in range makes another learner."""
    description = draft("both").description
    reason = "header: |more than the limit|state differs|does not end|ends before"
    for path in _paths(description["config"]):
        for i, value in enumerate(WRONG):
            yield f"config-{'.'.join(path)}-{i}", _with_config(path, value), reason
        yield f"config-{'.'.join(path)}-missing", _with_config(path, DROP), "header: .*(missing|must be|object)"
    for name in ("surprise", "\x1b[31m\r\n\x07\u202e", "n" * 60_000):
        yield f"config-{name[:20]!r}", _with_config((name,), 1), "unknown or missing names"
    for path, value in HUGE.items():
        yield f"huge-{path[-1]}", _with_config(path, value), "more than the limit"
    everything = draft("both").description
    for path, value in HUGE.items():
        _put(everything["config"], path, value)
    everything["config"]["gpt"] |= {"width": 4096, "n_heads": 64, "mlp_factor": 4, "n_layers": 64}
    yield "huge-everything", draft("both").described(everything).sealed(), "more than the limit"
    for path, values in CONTRADICTIONS.items():
        for value in values:
            yield f"config-{path[-1]}-{str(value)[:20]}", _with_config(path, value), "header: "


DROP = object()
HUGE: dict[tuple[str, ...], Any] = {
    ("gpt", "context_bits"): 24, ("gpt", "memory_bits"): 24, ("mixer", "table_bits"): 26, ("mixer", "match_bits"): 26,
    ("schedule", "history_bits"): 30, ("schedule", "n_rows"): 1024,
}  # fmt: skip
CONTRADICTIONS: dict[tuple[str, ...], tuple[Any, ...]] = {
    ("gpt", "n_heads"): (3, 5, 16, 64),
    ("gpt", "width"): (17, 4098, 1 << 40),
    ("gpt", "contexts"): (["2", "2"], ["2"] * 10_000, ["1"], [["2"]], [2], "2", {"2": "2"}),
    ("gpt", "context_bits"): (3, 25, 1 << 40),
    ("gpt", "memory_bits"): (12, 25, 1 << 40),
    ("mixer", "contexts"): (["1", "1"], ["1"] * 10_000, ["no such"], [["1"]], [1], "1", {"1": "1"}),
    ("schedule", "row_symbols"): (0, 513, 1 << 31),
    ("schedule", "segment_symbols"): (0, 8193, 4096),
    ("schedule", "block_symbols"): (0, (1 << 25) + 1),
    ("seed",): (-1, -(1 << 63)),
}


def _paths(config: dict[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, value in config.items():
        yield (*above, name)
        if isinstance(value, dict):
            yield from _paths(value, (*above, name))


def _with_config(path: tuple[str, ...], value: Any) -> bytes:
    good = draft("both")
    description = good.description
    _put(description["config"], path, value)
    return good.described(description).sealed()


def _put(values: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for name in path[:-1]:
        values = values[name]
    if value is DROP:
        del values[path[-1]]
    else:
        values[path[-1]] = value


# ---- blocks


def _sizes() -> Named:
    for n_bytes in (0, 45, 47, 1 << 40, 1 << 60, (1 << 63) - 1):
        yield f"n_bytes-{n_bytes}", _changed(n_bytes=n_bytes), "exceeds the|does not follow|blocks cover"
    for field in ("n_bytes", "n_symbols", "payload_bytes"):
        for value in (0, 1, 15, 17, 23, 25, 39, (1 << 26) + 1, (1 << 26) + 16, 1 << 60, 1 << 70):
            for seed, number in (("mixer", 0), ("mixer", 1), ("pure", 0)):
                changed = draft(seed)
                if getattr(changed.blocks[number], field) == value:
                    continue
                setattr(changed.blocks[number], field, value)
                yield f"{seed}-block-{number}-{field}-{value}", changed.sealed(), "block|header|end of the archive"
    yield "stretched", stretch("zeros", 4096).sealed(), "block 0 .*"


def stretch(seed: str, n_bytes: int) -> Draft:
    """A seed of one block that declares n_bytes bytes, consistently in all fields."""
    changed = draft(seed)
    description = changed.description
    description["config"]["schedule"]["block_symbols"] = n_bytes
    changed = changed.described(description)
    changed.n_bytes = changed.blocks[0].n_bytes = changed.blocks[0].n_symbols = n_bytes
    return changed


def _blocks() -> Named:
    good, other, mixed = draft(), draft("other"), draft("mixed")
    first, second = good.blocks
    yield "swapped", _changed(blocks=[second, first]), "does not follow"
    yield "swapped-alike", _changed("mixed", blocks=[mixed.blocks[i] for i in (2, 1, 0)]), "block 0"
    yield "repeated", _changed(blocks=[first, first]), "block 1"
    yield "repeated-once-more", _changed(blocks=[first, second, second]), "block 2"
    yield "missing", _changed(blocks=[first]), "blocks cover 24 of 46"
    yield "none", _changed(blocks=[]), "blocks cover 0 of 46"
    yield "from-another-archive", _changed(blocks=[first, other.blocks[1]]), "block 1"
    yield "all-from-another-archive", _changed(blocks=other.blocks), "digest differs|block"
    for kind in (3, 0x1A, 255):
        changed = draft()
        changed.blocks[1].kind = kind
        yield f"kind-{kind}", changed.sealed(), f"kind {kind} is unknown"
    ends = draft()
    ends.blocks[1].kind = 0
    yield "kind-0", ends.sealed(), "blocks cover 24 of 46"
    raw = draft()
    raw.blocks[1] = Part(RAW, 22, 22, second.state_digest, seeds()["mixer"].original[24:])
    yield "raw-instead-of-coded", raw.sealed(), EXACT
    for length in (0, 21, 23, 38):
        wrong = draft("raw")
        wrong.blocks[0].payload = bytes(length)
        yield f"raw-payload-of-{length}", wrong.sealed(), "raw bytes cannot hold"
    lying = draft("raw")
    lying.blocks[0].payload_bytes = 1 << 25
    lying.blocks[0].n_bytes = lying.blocks[0].n_symbols = lying.n_bytes = 1 << 25
    yield "raw-payload-beyond-file", lying.sealed(), "ends early"


CODED_SEEDS = ("mixer", "zeros", "pure", "both", "tree")


def _payloads() -> Named:
    rng = np.random.default_rng(7)
    for seed in CODED_SEEDS:
        number, block = next((i, block) for i, block in enumerate(draft(seed).blocks) if block.kind == CODED)
        good, longest = block.payload, (block.n_bytes + 16) // 4 * 4
        for name, payload in {
            "random": rng.bytes(len(good)), "random-longest": rng.bytes(longest), "zeros": bytes(len(good)),
            "ones": b"\xff" * len(good), "ones-longest": b"\xff" * longest, "none": b"", "one-word-less": good[:-4],
            "one-word-more": good + bytes(4), "not-words": good[:-1], "last-bit": good[:-1] + bytes([good[-1] ^ 1]),
        }.items():  # fmt: skip
            changed = draft(seed)
            changed.blocks[number].payload = payload
            yield f"{seed}-payload-{name}", changed.sealed(), f"block {number} .*"


# ---- the end, the digests


def _ends() -> Named:
    n = len(draft().blocks)
    good = seeds()["mixer"].archive
    entries = [(len(block.record()) + 4, block.n_bytes) for block in draft().blocks]
    yield "no-end", _changed(has_end=False), "ends early"
    yield "end-cut", good[:-5], "ends early"
    yield "no-end-mark", _changed(has_end=False) + good[-12:], "kind|ends early|block 2"
    for n_blocks in (0, n - 1, n + 1, 1 << 40, (1 << 63) - 1, 1 << 70):
        yield f"index-of-{n_blocks}-blocks", _changed(n_blocks=n_blocks), "index or its checksum|ends early"
    shifted = [(entries[0][0] + 1, entries[0][1]), (entries[1][0] - 1, entries[1][1])]
    for name, wrong in {
        "swapped": entries[::-1], "empty": [], "one-more": [*entries, (1, 1)], "zeros": [(0, 0)] * n,
        "huge": [(1 << 62, 1 << 62)] * n, "shifted": shifted, "many": [(0, 0)] * 40_000,
    }.items():  # fmt: skip
        yield f"index-{name}", _changed(entries=wrong), "index or its checksum|ends early"
        yield f"index-{name}-counted", _changed(entries=wrong, n_blocks=len(wrong)), "index or its checksum|ends early"
    for end_bytes in (0, 1, 5, 0x7FFFFFFF, 0xFFFFFFFF):
        yield f"end-of-{end_bytes}-bytes", _changed(end_bytes=end_bytes), "index or its checksum"
    yield "end-magic", _changed(end_magic=b"PK\5\6"), "index or its checksum"
    yield "tail", _changed(tail=b"\0"), "bytes follow"
    yield "tail-archive", good + seeds()["other"].archive, "bytes follow"
    yield "end-twice", good + good[-20:], "bytes follow"


def _digests() -> Named:
    good = draft()
    yield "digest-of-another", _changed(blake2b=draft("other").blake2b), "digest differs"
    yield "digest-zero", _changed(blake2b=bytes(32)), "digest differs"
    for number in range(2):
        wrong = draft()
        wrong.blocks[number].state_digest = bytes(8)
        yield f"state-digest-{number}", wrong.sealed(), f"block {number} .*the learner's state differs"
    yield "empty-with-a-digest", _changed("empty", blake2b=bytes(32)), "digest differs"
    for name, corpus in NAMES.items():
        good.text = canonical({**good.description, "corpus": corpus})
        yield f"corpus-{name}", good.sealed(), EXACT


GROUPS: dict[str, Callable[[], Named]] = {
    "starts": _starts, "descriptions": _descriptions, "configs": _configs, "sizes": _sizes, "blocks": _blocks,
    "payloads": _payloads, "ends": _ends, "digests": _digests,
}  # fmt: skip


# ---- names and folders

# Descriptions of the original, as `list` shows them. No file is ever written under such a name.
NAMES: dict[str, Any] = {
    "traversal": {"kind": "file", "name": "../../../../tmp/escaped"},
    "absolute": {"kind": "file", "name": "/tmp/escaped"},
    "nul": {"kind": "file", "name": "a\0b"},
    "escapes": {"kind": "\x1b]0;owned\x07", "name": "\x1b[2J\x1b[1;1H\r\n\x9b31m\x7f"},
    "bidi": {"kind": "file", "name": "\u202egpj.exe\u2066\ufeff\u2028"},
    "types": {"kind": ["tree"], "name": {"a": [None, 1e300]}},
    "long": {"kind": "file", "name": "n" * 60_000},
    "names": {"../x": "\x1b[31m", "\x1b[31m": 1},
}


def _entry(path: bytes, n_bytes: int = 0, executable: bool = False) -> bytes:
    return TreeEntry(path, n_bytes, executable).line()


def _stream(*lines: bytes, contents: bytes) -> bytes:
    return MAGIC + b"".join(lines) + b"\n" + contents


# Streams that claim to be a folder. All are refused, and none leaves a file.
TREES: dict[str, bytes] = {
    **{
        f"path {path[:20]!r}": _stream(_entry(path), contents=b"\0")
        for path in (
            b"/tmp/escaped", b"../escaped", b"a/../../escaped", b"..", b"./escaped", b"a//b", b"", b"/", b"a/",
            b"a\0/../../escaped", b"/".join([b"d"] * (MAX_DEPTH + 1)), b"a/.GIT/config", b"n" * 5000,
            b"../\x1b[2J\x1b]0;owned\x07",
        )
    },
    **{
        f"line {line[:60]!r}": _stream(line + b"\n", contents=b"x\0")
        for line in (
            b"path", b"7", b"[" * 60_000, b'{"path":"a","n_bytes":' + b"9" * 5000 + b"}",
            b'{"path":7,"n_bytes":1,"executable":false}', b'{"path":"a","n_bytes":-1,"executable":false}',
            b'{"path":"a","n_bytes":true,"executable":false}', b'{"path":"a","n_bytes":1.0,"executable":false}',
            b'{"path":"a","n_bytes":1,"executable":0}', b'{"path":"a","n_bytes":1,"executable":4095}',
            b'{"path":"a","n_bytes":1,"executable":false,"uid":0}',
            b'{"path":"a","path":"b","n_bytes":1,"executable":false}',
            b'{"path":"\\u0061","n_bytes":1,"executable":false}', b'{"path":"\\ud800","n_bytes":1,"executable":false}',
            b'{"path":"a","n_bytes":1,"executable":false,"link":"/etc"}',
        )
    },
    "git-hook": _stream(_entry(b".git/hooks/post-checkout", executable=True), contents=b"\0"),
    "file-and-folder": _stream(_entry(b"a"), _entry(b"a/b"), contents=b"\0\0"),
    "twice": _stream(_entry(b"a"), _entry(b"a"), contents=b"\0\0"),
    "out-of-order": _stream(_entry(b"b"), _entry(b"a"), contents=b"\0\0"),
    "length-small": _stream(_entry(b"a", 1), contents=b"xy\0"),
    "length-huge": _stream(_entry(b"a", 1 << 60), contents=b"\0"),
    "length-absurd": _stream(_entry(b"a", 10**30), contents=b"\0"),
    "lengths-wrong": _stream(_entry(b"a", 1), _entry(b"b", 3), contents=b"xy\0zz\0"),
    "no-nul": _stream(_entry(b"a", 1), contents=b"xy"),
    "bytes-left": _stream(_entry(b"a", 1), contents=b"x\0more"),
    "cut": _stream(_entry(b"a", 9), contents=b"x"),
    "no-end": MAGIC + _entry(b"a"),
    "line-endless": MAGIC + b'{"path":"' + b"a" * 200_000,
    "version": b"prequential-tree 2\n\n",
    "no-tree": b"hello",
    "nothing": b"",
}  # fmt: skip
