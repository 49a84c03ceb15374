from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModel, AutoModelForPreTraining

from hf_elmo import ElmoForPreTraining, ElmoModel
from tests.hf_elmo.models import ids, random_lm, random_model, tiny_config
from tests.oracles import numpy_elmo

SENTENCES = [["The", "dog", "barks", "."], ["Yes"]]


def test_last_hidden_state_is_the_mix_of_the_hidden_states() -> None:
    model = random_model()
    with torch.no_grad():
        output = model(*ids(SENTENCES), output_hidden_states=True)
    layers = torch.stack(output.hidden_states).numpy()
    expected = numpy_elmo.scalar_mix(
        layers.reshape(3, -1, 12), model.scalar_mix.weights.tolist(), model.scalar_mix.gamma.item()
    )
    np.testing.assert_allclose(output.last_hidden_state.reshape(-1, 12), expected, rtol=0, atol=1e-6)
    assert model(*ids(SENTENCES)).hidden_states is None


def test_padding_is_zero_in_every_layer() -> None:
    character_ids, mask = ids(SENTENCES, extra=2)
    output = random_model()(character_ids, mask, output_hidden_states=True)
    for layer in (output.last_hidden_state, *output.hidden_states):
        assert not layer[mask == 0].any()


def test_without_a_mix_it_is_the_top_layer() -> None:
    model = ElmoModel(tiny_config(), add_scalar_mix=False).eval()
    output = model(*ids(SENTENCES), output_hidden_states=True)
    assert torch.equal(output.last_hidden_state, output.hidden_states[-1])


def test_outputs_as_a_tuple_and_input_ids_are_accepted() -> None:
    model = random_model()
    character_ids, mask = ids(SENTENCES)
    plain = model(character_ids=character_ids, attention_mask=mask).last_hidden_state
    as_tuple = model(character_ids, mask, input_ids=mask, return_dict=False)
    assert torch.equal(as_tuple[0], plain)


def test_a_feature_extractor_has_no_dropout() -> None:
    model = random_model(dropout=0.9).train()
    assert torch.equal(model(*ids(SENTENCES)).last_hidden_state, model(*ids(SENTENCES)).last_hidden_state)


def test_saving_and_loading_by_every_class(tmp_path: Path) -> None:
    model = random_lm()
    model.save_pretrained(tmp_path)
    character_ids, mask = ids(SENTENCES)
    labels = torch.tensor([[1, 5, 6, 7, 4, 2], [1, 9, 2, 0, 0, 0]])
    with torch.no_grad():
        expected = model(character_ids, mask, labels=labels)
        for loaded in (
            ElmoForPreTraining.from_pretrained(tmp_path),
            AutoModelForPreTraining.from_pretrained(tmp_path),
        ):
            torch.testing.assert_close(loaded(character_ids, mask, labels=labels).loss, expected.loss)
        body = AutoModel.from_pretrained(tmp_path)
        assert isinstance(body, ElmoModel)
        layers = body(character_ids, mask, output_hidden_states=True).hidden_states
    torch.testing.assert_close(
        layers[-1][..., :6] * mask.unsqueeze(-1), expected.forward_hidden_state * mask.unsqueeze(-1)
    )


