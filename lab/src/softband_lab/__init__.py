"""The evaluation lab of Softband: published evaluations as data, run on the model, beside their claims."""

__version__ = "0.1.0"
