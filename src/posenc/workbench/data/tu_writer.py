"""Write graphs of Python as a TU folder, which ``posenc run graphs FOLDER`` reads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from posenc.graph_data.edges import as_graph


def write_tu_folder(folder: Path, graphs: Sequence[Any], answers: Sequence[Any] | None = None) -> None:
    """Write graphs with their classes, or with values to predict, as a TU folder.

    Args:
        folder: The folder, which is made. Its name is that of the data set.
        graphs: Graphs in any form that ``posenc.as_graph`` takes, such as a list of PyTorch Geometric's ``Data``.
            Numbers ``x`` of the nodes, (N, A), become attributes, if all graphs have them.
        answers: Class of each graph, a whole number or a text; or its value, a float or several. Default: ``y`` of each
            graph.

    Raises:
        ValueError: There is no graph, a graph cannot be read, has no answer or another number of them, a class is empty
            or has a line break, or the folder holds files.

    Example:
        >>> import tempfile
        >>> from posenc.workbench.data.readers import read
        >>> from posenc.workbench.data.reading_options import NO_OPTIONS
        >>> with tempfile.TemporaryDirectory() as place:
        ...     folder = Path(place) / "two"
        ...     write_tu_folder(folder, [[(0, 1), (1, 2)], [(0, 1), (1, 2), (2, 0)]], ["path", "ring"])
        ...     read(folder, "graphs", NO_OPTIONS).classes
        ('path', 'ring')
    """
    made = [as_graph(each) for each in graphs]
    given = [getattr(each, "y", None) for each in graphs] if answers is None else list(answers)
    if not made or len(given) != len(made) or any(each is None for each in given):
        raise ValueError(
            f"{len(made)} graphs have {sum(each is not None for each in given)} answers. Give each graph one: "
            "write_tu_folder(folder, graphs, answers), or graphs with `y`."
        )
    if bad := [at for at, each in enumerate(given) if not _is_class(each) and not _finite(each)]:
        raise ValueError(
            f"graph {bad[0]} of the list has the answer {given[bad[0]]}. Give finite numbers, or leave it out."
        )
    if bad := [at for at, each in enumerate(given) if isinstance(each, str) and not _is_one_line(each)]:
        raise ValueError(
            f"graph {bad[0]} of the list has the class {given[bad[0]]!r}. Each class is one line of a file, so give a "
            "text that is not empty and has no line break."
        )
    if folder.exists() and any(folder.iterdir()):
        raise ValueError(f"{folder} holds files already. Name another folder.")
    folder.mkdir(parents=True, exist_ok=True)
    sizes = [each.num_nodes for each in made]
    first = np.concatenate([[0], np.cumsum(sizes)])
    edges = [each.edge_index.cpu().numpy().T + start + 1 for each, start in zip(made, first, strict=False)]
    classes = all(_is_class(each) for each in given)
    attributes: list[Any] = [getattr(each, "x", None) for each in graphs]
    files: dict[str, list[str]] = {
        "A": [f"{a}, {b}" for own in edges for a, b in own.tolist()],
        "graph_indicator": [str(at) for at, size in enumerate(sizes, 1) for _ in range(size)],
        "graph_labels" if classes else "graph_attributes": [_line(each) for each in given],
    }
    lacking = [at for at, each in enumerate(attributes) if each is None]
    if 0 < len(lacking) < len(made):
        raise ValueError(
            f"{len(lacking)} of {len(made)} graphs have no `x`, first graph {lacking[0]} of the list. Give all graphs "
            "numbers of their nodes, or none."
        )
    if not lacking:
        files["node_attributes"] = [
            _line(row) for each in attributes for row in np.asarray(each).reshape(len(each), -1)
        ]
    for ending, lines in files.items():
        (folder / f"{folder.name}_{ending}.txt").write_text("\n".join(lines) + "\n")


def _is_class(answer: Any) -> bool:
    if isinstance(answer, str):
        return True
    values = np.asarray(answer)
    return values.size == 1 and values.dtype.kind in "iub"


def _is_one_line(text: str) -> bool:
    """True for a text that a reader finds as one line. The added dot shows a line break at the end."""
    return bool(text.strip()) and len(f"{text}.".splitlines()) == 1


def _finite(answer: Any) -> bool:
    return bool(np.isfinite(np.asarray(answer, dtype=np.float64)).all())


def _line(answer: Any) -> str:
    """One line of a file: a text, or numbers divided by commas."""
    values: NDArray[Any] = np.asarray(answer).reshape(-1)
    return ", ".join(map(str, values.tolist()))
