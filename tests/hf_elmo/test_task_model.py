"""What all heads share: freezing, where the mixes go, dropout, penalty, saving and loading."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import (
    AutoModel,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
)
from transformers.utils import output_capturing

from hf_elmo import (
    ElmoConfig,
    ElmoForQuestionAnswering,
    ElmoForSequenceClassification,
    ElmoForTokenClassification,
    ElmoModel,
    ElmoTokenizer,
)
from hf_elmo.task_model import ElmoTaskModel
from tests.hf_elmo.models import random_head, random_lm, random_model, tiny_config

CRF = {"use_crf": True, "classifier_num_layers": 2, "elmo_placement": "both"}
PAIRS = {"pooling": "biattention", "sentence_pairs": True, "elmo_placement": "both"}
VARIANTS: list[tuple[type[ElmoTaskModel], dict[str, Any]]] = [
    (ElmoForTokenClassification, {}),
    (ElmoForTokenClassification, CRF),
    (ElmoForTokenClassification, {"classifier_num_layers": 1, "elmo_placement": "output"}),
    (ElmoForSequenceClassification, {}),
    (ElmoForSequenceClassification, {"pooling": "max", "sentence_pairs": True}),
    (ElmoForSequenceClassification, {"pooling": "biattention", "elmo_placement": "output"}),
    (ElmoForSequenceClassification, PAIRS),
    (ElmoForQuestionAnswering, {}),
    (ElmoForQuestionAnswering, {"elmo_placement": "both"}),
]
every_variant = pytest.mark.parametrize(
    ("head", "changes"),
    VARIANTS,
    ids=lambda v: v.__name__[7:] if isinstance(v, type) else "-".join(map(str, v.values())),
)
LABELS = {
    ElmoForTokenClassification: {
        "labels": torch.tensor(
            [[-100, 0, 1, 2, 2, -100, -100, 1, 0, -100], [-100, 2, 2, -100, -100, 1, 0, 1, -100, -100]]
        )
    },
    ElmoForSequenceClassification: {"labels": torch.tensor([2, 0])},
    ElmoForQuestionAnswering: {"start_positions": torch.tensor([7, 5]), "end_positions": torch.tensor([8, 7])},
}


def batch(side: str = "right", extra: int = 0) -> dict[str, torch.Tensor]:
    """Two pairs of different lengths."""
    tokenizer = ElmoTokenizer(padding_side=side)
    encoded = tokenizer(
        ["Who let it out", "Who is"],
        ["the dog", "me , who"],
        padding="max_length",
        max_length=10 + extra,
        return_tensors="pt",
    )
    return dict(encoded)


def results(model: ElmoTaskModel, **inputs: torch.Tensor) -> dict[str, torch.Tensor]:
    with torch.no_grad():
        return {name: value for name, value in model(**inputs).items() if name != "hidden_states"}


@every_variant
def test_by_default_the_biLM_is_frozen_and_the_rest_learns(head: type[ElmoTaskModel], changes: dict[str, Any]) -> None:  # noqa: N802
    model = random_head(head, elmo_dropout=0.0, classifier_dropout=0.0, **changes).train().double()
    model(**batch(), **LABELS[head]).loss.backward()
    bilm = [p for name, p in model.elmo.named_parameters() if not name.startswith("scalar_mix")]
    assert not any(p.requires_grad or p.grad is not None for p in bilm)
    rest = {name: p for name, p in model.named_parameters() if p.requires_grad}
    assert len(rest) + len(bilm) == len(list(model.parameters()))
    assert [name for name, p in rest.items() if p.grad is None or p.grad.abs().max() < 1e-12] == []


@every_variant
def test_the_biLM_is_fine_tuned_on_request(head: type[ElmoTaskModel], changes: dict[str, Any]) -> None:  # noqa: N802
    model = random_head(head, freeze_bilm=False, elmo_dropout=0.0, classifier_dropout=0.0, **changes).train().double()
    model(**batch(), **LABELS[head]).loss.backward()
    assert [name for name, p in model.named_parameters() if p.grad is None or p.grad.abs().max() < 1e-12] == []


@pytest.mark.parametrize("freeze", [True, False])
def test_a_frozen_biLM_builds_no_graph(freeze: bool) -> None:  # noqa: N802
    model = random_head(ElmoForTokenClassification, freeze_bilm=freeze).train()
    inputs = batch()
    hidden_states = model.elmo(inputs["character_ids"], output_hidden_states=True).hidden_states
    assert [layer.requires_grad for layer in hidden_states] == [not freeze] * 3


@pytest.mark.parametrize("freeze", [True, False])
def test_training_mode_changes_nothing_in_the_biLM(freeze: bool) -> None:  # noqa: N802
    model = random_head(ElmoForTokenClassification, freeze_bilm=freeze, dropout=0.9, elmo_dropout=0.0)
    evaluated = results(model, **batch())
    torch.testing.assert_close(results(model.train(), **batch()), evaluated, rtol=0, atol=0)


@pytest.mark.parametrize("placement", ["input", "output", "both"])
def test_elmo_dropout_drops_features_and_scales_the_others(placement: str) -> None:
    model = random_head(
        ElmoForTokenClassification, elmo_dropout=0.25, elmo_placement=placement, classifier_num_layers=1
    )
    inputs = batch(extra=400)
    words = inputs["attention_mask"].bool()
    plain = model.read(inputs["character_ids"], words)
    dropped = model.train().read(inputs["character_ids"], words)
    assert (plain.outputs is None) == (placement == "input")
    for name in ("inputs", "outputs"):
        before, after = getattr(plain, name), getattr(dropped, name)
        if before is None:
            continue
        kept = after != 0
        torch.testing.assert_close(after[kept], before[kept] / 0.75)
        assert kept.sum() / (before != 0).sum() == pytest.approx(0.75, abs=0.12)


def test_where_the_mixes_go() -> None:
    inputs = batch()
    words = inputs["attention_mask"].bool()
    model = random_head(ElmoForTokenClassification, **CRF)
    vectors = model.read(inputs["character_ids"], words)
    with torch.no_grad():
        body = model.elmo(inputs["character_ids"], output_hidden_states=True)
    torch.testing.assert_close(vectors.inputs, body.last_hidden_state)
    assert model.output_scalar_mix is not None
    w, gamma = model.output_scalar_mix.weights.detach().numpy(), model.output_scalar_mix.gamma.item()
    shares = np.exp(w) / np.exp(w).sum()
    expected = gamma * sum(s * h.numpy() for s, h in zip(shares, body.hidden_states, strict=True))
    np.testing.assert_allclose(vectors.outputs.detach(), expected, atol=1e-6)

    model = random_head(ElmoForTokenClassification, elmo_placement="output", classifier_num_layers=1)
    vectors = model.read(inputs["character_ids"], words)
    with torch.no_grad():
        body = model.elmo(inputs["character_ids"], output_hidden_states=True)
        token_layer = model.elmo.character_cnn(inputs["character_ids"])
    torch.testing.assert_close(vectors.inputs, token_layer * words.unsqueeze(-1))
    torch.testing.assert_close(vectors.outputs, body.last_hidden_state)


@pytest.mark.parametrize("head", [ElmoForTokenClassification, ElmoForSequenceClassification])
@pytest.mark.parametrize("placement", ["output", "both"])
def test_an_output_needs_a_network(head: type[ElmoTaskModel], placement: str) -> None:
    with pytest.raises(ValueError, match=f"elmo_placement: got '{placement}'.*classifier_num_layers to 1"):
        head(tiny_config(elmo_placement=placement))


@every_variant
def test_the_penalty_of_every_mix_is_added(head: type[ElmoTaskModel], changes: dict[str, Any]) -> None:
    plain, penalised = random_head(head, **changes), random_head(head, mix_l2=0.5, **changes)
    squares = sum(
        p.square().sum().item() for name, p in plain.named_parameters() if name.endswith("scalar_mix.weights")
    )
    difference = penalised(**batch(), **LABELS[head]).loss - plain(**batch(), **LABELS[head]).loss
    assert difference.item() == pytest.approx(0.5 * squares, rel=1e-4)
    assert squares > 0.01


@every_variant
def test_padding_changes_nothing(head: type[ElmoTaskModel], changes: dict[str, Any]) -> None:
    """Neither its side nor its length nor what stands in the same batch."""
    model = random_head(head, **changes).double()
    expected = results(model, **batch())
    longer = results(model, **batch("left", extra=3))
    alone = results(model, **{name: x[1:, :9] for name, x in batch().items()})
    for name, value in expected.items():
        if head is ElmoForSequenceClassification:
            torch.testing.assert_close(longer[name], value)
            torch.testing.assert_close(alone[name], value[1:])
            continue
        for row, length in enumerate((10, 9)):
            torch.testing.assert_close(longer[name][row, 13 - length :], value[row, :length])
        torch.testing.assert_close(alone[name][0], value[1, :9])


@every_variant
@pytest.mark.parametrize("wanted", [True, 1, [0, -1]], ids=str)
def test_hidden_states_on_request(head: type[ElmoTaskModel], changes: dict[str, Any], wanted: Any) -> None:
    if wanted is not True and not hasattr(output_capturing, "append_hidden_state"):
        pytest.skip("this version of transformers selects layers otherwise")
    model = random_head(head, **changes)
    inputs = batch()
    assert model(**inputs).hidden_states is None
    layers = model(**inputs, output_hidden_states=wanted).hidden_states
    expected = {"True": [0, 1, 2], "1": [1], "[0, -1]": [0, 2]}[str(wanted)]
    assert [number for number, layer in enumerate(layers) if layer is not None] == expected
    for number in expected:
        assert layers[number].shape == (2, 10, 12)
        assert layers[number].abs().sum(-1).bool().tolist() == inputs["attention_mask"].bool().tolist()


@every_variant
def test_outputs_as_a_tuple(head: type[ElmoTaskModel], changes: dict[str, Any]) -> None:
    model = random_head(head, **changes)
    for value, same in zip(model(**batch(), return_dict=False), results(model, **batch()).values(), strict=True):
        torch.testing.assert_close(value, same)


AUTO = {
    ElmoForTokenClassification: AutoModelForTokenClassification,
    ElmoForSequenceClassification: AutoModelForSequenceClassification,
    ElmoForQuestionAnswering: AutoModelForQuestionAnswering,
}


@every_variant
def test_saving_and_loading(head: type[ElmoTaskModel], changes: dict[str, Any], tmp_path: Path) -> None:
    model = random_head(head, mix_trainable=False, **changes)
    model.save_pretrained(tmp_path)
    loaded = AUTO[head].from_pretrained(tmp_path)
    assert type(loaded) is head
    torch.testing.assert_close(results(loaded, **batch()), results(model, **batch()))
    assert {n for n, p in loaded.named_parameters() if p.requires_grad} == {
        n for n, p in model.named_parameters() if p.requires_grad
    }
    assert not any(p.requires_grad for name, p in loaded.named_parameters() if name.startswith("elmo."))
    model.config._name_or_path = str(tmp_path)
    assert loaded.config.to_dict() == model.config.to_dict()
    body = AutoModel.from_pretrained(tmp_path)
    torch.testing.assert_close(body.scalar_mix.weights, model.elmo.scalar_mix.weights)


def test_loading_in_a_new_process(tmp_path: Path) -> None:
    model = random_head(ElmoForTokenClassification, **CRF)
    model.save_pretrained(tmp_path)
    ElmoTokenizer().save_pretrained(tmp_path)
    program = (
        "import sys, torch, hf_elmo\n"
        "from transformers import AutoModelForTokenClassification, AutoTokenizer\n"
        "model = AutoModelForTokenClassification.from_pretrained(sys.argv[1])\n"
        "tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])\n"
        "output = model(**tokenizer('Who let it out ?', return_tensors='pt'))\n"
        "print('RESULT', output.predictions.tolist())\n"
    )
    run = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True)
    expected = results(model, **ElmoTokenizer()("Who let it out ?", return_tensors="pt"))["predictions"].tolist()
    assert run.stdout.splitlines()[-1] == f"RESULT {expected}"


@every_variant
def test_a_head_on_a_pretrained_biLM(  # noqa: N802
    head: type[ElmoTaskModel], changes: dict[str, Any], tmp_path: Path
) -> None:
    """Weights of the language model are read, those of the head are new, all finite; the biLM is frozen."""
    lm = random_lm()
    lm.save_pretrained(tmp_path)
    model = head.from_pretrained(tmp_path, num_labels=3, classifier_lstm_size=5, **changes)
    for name, parameter in lm.elmo.named_parameters():
        assert torch.equal(model.elmo.get_parameter(name), parameter)
        assert not model.elmo.get_parameter(name).requires_grad
    assert all(torch.isfinite(p).all() and p.abs().max() <= 1 for n, p in model.named_parameters() if "elmo." not in n)
    assert any(p.requires_grad and p.std() > 0.05 for p in model.parameters() if p.dim() > 1)
    assert torch.isfinite(model(**batch(), **LABELS[head]).loss)
    assert model.config.num_labels == 3


def test_a_saved_head_is_loaded_to_be_fine_tuned(tmp_path: Path) -> None:
    random_head(ElmoForTokenClassification).save_pretrained(tmp_path)
    model = ElmoForTokenClassification.from_pretrained(tmp_path, freeze_bilm=False)
    assert all(p.requires_grad for p in model.parameters())


@every_variant
def test_mixed_precision(head: type[ElmoTaskModel], changes: dict[str, Any]) -> None:
    """Near the loss of full precision, and gradients in float32."""
    model = random_head(head, elmo_dropout=0.0, classifier_dropout=0.0, **changes).train()
    expected = model(**batch(), **LABELS[head]).loss
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(**batch(), **LABELS[head]).loss
    loss.backward()
    torch.testing.assert_close(loss.float(), expected, rtol=0.1, atol=0.05)
    gradients = [p.grad for p in model.parameters() if p.requires_grad]
    assert all(g is not None and g.dtype == torch.float32 and torch.isfinite(g).all() for g in gradients)


@every_variant
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_weights(head: type[ElmoTaskModel], changes: dict[str, Any], dtype: torch.dtype) -> None:
    model = random_head(head, **changes)
    expected = model(**batch(), **LABELS[head]).loss
    with torch.no_grad():
        loss = model.to(dtype)(**batch(), **LABELS[head]).loss
    torch.testing.assert_close(loss.float(), expected, rtol=0.1, atol=0.1)


def test_a_trained_mix_goes_with_the_features_it_was_saved_with(tmp_path: Path) -> None:
    body = random_model()
    body.save_pretrained(tmp_path)
    model = ElmoForTokenClassification.from_pretrained(tmp_path)
    assert torch.equal(model.elmo.scalar_mix.weights, body.scalar_mix.weights)


def test_a_mix_that_is_not_trained_stays_so_when_loaded(tmp_path: Path) -> None:
    random_model(mix_trainable=False).save_pretrained(tmp_path)
    assert not ElmoModel.from_pretrained(tmp_path).scalar_mix.weights.requires_grad
    model, report = ElmoModel.from_pretrained(tmp_path, output_loading_info=True)
    assert not model.scalar_mix.gamma.requires_grad
    assert not report["missing_keys"]


def test_a_config_of_before_the_heads_loads(tmp_path: Path) -> None:
    options = tiny_config().to_dict()
    for name in ("freeze_bilm", "elmo_dropout", "elmo_placement", "use_crf", "pooling", "pool_boundaries"):
        del options[name]
    (tmp_path / "config.json").write_text(json.dumps(options))
    config = ElmoConfig.from_pretrained(tmp_path)
    assert (config.freeze_bilm, config.elmo_dropout, config.elmo_placement) == (True, 0.5, "input")


@every_variant
def test_a_model_without_memory(head: type[ElmoTaskModel], changes: dict[str, Any]) -> None:
    """On the meta device: shapes only, as large models are begun."""
    with torch.device("meta"):
        model = head(tiny_config(num_labels=3, classifier_lstm_size=5, **changes))
    assert all(p.is_meta for p in model.parameters())
    assert [tuple(p.shape) for p in model.parameters()] == [
        tuple(p.shape) for p in random_head(head, **changes).parameters()
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("head", "changes"),
    [
        (ElmoForTokenClassification, {}),
        (ElmoForTokenClassification, {"use_crf": True, "classifier_num_layers": 1}),
        (ElmoForSequenceClassification, {"pooling": "max"}),
        (ElmoForSequenceClassification, {"pooling": "biattention"}),
    ],
)
def test_a_compiled_head_gives_the_same(head: type[ElmoTaskModel], changes: dict[str, Any]) -> None:
    model = random_head(head, **changes)
    expected = model(**batch(), **LABELS[head])
    # torch.compile leaves torch's own LSTMs out of its graph.
    whole = not any(isinstance(module, torch.nn.LSTM) for module in model.modules())
    compiled = torch.compile(model, backend="aot_eager", fullgraph=whole)(**batch(), **LABELS[head])
    torch.testing.assert_close(compiled.loss, expected.loss)
    torch.testing.assert_close(compiled.logits, expected.logits)


@every_variant
def test_no_rows_give_no_rows(head: type[ElmoTaskModel], changes: dict[str, Any]) -> None:
    inputs = {name: value[:0] for name, value in batch().items()}
    found = results(random_head(head, **changes), **inputs)
    assert found
    assert all(value.shape[0] == 0 for value in found.values())
