"""Claims of seed note 002 on sequences, with the panels that measure them. The note has no figure."""

from __future__ import annotations

from posenc.workbench.report.paper_parts import PaperPart

PARTS = (
    PaperPart(
        publication="seed note 002",
        name="QK-RoPE, VO-RoPE",
        shows="rotating values and outputs instead of queries and keys",
        panel="rotary",
        reads_data=True,
    ),
    PaperPart(
        publication="seed note 002",
        name="sequences",
        shows="rotary encodings suit sequences, without parameters",
        panel="loss",
        reads_data=True,
    ),
)
