"""Explanations of errors that torch raises inside a scheme while the contract checks it."""

from __future__ import annotations

import re
from collections.abc import Callable

from posenc.contract.case import Case


def explain(error: Exception, case: Case) -> str:
    """Explain an error of torch: the input of the contract that causes it, and the line that fixes it.

    Args:
        error: The error.
        case: The example of a scheme that raised it.

    Returns:
        One or two sentences; "" for an error without a known cause.
    """
    text = " ".join(str(error).split())
    if isinstance(error, RuntimeError | IndexError | TypeError):
        for pattern, sentence in EXPLANATIONS:
            if (match := re.search(pattern, text)) and (words := sentence(match, case)):
                return words
    return ""


def _sizes(match: re.Match[str], case: Case) -> str:
    """Sentence on two sizes that differ, if one of them is a number of heads."""
    first, second, axis = map(int, match.groups())
    h = min(first, second)
    if max(first, second) == 2 * h == 2 * case.heads:
        name, dim = next(
            ((name, t.shape.index(h) - t.dim()) for name, t in case.make().named_parameters() if h in t.shape),
            ("table", -3),
        )
        return (
            f"The contract attends with 2h heads, here {2 * h}, of which neighbors share one: "
            f"per_head(self.{name}, q, {case.kind.__name__!r}, dim={dim}) of posenc.scheme repeats them."
        )
    if axis == 1 and case.heads in (first, second):
        return (
            "Positions are (N, P), or (B, N, P) if samples differ, and q, k, v are (B, H, N, D): values of samples "
            "need an axis for the heads, .unsqueeze(-3)."
        )
    return ""


def _range(match: re.Match[str], case: Case) -> str:
    claimed = "any position" if case.claims.range is None else f"positions in {case.claims.range}"
    return (
        f"The scheme claims {claimed}, and the contract uses them. Claim the `range` that the table covers, and call "
        "self._take(pos), which refuses other positions."
    )


def _always(sentence: str) -> Callable[[re.Match[str], Case], str]:
    return lambda match, case: sentence


EXPLANATIONS: tuple[tuple[str, Callable[[re.Match[str], Case], str]], ...] = (
    (r"size of tensor a \((\d+)\) must match the size of tensor b \((\d+)\) at non-singleton dimension (\d+)", _sizes),
    (r"out of (?:bounds|range)", _range),
    (
        r"used as indices must be|'indices' to have one of",
        _always("Positions are real numbers, float64 in the contract: convert them with .long() before indexing."),
    ),
    (
        r"same dtype|expected scalar type",
        _always(
            "The contract computes in float64, float32 and bfloat16: give tensors the dtype of the input, x.dtype, or "
            "of positions, pos.table_dtype."
        ),
    ),
    (
        r"numpy\(\) on Tensor that requires grad|does not require grad",
        _always("Gradients flow through positions: compute with torch, without .numpy(), .item() or .detach()."),
    ),
    (
        r"shape '\[.*\]' is invalid for input",
        _always("The contract varies the numbers of samples and tokens: read them from pos.coords.shape."),
    ),
    (
        r"numel\(\) == 0|zero-size|non-zero size",
        _always("The contract also passes zero tokens: compute each row from its own position, without a maximum."),
    ),
)
"""Pattern of an error message, and the function that explains a match; "" if it does not apply."""
