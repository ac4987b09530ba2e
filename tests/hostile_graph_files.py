"""Whole files of graphs, which ``hostile_files`` damages: each file of a TU folder, and both tables of one graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def graph_readers(Reader: Any, texts: Any) -> dict[str, Any]:
    """Readers by name. Reader, texts: those of ``hostile_files``, which imports this file."""
    from posenc.workbench.data.readers import read
    from posenc.workbench.data.reading_options import ReadingOptions

    def folder(path: Path) -> object:
        (path.parent / "X_graph_indicator.txt").write_text("1\n1\n2\n2\n")
        (path.parent / "X_graph_labels.txt").write_text("1\n2\n")
        return read(path.parent, "graphs", ReadingOptions())

    def edges(path: Path) -> object:
        (path.parent / "nodes.csv").write_text("node,label\na,x\nb,y\n")
        return read(path, "graphs", ReadingOptions(format="edge-table", labels=str(path.parent / "nodes.csv")))

    def indicator(path: Path) -> object:
        (path.parent / "X_A.txt").write_text("1, 2\n3, 4\n")
        (path.parent / "X_graph_labels.txt").write_text("1\n2\n")
        return read(path.parent, "graphs", ReadingOptions())

    def attributes(path: Path) -> object:
        (path.parent / "X_graph_indicator.txt").write_text("1\n1\n2\n2\n")
        (path.parent / "X_A.txt").write_text("1, 2\n3, 4\n")
        return read(path.parent, "graphs", ReadingOptions())

    def nodes(path: Path) -> object:
        table = path.parent / "edges.csv"
        table.write_text("source,target\na,b\nb,c\n")
        return read(table, "graphs", ReadingOptions(format="edge-table", labels=str(path)))

    return {
        "TU indicator": Reader("X_graph_indicator.txt", texts("1\n1\n2\n2\n"), indicator),
        "TU attributes": Reader("X_graph_attributes.txt", texts("1.5, 2\n3, 4\n"), attributes),
        "nodes csv": Reader("nodes.csv", texts("node,label,height\na,x,1\nb,y,2\n"), nodes),
        "TU folder": Reader("X_A.txt", texts("1, 2\n2, 1\n3, 4\n4, 3\n"), folder),
        "edges csv": Reader("a.csv", texts("source,target\na,b\nb,c\n"), edges),
    }
