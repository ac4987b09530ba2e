"""The README's picture: one small panel a scheme, logit against distance, titled with the call that it shows.

python tools/picture.py            writes docs/schemes.svg
"""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

import matplotlib as mpl

mpl.use("svg")
from matplotlib import pyplot as plt

from posenc.lookup.scheme_text import Specification, call_text
from posenc.measure.distance_decay import heads_of, logits_by_head, make_shown, reachable_distance, shown_call
from posenc.schemes import catalogue

ACROSS, LOW, HIGH, CHARACTERS = 8, -0.6, 1.6, 30
HEADS = ("#0067a5", "#b34700", "#7d3c98", "#007256")
"""Colors of the heads, if they differ."""


def main() -> None:
    calls = {name: shown_call(kind) for name, kind in catalogue().items()}
    style = {"svg.hashsalt": "posenc", "svg.fonttype": "none", "font.family": "sans-serif", "font.size": 8}
    with mpl.rc_context(style):
        down = -(-len(calls) // ACROSS)
        figure, axes = plt.subplots(
            down, ACROSS, figsize=(11, 1.2 * down), sharey=True, squeeze=False, layout="constrained"
        )
        for panel in axes.flat[len(calls) :]:
            panel.axis("off")
        for panel, (name, call) in zip(axes.flat, calls.items(), strict=False):
            scheme = make_shown(call)
            by_head = logits_by_head(scheme, reachable_distance(scheme), heads=heads_of(call))
            panel.axhline(0, color="0.8", linewidth=0.6)
            curves = [
                [(row["distance"], row["logit"]) for row in rows if row["logit"] is not None]
                for rows in by_head.values()
            ]
            factor = divisor(curves)
            for color, points in zip(HEADS, curves, strict=False):
                panel.plot([x for x, _ in points], [y / factor for _, y in points], color=color, linewidth=1)
            if factor != 1:
                panel.text(1, 1, f"logit / {factor:.3g}", fontsize=5, ha="right", va="top", transform=panel.transAxes)
            panel.set_title(name, fontsize=8, loc="left", pad=2 + 5.5 * len(arguments(call)))
            for line, text in enumerate(reversed(arguments(call))):
                panel.annotate(text, (0, 1), (0, 2 + 5.5 * line), "axes fraction", "offset points", fontsize=5)
            panel.spines[["top", "right"]].set_visible(False)
            panel.set_ylim(LOW, HIGH)
            ends = [curves[0][0][0], curves[0][-1][0]]
            panel.set_xticks(ends, [f"{end:.3g}" for end in ends], fontsize=6)
            panel.tick_params(length=2, pad=1)
        figure.supxlabel("distance of the key from the query", fontsize=8)
        figure.supylabel("logit of two equal tokens", fontsize=8)
        path = Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).parents[1] / "docs" / "schemes.svg"
        figure.savefig(path, format="svg", metadata={"Date": None}, facecolor="white")
    print(path)


def divisor(curves: list[list[tuple[float, float]]]) -> float:
    """1, or the largest size of a logit where more than half of the logits are outside the shared axis."""
    logits = [logit for points in curves for _, logit in points]
    outside = sum(not LOW <= logit <= HIGH for logit in logits)
    return max(map(abs, logits)) if 2 * outside > len(logits) else 1


def arguments(call: Specification) -> list[str]:
    """Lines of the arguments of a call, with their parentheses."""
    return textwrap.wrap(call_text(call).removeprefix(call.scheme), CHARACTERS)


if __name__ == "__main__":
    main()
