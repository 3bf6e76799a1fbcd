"""A program that runs a tokenizer.json. A stranger may have made it: the library may panic, abort, hang or fill the memory.

It reads one line of JSON, {"memory_bytes": M, "sizes": [T, N...], "describe": bool}, then the T bytes of the tokenizer and the N
bytes of each text. It writes one line of JSON. To describe: {"tokens": {token: id}, ...} (`describe`). Else {"counts": [n...]},
and then the ids of each text, 4 bytes each, in the machine's order. {"error": text} says what failed.
text_tokenizer.py starts it. It imports nothing of this package, and so starts within a few hundredths of a second.

What looks like a special token in a text is encoded as characters. Where the tokenizer puts a space before a text, this step is
switched off, and each text gets one space here: some put none before a text that begins with one, and then two texts would have
the same ids.
"""

import json
import sys
from array import array
from collections.abc import Iterator
from typing import Any

MAX_TOKENS = 1 << 21
ID_BYTES = 4
PLACES = ("normalizer", "pre_tokenizer", "decoder")
NESTED = ("normalizers", "pretokenizers", "decoders")


def limit(memory_bytes: int) -> None:
    """Bounds the memory of this process where the system can, and leaves no core file behind."""
    try:
        import resource
    except ImportError:  # Windows
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)  # of the memory that can be written, as of Linux 4.7
    resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes if hard < 0 else min(memory_bytes, hard), hard))


# ---- what tokenizer.json says


def steps(part: Any) -> Iterator[dict[str, Any]]:
    """A normalizer, pre-tokenizer or decoder, and those within it."""
    if isinstance(part, dict):
        yield part
        for name in NESTED:
            for each in part.get(name) or ():
                yield from steps(each)


def family(described: dict[str, Any]) -> dict[str, Any]:
    """How tokens write bytes. byte_level: in the characters of byte-level BPE. byte_fallback: some as <0x41>. space: what is
    written for a space, or None.
    """
    found = [(place, step) for place in PLACES for step in steps(described.get(place))]
    kinds = {step.get("type") for _, step in found}
    spaces = [step.get("replacement") for _, step in found if step.get("type") == "Metaspace"]
    for place, step in found:
        if (place, step.get("type"), step.get("pattern")) == ("normalizer", "Replace", {"String": " "}):
            spaces.append(step.get("content"))
    byte_fallback = "ByteFallback" in kinds or described["model"].get("byte_fallback") is True
    space = spaces[0] if spaces and isinstance(spaces[0], str) and spaces[0] else None
    return {"byte_level": "ByteLevel" in kinds, "byte_fallback": byte_fallback, "space": space}


def take_prefix(described: dict[str, Any]) -> bool:
    """Switches off every step that puts a space before a text. Whether there was one."""
    found, spaces = False, (" ", family(described)["space"])
    for step in (*steps(described.get("normalizer")), *steps(described.get("pre_tokenizer"))):
        kind = step.get("type")
        if kind == "Prepend" and step.get("prepend") in spaces:
            step.clear()
            step.update(type="Sequence", normalizers=[])
        elif (
            kind == "Metaspace"
            and step.get("prepend_scheme", "always") != "never"
            and step.get("add_prefix_space", True)
        ):
            step.pop("add_prefix_space", None)
            step["prepend_scheme"] = "never"
        elif kind == "ByteLevel" and step.get("add_prefix_space"):
            step["add_prefix_space"] = False
        else:
            continue
        found = True
    return found


def take_special_pieces(described: dict[str, Any]) -> bool:
    """Renames special tokens of a unigram model, which would find them in the characters of a text. Whether there were any."""
    added, pieces = described.get("added_tokens") or [], described["model"].get("vocab")
    special = {token["content"] for token in added if token.get("special")}
    if not isinstance(pieces, list) or not special:
        return False
    described["added_tokens"] = [token for token in added if token["content"] not in special]
    for i, (piece, score) in enumerate(pieces):
        if piece in special:
            pieces[i] = (f"\U0010ffff{i}", score)
    return True


# ---- the two requests


def describe(tokenizer: Any, described: dict[str, Any]) -> dict[str, Any]:
    """tokens: the id of each. special, added: ids. prefix: whether a space is put before each text. begins_with: the special id
    that it wants before each text, or None. And `family`.
    """
    tokens = tokenizer.get_vocab(with_added_tokens=True)
    if len(tokens) > MAX_TOKENS:
        raise ValueError(f"it has more than {MAX_TOKENS:,} tokens")
    added = tokenizer.get_added_tokens_decoder()
    special = [i for i, token in added.items() if token.special]
    alone, marked = (tokenizer.encode("a", add_special_tokens=marked).ids[:1] for marked in (False, True))
    return {
        "tokens": tokens,
        "special": special,
        "added": list(added),
        "begins_with": marked[0] if marked != alone and marked[0] in special else None,
        **family(described),
        "prefix": take_prefix(described),
    }


def encode(source: str, described: dict[str, Any], texts: list[bytes]) -> tuple[dict[str, Any], bytes]:
    has_prefix, has_special_pieces = take_prefix(described), take_special_pieces(described)
    tokenizer = load(json.dumps(described) if has_prefix or has_special_pieces else source)
    tokenizer.encode_special_tokens = True  # as characters
    ids, counts = array("I"), []
    for text in texts:
        prefix = " " if has_prefix and text else ""
        found = tokenizer.encode(prefix + text.decode(), add_special_tokens=False).ids
        if len(found) > 4 * len(text) + 1024:
            raise ValueError(f"it makes {len(found):,} ids of {len(text):,} bytes")
        ids.extend(found)
        counts.append(len(found))
    assert ids.itemsize == ID_BYTES
    return {"counts": counts}, ids.tobytes()


def load(source: str) -> Any:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_str(source)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def main() -> None:
    request = json.loads(sys.stdin.buffer.readline())
    limit(request["memory_bytes"])
    answer: dict[str, Any]
    ids = b""
    try:
        source, *texts = [sys.stdin.buffer.read(n_bytes) for n_bytes in request["sizes"]]
        described = json.loads(source)
        if request["describe"]:
            answer = describe(load(source.decode()), described)
        else:
            answer, ids = encode(source.decode(), described, texts)
    except BaseException as error:  # a panic of Rust is not an Exception
        answer = {"error": f"{type(error).__name__}: {error}"[:300]}
    sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n" + ids)


if __name__ == "__main__":
    main()
