"""The runtime type checker of the tests: beartype, with an int allowed where a float is annotated (PEP 484)."""

from beartype import BeartypeConf
from beartype import beartype as _beartype

beartype = _beartype(conf=BeartypeConf(is_pep484_tower=True))
