"""The vectors of a text of any size to HDF5, safetensors or Parquet."""

from hf_elmo.dump.dumping import Dumped, dump
from hf_elmo.dump.options import DumpOptions
from hf_elmo.dump.shards import Shards

__all__ = ["DumpOptions", "Dumped", "Shards", "dump"]
