"""Bits per byte: the loss on a text, in a unit that does not depend on its tokenizer.

    bits per byte = (sum of -log2 p over the predicted tokens + bits of unknown text) / (UTF-8 bytes of these tokens)

A token for unknown text does not say which text it stands for. Its text counts as 8 bits a byte, and 8 bits for its
end: this is the length of a code for it, so a small vocabulary cannot win by calling words unknown.
"""

from __future__ import annotations

import math

from posenc.workbench.studies.language.stored_text import TextOfRun
from posenc.workbench.tasks.text import window_starts

NAME = "bits_per_byte"
"""Stored name of the metric."""
BITS = 8


def bits_per_byte(loss: float, text: TextOfRun, window: int) -> dict[str, float]:
    """Convert the loss at the training length.

    Args:
        loss: Mean loss of the predicted tokens in nats.
        text: The text of the run.
        window: Training length in tokens.

    Returns:
        The metric under its stored name; empty for token ids, whose text is not known.
    """
    if text.test_sizes is None:
        return {}
    count = len(window_starts(len(text.splits.test), window)) * window
    sizes, tokens = text.test_sizes[1 : count + 1], text.splits.test[1 : count + 1]
    spelled = 0
    if text.text.unknown is not None:
        unknown = tokens == text.text.unknown
        spelled = BITS * int((sizes[unknown] + 1).sum())
    return {NAME: (loss * count / math.log(2) + spelled) / int(sizes.sum())}