def test_loading_a_language_model_as_features_prints_no_alarm(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    random_lm().save_pretrained(tmp_path)
    model = ElmoModel.from_pretrained(tmp_path)
    assert model.scalar_mix.weights.tolist() == [0, 0, 0]
    assert model.scalar_mix.gamma.tolist() == [1]
    assert "scalar_mix" not in caplog.text + capsys.readouterr().err
    assert "lm_head" not in caplog.text


def test_float16_storage_computes_in_float32(tmp_path: Path) -> None:
    model = random_model()
    model.half().save_pretrained(tmp_path)
    file = tmp_path / "config.json"
    file.write_text(file.read_text().replace('"float16"', '"float32"'))
    assert all(value.dtype == torch.float16 for value in load_file(tmp_path / "model.safetensors").values())
    assert ElmoModel.from_pretrained(tmp_path).dtype == torch.float32


def test_initial_values_are_the_references() -> None:
    config = tiny_config(projection_size=64, lstm_size=256, character_filters=[[1, 100], [2, 200]], vocab_size=500)
    torch.manual_seed(0)
    model = ElmoForPreTraining(config)
    cnn = model.elmo.character_cnn
    assert not cnn.embedding.weight[0].any()
    assert 0.9 < cnn.embedding.weight.abs().max() <= 1
    assert 0.049 < cnn.convolutions[1].weight.abs().max() <= 0.05
    assert cnn.highways[0].carry.bias.unique().tolist() == [-2]
    assert cnn.highways[0].carry.weight.std().item() == pytest.approx(300**-0.5, rel=0.05)
    lstm = model.elmo.layers[1].backward_lstm
    bound = (6 / (2 * 64 + 4 * 256)) ** 0.5
    assert 0.95 * bound < lstm.gates.weight.abs().max() <= bound
    assert not lstm.gates.bias.any()
    assert model.lm_head.weight.std().item() == pytest.approx(64**-0.5, rel=0.05)


def test_freezing_spares_the_mix() -> None:
    model = random_model()
    model.freeze_bilm()
    assert [name for name, p in model.named_parameters() if p.requires_grad] == [
        "scalar_mix.weights",
        "scalar_mix.gamma",
    ]
    model(*ids(SENTENCES)).last_hidden_state.sum().backward()
    assert model.scalar_mix.weights.grad.any()


def test_both_directions_of_the_language_model_predict_their_next_word() -> None:
    """The shift inside the model against streams that are shifted outside it."""
    model = random_lm()
    character_ids, mask = ids([SENTENCES[0]])
    words = torch.tensor([[1, 5, 6, 7, 4, 2]])
    whole = model(character_ids, mask, labels=words)
    streams = model(
        character_ids[:, :-1],
        labels=words[:, 1:],
        backward_character_ids=character_ids.flip(1)[:, :-1],
        backward_labels=words.flip(1)[:, 1:],
    )
    torch.testing.assert_close(whole.forward_loss, streams.forward_loss)
    torch.testing.assert_close(whole.backward_loss, streams.backward_loss)
    torch.testing.assert_close(whole.loss, (whole.forward_loss + whole.backward_loss) / 2)


def test_the_loss_of_the_language_model_equals_the_oracle() -> None:
    """Log-likelihood by the definition, from the NumPy oracle's top layer."""
    from hf_elmo.checkpoint_map import checkpoint_map
    from tests.oracles import random_weights

    model = random_lm().double()
    parameters = model.elmo.state_dict()
    weights = {e.dataset: e.layout.to_file(parameters[e.parameter].numpy()) for e in checkpoint_map(model.config)}
    options = random_weights.make_options(
        dim=10, projection_dim=6, embedding_dim=4, filters=[[1, 4], [2, 8], [3, 8]], n_highway=2
    )
    layers, _ = numpy_elmo.embed_sentence(SENTENCES[0], options, weights, keep_boundaries=True)
    words = [1, 5, 6, 7, 4, 2]
    head, bias = model.lm_head.weight.detach().numpy(), model.lm_head.bias.detach().numpy()

    def loss(x: np.ndarray, targets: list[int]) -> float:
        logits = x @ head.T + bias
        return float(np.mean([np.log(np.exp(row).sum()) - row[t - 1] for row, t in zip(logits, targets, strict=True)]))

    forward = loss(layers[-1, :-1, :6], words[1:])
    backward = loss(layers[-1, 1:, 6:], words[:-1])
    output = model(*ids([SENTENCES[0]]), labels=torch.tensor([words]))
    assert output.forward_loss.item() == pytest.approx(forward, abs=1e-10)
    assert output.backward_loss.item() == pytest.approx(backward, abs=1e-10)


def test_state_goes_on_from_batch_to_batch() -> None:
    """Two halves with the state handed over are the whole."""
    model = random_lm()
    character_ids, _ = ids([["a", "b", "c", "d"]])
    labels = torch.tensor([[4, 5, 6, 7, 8, 9]])
    kwargs = {"backward_character_ids": character_ids, "backward_labels": labels}
    whole = model(character_ids, labels=labels, **kwargs)
    first = model(character_ids[:, :3], labels=labels[:, :3], **{k: v[:, :3] for k, v in kwargs.items()})
    second = model(
        character_ids[:, 3:],
        labels=labels[:, 3:],
        state=first.state,
        **{k: v[:, 3:] for k, v in kwargs.items()},
    )
    torch.testing.assert_close((first.loss + second.loss) / 2, whole.loss)
    torch.testing.assert_close(second.state.cell, whole.state.cell)


def test_gradients_reach_every_parameter_of_the_language_model() -> None:
    model = random_lm(dropout=0.1).train()
    character_ids, mask = ids(SENTENCES)
    model(character_ids, mask, labels=mask * 5).loss.backward()
    assert all(p.grad is not None and p.grad.any() for p in model.parameters())


def test_dropout_stands_where_the_references_does() -> None:
    """On each LSTM layer's input, which the skip connection then adds dropped, and on what the softmax reads."""
    model = random_lm(dropout=0.5).train()
    character_ids, mask = ids([["a", "b", "c"]])
    torch.manual_seed(7)
    output = model(character_ids, mask, output_hidden_states=True)
    torch.manual_seed(7)
    x = output.hidden_states[0]
    masks = [torch.nn.functional.dropout(torch.ones_like(x), 0.5) for _ in range(3)]
    body = model.elmo.eval()
    for dropped, layer in zip(masks, body.layers, strict=False):
        from hf_elmo.reading_order import reading_orders

        zeros = torch.zeros(2, 1, 10), torch.zeros(2, 1, 6)
        x, _, _ = layer(x * dropped, *zeros, reading_orders(mask.bool()))
    torch.testing.assert_close(x, output.hidden_states[-1])
    torch.testing.assert_close((x * masks[2]).chunk(2, -1)[0], output.forward_hidden_state)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"character_ids": torch.zeros(2, 5, dtype=torch.long)},
            r"shape \(2, 5\); expected \(batch, words, 50\)",
        ),
        ({"character_ids": torch.zeros(2, 5, 49, dtype=torch.long)}, r"\(2, 5, 49\)"),
        ({"character_ids": torch.zeros(2, 0, 50, dtype=torch.long)}, "at least one word"),
        ({"character_ids": torch.zeros(2, 5, 50)}, "expected integers"),
        ({"attention_mask": torch.ones(2, 4)}, r"attention_mask: got shape \(2, 4\); expected \(2, 5\)"),
        ({"backward_character_ids": torch.zeros(2, 4, 50, dtype=torch.long)}, "backward_character_ids"),
    ],
)
def test_wrong_shapes_are_refused(arguments: dict[str, torch.Tensor], message: str) -> None:
    right = {"character_ids": torch.zeros(2, 5, 50, dtype=torch.long)}
    with pytest.raises(ValueError, match=message):
        random_model()(**{**right, **arguments})


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_predicts_nothing(side: str) -> None:
    """The loss of a padded batch is the mean over the words of its sentences, each read alone."""
    model = random_lm(lm_softmax="full")
    alone = [ids([sentence]) for sentence in SENTENCES]
    with torch.no_grad():
        losses = [model(character_ids, labels=mask * 5) for character_ids, mask in alone]
        character_ids, mask = ids(SENTENCES, side=side, extra=2)
        for arguments in ({"attention_mask": mask, "labels": mask * 5}, {"labels": torch.full_like(mask, 5)}):
            whole = model(character_ids, **arguments)
            for name in ("forward_loss", "backward_loss", "loss"):
                words = torch.tensor([len(sentence) + 1.0 for sentence in SENTENCES])
                expected = (torch.stack([loss[name] for loss in losses]) * words).sum() / words.sum()
                torch.testing.assert_close(whole[name], expected)


