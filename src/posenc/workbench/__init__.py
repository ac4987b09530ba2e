"""The workbench: everything that runs experiments. The library never imports it."""
