"""The options of the published models, by the names of their files."""

import re
from pathlib import PurePosixPath

from hf_elmo.configuration_elmo import ElmoConfig

# What ElmoTokenEmbedder of AllenNLP takes where its configuration names no file.
ORIGINAL = "elmo_2x4096_512_2048cnn_2xhighway_options.json"

_NAME = re.compile(r"elmo_2x(\d+)_(\d+)_2048cnn_(\d)xhighway(?:_5\.5B|_PubMed_only)?_options\.json")
_SIZES = {(1024, 128, 1), (2048, 256, 1), (4096, 512, 2)}  # D, P, highway layers


def published_config(location: str) -> ElmoConfig | None:
    """The configuration of a published model, or None where the name is not one of theirs.

    Args:
        location: path or address of its options file; only the name at the end is read.
    """
    match = _NAME.fullmatch(PurePosixPath(location).name)
    if match is None:
        return None
    lstm_size, projection_size, num_highway_layers = sizes = tuple(map(int, match.groups()))
    if sizes not in _SIZES:
        return None
    # All else is the same in all of them, and the default.
    return ElmoConfig(lstm_size=lstm_size, projection_size=projection_size, num_highway_layers=num_highway_layers)