def test_one_direction_with_labels_alone_is_refused() -> None:
    character_ids, mask = ids(SENTENCES)
    with pytest.raises(ValueError, match="backward_labels"):
        random_lm()(character_ids, labels=mask, backward_character_ids=character_ids)


def test_activation_checkpointing_changes_no_gradient() -> None:
    character_ids, mask = ids(SENTENCES)
    gradients = []
    for checkpointing in (False, True):
        model = random_lm(dropout=0.0, lm_softmax="full").train()
        if checkpointing:
            # Its name before transformers 5.23 was another.
            getattr(model, "activation_checkpointing_enable", model.gradient_checkpointing_enable)()
        model(character_ids, mask, labels=mask * 5).loss.backward()
        gradients.append([p.grad for p in model.parameters()])
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)


def test_mixed_precision_trains() -> None:
    """Matrix products in bfloat16, the recurrence in float32: near the loss of full precision, gradients everywhere."""
    model = random_lm(dropout=0.0, lm_softmax="full").train()
    character_ids, mask = ids(SENTENCES)
    streams = {"backward_character_ids": character_ids, "backward_labels": mask * 5}
    expected = model(character_ids, labels=mask * 5, **streams).loss
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(character_ids, labels=mask * 5, **streams).loss
    loss.backward()
    torch.testing.assert_close(loss.float(), expected, rtol=0.02, atol=0)
    gradients = [p.grad for p in model.parameters()]
    assert all(gradient is not None and gradient.dtype == torch.float32 for gradient in gradients)
    mixed = torch.cat([gradient.flatten() for gradient in gradients])
    assert not torch.equal(mixed, mixed.bfloat16().float())  # summed and kept in full precision
    model.zero_grad()
    expected.backward()
    full = torch.cat([p.grad.flatten() for p in model.parameters()])
    assert torch.cosine_similarity(mixed, full, dim=0) > 0.999


