import pytest

from tests.hf_elmo.allennlp.original import Original, write_original


@pytest.fixture(scope="session")
def original(tmp_path_factory: pytest.TempPathFactory) -> Original:
    return write_original(tmp_path_factory.mktemp("original"))
