"""Kinds of data that advice is given on: the study of each, its scores, and the candidates that are worth trying.

A kind names variants of its study by their labels, the controls first. A candidate may also change settings of the
preset, such as the finest detail of an encoding. The order is that of the race if the time does not suffice for all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from posenc.workbench.studies import Request
from posenc.workbench.studies.graphs import conditions as graphs
from posenc.workbench.studies.places import conditions as places
from posenc.workbench.studies.places.variants import FURTHER_AXIS, WITH_FURTHER_AXES
from posenc.workbench.studies.points import conditions as points
from posenc.workbench.studies.series import conditions as series
from posenc.workbench.studies.shared.declarations import MAIN

Sense = Literal["max", "min"]


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """An encoding in a race.

    Attributes:
        label: Label of the variant in its study, or a scheme as text.
        changes: Settings of the preset with other values.
        control: Reason for a control, such as "no positions"; "" for an encoding.
    """

    label: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    control: str = ""

    @property
    def name(self) -> str:
        """The label, with the changed settings: "fourier (detail 4)"."""
        changed = ", ".join(f"{name} {value:g}" for name, value in self.changes.items())
        return f"{self.label} ({changed})" if changed else self.label


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A score of a kind of data.

    Attributes:
        validation: Name in the learning curves.
        test: Name among the metrics of a run.
        name: Name in sentences, with its unit.
        sense: "max" if higher is better.
        unit: Unit after a number.
        digits: Decimals.
    """

    validation: str
    test: str
    name: str
    sense: Sense = "max"
    unit: str = ""
    digits: int = 3

    @property
    def sign(self) -> int:
        """1 if higher is better, otherwise -1."""
        return 1 if self.sense == "max" else -1


