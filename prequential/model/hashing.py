"""Hashes of integers, and the class of letters, for the kernels that compute contexts (of the mixer and of the GPT)."""

from prequential.machine.compiled import inlined

HASH_MASK = 0xFFFFFFFF


@inlined
def hashed(a: int, b: int) -> int:
    """A hash of 32 bits of two numbers of 32 bits. The products are below 2**62."""
    h = (a * 0x2F0B4C47 + b * 0x3C6EF35F + 0x7F4A7C15) & HASH_MASK
    h = ((h ^ (h >> 15)) * 0x2C1B3C6D) & HASH_MASK
    return h ^ (h >> 13)


@inlined
def is_letter(c: int) -> bool:
    """Whether the byte is an ASCII letter or belongs to a character outside ASCII (in UTF-8)."""
    return (97 <= c <= 122) or (65 <= c <= 90) or c >= 128
