"""Write the index of schemes and studies that the command line starts from: src/posenc/cli/index.json.

python tools/index.py            writes the index
python tools/index.py --check    fails if it is not up to date
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from posenc.cli import index, index_of_source


def main(argv: Sequence[str] | None = None) -> int:
    """Write or check the index; the exit status is 1 if a check fails."""
    words = sys.argv[1:] if argv is None else argv
    fresh = index_of_source.text(index_of_source.build())
    if list(words) == ["--check"]:
        written = index.FILE.read_text(encoding="utf-8") if index.FILE.exists() else ""
        if written != fresh:
            print(f"{index.FILE.name} is not up to date with the source: python tools/index.py", file=sys.stderr)
        return int(written != fresh)
    index.FILE.write_text(fresh, encoding="utf-8")
    print(index.FILE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
