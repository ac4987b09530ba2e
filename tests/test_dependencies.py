"""Licenses of the pinned packages are listed, and fit; the packages take every Python that posenc takes."""

from __future__ import annotations

import importlib.util
import tomllib
from importlib.metadata import distributions
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parents[1]
SPEC = importlib.util.spec_from_file_location("licenses", ROOT / "tools" / "licenses.py")
assert SPEC is not None
assert SPEC.loader is not None
licenses = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(licenses)


def test_the_document_is_what_the_installed_packages_state() -> None:
    assert licenses.PAGE.read_text(encoding="utf-8") == licenses.page(licenses.rows())


def test_every_package_that_users_install_fits() -> None:
    rows = licenses.rows()
    assert {"torch", "numpy", "filelock"} <= {name for name, *_, purpose in rows if purpose == "posenc"}
    assert licenses.unfit(rows) == []


@pytest.mark.parametrize(
    ("stated", "fits"),
    [
        ("GPL-3.0-or-later", False),
        ("GNU General Public License v3 (GPLv3)", False),
        ("AGPL-3.0", False),
        ("not stated", False),
        ("LGPL-3.0-only", True),
        ("MPL-2.0", True),
        ("MIT", True),
    ],
)
def test_a_license_fits_or_not(stated: str, fits: bool) -> None:
    assert (licenses.unfit([("package", "1", stated, "analysis")]) == []) is fits
    assert licenses.unfit([("package", "1", stated, "development")]) == []


def test_every_pinned_package_takes_the_oldest_python_that_posenc_takes() -> None:
    oldest = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["requires-python"]
    version = oldest.removeprefix(">=") + ".0"
    refused = [
        f"{each.name} {each.version}: {each.metadata['Requires-Python']}"
        for each in distributions()
        if each.metadata["Requires-Python"] and not SpecifierSet(each.metadata["Requires-Python"]).contains(version)
    ]
    assert refused == []  # pip would look for other versions of everything, without end
