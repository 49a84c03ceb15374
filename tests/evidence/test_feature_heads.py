import numpy as np
import pytest
import torch
from experiments.feature_heads import (
    CHARACTER_FEATURES,
    FeaturesForQuestionAnswering,
    FeaturesForSequenceClassification,
    FeaturesForTokenClassification,
    collate,
    feature_config,
)
from experiments.head_training import predict, train_head
from experiments.readers.static_vectors import StaticVectors
from experiments.resources import Resources
from experiments.sentence_features import SentenceFeatures

from hf_elmo import ElmoModel
from hf_elmo.character_ids import words_to_character_ids

SENTENCES = [["The", "dog", "is", "Rome", "."], ["play", "."], ["東京", "x" * 60, "the"]]
VECTORS = "vectors/glove.6B.50d.top100k.txt.gz"


@pytest.fixture
def features(resources: Resources) -> SentenceFeatures:
    return SentenceFeatures(
        SENTENCES,
        resources,
        vectors=StaticVectors(resources.path(VECTORS)),
        elmo=True,
        max_characters_per_word=50,
    )


def _batch(features: SentenceFeatures, sentences: list[list[str]]) -> torch.Tensor:
    return collate([{"character_ids": torch.from_numpy(features.character_ids(s))} for s in sentences])["character_ids"]


def _layers(resources: Resources, sentence: list[str]) -> torch.Tensor:
    """(L + 1, n, 2P) by the model's own forward pass."""
    model = ElmoModel.from_pretrained(resources.model).eval()
    rows = words_to_character_ids(["<S>", *sentence, "</S>"], max_characters_per_word=50)
    with torch.no_grad():
        output = model(torch.from_numpy(rows).unsqueeze(0), output_hidden_states=True)
    return torch.stack(output.hidden_states)[:, 0, 1:-1]


def test_features_are_the_models_layers_and_the_static_vectors(
    features: SentenceFeatures, resources: Resources
) -> None:
    ids = _batch(features, SENTENCES)
    mask = (ids != 0).any(dim=2)
    vectors, layers = features.look_up(ids, mask)
    assert vectors is not None
    for row, sentence in enumerate(SENTENCES):
        n = len(sentence)
        expected = _layers(resources, sentence)
        for number, layer in enumerate(layers):
            # rounded to float16
            torch.testing.assert_close(layer[row, 1 : n + 1], expected[number], rtol=2e-3, atol=2e-3)
            assert not layer[row, 0].any()
            assert not layer[row, n + 1 :].any()
        assert not vectors[row, [0, n + 1]].any()
    np.testing.assert_array_equal(
        vectors[0, 1:6], [[0.5, -0.25, 0], [3.5, -3.25, 3], [4.5, -4.25, 4], [2.5, -2.25, 2], [5.5, -5.25, 5]]
    )


def test_what_was_not_handed_in_is_not_found(features: SentenceFeatures) -> None:
    ids = _batch(features, [["another", "sentence"]])
    with pytest.raises(KeyError):
        features.look_up(ids, (ids != 0).any(dim=2))


@pytest.mark.parametrize(("mix", "chosen"), [("top", [2]), ("token", [0]), ("average", [0, 1, 2]), ("lower", [0, 1])])
def test_input_is_words_features_and_the_mix(
    features: SentenceFeatures, resources: Resources, mix: str, chosen: list[int]
) -> None:
    config = feature_config(features, mix=mix, elmo_dropout=0.5, num_labels=2, classifier_num_layers=1)
    model = FeaturesForTokenClassification(config).eval()
    model.features = features
    ids = _batch(features, SENTENCES[:2])
    read = model.read(ids, (ids != 0).any(dim=2))
    assert read.inputs.shape == (2, 7, CHARACTER_FEATURES + 3 + 12) == (2, 7, model.input_size)
    layers = _layers(resources, SENTENCES[1])[chosen]  # (k, n, 12)
    centred = layers - layers.mean(dim=-1, keepdim=True)
    expected = (centred / centred.square().mean(dim=-1, keepdim=True).sqrt()).mean(dim=0)
    torch.testing.assert_close(read.inputs[1, 1:3, -12:], expected, rtol=0.02, atol=0.02)
    assert not read.inputs[1, 3:].any()
    assert read.words.sum(dim=1).tolist() == [5, 2]
    assert model.scalar_mix is not None
    assert model.scalar_mix.weights.requires_grad == (mix != "average")


