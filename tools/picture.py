"""The README's picture: one small panel a scheme, logit against distance, the same axes everywhere.

python tools/picture.py            writes docs/schemes.svg
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib as mpl
import torch

mpl.use("svg")
from matplotlib import pyplot as plt

from posenc.measure.decay import logit_by_distance
from posenc.schemes import catalogue
from posenc.specification import Specification, build

DISTANCES = 24
KNOWN = {"dim": 64, "head_dim": 64, "max_len": 2 * DISTANCES + 1, "max_distance": DISTANCES // 2}


def main() -> None:
    torch.manual_seed(0)
    found = {name: build(Specification(name), KNOWN) for name in catalogue()}
    style = {"svg.hashsalt": "posenc", "svg.fonttype": "none", "font.family": "sans-serif", "font.size": 9}
    with mpl.rc_context(style):
        across = 4
        down = -(-len(found) // across)
        figure, axes = plt.subplots(
            down, across, figsize=(8, 1.5 * down), sharex=True, sharey=True, squeeze=False, layout="constrained"
        )
        for panel in axes.flat[len(found) :]:
            panel.axis("off")
        for panel, (name, scheme) in zip(axes.flat, found.items(), strict=False):
            rows = [row for row in logit_by_distance(scheme, DISTANCES) if row["logit"] is not None]
            panel.axhline(0, color="0.8", linewidth=0.8)
            panel.plot([row["distance"] for row in rows], [row["logit"] for row in rows], color="#0067a5")
            panel.set_title(name, fontsize=9, loc="left")
            panel.spines[["top", "right"]].set_visible(False)
            panel.set_ylim(-0.5, 1.5)
        figure.supxlabel("distance of the key from the query, in tokens", fontsize=9)
        figure.supylabel("logit", fontsize=9)
        path = Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).parents[1] / "docs" / "schemes.svg"
        figure.savefig(path, format="svg", metadata={"Date": None}, facecolor="white")
    print(path)


if __name__ == "__main__":
    main()
