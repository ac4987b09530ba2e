"""Heavy or shared cores of schemes, as pure functions."""
