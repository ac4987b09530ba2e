"""Write `src/posenc/__init__.pyi`: the public names of posenc, schemes included, for editors and type checkers.

    python tools/stub.py            write it
    python tools/stub.py --check    exit with code 1 and a message if it is out of date

Nothing in it is written by hand: the names come from `posenc/__init__.py` and from walking `posenc/schemes`.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import sys
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "posenc"
STUB = PACKAGE / "__init__.pyi"
HEADER = '"""The public names of posenc, schemes included. Generated: python tools/stub.py"""\n\n'


def main() -> int:
    parser = argparse.ArgumentParser(description="Write src/posenc/__init__.pyi.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 where it would change")
    chosen = parser.parse_args()
    sys.path.insert(0, str(PACKAGE.parent))
    stub = render((PACKAGE / "__init__.py").read_text(encoding="utf-8"), scheme_modules())
    if chosen.check:
        message = stale(STUB.read_text(encoding="utf-8") if STUB.exists() else "", stub)
        print(message or "src/posenc/__init__.pyi is up to date.", file=sys.stderr if message else sys.stdout)
        return 1 if message else 0
    STUB.write_text(stub, encoding="utf-8")
    return 0


def scheme_modules() -> dict[str, str]:
    """Every scheme of the catalogue and the module that defines it."""
    catalogue = importlib.import_module("posenc.schemes").catalogue()
    return {name: scheme.__module__ for name, scheme in catalogue.items()}


def render(source: str, schemes: dict[str, str]) -> str:
    """The text of the stub, from the source of `posenc/__init__.py` and the module of each scheme."""
    names = {**exported(source), **schemes}
    # isort's order within a module: constants, classes, the rest
    lines = sorted((module, not name.isupper(), name[0].islower(), name) for name, module in names.items())
    return HEADER + "".join(f"from {module} import {name} as {name}\n" for module, _, _, name in lines)


def exported(source: str) -> dict[str, str]:
    """Each public name and its module: those of EXPORTS and MODULES, and those imported as ``x as x``."""
    tree = ast.parse(source)
    tables = {
        ast.unparse(node.targets[0]): ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in ("EXPORTS", "MODULES")
    }
    missing = sorted({"EXPORTS", "MODULES"} - set(tables))
    if missing:
        raise ValueError(f"posenc/__init__.py assigns no {missing[0]}, which lists public names. Assign it a literal.")
    names = {name: f"posenc.{module}" for module, members in tables["EXPORTS"].items() for name in members}
    names |= dict.fromkeys(tables["MODULES"], "posenc")
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            names |= {alias.name: str(node.module) for alias in node.names if alias.asname == alias.name}
    return names


def stale(written: str, fresh: str) -> str:
    """An error message with the number of lines that differ, or an empty string if the stub is up to date."""
    if written == fresh:
        return ""
    changed = sorted(filter(None, set(written.splitlines()) ^ set(fresh.splitlines())))
    example = f", for one {changed[0]!r}" if changed else ""
    return f"src/posenc/__init__.pyi is not up to date ({len(changed)} lines differ{example}): python tools/stub.py"


if __name__ == "__main__":
    sys.exit(main())
