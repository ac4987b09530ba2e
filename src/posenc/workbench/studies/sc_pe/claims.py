"""The answer of the spherical study, its predictions, and the claims of the seed note with their controls."""

from __future__ import annotations

from collections.abc import Sequence

from posenc.measure.statistics import Estimate, paired_difference
from posenc.workbench.report.claims_table import Claim, Quantity
from posenc.workbench.report.estimators import difference, equivalence
from posenc.workbench.report.number_format import count, interval, signed_number
from posenc.workbench.report.preregistered import Prediction
from posenc.workbench.report.result_rows import BySeed
from posenc.workbench.studies.sc_pe.conditions import CIFAR, CONDITIONS, LENETS, TRANSFORMER
from posenc.workbench.studies.shared.best_variant import no_answer
from posenc.workbench.studies.shared.classification_panels import (
    ACCURACY,
    TRAINING,
    finished_conditions,
    images_of,
    seeds_by_label,
)
from posenc.workbench.studies.shared.compared_score import ComparedScore, compared_accuracy
from posenc.workbench.studies.shared.declarations import MAIN
from posenc.workbench.studies.shared.page_data import PageData
from posenc.workbench.tables.metric_bounds import SHARE

NOTE = "Cui 2024, CNN with SC PE, section 4"
MARGIN = 0.01
"""Accuracies within one percentage point are equivalent."""
ROUGHNESS = "roughness"
PAIRS = (("as-published", "plain-padded"), ("code", "plain"), ("code-slow", "plain-slow"))
"""(with the encoding, without it) and otherwise equal. The answer uses the first pair that was run."""
FURTHER_PAIRS = (("as-published", "plain", "Encoding and padding together"), ("plain-padded", "plain", "Padding alone"))
"""Further differences that the headline reports after the answer."""
TOKEN_PAIRS = (("sphere", "nope"), ("sphere-in-line", "nope"))
FURTHER_TOKEN_PAIRS = (
    ("sphere", "sinusoid", "In place of sinusoids"),
    ("sphere-in-line", "sinusoid-in-line", "The same with patches in one line"),
)
"""The same of the vision transformer."""


def headline(data: PageData) -> str:
    """The answer for each data set, the differences that the note combined, and the answer for the transformer."""
    sentences = []
    for condition in finished_conditions(data, [*LENETS, TRANSFORMER]):
        by_label, title = seeds_by_label(data, ACCURACY, condition), CONDITIONS[condition].title
        pairs = (TOKEN_PAIRS, FURTHER_TOKEN_PAIRS) if condition == TRANSFORMER else (PAIRS, FURTHER_PAIRS)
        sentences.append(_answer(by_label, title, *pairs))
    return " ".join(sentences) or no_answer(bool(data.done))


def _answer(
    by_label: dict[str, BySeed], title: str, pairs: Sequence[tuple[str, str]], further: Sequence[tuple[str, str, str]]
) -> str:
    """Answer for one data set: difference of accuracy due to the encoding, with equal padding and learning rate."""
    pair = next(((a, b) for a, b in pairs if _shared(by_label, a, b)), None)
    if pair is None:
        return f"No answer yet for the {title}: this needs two variants that differ in the encoding alone."
    a, b = pair
    gap = paired_difference(by_label[a], by_label[b], bounds=SHARE)
    seeds = f" ({count(gap.n, 'seed')})" if gap.known else ""
    word, equivalent = _word(gap, by_label[a], by_label[b])
    answer = f"{word} for the {title}{equivalent}: {a} against {b}, accuracy {_size(gap)}{seeds}."
    others = [
        f"{change} ({x} against {y}): {_size(paired_difference(by_label[x], by_label[y], bounds=SHARE))}."
        for x, y, change in further
        if _shared(by_label, x, y)
    ]
    return " ".join([answer, *others])


def _word(gap: Estimate, a: BySeed, b: BySeed) -> tuple[str, str]:
    """Verdict and addition: "Yes" if a is above b, "No" if it is below or, as the addition states, equivalent."""
    if gap.above(0):
        return "Yes", ""
    if gap.below(0):
        return "No", ""
    if gap.known:
        equivalent = paired_difference(a, b, 0.9, SHARE)  # two one-sided tests at 5%
        if equivalent.above(-MARGIN) and equivalent.below(MARGIN):
            return "No", f", equivalent within {MARGIN}"
    return "Inconclusive", ""


