"""The store of runs: identities, files of a run, packs, older layouts, and the checks of what is read."""
