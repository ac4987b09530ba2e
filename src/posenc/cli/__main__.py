"""``python -m posenc.cli``: the command line where no script is installed."""

from posenc.cli import main

main()
