"""The foundation: errors, units, files and tables, and the door to the `softband` binary."""
