"""A frozen biLM whose layers are remembered gives a head what the biLM itself gives."""

import contextlib
from typing import Any

import pytest
import torch

from hf_elmo import ElmoForQuestionAnswering, ElmoForSequenceClassification, ElmoForTokenClassification, ElmoTokenizer
from hf_elmo.layer_cache import LayerCache
from hf_elmo.tasks.remembered_layers import remembering_layers, why_not_remembered
from tests.hf_elmo.models import WORDS, ids, random_head

SENTENCES = [["The", "dog", "", "naïve", "東京"], WORDS[:11], ["bark"], ["x" * 60, "."]]


def cache() -> LayerCache:
    return LayerCache(max_bytes=10**7)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("placement", ["input", "output", "both"])
def test_tagging_is_the_same(placement: str, side: str) -> None:
    head = random_head(
        ElmoForTokenClassification, elmo_placement=placement, classifier_num_layers=1, use_crf=True, mix_l2=0.1
    )
    character_ids, mask = ids(SENTENCES, side=side)
    labels = torch.full(mask.shape, -100)
    labels[:, 3] = 1
    expected = head(character_ids, mask, labels=labels)
    memory = cache()
    with remembering_layers(head, memory):
        for _ in range(2):
            output = head(character_ids, mask, labels=labels)
            torch.testing.assert_close(output.loss, expected.loss)
            inner = output.predictions != -100
            torch.testing.assert_close(output.logits[inner], expected.logits[inner], rtol=1e-4, atol=1e-5)
            assert torch.equal(output.predictions, expected.predictions)
    assert (memory.statistics.misses, memory.statistics.hits) == (4, 4)


def test_gradients_reach_the_mix_and_the_network_and_nothing_else() -> None:
    head = random_head(ElmoForTokenClassification).train()
    head.config.elmo_dropout = 0.0
    character_ids, mask = ids(SENTENCES)
    gradients = []
    for remembered in (False, True):
        head.zero_grad()
        if remembered:
            with remembering_layers(head, cache()):
                head(character_ids, mask, labels=mask).loss.backward()
        else:
            # The boundaries' labels are ignored, as in training.
            head(character_ids, mask, labels=mask).loss.backward()
        gradients.append({name: p.grad for name, p in head.named_parameters() if p.grad is not None})
    names = {"elmo.scalar_mix.weights", "elmo.scalar_mix.gamma", "classifier.weight", "classifier.bias"}
    assert gradients[0].keys() == gradients[1].keys() == names


def test_gradients_are_the_same_where_boundaries_are_not_labelled() -> None:
    head = random_head(ElmoForTokenClassification, elmo_dropout=0.0).train()
    character_ids, mask = ids([["The", "dog"], ["bark", "."]])
    labels = torch.tensor([[-100, 1, 0, -100], [-100, 0, 2, -100]])
    found = []
    for remembered in (False, True):
        head.zero_grad()
        with remembering_layers(head, cache()) if remembered else torch.enable_grad():
            head(character_ids, mask, labels=labels).loss.backward()
        assert head.elmo.scalar_mix is not None
        found.append([head.elmo.scalar_mix.weights.grad, head.classifier.weight.grad])
    torch.testing.assert_close(found[1], found[0], rtol=1e-4, atol=1e-6)


def test_pairs_are_the_same() -> None:
    tokenizer = ElmoTokenizer()
    batch = tokenizer([("a b", "the naïve dog"), ("x " * 9, "y")], padding=True, return_tensors="pt")
    for kind, changes in (
        (ElmoForSequenceClassification, {"sentence_pairs": True, "pooling": "biattention"}),
        (ElmoForSequenceClassification, {"sentence_pairs": True}),
        (ElmoForQuestionAnswering, {}),
    ):
        head: Any = random_head(kind, **changes)
        expected = head(**batch)
        with remembering_layers(head, cache()):
            output = head(**batch)
        for value, wanted in zip(output.to_tuple(), expected.to_tuple(), strict=True):
            torch.testing.assert_close(value, wanted, rtol=1e-4, atol=1e-5)


def test_what_cannot_be_spelled_is_computed() -> None:
    """Cut within a character, or a boundary among the words."""
    head = random_head(ElmoForTokenClassification)
    for words in (["a", "é" * 30 + "x", "x" + "é" * 30], ["a", "</S>", "b"]):
        character_ids, mask = ids([words])
        expected = head(character_ids, mask).logits
        with remembering_layers(head, cache()):
            torch.testing.assert_close(head(character_ids, mask).logits, expected)


def test_the_model_is_as_before_afterwards() -> None:
    head = random_head(ElmoForTokenClassification).train()
    names = list(head.state_dict())
    with contextlib.suppress(KeyError), remembering_layers(head, cache()):
        head(*ids(SENTENCES))
        assert head.elmo.training
        assert list(head.state_dict()) == names
        raise KeyError
    assert "forward" not in head.elmo.__dict__
    assert head.elmo.training


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"freeze_bilm": False}, "the biLM is trained too"),
        ({"initial_state": "carry"}, "depend on those before"),
        ({"mix_layer_norm": "batch"}, "boundaries' vectors count"),
        ({"pool_boundaries": True}, "boundaries' vectors count"),
    ],
)
def test_when_layers_cannot_be_remembered(changes: dict[str, Any], reason: str) -> None:
    head = random_head(ElmoForSequenceClassification, **changes)
    assert reason in str(why_not_remembered(head))
    with pytest.raises(ValueError, match=reason), remembering_layers(head, cache()):
        pass
    assert "several GPUs" in str(why_not_remembered(random_head(ElmoForSequenceClassification), num_gpus=2))
