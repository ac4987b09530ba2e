"""Files of a user's schemes for tests: one that passes the contract, one that does not, and what surrounds them."""

from __future__ import annotations

from pathlib import Path

from posenc.cli.skeletons import skeleton


def write_bias(path: Path, name: str = "MyBias", before: str = "", after: str = "") -> Path:
    """Write a file with a bias that passes the contract."""
    text = skeleton(name, "bias", 1)
    head, _, rest = text.partition("from __future__ import annotations\n")
    path.write_text(f"{head}from __future__ import annotations\n{before}{rest}{after}")
    return path


def write_package(folder: Path, entries: dict[str, str], name: str = "mypkg") -> Path:
    """Write an installed package with the module ``NAME.bias`` and its entry points."""
    (folder / name).mkdir(parents=True)
    (folder / name / "__init__.py").touch()
    write_bias(folder / name / "bias.py")
    info = folder / f"{name}-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1\n")
    lines = [f"{key} = {value}" for key, value in entries.items()]
    (info / "entry_points.txt").write_text("\n".join(["[posenc.schemes]", *lines, ""]))
    return folder
