"""``python -m posenc.cli``: the command line without an installed script, such as under torchrun."""

from posenc.cli import main

main()