def test_there_are_no_word_embeddings_to_resize() -> None:
    with pytest.raises(ValueError, match="no embedding of words"):
        random_lm().resize_token_embeddings(500)


@pytest.mark.parametrize("norm", ["none", "token", "batch"])
def test_a_batch_without_any_word_is_zero(norm: str) -> None:
    output = random_model(mix_layer_norm=norm)(torch.zeros(2, 3, 50, dtype=torch.long))
    assert not output.last_hidden_state.any()


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("mix_layer_norm", "tokens"),
        ("mix_layers", [5]),
        ("mix_layers", [-1]),
        ("initial_state", "cold"),
        ("mix_l2", -1),
    ],
)
def test_a_wrong_option_is_refused_by_from_pretrained(tmp_path: Path, option: str, value: Any) -> None:
    random_model().save_pretrained(tmp_path)
    for load in (ElmoModel.from_pretrained, AutoModel.from_pretrained):
        with pytest.raises(ValueError, match=f"^{option}: got "):
            load(tmp_path, **{option: value})


def test_a_wrong_option_is_refused_by_save_pretrained_before_anything_is_written(tmp_path: Path) -> None:
    model = random_model()
    model.config.pooling = "average"
    with pytest.raises(ValueError, match=r"^pooling: got 'average'"):
        model.save_pretrained(tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([[1, 30]], r"labels: got 30; expected word ids below vocab_size = 30"),
        ([[1, 2, 3]], r"labels: got shape \(1, 3\); expected \(1, 2\)"),
        ([1, 2], r"labels: got shape \(2,\); expected \(1, 2\)"),
    ],
)
@pytest.mark.parametrize("training", [True, False])
def test_labels_that_are_no_words_are_refused(labels: list[Any], message: str, training: bool) -> None:
    model = random_lm().train(training)
    character_ids = ids([[]])[0]  # (1, 2, C)
    with pytest.raises(ValueError, match="^" + message):
        model(character_ids, labels=torch.tensor(labels))
    with pytest.raises(ValueError, match="^backward_" + message):
        model(
            character_ids,
            labels=torch.tensor([[-1, 29]]),
            backward_character_ids=character_ids,
            backward_labels=torch.tensor(labels),
        )
