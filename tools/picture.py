"""The README's picture: one small panel a scheme, logit against distance, the same axes everywhere.

python tools/picture.py            writes docs/schemes.svg
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("svg")
from matplotlib import pyplot as plt

from posenc.measure.distance_decay import example_scheme, logit_by_distance, reachable_distance
from posenc.schemes import catalogue

DISTANCES, ACROSS = 24, 8


def main() -> None:
    found = {name: example_scheme(kind) for name, kind in catalogue().items()}
    style = {"svg.hashsalt": "posenc", "svg.fonttype": "none", "font.family": "sans-serif", "font.size": 8}
    with mpl.rc_context(style):
        down = -(-len(found) // ACROSS)
        figure, axes = plt.subplots(
            down, ACROSS, figsize=(11, 1.05 * down), sharey=True, squeeze=False, layout="constrained"
        )
        for panel in axes.flat[len(found) :]:
            panel.axis("off")
        for panel, (name, scheme) in zip(axes.flat, found.items(), strict=False):
            rows = [
                row
                for row in logit_by_distance(scheme, reachable_distance(scheme, DISTANCES))
                if row["logit"] is not None
            ]
            panel.axhline(0, color="0.8", linewidth=0.6)
            panel.plot([row["distance"] for row in rows], [row["logit"] for row in rows], color="#0067a5", linewidth=1)
            panel.set_title(name, fontsize=8, loc="left", pad=2)
            panel.spines[["top", "right"]].set_visible(False)
            panel.set_ylim(-0.6, 1.6)
            ends = [rows[0]["distance"], rows[-1]["distance"]]
            panel.set_xticks(ends, [f"{end:.3g}" for end in ends], fontsize=6)
            panel.tick_params(length=2, pad=1)
        figure.supxlabel("distance of the key from the query", fontsize=8)
        figure.supylabel("logit of two equal tokens", fontsize=8)
        path = Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).parents[1] / "docs" / "schemes.svg"
        figure.savefig(path, format="svg", metadata={"Date": None}, facecolor="white")
    print(path)


if __name__ == "__main__":
    main()
