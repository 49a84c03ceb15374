"""transformers' common tests of tokenizers."""

import shutil
import tempfile
import unittest
from typing import Any

import pytest

from hf_elmo import ElmoTokenizer
from tests.hf_elmo.transformers_suite.source import suite_module

tokenization = suite_module("test_tokenization_common")

pytestmark = pytest.mark.slow

WORDS = (
    "the a this is sentence first second one low lower new hello world test dog cat sat on mat and it was very long "
    "Wonderful no inspiration example with subtoken This Hello A ."
)
FIXED = "the biLM knows <S> and </S> by their characters and <pad> by its id: other special words are refused"


class ElmoTokenizerTest(tokenization.TokenizerTesterMixin, unittest.TestCase):
    tokenizer_class = ElmoTokenizer
    rust_tokenizer_class = ElmoTokenizer
    test_seq2seq = False
    folder: str

    # What ELMo's tokenizer does otherwise, on purpose.

    @unittest.skip("character_ids are (batch, words, characters); the test expects two dimensions of every tensor")
    def test_batch_encode_dynamic_overflowing(self) -> None:
        """See the reason."""

    @unittest.skip(FIXED)
    def test_added_tokens_serialization(self) -> None:
        """See the reason."""

    @unittest.skip(FIXED)
    def test_bos_token_with_add_bos_token_true(self) -> None:
        """See the reason."""

    @unittest.skip(FIXED)
    def test_bos_token_with_add_bos_token_false(self) -> None:
        """See the reason."""

    @unittest.skip(FIXED)
    def test_pad_token_initialization(self) -> None:
        """See the reason."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = tempfile.mkdtemp()
        ElmoTokenizer(["<S>", "</S>", "<UNK>", *WORDS.split()]).save_pretrained(cls.folder)
        cls.from_pretrained_id = cls.folder
        super().setUpClass()

    @classmethod
    def tearDownClass(cls) -> None:
        super().tearDownClass()
        shutil.rmtree(cls.folder)

    def get_input_output_texts(self, tokenizer: Any) -> tuple[str, str]:
        return "the dog sat on the mat", "the dog sat on the mat"
