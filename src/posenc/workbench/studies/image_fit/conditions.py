"""Conditions of the image study: one image under one protocol.

main, PHOTOGRAPH    the user's image, or a photograph of the data folder; every pixel is trained on and tested
... held-out        pixels in even rows and columns are trained on, those in odd rows and columns are tested
... sizes           short trainings at several parameter counts
... shifted         every position shifted by 100 image sides
"""

from __future__ import annotations

from collections.abc import Mapping

from posenc.workbench.studies import Request
from posenc.workbench.studies.image_fit.presets import ImagePreset
from posenc.workbench.studies.shared.declarations import MAIN, Condition
from posenc.workbench.tasks import single_image

FIT, HELD_OUT, SIZES, SHIFTED = "fit", "held-out", "sizes", "shifted"
SHIFT = 100.0
"""Shift of every position, in image sides."""
QUICK_PHOTOGRAPH = "astronaut"

SUFFIXES = {FIT: "", HELD_OUT: " held-out", SIZES: " sizes", SHIFTED: " shifted"}
"""Protocol to the end of a condition's label."""
TITLES = {
    FIT: "every pixel",
    HELD_OUT: "held-out pixels",
    SIZES: "several parameter counts",
    SHIFTED: f"positions shifted by {SHIFT:g} image sides",
}
CHANGES: Mapping[str, Mapping[str, str]] = {
    FIT: {},
    HELD_OUT: {"pixels": "even for training and odd for testing", "duration": "fixed number of steps"},
    SIZES: {"parameters": "several counts", "duration": "shorter"},
    SHIFTED: {"positions": f"shifted by {SHIFT:g} image sides along both axes"},
}


def protocol_of(label: str) -> str:
    """Protocol of a condition's label."""
    return next((protocol for protocol, end in SUFFIXES.items() if end and label.endswith(end)), FIT)


def image_of(label: str) -> str:
    """Image of a condition's label: "main" for the user's own, else the name of a photograph."""
    return label.removesuffix(SUFFIXES[protocol_of(label)])


def image_title(label: str) -> str:
    """Name of a condition's image on the page."""
    image = image_of(label)
    return "your image" if image == MAIN else image


def same_image(label: str, protocol: str) -> str:
    """Label of the condition with the same image under another protocol."""
    return image_of(label) + SUFFIXES[protocol]


def condition(label: str) -> Condition:
    """Condition of a label."""
    protocol, image = protocol_of(label), image_of(label)

    def has_variant(variant: str) -> bool:
        """Under the protocol "sizes", a variant of the usual parameter count is not trained again."""
        return protocol != SIZES or "@" in variant or variant.startswith("multires-")

    return Condition(
        label=label,
        title=f"{image_title(label)}, {TITLES[protocol]}",
        changes={**({} if image == MAIN else {"image": image}), **CHANGES[protocol]},
        has_variant=has_variant,
    )


def labels(request: Request, preset: ImagePreset, protocol: str) -> tuple[str, ...]:
    """Labels of the conditions of a protocol.

    They are those of the user's image, or of the photographs of the data folder if no image is given.
    """
    if request.source is not None or request.data is None:
        images: tuple[str, ...] = (MAIN,)
    elif protocol == HELD_OUT:
        images = photographs(request, 256)[: preset.held_out_photographs]
    else:
        count = preset.photographs if protocol == FIT else 1
        images = (QUICK_PHOTOGRAPH,) if count == 1 else photographs(request, 512)[:count]
    return tuple(image + SUFFIXES[protocol] for image in images)


def photographs(request: Request, size: int) -> tuple[str, ...]:
    """Names of the photographs of the data folder that have this size."""
    return () if request.data is None else tuple(single_image.load_photos(request.data, size))
