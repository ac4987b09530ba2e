"""Explorer: a page on which one turns the options of encodings and sees the effect.

The arrays come from ``pictures``; they lie beside the page of the site, or ``server`` computes them. The page itself,
``assets/``, has no formula of any encoding.
"""
