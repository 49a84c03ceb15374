"""The small pipelines of the plugin's tests."""

from tests.spacy_elmo.conftest import make_nlp, tiny_folder

__all__ = ["make_nlp", "tiny_folder"]
