"""What studies of masked modelling share: rows, the work of one unit, what is measured of learned tables, panels."""
