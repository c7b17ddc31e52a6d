"""The version of the lab."""

VERSION = "0.1.0"
