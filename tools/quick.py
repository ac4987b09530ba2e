"""Check what a change touches: ruff and the stubs on changed files, and the tests nearest to them.

    python tools/quick.py                  the files that differ from the last commit
    python tools/quick.py --since main     the files that differ from a branch or commit
    python tools/quick.py --list           print the tests and run nothing

A changed test file is run. For a changed module of `src`, the test files that import it are run; if none does, those of
the modules that import it, and so on. A changed scheme is run through the contract with all its examples. For any other
file, the tests that name it are run. `make test-all` alone runs everything.
"""

from __future__ import annotations

import argparse
import ast
import functools
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
ALWAYS = "tests/test_architecture.py"
CONTRACT = "tests/contract/test_every_scheme.py"
DOCUMENTS = "tests/test_docs.py"
FACES = {"posenc": "tests/test_public_names.py", "posenc.workbench": "tests/test_public_names.py"}
"""Packages that nearly every file imports for the names of others, and the tests of the packages themselves."""


def main() -> int:
    parser = argparse.ArgumentParser(description="Check what a change touches.")
    parser.add_argument("--since", default="HEAD", help="commit or branch to compare the files with")
    parser.add_argument("--list", action="store_true", help="print the tests and run nothing")
    chosen = parser.parse_args()
    changed = changed_files(chosen.since)
    if not changed:
        print(f"No file differs from {chosen.since}. Name another commit: python tools/quick.py --since main")
        return 0
    tests, schemes = nearest_tests(changed), changed_schemes(changed)
    print(f"{len(changed)} changed files; tests: {' '.join(tests)}; schemes: {' '.join(schemes) or 'none'}", flush=True)
    return 0 if chosen.list else check(changed, tests, schemes)


def changed_files(since: str) -> list[str]:
    """Return the paths that differ from a commit, with new files, without deleted ones."""
    commands = (
        ["git", "diff", "--name-only", "--no-renames", "--diff-filter=d", since],
        ["git", "ls-files", "--others", "--exclude-standard"],
    )
    outputs = [subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True) for command in commands]
    return sorted({line for output in outputs for line in output.stdout.splitlines()})


def check(changed: Sequence[str], tests: Sequence[str], schemes: Sequence[str]) -> int:
    """Run all checks, print their output, and return 1 if one failed."""
    python = [path for path in changed if path.endswith((".py", ".pyi"))]
    commands = [["ruff", "check", *python], ["ruff", "format", "--check", *python]] if python else []
    if any(path.startswith("src/") for path in python):
        commands.append([sys.executable, "tools/stub.py", "--check"])
    commands.append(["pytest", "-q", "-n", "2", "-m", "not full", *tests])
    if schemes:
        commands.append(["pytest", "-q", "-m", "not compile", CONTRACT, "-k", " or ".join(schemes)])
    beside = Path(sys.executable).parent
    failed = 0
    for command in commands:
        program = command[0] if Path(command[0]).is_absolute() else str(beside / command[0])
        failed |= subprocess.run([program, *command[1:]], cwd=ROOT).returncode != 0
    return int(failed)


def changed_schemes(changed: Iterable[str]) -> list[str]:
    """Return the public classes of the changed scheme files."""
    names = []
    for path in changed:
        if path.startswith("src/posenc/schemes/") and path.endswith(".py"):
            body = ast.parse((ROOT / path).read_text()).body
            names += [each.name for each in body if isinstance(each, ast.ClassDef) and not each.name.startswith("_")]
    return names


def nearest_tests(changed: Sequence[str]) -> list[str]:
    """Return the test files to run for some changed files."""
    texts, modules, imports = sources()
    tests = {ALWAYS}
    for path in changed:
        if path.startswith("src/") and path.endswith(".py"):
            tests |= importing_tests(module_name(Path(path)), imports)
        elif path.startswith("src/"):
            for name in (name for name, text in modules.items() if Path(path).name in text):
                tests |= importing_tests(name, imports)
        elif path.startswith("tests/") and Path(path).name == "conftest.py":
            tests |= {each for each in texts if each.startswith(f"{Path(path).parent.as_posix()}/") and is_test(each)}
        elif is_test(path):
            tests.add(path)
        elif path.endswith(".md"):
            tests.add(DOCUMENTS)
        else:
            word = re.compile(rf"\b{re.escape(Path(path).stem)}\b")
            tests |= {each for each, text in texts.items() if is_test(each) and word.search(text)}
    return sorted(tests)


@functools.cache
def sources() -> tuple[dict[str, str], dict[str, str], dict[str, set[str]]]:
    """Return the texts of the files of `tests` by path and of the modules of `src` by name, and what each imports."""
    texts = {path.relative_to(ROOT).as_posix(): path.read_text() for path in sorted((ROOT / "tests").rglob("*.py"))}
    modules = {module_name(path.relative_to(ROOT)): path.read_text() for path in sorted((ROOT / "src").rglob("*.py"))}
    public = {**public_names("posenc"), **public_names("posenc.workbench")}
    return texts, modules, {name: imported(text, modules, public, name) for name, text in (modules | texts).items()}


def is_test(path: str) -> bool:
    """Return True if pytest collects a file."""
    return path.startswith("tests/") and Path(path).name.startswith("test_") and path.endswith(".py")


def module_name(path: Path) -> str:
    """Return the dotted name of a file under `src`."""
    return ".".join(path.with_suffix("").parts[1:]).removesuffix(".__init__")


def public_names(package: str) -> dict[str, str]:
    """Map "package.Name" to the module that defines the public name, as the package's stub lists it."""
    stub = ROOT / "src" / package.replace(".", "/") / "__init__.pyi"
    pairs = re.findall(r"^from (\S+) import \w+ as (\w+)$", stub.read_text(), re.M)
    return {f"{package}.{name}": module for module, name in pairs if module != package}


def imported(text: str, modules: dict[str, str], public: dict[str, str], own: str) -> set[str]:
    """Return the modules that a file uses: imported ones, and those of public names such as `posenc.RoPE`."""
    names = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            names.add(f"{node.value.id}.{node.attr}")
    found = {public.get(name, name) for name in names}
    return {name for name in found if name in modules and name not in (*FACES, own)}


def importing_tests(module: str, imports: dict[str, set[str]]) -> set[str]:
    """Return the test files that import a module; if none does, those of the modules that import it, and so on.

    A module that nothing imports is found by walking its package, and has the tests of the package.
    """
    if module in FACES:
        return {FACES[module]}
    level, known = {module}, {module}
    while level:
        level = {name for name, used in imports.items() if used & level and name not in known}
        known |= level
        tests = {name for name in level if is_test(name)}
        if tests:
            return tests
    return importing_tests(module.rpartition(".")[0], imports)


if __name__ == "__main__":
    sys.exit(main())
