import pytest

from hf_elmo import ElmoModel
from tests.hf_elmo.dump.dumps import OPTIONS, WEIGHTS
from tests.hf_elmo.models import converted


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> ElmoModel:
    return converted(tmp_path_factory.mktemp("weights"), OPTIONS, WEIGHTS)
