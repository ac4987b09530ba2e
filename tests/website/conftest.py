"""The modules of the site's builder, tools/website, are imported from their folder; the site is built once.

``POSENC_SITE=build/site pytest -m site`` tests a site that is there already.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

BUILDER = Path(__file__).parents[2] / "tools" / "website"
sys.path.insert(0, str(BUILDER))


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if built := os.environ.get("POSENC_SITE"):
        return Path(built).resolve()
    out = tmp_path_factory.mktemp("site") / "html"
    command = [sys.executable, str(BUILDER), "--out", str(out)]
    # The arrays are small: beside other work, two threads spend most of their time waiting for each other.
    env = {"OMP_NUM_THREADS": "1", **os.environ, "MPLBACKEND": "agg"}
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return out
