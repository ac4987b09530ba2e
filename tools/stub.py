"""Write the stubs of posenc's public names, for editors and type checkers.

    python tools/stub.py            write them
    python tools/stub.py --check    exit with code 1 and a message if one is out of date

The stubs are `src/posenc/__init__.pyi` and `src/posenc/workbench/__init__.pyi`. Nothing in them is written by hand: the
names come from the `__init__.py` beside each stub and from walking `posenc/schemes`.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"
PACKAGES = {
    "posenc": "The public names of posenc, schemes included.",
    "posenc.workbench": "The public names of the workbench.",
}
"""The packages with a stub, and the first sentence of each stub."""


def main() -> int:
    parser = argparse.ArgumentParser(description="Write the stubs of posenc's public names.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 where one would change")
    chosen = parser.parse_args()
    sys.path.insert(0, str(SOURCE))
    schemes, messages = scheme_modules(), []
    for package, title in PACKAGES.items():
        path = SOURCE / package.replace(".", "/") / "__init__.pyi"
        source = path.with_suffix(".py").read_text(encoding="utf-8")
        stub = render(source, schemes if package == "posenc" else {}, package, title)
        if not chosen.check:
            path.write_text(stub, encoding="utf-8")
        else:
            name = path.relative_to(SOURCE.parent).as_posix()
            messages.append(stale(path.read_text(encoding="utf-8") if path.exists() else "", stub, name))
    text = "\n".join(filter(None, messages))
    if chosen.check:
        print(text or "The stubs are up to date.", file=sys.stderr if text else sys.stdout)
    return 1 if text else 0


def scheme_modules() -> dict[str, str]:
    """Every scheme of the catalogue and the module that defines it."""
    catalogue = importlib.import_module("posenc.schemes").catalogue()
    return {name: scheme.__module__ for name, scheme in catalogue.items()}


def render(
    source: str, schemes: dict[str, str], package: str = "posenc", title: str = "The public names of posenc."
) -> str:
    """The text of a stub, from the source of the package's `__init__.py` and the module of each scheme."""
    names = {name: (module, name) for name, module in schemes.items()} | exported(source, package)
    lines = sorted((module, *_kind(name), name.lower(), name, public) for public, (module, name) in names.items())
    text = "".join(f"from {module} import {name} as {public}\n" for module, *_, name, public in lines)
    if any(name != public for public, (_, name) in names.items()):
        # `import x as y` exports y from a stub only if __all__ lists it; `import x as x` exports x by itself
        listed = "".join(f'    "{public}",\n' for public in sorted(names, key=lambda name: (*_kind(name), name)))
        text += f"\n__all__ = [\n{listed}]\n"
    return f'"""{title} Generated: python tools/stub.py"""\n\n{text}'


def _kind(name: str) -> tuple[bool, bool]:
    """The order of isort within a module: constants, classes, the rest."""
    return not name.isupper(), name[0].islower()


def exported(source: str, package: str = "posenc") -> dict[str, tuple[str, str]]:
    """Each public name with its module and its name there: EXPORTS, MODULES, and what is imported as ``x as x``."""
    tree = ast.parse(source)
    tables = {
        ast.unparse(node.targets[0]): ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in ("EXPORTS", "MODULES")
    }
    missing = sorted({"EXPORTS", "MODULES"} - set(tables))
    if missing:
        raise ValueError(
            f"{package}/__init__.py assigns no {missing[0]}, which lists public names. Assign it a literal."
        )
    names: dict[str, tuple[str, str]] = {}
    for module, members in tables["EXPORTS"].items():
        for member in members:  # "x", or "x as y" for a name that is public as y
            name, _, public = member.partition(" as ")
            names[public or name] = (f"{package}.{module}", name)
    names |= {module: (package, module) for module in tables["MODULES"]}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            own = (alias.name for alias in node.names if alias.asname == alias.name)
            names |= {name: (str(node.module), name) for name in own}
    return names


def stale(written: str, fresh: str, name: str) -> str:
    """An error message with the number of lines that differ, or an empty string if the stub is up to date."""
    if written == fresh:
        return ""
    changed = sorted(filter(None, set(written.splitlines()) ^ set(fresh.splitlines())))
    example = f", for one {changed[0]!r}" if changed else ""
    return f"{name} is not up to date ({len(changed)} lines differ{example}): python tools/stub.py"


if __name__ == "__main__":
    sys.exit(main())
