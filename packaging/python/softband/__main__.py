"""Runs the command: `python -m softband`."""

from softband import main

main()