def _shared(by_label: dict[str, BySeed], a: str, b: str) -> bool:
    return bool(by_label.get(a, {}).keys() & by_label.get(b, {}).keys())


def _size(gap: Estimate) -> str:
    return f"{signed_number(gap.mean, 3)} {interval(gap, 3)}"


def compared(data: PageData) -> list[ComparedScore]:
    """The accuracy of the models, compared with that of the models without an encoding."""
    lenets, tokens = (tuple(dict.fromkeys(without for _, without in pairs)) for pairs in (PAIRS, TOKEN_PAIRS))
    return [
        compared_accuracy(
            label,
            f"for the {CONDITIONS[label].title}",
            images_of(data, label).classes,
            tokens if label == TRANSFORMER else lenets,
        )
        for label in finished_conditions(data, [*LENETS, TRANSFORMER])
    ]


def predictions(data: PageData) -> Sequence[Prediction]:
    """Predicted before the run: the padding alone improves a LeNet."""
    return [
        Prediction(ACCURACY, "plain-padded", "plain", conditions=(condition,))
        for condition in LENETS
        if {"plain-padded", "plain"} <= {*data.labels(condition)}
    ]


METRIC_NAMES = {ACCURACY: "accuracy", TRAINING: "training accuracy"}
RUN = "posenc run sc-pe --data DIR --panels {}"


def _above(a: str, b: str, condition: str = MAIN, metric: str = ACCURACY) -> Quantity:
    """Quantity of the claim that a is above b."""
    return Quantity(f"{a} − {b}, {METRIC_NAMES[metric]}", difference(metric, a, b, condition), low=0.0)


def _equivalent(a: str, b: str) -> Quantity:
    """Quantity of the claim that a and b are equivalent."""
    return Quantity(f"{a} − {b}, accuracy", equivalence(ACCURACY, a, b), low=-MARGIN, high=MARGIN)


def _smoother(a: str, b: str) -> Quantity:
    """Quantity of the claim that the training loss of a is smoother than that of b."""
    name = f"{a} − {b}, roughness of the training loss"
    return Quantity(name, difference(ROUGHNESS, a, b, TRANSFORMER), high=0.0)


GAIN = "LeNet 加球坐标位置编码在 fashion minist 上测试准确率提高了 2% 左右，在 cifar10 上面提高了 4% 左右"
GAIN_ENGLISH = (
    "LeNet with spherical position encoding gains about 2% of test accuracy on Fashion-MNIST and about 4% on CIFAR-10"
)