def _main(request: Request, question: str) -> str:
    return MAIN


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of data.

    Attributes:
        study: Name of the study that trains on it.
        noun: The data in words.
        metrics: Scores; the first one that a run has counts.
        candidates: Candidates in the order of their importance, the controls first.
        early: Question to the names of candidates that come before the others, after the controls.
        condition: Maps a request and a question to the label of the condition.
        questions: Question to its phrase; the first one is usual.
        half: Setting of the time limit of a training, for a study whose trainings have one; "" otherwise.
        held_out: True if the data have a test part.
        references: Baselines without a training, scored on the test part beside the answer.
        evidence: Committed page and document on the same question.
        more: What would change the advice, as sentences.
        needs: Candidate to what it needs of the positions, for one that the data may not fit.
    """

    study: str
    noun: str
    metrics: tuple[Metric, ...]
    candidates: tuple[Candidate, ...]
    early: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    condition: Callable[[Request, str], str] = _main
    questions: Mapping[str, str] = field(default_factory=lambda: {"": ""})
    half: str = ""
    held_out: bool = True
    references: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    more: tuple[str, ...] = ()
    needs: Mapping[str, str] = field(default_factory=dict)


def _plain(*labels: str) -> tuple[Candidate, ...]:
    return tuple(map(_candidate, labels))


def _candidate(label: str) -> Candidate:
    return Candidate(label=label)


def _with(name: str, value: float, *labels: str) -> tuple[Candidate, ...]:
    return tuple(Candidate(label=label, changes={name: value}) for label in labels)


def _control(label: str, reason: str) -> Candidate:
    return Candidate(label=label, control=reason)


NO_POSITIONS, BARE, INDEX = "no positions", "bare coordinates", "the number of a token"
ACCURACY = Metric(validation="accuracy", test="accuracy", name="accuracy")
MSE = Metric(validation="mse", test="mse", name="mean squared error", sense="min")
PSNR = Metric(validation="psnr", test="psnr", name="PSNR", unit=" dB", digits=2)
MORE_DATA = "More data: fine scales and trained tables gain most from it."
OTHER_SIZE = "Another size of the network or another training time: the race has one of each."

KINDS: tuple[Kind, ...] = (
    Kind(
        study="places",
        noun="a table of places",
        metrics=(Metric(validation="r2", test="r2", name="R2"), ACCURACY),
        candidates=(
            _control("coordinates", BARE),
            _control("none", NO_POSITIONS),
            *_plain("fourier", "sphere-c-plus", *WITH_FURTHER_AXES, "sphere-dfs"),
            *_with("detail", 2, "fourier"),
            *_with("detail", 16, "fourier", "hash"),
            *_plain("positional", "hash"),
            *_with("detail", 2, "sphere-c-plus"),
            *_plain("space2vec-theory", "learnable-fourier", "harmonics", "dense", "sphere-m-plus"),
            *_with("detail", 4, "fourier", "hash"),
        ),
        early={  # fine scales fill gaps between known places, and mislead away from them
            "between": ("fourier", "fourier (detail 16)", *WITH_FURTHER_AXES),
            "new": ("sphere-c-plus", "sphere-dfs", *WITH_FURTHER_AXES, "fourier (detail 2)"),
        },
        condition=lambda request, question: places.label_of(request, "blocks" if question == "new" else "random"),
        questions={"between": "at places between known places", "new": "at new places, away from known ones"},
        references=("boosting",),
        needs=dict.fromkeys(WITH_FURTHER_AXES, f"they need {FURTHER_AXIS}"),
        evidence=("results/places-quick-california.html", "docs/places.md"),
        more=(
            "The other question: a model that fills gaps between known places may read finer scales than one for new "
            "places. Ask it with --question.",
            MORE_DATA,
        ),
    ),
    Kind(
        study="image-fit",
        noun="an image",
        metrics=(PSNR,),
        candidates=(
            _control("none", BARE),
            *_plain("multires", "dense", "gaussian-10", "hash", "positional", "gaussian-5", "gaussian-20", "siren"),
        ),
        half="limit.seconds",
        held_out=False,
        evidence=("results/image-fit-quick.html", "results/image-fit-standard-photographs.html"),
        more=(
            "Another resolution: an image of more pixels needs larger grids and higher frequencies.",
            "Another time of training: grids learn first, and Fourier features go on.",
        ),
    ),
    Kind(
        study="language",
        noun="a text",
        metrics=(Metric(validation="loss", test="loss", name="loss", sense="min", unit=" nats"),),
        candidates=(
            _control("nope", NO_POSITIONS),
            _control("learned-0.5", INDEX),
            *_plain("rope", "alibi", "fire", "t5", "sinusoid", "kerple", "RoPE(base=1000)", "vo-rope"),
        ),
        evidence=("results/language-quick.html", "results/language-standard.html", "docs/language.md"),
        more=("Longer contexts than in training: see the panel of the study on them, posenc run language.", MORE_DATA),
    ),
    Kind(
        study="gridpe",
        noun="labeled images",
        metrics=(ACCURACY,),
        candidates=(
            _control("nope", NO_POSITIONS),
            _control("learned-0.02", INDEX),
            *_plain("rope-mixed", "rope-axial", "gridpe", "sinusoid", "grid-complex", "grid-deep"),
        ),
        evidence=("results/gridpe-quick.html", "results/presets-gridpe-cpu.json", "docs/vision.md"),
        more=(MORE_DATA, "Larger images: there are more patches to tell apart."),
    ),
    Kind(
        study="points",
        noun="point clouds or meshes in class folders",
        metrics=(ACCURACY,),
        candidates=(
            _control("xyz", BARE),
            _control("nope", NO_POSITIONS),
            *_plain("fourier", "gridpe", "rope-axial", "rope-mixed", "distance", "gridpe + xyz"),
        ),
        condition=lambda request, question: points.label_of(request),
        evidence=("results/points-quick.html", "results/points-standard.html"),
        more=("Objects that are turned in space: see posenc run points --panels rotations.", MORE_DATA),
    ),
    Kind(
        study="masked",
        noun="recordings of channels",
        metrics=(Metric(validation="mse_90", test="mse_90", name="mean squared error, 90% hidden", sense="min"),),
        candidates=(
            _control("nope", NO_POSITIONS),
            _control("1d-fixed", INDEX),
            *_plain("learned-0.1", "random", "relative", "learned-1.0", "sinusoid-xyz", "gridpe-xyz"),
        ),
        evidence=("results/masked-quick.html", "docs/brain.md"),
        more=("More subjects: the parts are subjects.", OTHER_SIZE),
    ),
    Kind(
        study="series",
        noun="time series",
        metrics=(MSE,),
        candidates=(
            _control("none", NO_POSITIONS),
            _control("index-rows", INDEX),
            *_plain("time-rows", "time-rotation", "calendar-rows", "both-rows", "time-bias", "index-rotation"),
        ),
        condition=lambda request, question: series.label_of(request),
        evidence=("results/series-quick.html", "docs/time.md"),
        more=("A longer history: slow periods cannot be learned from a few of them.", OTHER_SIZE),
    ),
    Kind(
        study="graphs",
        noun="graphs",
        metrics=(ACCURACY, MSE),
        candidates=(
            _control("none", NO_POSITIONS),
            _control("degree", "the number of edges of a node"),
            *_plain("rwse", "laplacian", "distance", "messages", "rwse + messages", "spe", "sign-net"),
        ),
        condition=lambda request, question: graphs.label_of(request),
        evidence=("results/graphs-quick.html", "docs/graphs.md"),
        more=("Larger graphs than in training.", MORE_DATA),
    ),
    Kind(
        study="shape-fit",
        noun="a mesh",
        metrics=(Metric(validation="iou", test="iou", name="intersection over union"),),
        candidates=(
            _control("none", BARE),
            *_plain("multires", "siren", "gaussian-2", "positional", "gaussian-4", "gaussian-1", "dense", "hash"),
        ),
        held_out=False,
        evidence=("results/shape-fit-quick.html", "results/shape-fit-standard.html"),
        more=("A mesh with finer parts, or a larger network.", OTHER_SIZE),
    ),
)
"""Kinds in the order in which a path is tried."""


def kind_of(study: str) -> Kind | None:
    """The kind of data of a study.

    Args:
        study: Name of the study.

    Returns:
        The kind; None if no advice is given on its data.
    """
    return next((kind for kind in KINDS if kind.study == study), None)
