"""The checks of the prequential law, by name, and what they found.

A code length is prequential only if each symbol was predicted from the symbols before it, and was learned from afterwards. The
checks and the names under which they are reported:

    DISTRIBUTION  the GPT's frequencies of the 256 bytes are integers, at least 1, and sum to 2**24
    CODE          each of the 256 possible next bytes costs what the bits that lead to it cost: from one state of the mixer, the
                  256 products of the probabilities of the decisions sum to exactly 1. The actual byte costs its share
    FUTURE        if all later symbols are replaced by random ones, frequencies and costs up to here are the same in every bit
    WEIGHTS       the weights that predict a segment are the same before and after it
    STEP          the step that runs in parallel with a segment results in the same weights if the segment has other symbols. So
                  it uses only symbols before the segment
    ONCE          the numbers of symbols coded, of decisions learned and of bytes of the original agree. The payload is as long as
                  the decisions cost, so it contains nothing else
    ROUND_TRIP    what was encoded decodes to the same bytes; what was decoded encodes to the same payloads and digests
"""

from dataclasses import dataclass, replace

DISTRIBUTION = "the GPT's frequencies are complete distributions"
CODE = "the probabilities of the 256 bytes sum to 1, and the code length follows from them"
FUTURE = "later symbols change nothing before them"
WEIGHTS = "weights do not change while a segment is coded"
STEP = "a step uses only symbols before its segment"
ONCE = "each symbol is coded once, and nothing else is coded"
ROUND_TRIP = "the decoded bytes are the original bytes"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """How often a check was made, and what its first failure was; "" if it did not fail."""

    check: str
    times: int
    failure: str = ""


class Findings:
    """The findings so far, in the order in which the checks were first made."""

    def __init__(self) -> None:
        self._by_check: dict[str, Finding] = {}

    def add(self, check: str, holds: bool, failure: str, times: int = 1) -> None:
        """Adds a check that was made so many times. failure: what is wrong unless it `holds`."""
        old = self._by_check.get(check, Finding(check=check, times=0))
        self._by_check[check] = replace(old, times=old.times + times, failure=old.failure or ("" if holds else failure))

    def list(self) -> list[Finding]:
        """All findings."""
        return list(self._by_check.values())
