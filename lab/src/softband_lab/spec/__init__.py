"""Studies and published numbers as data, checked when they are read."""
