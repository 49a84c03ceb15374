"""Weights of the original programs, read into models of this package, and written for those programs again."""

from hf_elmo.convert.conversion import Conversion, convert
from hf_elmo.convert.export import export_hdf5

__all__ = ["Conversion", "convert", "export_hdf5"]
