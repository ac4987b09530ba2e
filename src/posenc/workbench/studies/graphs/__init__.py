"""Which encoding tells a model the structure of a graph?

    posenc run graphs                              about nine minutes on two cores, no data needed
    posenc run graphs MUTAG/                       your own graphs: a TU folder, MUTAG_A.txt and the files beside it
    posenc run graphs edges.csv --labels nodes.csv         one graph whose nodes have classes
    posenc run graphs --preset standard --yes      ten times the graphs, four layers: about one hour

A small graph transformer attends to all nodes of a graph, reads messages along its edges, or both. Variants differ in
the encoding of the nodes: none, degree, Laplacian eigenvectors, random walks, shortest-path lengths. Predicted after a
trial of one seed: without an encoding, skip-link graphs are at chance, with messages too. Walks (RWSE) and eigenvectors
(SPE) tell them apart. A bias of shortest-path lengths does not, because attention is a mean of equal nodes; it lowers
the error of distances to a marked node, also on graphs larger than those of the training.

Sources: Murphy et al. 2019, arXiv 1903.02541; Dwivedi et al. 2020, arXiv 2003.00982; Ying et al. 2021, arXiv
2106.05234.
"""

from __future__ import annotations

from posenc.workbench.studies.graphs.claims import CLAIMS, compared, headline, predictions
from posenc.workbench.studies.graphs.conditions import condition
from posenc.workbench.studies.graphs.execute import TRAIN, memory_bytes, run_seconds
from posenc.workbench.studies.graphs.panels import PANELS
from posenc.workbench.studies.graphs.presets import LIMITS, PRESETS, PROTOCOL_LIMITS
from posenc.workbench.studies.graphs.settings import remarks, run_settings
from posenc.workbench.studies.graphs.stored_model import STORED_MODEL
from posenc.workbench.studies.graphs.variants import BASELINES, MEANINGS, VIEWS
from posenc.workbench.studies.shared.study import Cost, Study

STUDY = Study(
    name="graphs",
    question="Which encoding tells a model the structure of a graph?",
    lead=(
        "A small graph transformer predicts classes or values of graphs, or of their nodes. It attends to all nodes, "
        "reads messages along the edges, or both. The variants differ in the encoding of the nodes."
    ),
    takes="a TU folder of graphs (NAME_A.txt, NAME_graph_indicator.txt, ..), or the edges of one graph as a CSV",
    presets=PRESETS,
    panels=PANELS,
    condition=condition,
    procedure=TRAIN,
    stored_model=STORED_MODEL,
    run_settings=run_settings,
    cost=Cost(seconds=run_seconds, memory=memory_bytes, smaller="Ask for a smaller batch, or give smaller graphs."),
    metrics=("accuracy", "mse"),
    headline=headline,
    compared=compared,
    baselines=BASELINES,
    meanings=MEANINGS,
    predictions=predictions,
    claims=CLAIMS,
    remarks=remarks,
    scope="graphs are generated; the model is a small transformer on graphs of 16 to 48 nodes at quick.",
    limits=dict.fromkeys(PRESETS, LIMITS),
    protocol_limits=dict.fromkeys(PRESETS, PROTOCOL_LIMITS),
    views=VIEWS,
)
