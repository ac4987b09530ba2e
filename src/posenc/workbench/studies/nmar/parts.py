"""Parts of arXiv 2406.08272 on the simulated network, in the order of the paper, with the panels that redraw them."""

from __future__ import annotations

from functools import partial

from posenc.workbench.report.paper_parts import PaperPart

HOURS_EACH = 0.045
"""Core hours of one model with the preset standard, from timed steps on two busy cores."""

_Part = partial(PaperPart, publication="2406.08272", hours_each=HOURS_EACH)

PARTS = (
    _Part(name="Appendix A.4", shows="test error of six encodings, and their equality", panel="errors"),
    _Part(
        name="Fig. A15A, E",
        shows="the network as a graph, and its equation",
        panel="network",
    ),
    _Part(name="Fig. A15B", shows="series of three nodes", panel="network"),
    _Part(name="Fig. A15C", shows="sketch: masking", lacks="a sketch, with nothing measured"),
    _Part(name="Fig. A15D", shows="modularity by encoding", panel="modules"),
    _Part(
        name="Fig. A15F",
        shows="cosine similarity of learned encodings, each pair of nodes",
        panel="maps",
    ),
)
