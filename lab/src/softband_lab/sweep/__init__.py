"""Variations of a fabric: `softband model --sweep` and `softband what-if`."""
