"""Where a model is put while it is loaded, and in which numbers; Accelerate."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModel, AutoModelForTokenClassification, PreTrainedModel

from hf_elmo import ElmoConfig, ElmoForTokenClassification, ElmoModel
from hf_elmo.loaded_weights import refuse_offloaded
from hf_elmo.modeling_elmo import ElmoLayer
from tests.hf_elmo.models import ids, random_head, random_model

SENTENCES = [["The", "dog"], ["a"]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with everything that may be stored: weights, a mix, a warm state."""
    path = tmp_path_factory.mktemp("model")
    model = random_model(initial_state="warm")
    with torch.no_grad():
        for stored in model.initial_state.buffers():
            stored.normal_(generator=torch.Generator().manual_seed(1))
    model.save_pretrained(path)
    return path


def vectors(model: ElmoModel) -> torch.Tensor:
    with torch.no_grad():
        return model(*ids(SENTENCES)).last_hidden_state


@pytest.fixture(scope="module")
def expected(folder: Path) -> torch.Tensor:
    return vectors(AutoModel.from_pretrained(folder))


@pytest.mark.parametrize(
    ("dtype", "kept", "tolerance"),
    [
        (torch.float64, torch.float64, 1e-6),
        (torch.bfloat16, torch.bfloat16, 0.02),
        ("float16", torch.float16, 0.005),
        ("auto", torch.float32, 0.0),
        (None, torch.float32, 0.0),
    ],
    ids=str,
)
@pytest.mark.parametrize("load", [AutoModel.from_pretrained, ElmoModel.from_pretrained])
def test_dtype(
    load: Any, dtype: Any, kept: torch.dtype, tolerance: float, folder: Path, expected: torch.Tensor
) -> None:
    model = load(folder, dtype=dtype)
    assert {tensor.dtype for tensor in model.state_dict().values()} == {kept}
    assert vectors(model).dtype == kept
    torch.testing.assert_close(vectors(model).float(), expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("device_map", ["cpu", "auto", {"": "cpu"}, torch.device("cpu")], ids=str)
def test_device_map(device_map: Any, folder: Path, expected: torch.Tensor) -> None:
    pytest.importorskip("accelerate", reason="needs the extra: pip install 'spacy-elmo[train]'")
    model = AutoModel.from_pretrained(folder, device_map=device_map)
    assert torch.equal(vectors(model.to("cpu")), expected)


def test_device_map_of_a_head(tmp_path: Path) -> None:
    pytest.importorskip("accelerate", reason="needs the extra: pip install 'spacy-elmo[train]'")
    head = random_head(ElmoForTokenClassification, use_crf=True, classifier_num_layers=1)
    head.save_pretrained(tmp_path)
    loaded = AutoModelForTokenClassification.from_pretrained(tmp_path, device_map="auto").to("cpu")
    assert torch.equal(loaded(*ids(SENTENCES)).logits, head(*ids(SENTENCES)).logits)


def test_a_part_on_the_disk_is_refused_when_loading(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("accelerate", reason="needs the extra: pip install 'spacy-elmo[train]'")
    parts = {"character_cnn": "cpu", "layers.0": "cpu", "layers.1": "disk", "initial_state": "cpu", "scalar_mix": "cpu"}
    with pytest.raises(ValueError, match=r"device_map: got \[.*'layers\.1'.*\] offloaded; expected every part on"):
        AutoModel.from_pretrained(folder, device_map=parts, offload_folder=tmp_path)


def test_which_maps_are_offloaded() -> None:
    for device_map in ({}, {"": "cpu"}, {"a": 0, "b": 1}, {"": "cuda:0"}):
        refuse_offloaded(device_map)
    for device_map in ({"": "disk"}, {"a": 0, "b": "cpu"}):
        with pytest.raises(ValueError, match="offloaded"):
            refuse_offloaded(device_map)


@pytest.mark.parametrize("initial_state", ["zero", "warm"])
def test_begun_without_memory(initial_state: str, tmp_path: Path) -> None:
    """On the meta device, then given memory and weights; nothing is left behind that is not a weight or a buffer."""
    model = random_model(initial_state=initial_state)
    with torch.device("meta"):
        empty = ElmoModel(model.config)
    assert {tensor.device.type for tensor in empty.state_dict().values()} == {"meta"}
    filled = empty.to_empty(device="cpu")
    filled.load_state_dict(model.state_dict())
    assert torch.equal(vectors(filled.eval()), vectors(model))
    assigned = ElmoModel.__new__(ElmoModel)
    with torch.device("meta"):
        assigned.__init__(model.config)
    assigned.load_state_dict(model.state_dict(), assign=True)
    assert torch.equal(vectors(assigned.eval()), vectors(model))


def test_shapes_on_the_meta_device(folder: Path) -> None:
    """A model without numbers tells the shapes of what it would give."""
    with torch.device("meta"):
        model = AutoModel.from_config(ElmoConfig.from_pretrained(folder))
    assert model.device.type == "meta"
    assert sum(p.numel() for p in model.parameters()) == sum(
        p.numel() for p in AutoModel.from_pretrained(folder).parameters()
    )


def test_accelerate_prepares_and_steps() -> None:
    """The same step as plain PyTorch takes."""
    accelerate = pytest.importorskip("accelerate", reason="needs the extra: pip install 'spacy-elmo[train]'")
    character_ids, mask = ids(SENTENCES)
    rows = [
        {"character_ids": character_ids[i], "attention_mask": mask[i], "labels": torch.tensor([-100, i, 2, -100])}
        for i in range(2)
    ]
    weights = []
    for accelerated in (False, True):
        model = random_head(ElmoForTokenClassification, freeze_bilm=False, elmo_dropout=0.0).train()
        optimizer: Any = torch.optim.SGD(model.parameters(), lr=0.5)
        loader: Any = torch.utils.data.DataLoader(rows, batch_size=2)  # type: ignore[arg-type]
        accelerator = accelerate.Accelerator(cpu=True) if accelerated else None
        if accelerator is not None:
            model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
        before = model.classifier.weight.detach().clone()
        for batch in loader:
            loss = model(**batch).loss
            if accelerator is None:
                loss.backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            else:
                accelerator.backward(loss)
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        assert not torch.equal(model.classifier.weight, before)
        own = model if accelerator is None else accelerator.unwrap_model(model)
        weights.append({name: parameter.detach() for name, parameter in own.named_parameters()})
    torch.testing.assert_close(weights[1], weights[0])


def checkpoint_activations(model: PreTrainedModel, use_reentrant: bool = False) -> None:
    """Under the name that the installed version of transformers has for it."""
    enable = getattr(model, "activation_checkpointing_enable", model.gradient_checkpointing_enable)
    enable({"use_reentrant": use_reentrant})
    layers = [module for module in model.modules() if isinstance(module, ElmoLayer)]
    assert layers
    assert all(layer.gradient_checkpointing for layer in layers)


@pytest.mark.parametrize("use_reentrant", [False, True])
@pytest.mark.parametrize("kind", ["features", "head"])
def test_activation_checkpointing_changes_no_gradient(kind: str, use_reentrant: bool) -> None:
    """Also of a head that trains the biLM, and under either of torch's ways."""
    gradients = []
    for checkpointing in (False, True):
        if kind == "features":
            model: Any = random_model().train()
        else:
            model = random_head(ElmoForTokenClassification, freeze_bilm=False, elmo_dropout=0.0).train()
        if checkpointing:
            checkpoint_activations(model, use_reentrant)
        character_ids, mask = ids(SENTENCES)
        output = model(character_ids, mask)
        (output.last_hidden_state if kind == "features" else output.logits).square().sum().backward()
        gradients.append({name: p.grad for name, p in model.named_parameters()})
    assert all(gradient is not None and gradient.abs().sum() > 0 for gradient in gradients[0].values())
    torch.testing.assert_close(gradients[1], gradients[0])


def test_activation_checkpointing_of_a_frozen_biLM_trains_the_rest() -> None:  # noqa: N802
    gradients = []
    for checkpointing in (False, True):
        model = random_head(ElmoForTokenClassification, elmo_dropout=0.0).train()
        if checkpointing:
            checkpoint_activations(model)
        model(*ids(SENTENCES)).logits.square().sum().backward()
        gradients.append({name: p.grad for name, p in model.named_parameters() if p.requires_grad})
    torch.testing.assert_close(gradients[1], gradients[0])
    assert "classifier.weight" in gradients[0]
