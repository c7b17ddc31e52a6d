"""`python -m softband_lab study|what-if|compare`."""

from softband_lab.cli import main

if __name__ == "__main__":
    main()
