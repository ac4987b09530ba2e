"""``posenc explore``: the explorer of encodings as a local page, whose arrays are computed when they are asked for."""

from __future__ import annotations

import sys
from typing import Annotated

from posenc.cli.grammar import Positional, arg

PORTS = 65536


def explore(what: Annotated[Positional[str | None], arg(names="scheme")] = None, port: int = 8765) -> int:
    """Serve a page on this machine that shows what each option of an encoding does. Ctrl-C ends it.

    The page draws logits by distance, similarity on a plane or the globe, values by position, wavelengths, stretched
    frequencies, attention weights and rounding errors, of up to three encodings side by side. Only programs of this
    machine reach it. A file of your own is executed once, at the start.

    For example:

    posenc explore

    posenc explore my_scheme.py

    posenc explore "RoPE(128, base=500000)" --port 8080

    Args:
        what: Encoding that is shown first: by its name in posenc list, a call of it, or your own (my_scheme.py,
            mypkg.bias:MyBias). Default: two of posenc's.
        port: Port of the page; 0 for any free one. Default: 8765.
    """
    if not 0 <= port < PORTS:
        raise ValueError(f"--port is a number from 0 to {PORTS - 1}; got {port}. Leave it out for 8765.")
    from posenc.lookup import own_files, own_scheme
    from posenc.workbench.explorer.manifest import live_script
    from posenc.workbench.explorer.server import Explorer, first_call

    texts = [] if what is None else own_files.texts_with_names(what)
    own = [name for name in own_scheme.codes() if any(name in text for text in texts)]
    first = [first_call(text) for text in texts if "(" in text or text not in own]
    server = Explorer(live_script(own, first), port)
    if own:
        print(f"{what} was executed once. After an edit, start again.")
    print(f"{server.address} shows the explorer. Ctrl-C ends it.", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt as stop:
        if str(stop):  # SIGTERM, whose status the entry point gives
            raise
        print("The explorer has ended.", file=sys.stderr)
    finally:
        server.server_close()
    return 0
