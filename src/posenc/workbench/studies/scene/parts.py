"""Claims of seed note 002 on many views of a scene, with the panels that measure them. The note has no figure."""

from __future__ import annotations

from posenc.workbench.report.paper_parts import PaperPart

PARTS = (
    PaperPart(
        publication="seed note 002",
        name="many views to 3-D",
        shows="which encoding suits a radiance field",
        panel="encodings",
        reads_data=True,
        by_subject=True,
    ),
)
