"""transformers' common tests of models and configurations, on every class."""

import unittest
import unittest.mock
from typing import Any

import pytest
import torch

from hf_elmo import (
    ElmoConfig,
    ElmoForPreTraining,
    ElmoForQuestionAnswering,
    ElmoForSequenceClassification,
    ElmoForTokenClassification,
    ElmoModel,
)
from tests.hf_elmo.models import ids, tiny_config
from tests.hf_elmo.transformers_suite.source import suite_module

modeling = suite_module("test_modeling_common")
configuration = suite_module("test_configuration_common")

pytestmark = pytest.mark.slow

PAIRS = [["a", "b", "</S>", "<S>", "c", "d"], ["e", "f", "g", "</S>", "<S>", "h"], ["i", "</S>", "<S>", "j", "k", "l"]]


class ElmoTester:
    """Sizes and inputs, under the names that the common tests read."""

    batch_size, seq_length = 3, 8
    num_hidden_layers, hidden_size = 2, 12
    is_training = True

    def __init__(self, **changes: Any) -> None:
        self.changes = changes

    def get_config(self) -> ElmoConfig:
        return tiny_config(
            **{"dropout": 0.0, "elmo_dropout": 0.0, "classifier_dropout": 0.0, "classifier_lstm_size": 5},
            **self.changes,
        )

    def prepare_config_and_inputs_for_common(self) -> tuple[ElmoConfig, dict[str, torch.Tensor]]:
        """Every row is a pair of sentences, which every class can read."""
        character_ids, mask = ids(PAIRS)
        return self.get_config(), {"character_ids": character_ids, "attention_mask": mask}


class ElmoTest(modeling.ModelTesterMixin, unittest.TestCase):
    all_model_classes = (
        ElmoModel,
        ElmoForPreTraining,
        ElmoForTokenClassification,
        ElmoForSequenceClassification,
        ElmoForQuestionAnswering,
    )
    has_attentions = False
    test_resize_embeddings = False
    changes: dict[str, Any] = {"freeze_bilm": False}

    def setUp(self) -> None:
        self.model_tester = ElmoTester(**self.changes)
        # How the common tests know that a class has no loss; of a model inside transformers it is listed there.
        bare_models = unittest.mock.patch.dict(modeling.MODEL_MAPPING_NAMES, {"elmo": "ElmoModel"})
        bare_models.start()
        self.addCleanup(bare_models.stop)

    def _prepare_for_class(self, inputs: Any, model_class: Any, return_labels: bool = False) -> Any:
        inputs = super()._prepare_for_class(inputs, model_class, return_labels)
        if not return_labels:
            return inputs
        if model_class is ElmoForQuestionAnswering:  # the first word of the second sentence
            inputs["start_positions"] = inputs["end_positions"] = torch.tensor([5, 6, 4])
        elif model_class is ElmoForSequenceClassification:
            inputs["labels"] = torch.tensor([0, 1, 0])
        elif model_class is not ElmoModel:
            inputs["labels"] = torch.ones(3, 8, dtype=torch.long)
        return inputs


class ElmoNetworksTest(ElmoTest):
    """The heads with networks of their own, on a frozen biLM."""

    all_model_classes = (ElmoForTokenClassification, ElmoForSequenceClassification, ElmoForQuestionAnswering)
    changes = {
        "elmo_placement": "both",
        "classifier_num_layers": 2,
        "use_crf": True,
        "pooling": "biattention",
        "sentence_pairs": True,
    }

    @unittest.skip("the biLM is frozen, so that no gradient reaches its hidden states")
    def test_retain_grad_hidden_states_attentions(self) -> None:
        """See the reason."""


class ElmoConfigTest(unittest.TestCase):
    def test_config(self) -> None:
        configuration.ConfigTester(
            self,
            config_class=ElmoConfig,
            has_text_modality=True,
            common_properties=["num_hidden_layers", "hidden_size"],
        ).run_common_tests()
