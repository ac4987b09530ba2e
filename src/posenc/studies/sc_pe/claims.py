"""What the seed note claims of spherical rows, each with the number that carries it and the control that decides."""

from __future__ import annotations

from posenc.report.ledger import Claim, Quantity
from posenc.report.quantities import difference, equivalent
from posenc.studies.sc_pe.presets import CIFAR, TRANSFORMER

NOTE = "Cui 2024, CNN with SC PE, section 4"
ALIKE = 0.01
"""Accuracies within one point of each other count as about the same."""
ACCURACY, LEARNED, BENDS = "accuracy", "accuracy_train", "roughness"
_READ = {ACCURACY: "accuracy", LEARNED: "accuracy in training"}
RUN = "posenc run sc-pe --data DIR --panels {}"


def _ahead(a: str, b: str, setting: str = "main", metric: str = ACCURACY) -> Quantity:
    return Quantity(f"{a} - {b}, {_READ[metric]}", difference(metric, a, b, setting), low=0.0)


def _alike(a: str, b: str) -> Quantity:
    return Quantity(f"{a} - {b}, accuracy", equivalent(ACCURACY, a, b), low=-ALIKE, high=ALIKE)


def _smoother(a: str, b: str) -> Quantity:
    return Quantity(f"{a} - {b}, bends of the training loss", difference(BENDS, a, b, TRANSFORMER), high=0.0)


GAIN = "LeNet 加球坐标位置编码在 fashion minist 上测试准确率提高了 2% 左右，在 cifar10 上面提高了 4% 左右"
GAIN_SAYS = (
    "LeNet with spherical position encoding gains about 2% of test accuracy on Fashion-MNIST and about 4% on CIFAR-10"
)

CLAIMS = (
    Claim(
        name="rows beside the features help on Fashion-MNIST",
        source=NOTE,
        quote=GAIN,
        english=GAIN_SAYS,
        lang="zh-Hans",
        about="A LeNet that is given spherical rows beside its features classifies more held-out pictures rightly.",
        quantities=(_ahead("as-published", "plain"),),
        control="The released network with rows also pads its first layer, which the one without does not; and rows "
        "that are the same for every picture are a bias by another name, so a trained vector of their width must do "
        "less well.",
        controls=(_ahead("as-published", "plain-padded"), _ahead("as-published", "constant-padded")),
        panel="Beside the features",
        command=RUN.format("beside"),
    ),
    Claim(
        name="rows beside the features help on CIFAR-10",
        source=NOTE,
        quote=GAIN,
        english=GAIN_SAYS,
        lang="zh-Hans",
        about="The same on CIFAR-10, which a user brings: rows at the rate that the released code has with them, the "
        "plain LeNet at the one that it has without.",
        quantities=(_ahead("code-slow", "plain", CIFAR),),
        control="Both at one rate, which the released code never ran; and a trained vector must do less well.",
        controls=(
            _ahead("code-slow", "plain-slow", CIFAR),
            _ahead("code", "plain", CIFAR),
            _ahead("code", "constant", CIFAR),
        ),
        panel="Rates crossed, CIFAR-10",
        command=RUN.format("beside rates"),
    ),
    Claim(
        name="on CIFAR-10 rows learn the training pictures less well",
        source=NOTE,
        quote="对于 Cifar10 数据集，使用位置编码的网络最终的测试准确性高于或等于不使用的网络，"
        "但训练准确性却相反且差距随着 epoch 的增多而拉大",
        english="on CIFAR-10 the network with position encoding is in the end above or equal to the one without in "
        "testing, but in training it is the other way round, and the gap widens with the epochs",
        lang="zh-Hans",
        about="Accuracy in training of the plain LeNet is above that of the one with rows.",
        quantities=(_ahead("plain", "code-slow", CIFAR, LEARNED),),
        control="At one rate: if the gap goes, the rate made it.",
        controls=(_ahead("plain-slow", "code-slow", CIFAR, LEARNED), _ahead("plain", "code", CIFAR, LEARNED)),
        panel="Rates crossed, CIFAR-10",
        command=RUN.format("rates"),
    ),
    Claim(
        name="with and without rows, all in all the same",
        source=NOTE,
        quote="是不是用球坐标位置编码最终的测试准确性虽然高一点点，但总体应该差不多",
        english="with spherical position encoding the final test accuracy is perhaps a little higher, but all in all "
        "it should be about the same",
        lang="zh-Hans",
        about="The author's second run; a test of equivalence within one point decides.",
        quantities=(_alike("as-published", "plain"),),
        control="The same with the padding matched, and without any padding.",
        controls=(_alike("as-published", "plain-padded"), _alike("code", "plain")),
        panel="Beside the features",
        command=RUN.format("beside"),
    ),
    Claim(
        name="against the author's guess: the head's first weights do not decide",
        source=NOTE,
        quote="这个结果是令人沮丧的，我猜测原因跟矩阵的初始化有关，但我没有任何证据",
        english="This result is disheartening. I guess that the reason has to do with the initialisation of the "
        "matrices, but I have no evidence",
        lang="zh-Hans",
        about="The head's last layer starts ten times as large and a tenth as large: the guess falls, and this line is "
        "upheld, where all score alike within a point; it is not upheld where one start makes a difference.",
        quantities=(_alike("code x 10", "code"), _alike("code x 0.1", "code")),
        control="A head that starts at nothing, whose rows are all alike in the beginning.",
        controls=(_alike("code x 0", "code"),),
        panel="How large the head starts",
        command=RUN.format("starts"),
    ),
    Claim(
        name="pixels times rows are learned better and tested alike",
        source=f"{NOTE}, Fig. 4",
        quote="虽然加了位置编码的训练准确率高一些，但测试准确率差不多",
        english="although training accuracy with position encoding is somewhat higher, test accuracy is about the same",
        lang="zh-Hans",
        about="Every pixel is multiplied by the one number that the head gives its place.",
        quantities=(_ahead("note times", "plain", metric=LEARNED), _alike("note times", "plain")),
        control="A free number a pixel, which knows nothing of spheres, must be learned less well.",
        controls=(_ahead("note times", "mask", metric=LEARNED),),
        panel="Times the pixels",
        command=RUN.format("over"),
    ),
    Claim(
        name="in a transformer the sphere learns more smoothly than the sinusoid",
        source=f"{NOTE}, Fig. 5",
        quote="可以看到似乎更平滑一些",
        english="one can see that it seems somewhat smoother",
        lang="zh-Hans",
        about="The bends of the training loss from look to look, in a small transformer on the same pictures, patches "
        "in one line as the note has tokens; it does not say which model and task its figure is of.",
        quantities=(_smoother("sphere, in line", "sinusoid, in line"),),
        control="On rows and columns too, and smoother than with no encoding at all.",
        controls=(_smoother("sphere", "sinusoid"), _smoother("sphere, in line", "nope")),
        panel="In a transformer",
        command=RUN.format("tokens"),
    ),
)