CLAIMS = (
    Claim(
        name="the spherical encoding improves a LeNet",
        source=NOTE,
        quote=GAIN,
        english=GAIN_ENGLISH,
        lang="zh-Hans",
        about="A LeNet whose features are concatenated with the spherical encoding has a higher held-out accuracy.",
        published="about +2 points of accuracy on Fashion-MNIST",
        quantities=(_above("as-published", "plain"),),
        control="The released network with the encoding also pads its first convolution, and the network without it "
        "does not. An encoding that is the same for every image is a bias, so a trained vector of its width has to be "
        "less accurate.",
        controls=(_above("as-published", "plain-padded"), _above("as-published", "constant-padded")),
        panel="concatenation",
        command=RUN.format("concatenation"),
    ),
    Claim(
        name="the spherical encoding improves a LeNet on CIFAR-10",
        source=NOTE,
        quote=GAIN,
        english=GAIN_ENGLISH,
        lang="zh-Hans",
        about="The claim on CIFAR-10, with the two learning rates of the released code: 0.0003 with the encoding, "
        "0.001 without it.",
        published="about +4 points of accuracy on CIFAR-10",
        quantities=(_above("code-slow", "plain", CIFAR),),
        control="With an equal learning rate, which the released code did not use, the encoding has to be more "
        "accurate. A trained vector has to be less accurate.",
        controls=(
            _above("code-slow", "plain-slow", CIFAR),
            _above("code", "plain", CIFAR),
            _above("code", "constant", CIFAR),
        ),
        panel="rates",
        command=RUN.format("concatenation rates"),
    ),
    Claim(
        name="on CIFAR-10 the encoding lowers the training accuracy",
        source=NOTE,
        quote="对于 Cifar10 数据集，使用位置编码的网络最终的测试准确性高于或等于不使用的网络，"
        "但训练准确性却相反且差距随着 epoch 的增多而拉大",
        english="on CIFAR-10 the network with position encoding is in the end above or equal to the one without in "
        "testing, but in training it is the other way round, and the gap widens with the epochs",
        lang="zh-Hans",
        about="The training accuracy of the plain LeNet is above that of the LeNet with the encoding.",
        quantities=(_above("plain", "code-slow", CIFAR, TRAINING),),
        control="With an equal learning rate the difference must remain; otherwise the learning rate is its cause.",
        controls=(_above("plain-slow", "code-slow", CIFAR, TRAINING), _above("plain", "code", CIFAR, TRAINING)),
        panel="rates",
        command=RUN.format("rates"),
    ),
    Claim(
        name="accuracy with and without the encoding is about the same",
        source=NOTE,
        quote="是不是用球坐标位置编码最终的测试准确性虽然高一点点，但总体应该差不多",
        english="with spherical position encoding the final test accuracy is perhaps a little higher, but all in all "
        "it should be about the same",
        lang="zh-Hans",
        about="The author's second run, judged by an equivalence test within 0.01.",
        quantities=(_equivalent("as-published", "plain"),),
        control="The accuracies must also be equivalent with equal padding and without padding.",
        controls=(_equivalent("as-published", "plain-padded"), _equivalent("code", "plain")),
        panel="concatenation",
        command=RUN.format("concatenation"),
    ),
    Claim(
        name="the initial weights of the readout do not matter",
        source=NOTE,
        quote="这个结果是令人沮丧的，我猜测原因跟矩阵的初始化有关，但我没有任何证据",
        english="This result is disheartening. I guess that the reason has to do with the initialization of the "
        "matrices, but I have no evidence",
        lang="zh-Hans",
        about="The author guesses that they matter, and this claim is the opposite. The initial weights of the "
        "readout's last layer are multiplied by 10 and by 0.1. The claim is supported if the accuracies are equivalent "
        "within 0.01.",
        quantities=(_equivalent("code x 10", "code"), _equivalent("code x 0.1", "code")),
        control="Initial weights of 0 must be equivalent too; with them the encoding is initially equal at all pixels.",
        controls=(_equivalent("code x 0", "code"),),
        panel="readout-scale",
        command=RUN.format("readout-scale"),
    ),
    Claim(
        name="multiplied pixels improve training accuracy and not held-out accuracy",
        source=f"{NOTE}, Fig. 4",
        quote="虽然加了位置编码的训练准确率高一些，但测试准确率差不多",
        english="although training accuracy with position encoding is somewhat higher, test accuracy is about the same",
        lang="zh-Hans",
        about="Every pixel is multiplied by the value of the encoding at its position.",
        quantities=(_above("note times", "plain", metric=TRAINING), _equivalent("note times", "plain")),
        control="A trained value per pixel, without a sphere, has to have a lower training accuracy.",
        controls=(_above("note times", "mask", metric=TRAINING),),
        panel="multiplication",
        command=RUN.format("multiplication"),
    ),
    Claim(
        name="in a transformer the training loss of the sphere is smoother than that of the sinusoid",
        source=f"{NOTE}, Fig. 5",
        quote="可以看到似乎更平滑一些",
        english="one can see that it seems somewhat smoother",
        lang="zh-Hans",
        about="Roughness (mean absolute second difference) of the training loss in a small vision transformer on the "
        "same images, with patches in one line as the tokens of the note. The note names neither model nor task.",
        quantities=(_smoother("sphere-in-line", "sinusoid-in-line"),),
        control="The sphere must also be smoother on rows and columns, and smoother than no encoding.",
        controls=(_smoother("sphere", "sinusoid"), _smoother("sphere-in-line", "nope")),
        panel="tokens",
        command=RUN.format("tokens"),
    ),
)
