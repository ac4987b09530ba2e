"""The conditions of the spherical study: a LeNet, a LeNet on CIFAR-10, a small vision transformer."""

from __future__ import annotations

from collections.abc import Mapping

from posenc.workbench.studies.sc_pe.variants import is_lenet, is_transformer
from posenc.workbench.studies.shared.declarations import MAIN, Condition

CIFAR, TRANSFORMER = "cifar-10", "transformer"

CONDITIONS: Mapping[str, Condition] = {
    each.label: each
    for each in (
        Condition(label=MAIN, title="LeNet", has_variant=is_lenet),
        Condition(
            label=CIFAR,
            title="LeNet, CIFAR-10",
            changes={"data": "CIFAR-10"},
            has_variant=is_lenet,
            takes_file=False,
            needs="CIFAR-10 in the folder of data (--data DIR); posenc data cifar-10 says where it is to be had",
        ),
        Condition(
            label=TRANSFORMER,
            title="vision transformer",
            changes={
                "model": "vision transformer of width 64, four layers",
                "optimizer": "AdamW with weight decay 0.05, batches of 64 images",
            },
            has_variant=is_transformer,
        ),
    )
}
LENETS = (MAIN, CIFAR)


def condition(label: str) -> Condition:
    """The condition of a label. A condition that occurs only in a store has no title."""
    return CONDITIONS.get(label) or Condition(label=label)
