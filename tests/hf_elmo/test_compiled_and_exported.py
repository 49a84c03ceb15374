"""`torch.compile` and `torch.export`: the same numbers, and one exported graph for every batch and length."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.export import Dim

from hf_elmo import ElmoForPreTraining, ElmoForSequenceClassification, ElmoForTokenClassification, ElmoModel
from hf_elmo.exported_lstm import scanned_sequence
from hf_elmo.projected_lstm import ProjectedLSTM
from tests.hf_elmo.models import ids, random_head, random_lm, random_model, randomise

SIZES = {0: Dim("batch", max=4096), 1: Dim("words", max=4096)}
OTHERS = [["a", "b", "c", "d", "e"], ["d"], ["x", "y"]]


def inputs(*sentences: list[str], side: str = "right") -> dict[str, Tensor]:
    character_ids, mask = ids(sentences, side=side)
    return {"character_ids": character_ids, "attention_mask": mask}


def tensors(output: Any) -> list[Tensor]:
    return [leaf for leaf in torch.utils._pytree.tree_leaves(output) if isinstance(leaf, Tensor)]


def exported(model: torch.nn.Module) -> Any:
    with torch.no_grad():
        example = inputs(["The", "dog"], ["a"])
        return torch.export.export(model, (), example, dynamic_shapes=dict.fromkeys(example, SIZES))


@pytest.mark.parametrize("sizes", [(6, 10), (6, 6)], ids=["projected", "without a projection"])
@pytest.mark.parametrize("masked", [False, True])
def test_the_scan_is_the_recurrence(sizes: tuple[int, int], masked: bool) -> None:
    projection_size, lstm_size = sizes
    lstm = ProjectedLSTM(projection_size=projection_size, lstm_size=lstm_size, cell_clip=0.5, projection_clip=0.4)
    randomise(lstm)
    generator = torch.Generator().manual_seed(3)
    from_inputs = torch.randn(7, 3, 4 * lstm_size, generator=generator)
    cell, hidden = (torch.randn(3, size, generator=generator) for size in (lstm_size, projection_size))
    step_mask = torch.arange(7) < torch.tensor([[7], [1], [0]]) if masked else None
    weight = lstm.gates.weight[:, -projection_size:]
    with torch.no_grad():
        scanned = scanned_sequence(lstm._step, from_inputs, cell, hidden, weight, step_mask)
        torch.testing.assert_close(scanned, lstm.step_by_step(from_inputs, cell, hidden, step_mask))


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{}, {"initial_state": "warm", "mix_layer_norm": "token"}], ids=str)
def test_one_graph_for_every_batch_and_length(changes: dict[str, Any], tmp_path: Path) -> None:
    """Also after it was saved and loaded."""
    model = random_model(**changes)
    torch.export.save(exported(model), tmp_path / "elmo.pt2")
    graph = torch.export.load(tmp_path / "elmo.pt2").module()
    with torch.no_grad():
        for batch in (inputs(*OTHERS), inputs(*OTHERS, side="left"), inputs(["a"] * 40), inputs([], ["b"])):
            expected = model(**batch).last_hidden_state
            torch.testing.assert_close(graph(**batch).last_hidden_state, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    [
        random_lm(),
        random_head(ElmoForTokenClassification),
        random_head(ElmoForSequenceClassification, pooling="max"),
    ],
    ids=lambda model: type(model).__name__,
)
def test_heads_without_a_network_of_their_own(model: torch.nn.Module) -> None:
    assert isinstance(model, ElmoForPreTraining | ElmoForTokenClassification | ElmoForSequenceClassification)
    graph, batch = exported(model).module(), inputs(*OTHERS, side="left")
    with torch.no_grad():
        torch.testing.assert_close(tensors(graph(**batch)), tensors(model(**batch)), rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@pytest.mark.skipif(
    shutil.which("gcc") is None and shutil.which("g++") is None, reason="torch.compile needs a C++ compiler"
)
def test_the_compiled_model_gives_the_same() -> None:
    """By torch's default compiler, with the layers; a second length is compiled by itself."""
    torch.compiler.reset()
    model = random_model()
    compiled = torch.compile(model, dynamic=False)
    with torch.no_grad():
        for batch in (inputs(["The", "dog"], ["a"]), inputs(["a", "b", "c"], side="left")):
            output, expected = (m(**batch, output_hidden_states=True) for m in (compiled, model))
            torch.testing.assert_close(output.last_hidden_state, expected.last_hidden_state, rtol=1e-5, atol=1e-6)
            torch.testing.assert_close(output.hidden_states, expected.hidden_states, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_the_compiled_model_is_one_graph_and_trains() -> None:
    torch.compiler.reset()
    model: ElmoModel = random_model().train()
    gradients = []
    for forward in (model, torch.compile(model, backend="aot_eager", fullgraph=True)):
        model.zero_grad()
        forward(**inputs(["The", "dog"], ["a"])).last_hidden_state.square().sum().backward()
        gradients.append({name: p.grad for name, p in model.named_parameters()})
    assert all(gradient is not None for gradient in gradients[0].values())
    torch.testing.assert_close(gradients[1], gradients[0])
