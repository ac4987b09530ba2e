"""Labels of variants that were renamed. Stored runs, packs and CSV files keep their old labels; readers translate them.

The identity of a run holds no label, so a new label changes no identity. The tables are append-only: a label that some
store may hold stays here for ever. The old label of a learned table did not tell its initial standard deviation, and
names with a comma could not be told from two names.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from posenc.workbench.runs import RunSpec

HEAD_COUNTS = (1, 2, 4, 8)
OLD_LABELS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "gridpe": {
            "learned": "learned-0.02",
            "Learned": "Learned(sigma=1.0)",
            **{f"learned, {heads} heads": f"learned-0.02-{heads}-heads" for heads in HEAD_COUNTS},
            **{f"gridpe, {heads} heads": f"gridpe-{heads}-heads" for heads in HEAD_COUNTS},
        },
        "language": {
            "learned": "learned-0.5",
            "Learned": "Learned(sigma=1.0)",
            "rope, linear": "rope-linear",
            "rope, ntk": "rope-ntk",
            "rope, yarn": "rope-yarn",
        },
        "points": {"gridpe, fixed places": "gridpe-fixed-places"},
        "sc-pe": {"sphere, in line": "sphere-in-line", "sinusoid, in line": "sinusoid-in-line"},
    }
)
"""Study to its old labels, each with the present one."""
OLD_ENDINGS: Mapping[str, Mapping[str, str]] = MappingProxyType({"language": {", randomised": "-randomized"}})
"""Study to old endings of labels, each with the present one."""


def current_label(study: str, label: str) -> str:
    """Translate a stored label.

    Args:
        study: Id of the study.
        label: Label under which a run was stored.

    Returns:
        The present label of the variant.
    """
    for old, new in OLD_ENDINGS.get(study, {}).items():
        if label.endswith(old):
            return current_label(study, label.removesuffix(old)) + new
    return OLD_LABELS.get(study, {}).get(label, label)


def first_label(study: str, label: str) -> str:
    """Return the label that a variant had in stores of the first layout, whose keys hold labels.

    Args:
        study: Id of the study.
        label: Present label of the variant.

    Returns:
        The old label; the present one if it was never renamed.
    """
    for old, new in OLD_ENDINGS.get(study, {}).items():
        if label.endswith(new):
            return first_label(study, label.removesuffix(new)) + old
    return next((old for old, new in OLD_LABELS.get(study, {}).items() if new == label), label)


def relabeled(spec: RunSpec) -> RunSpec:
    """Return a stored run under the present label of its variant.

    Args:
        spec: The run as it is stored.

    Returns:
        The same run, of equal identity.
    """
    label = current_label(spec.study, spec.variant)
    return spec if label == spec.variant else msgspec.structs.replace(spec, variant=label)
