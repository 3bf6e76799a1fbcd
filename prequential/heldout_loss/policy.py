"""Context policies of the frozen loss: which symbols of the test corpus predict a frozen symbol.

carried   one stream: window and contexts continue from the end of training, and from document to document
isolated  each document begins with an empty window and fresh contexts. Bytes between two documents belong to the first of
          them. So the cost of a document does not depend on the other documents
strided   as isolated; and the GPT reads each stretch of S symbols afresh, together with the W - S symbols before it in the
          document. So W - S to W - 1 symbols predict a symbol (at the beginning of a document, all there are). W is the
          GPT's window, S the stride
"""

from dataclasses import dataclass
from typing import Literal, get_args

from prequential.errors import ConfigError
from prequential.model.config import Config

Context = Literal["carried", "isolated", "strided"]
CONTEXTS: tuple[Context, ...] = get_args(Context)


@dataclass(frozen=True)
class Policy:
    """A context and, if it is "strided", its stride; None: half the window of the GPT."""

    context: Context = "carried"
    stride: int | None = None

    def stride_for(self, config: Config) -> int | None:
        """The stride S of the context "strided", None for other contexts.

        Raises ConfigError if learners of this configuration cannot be measured under this policy.
        """
        if self.context not in CONTEXTS:
            raise ConfigError(f"unknown context {self.context!r}; choose one of {', '.join(CONTEXTS)}")
        if self.context != "strided":
            if self.stride is not None:
                raise ConfigError(f"a stride belongs to the context strided, not to {self.context}: leave it out")
            return None
        if config.gpt is None:
            raise ConfigError("the context strided needs a GPT, and this learner has none: choose another context")
        stride = config.gpt.window // 2 if self.stride is None else self.stride
        if not 1 <= stride <= config.gpt.window:
            raise ConfigError(f"stride = {stride} lies outside [1, {config.gpt.window}], the window of the GPT")
        return stride

    def describe(self, config: Config) -> str:
        """The policy in one line. Raises ConfigError as `stride_for` does."""
        stride = self.stride_for(config)
        if self.context == "carried":
            return "carried: one stream; window and contexts continue from the training corpus and from document to document"
        text = f"{self.context}: each document begins with an empty window and fresh contexts"
        if stride is None or config.gpt is None:
            return text
        window = config.gpt.window
        return (
            f"{text}; the GPT sees {window - stride} to {window - 1} symbols of it, read afresh every {stride} symbols"
        )
