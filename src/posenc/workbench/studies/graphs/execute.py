"""Execute one run of the graphs study: train a graph transformer on answers of graphs or nodes, or take a baseline."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from posenc.models.graph_transformer import GraphConfig, GraphTransformer
from posenc.workbench.runs import Procedure, RunResult, RunSpec
from posenc.workbench.storage.store import Store
from posenc.workbench.studies.graphs.stored_graphs import RunGraphs, load_view, read_graphs
from posenc.workbench.studies.graphs.variants import GraphVariant
from posenc.workbench.studies.shared.training_run import execute_training, store_root, weights_of
from posenc.workbench.studies.shared.training_time import training_seconds
from posenc.workbench.tasks import graphs as task
from posenc.workbench.training.fit import endless_batches
from posenc.workbench.training.loop import Fit, Report, TrainingConfig

GRAPHS_AT_ONCE, PAIRS_AT_ONCE = 256, 2**20
"""Largest number of graphs, and of pairs of their nodes, that are read at once outside training."""
SCORING_SECONDS, BASELINE_SECONDS = 0.5, 4.0
"""Approximate time of a run besides its training, and of a baseline."""
TINY = 1e-12
"""Smallest probability of a baseline, whose logarithm is finite."""


class GraphModel:
    """A graph transformer on its graphs: the loss of a batch, and scores."""

    def __init__(self, spec: RunSpec, root: Path) -> None:
        settings, self.spec, self.root = spec.settings, spec, root
        self.data: RunGraphs = read_graphs(root, settings, spec.seed)
        self.answers = Answers(self.data)
        self.device: str = settings["device"]
        self.training = msgspec.convert(settings["training"], TrainingConfig)
        self.variant = msgspec.convert(settings["row"], GraphVariant)
        torch.manual_seed(spec.seed)
        config = msgspec.convert(settings["model"], GraphConfig)
        self.model: GraphTransformer = self.variant.model(config, settings["nodes"]).to(self.device)

    @cached_property
    def batches(self) -> task.GraphBatches:
        graphs, one = self.data.graphs, self.answers.one_graph
        arrays = load_view(self.root, self.spec.settings["data"], graphs, self.variant.view)
        training = np.arange(1) if one else self.data.parts.train
        return task.GraphBatches(graphs, self.variant.view, arrays, training, self.device)

    def fit(self) -> Fit:
        """The training problem: an epoch is a step."""
        train = self.data.parts.train
        draw = endless_batches(len(train), self.training.batch, self.spec.seed)
        return Fit(self.model, len(train), self.loss, self.evaluate, draw=draw)

    def loss(self, batch: Tensor) -> Tensor:
        """Cross-entropy or mean squared error of a batch of training items."""
        items = torch.from_numpy(self.data.parts.train)[batch]
        true = self.answers.true(items.numpy()).to(self.device)
        found = self.predicted(items)
        return functional.cross_entropy(found, true) if self.answers.classes else functional.mse_loss(found, true)

    def predicted(self, items: Tensor) -> Tensor:
        """Logits or values ``(M, outputs)`` of the answers of items."""
        if self.answers.one_graph:
            features, pos = self.batches.batch(torch.zeros(1, dtype=torch.long), self.variant.axes)
            return self.model(features, pos)[0, items.to(self.device)]
        features, pos = self.batches.batch(items, self.variant.axes)
        found = self.model(features, pos)
        if found.dim() == 2:
            return found
        return found.flatten(0, 1) if pos.placed is None else found[pos.placed]

    @torch.no_grad()
    def predictions(self, items: NDArray[np.int64]) -> Tensor:
        """Logits or values of the answers of any number of items, on the CPU."""
        if self.answers.one_graph or not len(items):
            return self.predicted(torch.from_numpy(items)).cpu() if len(items) else torch.zeros(0)
        largest = int(self.data.graphs.sizes[items].max())
        at_once = max(1, min(GRAPHS_AT_ONCE, PAIRS_AT_ONCE // largest**2))
        return torch.cat([self.predicted(some).cpu() for some in torch.from_numpy(items).split(at_once)])

    def embedding_scale(self) -> float | None:
        """Size of the positions beside that of the features of some training graphs."""
        train = self.data.parts.train[: self.training.batch]
        items = torch.zeros(1, dtype=torch.long) if self.answers.one_graph else torch.from_numpy(train)
        return self.model.embedding_scale(*self.batches.batch(items, self.variant.axes))

    def evaluate(self) -> dict[str, float]:
        """Scores on the validation part."""
        validation = self.data.parts.validation
        return self.answers.scores(self.predictions(validation), validation)

    @torch.no_grad()
    def result(self, curve: list[dict[str, Any]]) -> RunResult:
        """Scores on the test part, and by size."""
        metrics = self.answers.all_scores(self.predictions(self.data.parts.test), self.predictions(self.data.larger))
        metrics["parameters"] = float(sum(p.numel() for p in self.model.parameters() if p.requires_grad))
        return RunResult(metrics=metrics, curves=curve, arrays={}, weights=weights_of(self.model))


class Answers:
    """Answers of the items of a run, values in standard deviations of the training part.

    Args:
        data: The graphs.
    """

    def __init__(self, data: RunGraphs) -> None:
        self.data, graphs = data, data.graphs
        self.classes: bool = graphs.has_classes
        self.one_graph: bool = graphs.of_nodes and len(graphs.sizes) == 1
        self.rows = torch.from_numpy(graphs.answers)
        self.mean = self.scale = torch.zeros(())
        if not self.classes:
            trained = self.rows[torch.from_numpy(task.answer_rows(graphs, data.parts.train))].double()
            spread = trained.std(0, unbiased=False)
            self.mean, self.scale = trained.mean(0), spread.where(spread > 0, 1.0)

    def true(self, items: NDArray[np.int64]) -> Tensor:
        """Answers of items: class numbers, or values."""
        rows = self.rows[torch.from_numpy(task.answer_rows(self.data.graphs, items))]
        return rows if self.classes else self.standardized(rows)

    def standardized(self, values: Tensor) -> Tensor:
        """Values less the mean of the training part, in its standard deviations."""
        return ((values.double() - self.mean) / self.scale).float()

    def scores(self, found: Tensor, items: NDArray[np.int64]) -> dict[str, float]:
        """Scores of the answers of items."""
        true = self.true(items)
        return task.class_scores(found, true) if self.classes else task.value_scores(found, true)

    def all_scores(self, tested: Tensor, larger: Tensor) -> dict[str, float]:
        """Scores on the test part, and of test graphs and larger ones by size."""
        parts, graphs = self.data.parts, self.data.graphs
        scores = self.scores(tested, parts.test)
        if self.one_graph or not self.data.ranges:
            return scores
        items = np.concatenate([parts.test, self.data.larger])
        found, true = torch.cat([tested, larger]) if len(self.data.larger) else tested, self.true(items)
        sizes = graphs.sizes[items]
        sizes = torch.from_numpy(np.repeat(sizes, sizes) if graphs.of_nodes else sizes)
        name, score = ("accuracy", task.class_scores) if self.classes else ("mse", task.value_scores)
        for mark, some in task.by_size(sizes, self.data.ranges).items():
            scores[f"{name}_at_{mark}"] = score(found[some], true[some])[name]
        return scores


def build(spec: RunSpec, root: Path, workdir: Path | None) -> GraphModel:
    """The model of a run on its graphs, untrained."""
    return GraphModel(spec, root)


def train(spec: RunSpec, workdir: Path, report: Report) -> RunResult:
    """Train the model of a run and score it, or compute a baseline."""
    if "baseline" in spec.settings:
        return baseline_result(spec, store_root(workdir))
    return execute_training(spec, workdir, report, build)


def baseline_result(spec: RunSpec, root: Path) -> RunResult:
    """Scores of a baseline on the test part, and by size."""
    data = read_graphs(root, spec.settings, spec.seed)
    answers, items = Answers(data), np.concatenate([data.parts.test, data.larger])
    made = torch.from_numpy(task.boosted(spec.settings["baseline"], data.graphs, data.parts, items, spec.seed))
    made = made.clamp(min=TINY).log() if answers.classes else answers.standardized(made)
    tested = len(task.answer_rows(data.graphs, data.parts.test))
    return RunResult(metrics=answers.all_scores(made[:tested], made[tested:]))


def run_seconds(spec: RunSpec, store: Store) -> float:
    """Time of a run on one core of this machine, from a few timed steps."""
    if "baseline" in spec.settings:
        return BASELINE_SECONDS
    with torch.random.fork_rng():
        model = GraphModel(spec, store.root)
        return training_seconds(model.fit(), model.training, model.device) + SCORING_SECONDS


def memory_bytes(spec: RunSpec) -> float:
    """Approximate memory of a run: the activations of a step, for each node and each pair of nodes of a graph."""
    if "baseline" in spec.settings:
        return 0.0
    model, nodes = spec.settings["model"], spec.settings["nodes"]
    batch = 1 if spec.settings["data"].get("one") else spec.settings["training"]["batch"]
    pairs = (4.0 * model["heads"] * model["depth"] + 40.0) * nodes**2
    tokens = nodes * model["depth"] * (16.0 * model["dim"] + 8.0 * model["hidden"])
    return 4.0 * (batch * (pairs + tokens) + PAIRS_AT_ONCE * (model["heads"] + 8))


TRAIN = Procedure("graphs.train", 1, train)
