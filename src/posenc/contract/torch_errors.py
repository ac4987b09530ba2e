"""Explanations of errors that torch raises inside a scheme while the contract checks it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable

from posenc.contract.case import Case
from posenc.scheme import Scheme

SHAPES = {
    "bias": "`bias` returns (H, Q, K) for H heads, Q queries and K keys, or (B, H, Q, K) if samples differ. pair.far() "
    "is (Q, K), or (B, 1, Q, K) if samples differ. Values of heads need two axes behind them: slopes[:, None, None].",
    "q": "`transform` gets and returns (B, H, N, D): samples, heads, tokens, channels. Values of tokens are (N, D), or "
    "(B, 1, N, D) if samples differ.",
    "embed": "`embed` returns (N, dim), or (B, N, dim) if samples differ: one row for each position of pos.coords, "
    "which is (N, P) or (B, N, P).",
}
"""Site -> sentences on the shapes of its hook."""


def explain(error: Exception, case: Case) -> str:
    """Explain an error of torch: the input of the contract that causes it, and the line that fixes it.

    Args:
        error: The error.
        case: The example of a scheme that raised it.

    Returns:
        One or two sentences; "" for an error without a known cause.
    """
    text = " ".join(str(error).split())
    if isinstance(error, RuntimeError | IndexError | TypeError | NotImplementedError):
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
            ("", -1),
        )
        values = f"self.{name}" if name else "values"
        return (
            f"The contract attends with 2h heads, here {2 * h}, of which neighbors share one: "
            f"per_head({values}, q, {case.kind.__name__!r}, dim={dim}) of posenc.scheme repeats them."
        )
    if axis == 1 and case.heads in (first, second):
        return (
            "Positions are (N, P), or (B, N, P) if samples differ, and q, k, v are (B, H, N, D): values of samples "
            "need an axis for the heads, .unsqueeze(-3)."
        )
    return _shapes(match, case)


def _shapes(match: re.Match[str], case: Case) -> str:
    """Sentences on the shapes of the hook at a site of the scheme; "" for a scheme of other sites."""
    sites = {"q" if site in ("k", "v", "o") else site for site in case.claims.sites}
    return next((sentences for site, sentences in SHAPES.items() if site in sites), "")


def _einsum(match: re.Match[str], case: Case) -> str:
    ellipsis = (
        "Positions that differ by sample add axes in front, so the number of letters varies. Multiply by `*` with axes "
        "of size 1, or begin with an ellipsis: `...ij`."
    )
    return f"{ellipsis} {_shapes(match, case)}".rstrip()


def _product(match: re.Match[str], case: Case) -> str:
    sums = "`@` sums over the last axis of its first operand. Multiply each pair of values by `*` with axes of size 1"
    return f"{sums}, as coords[..., None] * theta. {_shapes(match, case)}".rstrip()


def _signature(match: re.Match[str], case: Case) -> str:
    """Sentence on the arguments of a hook that is written with others; "" for another function."""
    hook = getattr(Scheme, match[1], None)
    if not inspect.isfunction(hook):
        return ""
    return f"A model calls it with these arguments: def {match[1]}({', '.join(inspect.signature(hook).parameters)})."


def _not_a_tensor(match: re.Match[str], case: Case) -> str:
    return NOT_TENSORS.get(next((word for word in re.findall(r"\w+", match.string) if word in NOT_TENSORS), ""), "")


def _range(match: re.Match[str], case: Case) -> str:
    claimed = "any position" if case.claims.range is None else f"positions in {case.claims.range}"
    return (
        f"The scheme claims {claimed}, and the contract uses them. Claim the `range` that the table covers, and call "
        "self._take(pos), which refuses other positions."
    )


NOT_TENSORS = {
    "Positions": "Positions are no tensor: their coordinates are pos.coords, or pos.precise() in float64.",
    "Pairs": "Pairs are no tensor: their distances are pair.distance() and pair.far().",
    "Rotation": "A Rotation is no tensor: rotate(x, where) of posenc.kernels.rotary applies it.",
}
"""Class that stands for positions -> sentence on the tensors in it."""


def _always(sentence: str) -> Callable[[re.Match[str], Case], str]:
    return lambda match, case: sentence


EXPLANATIONS: tuple[tuple[str, Callable[[re.Match[str], Case], str]], ...] = (
    (r"size of tensor a \((\d+)\) must match the size of tensor b \((\d+)\) at non-singleton dimension (\d+)", _sizes),
    (r"index -?\d+ is out of bounds|index out of range in self", _range),
    (
        r"doesn't match the broadcast shape|is not broadcastable|Expected size for first two dimensions|Dimension "
        r"(?:out of range|specified as)|tuple index out of range|unflatten|view size is not compatible|Sizes of "
        r"tensors must match|cannot reshape tensor of 0 elements|expand\(|too many indices",
        _shapes,
    ),
    (r"einsum\(\)", _einsum),
    (r"shapes cannot be multiplied|size mismatch, got input|inconsistent tensor size", _product),
    (r"(\w+)\(\) (?:takes .* argument|missing \d+ required|got an unexpected keyword)", _signature),
    (r"must be Tensor, not|unsupported operand type", _not_a_tensor),
    (
        r"truth value|[Bb]oolean value of Tensor",
        _always("A tensor holds the values of all tokens: choose by torch.where(condition, a, b) instead of `if`."),
    ),
    (
        r"on the same device|on device \w+ is not on the expected device|is on \w+(?::\d)?, different from|meta tensor",
        _always("Make tensors on the device of the input: torch.tensor(.., device=x.device), or self.register_buffer."),
    ),
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
