"""Code that uses an encoding: plain PyTorch, and scikit-learn for tables."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from typing import Any, NamedTuple

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
    "series": "pos = sequence(READINGS)  # readings; with uneven times Positions(times[:, None])",
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
    if study == "series":
        body = body.replace("READINGS", str(settings["task"]["context"] + settings["task"]["horizon"]))
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
            "# The further axes of each row, in the order of the columns:\n"
            f"further = torch.tensor([{list(middles)}], dtype=torch.float64)\n"
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


class TableColumns(NamedTuple):
    """Columns of a table that a race has read, by their use.

    Attributes:
        coordinates: Columns of the coordinates.
        numbers: Columns of numbers and dates.
        dates: Those of them that have dates of eight digits, as 20240301.
        texts: Columns of categories.
        target: Column to predict.
        classes: True if the target has classes.
    """

    coordinates: tuple[str, ...]
    numbers: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    target: str = ""
    classes: bool = False
    dates: tuple[str, ...] = ()


NUMBERS = """\
def numbers(columns):
    seconds = lambda column: (pd.to_datetime(column, utc=True) - pd.Timestamp(0, tz="UTC")).dt.total_seconds()
    return columns.apply(lambda column: column if column.dtype.kind in "biuf" else seconds(column))


"""
DATES = """\
dates = {dates}  # columns of year, month and day in eight digits


def numbers(columns):
    def seconds(column):
        if column.name in dates:
            days = pd.to_numeric(column, errors="coerce").astype("Int64").astype("string")
            times = pd.to_datetime(days, format="%Y%m%d", utc=True)
        elif column.dtype.kind in "biuf":
            return column
        else:
            times = pd.to_datetime(column, utc=True)
        return (times - pd.Timestamp(0, tz="UTC")).dt.total_seconds()

    return columns.apply(seconds)


"""


def sklearn_code(settings: Mapping[str, Any], calls: tuple[str, ...], columns: TableColumns) -> str:
    """Code in scikit-learn that predicts the target of a data frame with the chosen encoding, with all its columns.

    Args:
        settings: Settings of the run.
        calls: Calls of its encodings.
        columns: Columns that the race has read.

    Returns:
        The code, which defines ``model``; "" without an encoding, for unit vectors and for further axes.
    """
    view = settings["row"]["view"]
    if not calls or view not in ("region", "lonlat"):
        return ""
    estimator = "NetworkClassifier" if columns.classes else "NetworkRegressor"
    code, place = "", "'passthrough'"
    if view == "region":
        code, place = _region_code(settings["data"]["region"]), "FunctionTransformer(region)"
    if columns.numbers:
        code += DATES.format(dates=list(columns.dates)) if columns.dates else NUMBERS
    steps = [f"    ('place', {place}, {list(columns.coordinates)}),"]
    if columns.numbers:
        filled = "make_pipeline(FunctionTransformer(numbers), SimpleImputer(add_indicator=True))"
        steps.append(f"    ('numbers', {filled}, {list(columns.numbers)}),")
    if columns.texts:
        levels = "OneHotEncoder(handle_unknown='ignore', max_categories=31, sparse_output=False)"
        steps.append(f"    ('texts', {levels}, {list(columns.texts)}),")
    kind = 'kind="sphere"' if view == "lonlat" else 'kind="planar", unit=1.0'
    needed = [*columns.coordinates, *([columns.target] if columns.target else [])]
    model, imported = f"make_pipeline(flat, {estimator}(encoder))", "from sklearn.compose import ColumnTransformer\n"
    if settings["data"].get("logarithm") and not columns.classes:  # as the race did
        model = f"TransformedTargetRegressor({model}, func=np.log, inverse_func=np.exp)"
        imported = "from sklearn.compose import ColumnTransformer, TransformedTargetRegressor\n"
    return (
        f"import numpy as np\nimport pandas as pd\n{imported}"
        "from sklearn.impute import SimpleImputer\nfrom sklearn.pipeline import make_pipeline\n"
        "from sklearn.preprocessing import FunctionTransformer, OneHotEncoder\n"
        f"from posenc.adapt.sklearn import {estimator}, PositionEncoder\n\n\n"
        f"{code}flat = ColumnTransformer([\n" + "\n".join(steps) + "\n])\n"
        f"scheme = {calls[0]!r}\n"
        f"encoder = PositionEncoder(scheme, columns={list(range(len(columns.coordinates)))}, {kind})\n"
        f"model = {model}\n"
        f"# table = table.dropna(subset={needed})\n"
        f"# model.fit(table, table[{columns.target!r}])\n"
    )


def _region_code(region: Mapping[str, Any]) -> str:
    """Code of the function ``region``, which maps coordinates as the study does."""
    middle, lines = region["middle"], ""
    if region["geometry"] == "sphere":
        lines = (
            f"    apart[:, 0] = (apart[:, 0] + 180) % 360 - 180\n    apart[:, 0] *= np.cos(np.deg2rad({middle[1]}))\n"
        )
    return (
        f"def region(places):\n    apart = np.asarray(places, float) - {middle}\n{lines}"
        f"    return apart / {region['half']}\n\n\n"
    )


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
