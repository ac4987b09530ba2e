"""The conditions of the graphs study: a set of graphs with answers."""

from __future__ import annotations

from dataclasses import dataclass

from posenc.workbench.studies import Request
from posenc.workbench.studies.shared.classification_panels import finished_conditions
from posenc.workbench.studies.shared.declarations import Condition
from posenc.workbench.studies.shared.page_data import PageData

SKIP_LINKS, DISTANCES = "skip links", "distances"
MADE = (SKIP_LINKS, DISTANCES)


@dataclass(frozen=True, kw_only=True)
class GraphsCondition(Condition):
    """Graphs with answers.

    graphs: "skip links", "distances", or the name of the user's file or folder.
    """

    graphs: str


def condition(label: str) -> GraphsCondition:
    """The condition of a label."""
    titles = {SKIP_LINKS: "skip-link graphs", DISTANCES: "distances to a marked node"}
    changes = {"data": "random graphs with distances to a marked node"} if label == DISTANCES else {}
    return GraphsCondition(
        label=label,
        title=titles.get(label, label),
        changes=changes,
        takes_file=label not in MADE,
        graphs=label,
    )


def finished(data: PageData) -> list[GraphsCondition]:
    """Conditions of a page in which a run has finished."""
    return [condition(label) for label in finished_conditions(data, data.conditions)]


def label_of(request: Request) -> str:
    """The main condition of a request: the user's data by their name, or the skip-link graphs."""
    if request.source is None:
        return SKIP_LINKS
    name = request.source.resolve().stem or "graphs"
    return f"your {name}" if name in MADE else name
