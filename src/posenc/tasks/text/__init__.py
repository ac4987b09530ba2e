"""Text: tell the next character, or byte, from those before it.

    parts   by position: the first 90 % of a text is learned from, then 5 % to choose by, the last 5 % is reported
    window  N tokens and the one after them: token n + 1 is told from tokens 0 .. n of the window
    loss    mean over what is told of -ln p, in nats a character or byte

A worked example; Shakespeare as a small model is trained on him is 1.1 million characters of 65 kinds.

>>> text = tokenise("to be or not to be " * 30)
>>> len(text.tokens), text.vocabulary[:4]
(570, (' ', 'b', 'e', 'n'))
>>> parts = split(text.tokens, longest=16)
>>> [len(part) for part in parts]
[514, 28, 28]
>>> windows(parts.test, 16, [0, 4]).shape  # 16 tokens and the next
torch.Size([2, 17])
>>> text.say(windows(parts.test, 5, [0])[0])
'ot to '
>>> unigram, bigram = (count(parts.train, len(text.vocabulary), order=order) for order in (1, 2))
>>> 1.6 < float(unigram.losses(parts.test).mean()) < 2.0
True
>>> 0.5 < float(bigram.losses(parts.test).mean()) < 0.9
True
"""

from __future__ import annotations

from posenc.tasks.text.counting import Counted, count
from posenc.tasks.text.reading import FILE, Text, Unit, find, read, tokenise
from posenc.tasks.text.windows import Parts, apart, split, windows

__all__ = [
    "FILE",
    "Counted",
    "Parts",
    "Text",
    "Unit",
    "apart",
    "count",
    "find",
    "read",
    "split",
    "tokenise",
    "windows",
]
