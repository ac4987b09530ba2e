"""Build wheel and sdist, and try the wheel in a clean environment with only its declared dependencies.

python tools/dist.py [--out dist] [--python python3]

The wheel must carry py.typed and no tests. In the clean environment it is imported, its commands list, show and check
schemes, and a model trains for two steps.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
TWO_STEPS = """
import torch
from posenc import RoPE
from posenc.models.encoder import Encoder, EncoderConfig
from posenc.models.layers import layers
from posenc import sequence

torch.manual_seed(0)
config = EncoderConfig(channels=3, classes=2, dim=16, depth=2, hidden=32)
model = Encoder(config, layers(RoPE(config.head_dim)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y, probe = torch.randn(8, 5, 3), torch.randint(2, (8,)), torch.zeros(8, dtype=torch.long)
losses = []
for _ in range(2):
    loss = torch.nn.functional.cross_entropy(model(x, sequence(5), probe), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
assert losses[1] < losses[0], losses
print("two steps of training:", losses)
"""


def main() -> int:
    parser = argparse.ArgumentParser(description="Build wheel and sdist; try the wheel in a clean environment.")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="receives the wheel and the sdist")
    parser.add_argument("--constraint", type=Path, default=ROOT / "constraints.txt", help="versions to install")
    chosen = parser.parse_args()
    wheel, sdist = build(chosen.out)
    complaints = contents(wheel, sdist)
    if complaints:
        print("\n".join(complaints), file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder:
        python = environment(Path(folder) / "venv", wheel, chosen.constraint)
        try_out(python, Path(folder))
    print(f"{wheel.name} and {sdist.name} in {chosen.out} work.")
    return 0


def build(out: Path) -> tuple[Path, Path]:
    """The wheel and the sdist, built by hatchling from this tree."""
    for old in out.glob("posenc-*"):
        old.unlink()
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", str(out.resolve())], cwd=ROOT, check=True)
    return next(out.glob("*.whl")), next(out.glob("*.tar.gz"))


def contents(wheel: Path, sdist: Path) -> list[str]:
    """Complaints about the files of wheel and sdist."""
    inside = zipfile.ZipFile(wheel).namelist()
    with tarfile.open(sdist) as archive:
        source = [name.partition("/")[2] for name in archive.getnames()]
    complaints = [] if "posenc/py.typed" in inside else ["the wheel lacks posenc/py.typed"]
    complaints += [f"the wheel carries {name}" for name in inside if name.split("/")[0] in ("tests", "results", "docs")]
    complaints += ["the wheel lacks the template of pages"] if not any(n.endswith(".html.j2") for n in inside) else []
    complaints += [
        f"the sdist lacks {name}" for name in ("pyproject.toml", "README.md", "LICENSE") if name not in source
    ]
    return complaints


def environment(folder: Path, wheel: Path, constraint: Path) -> Path:
    """Python of a new environment that holds the wheel and its declared dependencies."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*install, "--constraint", constraint, wheel], check=True)
    return python


def try_out(python: Path, folder: Path) -> None:
    """Import, list, show, check and two steps of training, outside the checkout; warnings are errors on import."""
    posenc = python.parent / "posenc"
    commands: tuple[list[str | Path], ...] = (
        [python, "-W", "error", "-c", "import posenc; print(posenc.__version__, len(posenc.__all__))"],
        [posenc, "list"],
        [posenc, "show", "rope"],
        [posenc, "check", "RoPE"],
        [python, "-c", TWO_STEPS],
    )
    for command in commands:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{' '.join(map(str, command))[:200]} failed:\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
        print(f"{Path(command[0]).name} {str(command[1])[:20]}: {done.stdout.strip().splitlines()[-1][:100]}")


if __name__ == "__main__":
    sys.exit(main())
