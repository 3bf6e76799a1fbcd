"""A program that runs a tokenizer.json. A stranger may have made it: the library may panic, abort, hang or fill the memory.

It reads one line of JSON, {"memory_bytes": M, "sizes": [T, N...], "describe": bool}, then the T bytes of the tokenizer and the N
bytes of each text. It writes one line of JSON. To describe: {"tokens": {token: id}, "special": [id...]}. Else {"counts": [n...]},
and then the ids of each text, 4 bytes each, in the machine's order. {"error": text} says what failed.
text_tokenizer.py starts it. It imports nothing of this package, and so starts within a few hundredths of a second.
"""

import json
import sys
from array import array
from typing import Any

MAX_TOKENS = 1 << 21
ID_BYTES = 4


def limit(memory_bytes: int) -> None:
    """Bounds the memory of this process where the system can, and leaves no core file behind."""
    try:
        import resource
    except ImportError:  # Windows
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)  # of the memory that can be written, as of Linux 4.7
    resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes if hard < 0 else min(memory_bytes, hard), hard))


def describe(tokenizer: Any) -> dict[str, Any]:
    tokens = tokenizer.get_vocab(with_added_tokens=True)
    if len(tokens) > MAX_TOKENS:
        raise ValueError(f"it has more than {MAX_TOKENS:,} tokens")
    special = [i for i, token in tokenizer.get_added_tokens_decoder().items() if token.special]
    return {"tokens": tokens, "special": special}


def encode(tokenizer: Any, texts: list[bytes]) -> tuple[dict[str, Any], bytes]:
    ids, counts = array("I"), []
    for text in texts:
        found = tokenizer.encode(text.decode(), add_special_tokens=False).ids
        if len(found) > 4 * len(text) + 1024:
            raise ValueError(f"it makes {len(found):,} ids of {len(text):,} bytes")
        ids.extend(found)
        counts.append(len(found))
    assert ids.itemsize == ID_BYTES
    return {"counts": counts}, ids.tobytes()


def main() -> None:
    request = json.loads(sys.stdin.buffer.readline())
    limit(request["memory_bytes"])
    answer: dict[str, Any]
    ids = b""
    try:
        from tokenizers import Tokenizer

        source, *texts = [sys.stdin.buffer.read(n_bytes) for n_bytes in request["sizes"]]
        tokenizer = Tokenizer.from_str(source.decode())
        tokenizer.no_truncation()
        tokenizer.no_padding()
        if request["describe"]:
            answer = describe(tokenizer)
        else:
            answer, ids = encode(tokenizer, texts)
    except BaseException as error:  # a panic of Rust is not an Exception
        answer = {"error": f"{type(error).__name__}: {error}"[:300]}
    sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n" + ids)


if __name__ == "__main__":
    main()