@pytest.mark.parametrize("placement", ["input", "output", "both"])
def test_a_rows_scores_are_its_own(features: SentenceFeatures, placement: str) -> None:
    config = feature_config(
        features, elmo_dropout=0.5, elmo_placement=placement, num_labels=3, classifier_num_layers=1, use_crf=True
    )
    model = FeaturesForTokenClassification(config).eval()
    model.features = features
    with torch.no_grad():
        together = model(_batch(features, SENTENCES)).logits
        for row, sentence in enumerate(SENTENCES):
            alone = model(_batch(features, [sentence])).logits
            torch.testing.assert_close(together[row, : alone.shape[1]], alone[0])


def test_without_elmo_there_is_no_mix(resources: Resources) -> None:
    features = SentenceFeatures(SENTENCES, resources, vectors=None, elmo=False, max_characters_per_word=50)
    model = FeaturesForTokenClassification(
        feature_config(features, elmo_dropout=0.5, num_labels=2, classifier_num_layers=1)
    )
    model.features = features
    assert model.input_size == CHARACTER_FEATURES
    assert model.layer_weights() == {}
    assert model(_batch(features, SENTENCES)).logits.shape == (3, 7, 2)
    assert not resources.layer_folder.exists(), "nothing was computed"


def test_pairs_are_read_apart(features: SentenceFeatures) -> None:
    pair = torch.from_numpy(np.concatenate([features.character_ids(words) for words in SENTENCES[:2]])).unsqueeze(0)
    answerer = FeaturesForQuestionAnswering(feature_config(features, elmo_dropout=0.5, classifier_lstm_size=4)).eval()
    answerer.features = features
    logits = answerer(pair).start_logits[0]
    inside = logits > torch.finfo(logits.dtype).min
    # <S> 5 words </S> <S> 2 words </S>
    assert inside.nonzero().flatten().tolist() == [8, 9]
    config = feature_config(
        features,
        elmo_dropout=0.5,
        num_labels=3,
        pooling="biattention",
        sentence_pairs=True,
        classifier_lstm_size=4,
    )
    classifier = FeaturesForSequenceClassification(config).eval()
    classifier.features = features
    assert classifier(pair).logits.shape == (1, 3)


def test_training_learns_and_counts_words(features: SentenceFeatures) -> None:
    config = feature_config(
        features,
        elmo_dropout=0.0,
        num_labels=3,
        classifier_num_layers=1,
        classifier_lstm_size=16,
        classifier_dropout=0.0,
    )
    torch.manual_seed(0)
    model = FeaturesForTokenClassification(config)
    model.features = features
    examples = [
        {
            "character_ids": torch.from_numpy(features.character_ids(sentence)),
            "labels": torch.tensor([-100, *(len(word) % 3 for word in sentence), -100]),
        }
        for sentence in SENTENCES
    ]
    training = train_head(model, examples, words=1000, batch_size=3, learning_rate=0.01, seed=0, device="cpu")
    # 16 positions with boundaries in a batch
    assert (training.steps, training.words) == (63, 1008)
    for number, output, row in predict(model, examples, device="cpu"):
        labels = examples[number]["labels"]
        assert output.predictions[row, : len(labels)].tolist() == labels.tolist()
    ((shares, gamma),) = model.layer_weights().values()
    assert sum(shares) == pytest.approx(1)
    assert gamma != 1
