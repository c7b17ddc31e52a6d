"""The evaluation lab of Softband: published evaluations as data, run on the model, beside their claims.

`run`, `model` and `sweep` do the work of the commands `softband run`, `softband model` and `softband model --sweep`,
and return Polars data frames.
"""

from softband_lab.api import ModelResult, RunResult, model, run, sweep
from softband_lab.base.errors import LabError
from softband_lab.base.softband import RunFailed
from softband_lab.base.version import VERSION

__version__ = VERSION

__all__ = ["LabError", "ModelResult", "RunFailed", "RunResult", "__version__", "model", "run", "sweep"]
