import pytest

from hf_elmo.pretraining.shards import PreparedCorpus
from tests.hf_elmo.pretraining.prepared_corpora import HELDOUT, SENTENCES, prepare_sentences


@pytest.fixture(scope="module")
def prepared(tmp_path_factory) -> PreparedCorpus:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hf_elmo.pretraining.chunks._CHUNK_CHARACTERS", 40)
        folder = tmp_path_factory.mktemp("corpus")
        return prepare_sentences(folder, SENTENCES, {"h": HELDOUT}, shard_words=25)
