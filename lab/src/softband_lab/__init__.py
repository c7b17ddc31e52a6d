"""The evaluation lab of Softband: published evaluations as data, run on the model, beside their claims."""

from softband_lab.base.version import VERSION

__version__ = VERSION

__all__ = ["__version__"]
