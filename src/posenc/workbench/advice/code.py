"""Code that uses an encoding: plain PyTorch, and scikit-learn for tables."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from typing import Any

from posenc.lookup import scheme_text
from posenc.workbench.tasks.places import MIXED

NO_CALL = "# {label} has no encoding: the model reads its other inputs alone.\n"
POSITIONS: Mapping[str, str] = {
    "image-fit": "pos = Positions(torch.rand(1000, 2))  # (row, column) of pixels, from 0 to 1",
    "shape-fit": "pos = Positions(torch.rand(1000, 3))  # points in the unit cube",
    "language": "pos = sequence(128)  # tokens of a text",
    "gridpe": "pos = grid(8, 8)  # rows and columns of patches",
    "points": "pos = Positions(16 * torch.rand(64, 3))  # sixteenths of the width of a cloud",
    "masked": "pos = sequence(24)  # channels; with coordinates Positions(coordinates)",
    "series": "pos = sequence(48)  # readings; with uneven times Positions(times[:, None])",
    "graphs": "pos = Positions(torch.randn(20, 2))  # eigenvectors of the nodes: see docs/graphs.md",
}
"""Study to a line that makes positions of its kind of data."""
EMBEDDING = """\
rows = scheme.embed(scheme.prepare(pos))  # (N, {dim})
# Add the rows to the inputs, or concatenate them.
"""
ATTENTION = """\
q, k, v = torch.randn(3, 1, HEADS, pos.coords.shape[-2], HEAD_DIM)
out = attention(q, k, v, scheme=scheme, q_pos=pos{causal})
"""


def scheme_names(call: str) -> list[str]:
    """Names of the classes that a call makes: its own, and those of its parts."""
    return re.findall(r"\b([A-Z]\w*)\(", call)


def torch_code(study: str, label: str, settings: Mapping[str, Any], calls: tuple[str, ...]) -> str:
    """Code in plain PyTorch with the chosen settings.

    Args:
        study: Name of the study.
        label: Label of the variant.
        settings: Settings of its run.
        calls: Calls of its encodings, as the run has stored them.

    Returns:
        The code; "" for a call that no text can repeat, as one with measured frequencies.
    """
    if not calls:
        return NO_CALL.format(label=label)
    call = calls[0]
    uses_positions = "sequence" if study in ("language", "masked", "series") else "grid" if study == "gridpe" else ""
    try:
        scheme = scheme_text.build(scheme_text.parse(call), {})
    except ValueError:  # a call with a tensor, as frequencies that were measured on the data
        return ""
    if not scheme.claims.sites:
        return NO_CALL.format(label=label)
    embeds = "embed" in scheme.claims.sites
    names = sorted({*scheme_names(call), uses_positions or "Positions"} | (set() if embeds else {"attention"}))
    head = f"import torch\nfrom posenc import {', '.join(names)}\n\nscheme = {call}\n"
    if study == "places":
        return head + _places(settings, scheme.out_dim)
    body = POSITIONS[study] + "\n"
    if embeds:
        return head + body + EMBEDDING.format(dim=scheme.out_dim)
    heads, head_dim = _attention_sizes(settings)
    causal = ", causal=True" if study == "language" else ""
    return head + body + ATTENTION.format(causal=causal).replace("HEADS", str(heads)).replace("HEAD_DIM", str(head_dim))


def _attention_sizes(settings: Mapping[str, Any]) -> tuple[int, int]:
    """Heads and channels of a head of the model of a run."""
    for value in (settings.get("model"), (settings.get("row") or {}).get("config"), settings.get("row")):
        if isinstance(value, Mapping) and "dim" in value and "heads" in value:
            return int(value["heads"]), int(value["dim"]) // int(value["heads"])
    return 2, 32


def _places(settings: Mapping[str, Any], dim: int) -> str:
    """Positions of places as the study makes them, and their rows."""
    view, spans = settings["row"]["view"], settings["data"].get("spans", [])
    code = _view(settings, MIXED.get(view, view))
    if spans:
        middles, halves = zip(*spans, strict=True)
        code += (
            f"further = torch.tensor([{list(middles)}], dtype=torch.float64)  # the further axes of each row, in the order of the columns\n"
            f"further = (further - torch.tensor({list(middles)}, dtype=torch.float64)) / torch.tensor({list(halves)})\n"
            "pos = Positions(torch.cat([pos.coords, further.float()], 1))\n"
        )
    return code + EMBEDDING.format(dim=dim)


def _view(settings: Mapping[str, Any], view: str) -> str:
    """Code of the positions of a view of places without further axes."""
    region = settings["data"]["region"]
    middle, half, sphere = region["middle"], region["half"], region["geometry"] == "sphere"
    columns = "longitude, latitude in degrees" if sphere else "coordinates"
    example = f"# One row per place: {columns}\ntable = torch.tensor([{middle}], dtype=torch.float64)\n"
    if view == "lonlat":
        return f"{example}pos = Positions(table.deg2rad().float())\n"
    if view == "xyz":
        return example + textwrap.dedent("""\
            longitude, latitude = table.deg2rad().T
            level = latitude.cos()
            vectors = torch.stack([level * longitude.cos(), level * longitude.sin(), latitude.sin()], -1)
            pos = Positions(vectors.float())
            """)
    if not sphere:
        return f"{example}pos = Positions(((table - torch.tensor({middle}, dtype=torch.float64)) / {half}).float())\n"
    return example + (
        f"apart = table - torch.tensor({middle}, dtype=torch.float64)\n"
        "apart[:, 0] = (apart[:, 0] + 180) % 360 - 180  # across the meridian of 180 degrees too\n"
        f"apart[:, 0] *= torch.tensor({middle[1]}).deg2rad().cos()  # degrees of equal length\n"
        f"pos = Positions((apart / {half}).float())\n"
    )


def sklearn_code(settings: Mapping[str, Any], calls: tuple[str, ...], names: tuple[str, ...], classes: bool) -> str:
    """Code in scikit-learn that predicts the target of a table with the chosen encoding.

    Args:
        settings: Settings of the run.
        calls: Calls of its encodings.
        names: Columns of the coordinates.
        classes: True if the target has classes.

    Returns:
        The code, which defines ``model``; "" without an encoding, for unit vectors and for further axes.
    """
    if not calls or settings["row"]["view"] not in ("region", "lonlat"):
        return ""
    region, call = settings["data"]["region"], calls[0]
    estimator = "NetworkClassifier" if classes else "NetworkRegressor"
    columns = ", ".join(map(repr, names))
    if settings["row"]["view"] == "lonlat":
        return (
            f"from posenc.adapt.sklearn import {estimator}, PositionEncoder\n\n"
            f"scheme = {call!r}\n"
            f'encoder = PositionEncoder(scheme, columns=[{columns}], kind="sphere")\n'
            f"model = {estimator}(encoder)  # model.fit(table, target)\n"
            "# Other columns are passed on.\n"
        )
    middle, half = region["middle"], region["half"]
    lines = [
        "import numpy as np",
        "from sklearn.compose import ColumnTransformer",
        "from sklearn.pipeline import make_pipeline",
        "from sklearn.preprocessing import FunctionTransformer",
        f"from posenc.adapt.sklearn import {estimator}, PositionEncoder",
        "",
        "",
        "def region(places):",
        f"    apart = np.asarray(places) - {middle}",
    ]
    if region["geometry"] == "sphere":
        lines += [
            "    apart[:, 0] = (apart[:, 0] + 180) % 360 - 180",
            f"    apart[:, 0] *= np.cos(np.deg2rad({middle[1]}))",
        ]
    axes = list(range(len(names)))
    lines += [
        f"    return apart / {half}",
        "",
        "",
        f"steps = [('region', FunctionTransformer(region), [{columns}])]",
        "flat = ColumnTransformer(steps, remainder='passthrough')",
        f"scheme = {call!r}",
        f'encoder = PositionEncoder(scheme, columns={axes}, kind="planar", unit=1.0)',
        f"model = make_pipeline(flat, {estimator}(encoder))  # model.fit(table, target)",
    ]
    return "\n".join(lines) + "\n"


def runs(code: str) -> bool:
    """Run code that is shown to a user; False if it does not run as it stands.

    Args:
        code: Code of this module.

    Returns:
        True if it runs without an error.
    """
    import torch

    try:
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            exec(compile(code, "advice", "exec"), {"__name__": "advice"})
    except Exception:  # whatever it is, such code is not shown
        return False
    return True


def load_code(store: str, identity: str) -> str:
    """Code that loads the trained model of a run.

    Args:
        store: Folder of the store.
        identity: Identity of the run.

    Returns:
        The code.
    """
    return f"import posenc\n\nmodel = posenc.load({store!r}, run={identity[:8]!r})\nprint(model.convention)\n"
