import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file

from hf_elmo import ElmoForPreTraining, ElmoModel, ElmoTokenizer
from hf_elmo.cli.main import main
from hf_elmo.convert import convert, export_hdf5
from tests.hf_elmo.convert.formats import VOCABULARY, allennlp_mix, allennlp_state, model_folder, same_parameters
from tests.hf_elmo.models import original_files, random_lm, random_model
from tests.oracles import random_weights


def _content(path: Path) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    """Every dataset: type, shape and bytes."""
    found = {}
    with h5py.File(path) as file:
        assert not file.attrs

        def visit(name: str, item: Any) -> None:
            assert not item.attrs
            if isinstance(item, h5py.Dataset):
                found[name] = (item.dtype.str, item.shape, item[()].tobytes())

        file.visititems(visit)
    return found


def _there_and_back(options: Path, weights: Path, folder: Path) -> Path:
    convert(options, weights, folder / "model")
    export_hdf5(folder / "model", folder / "exported")
    return folder / "exported"


@pytest.mark.parametrize("name", ["tiny", *random_weights.ODD])
def test_the_file_comes_back_bit_by_bit(name: str, tmp_path: Path) -> None:
    options = random_weights.options(name)
    files = original_files(tmp_path, options, random_weights.random_weights(options, seed=3))
    exported = _there_and_back(*files, tmp_path)
    assert _content(exported / "weights.hdf5") == _content(files[1])
    again = json.loads((exported / "options.json").read_text())
    assert again["char_cnn"] == options["char_cnn"]
    for key, value in options["lstm"].items():
        assert (again["lstm"][key] or None) == (value or None)
    convert(exported, tmp_path / "again")
    assert same_parameters(tmp_path / "again", tmp_path / "model")
    assert (tmp_path / "again" / "config.json").read_text() == (tmp_path / "model" / "config.json").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["small", "medium", "original"])
def test_the_published_sizes_come_back_bit_by_bit(name: str, tmp_path: Path) -> None:
    options = random_weights.options(name)
    files = original_files(tmp_path, options, random_weights.random_weights(options, seed=3))
    exported = _there_and_back(*files, tmp_path)
    assert _content(exported / "weights.hdf5") == _content(files[1])


@st.composite
def _options(draw: st.DrawFn) -> dict[str, Any]:
    size = st.integers(1, 6)
    clip = st.none() | st.floats(0.25, 8, width=32)
    filters = draw(st.lists(st.tuples(st.integers(1, 4), size).map(list), min_size=1, max_size=3))
    return random_weights.make_options(
        dim=draw(size),
        projection_dim=draw(size),
        n_layers=draw(st.integers(1, 3)),
        cell_clip=draw(clip),
        proj_clip=draw(clip),
        use_skip_connections=draw(st.booleans()),
        embedding_dim=draw(size),
        filters=filters,
        n_highway=draw(st.integers(0, 2)),
        activation=draw(st.sampled_from(["relu", "tanh"])),
        max_characters=draw(st.sampled_from([6, 50])),
    )


@settings(max_examples=25)
@given(options=_options(), seed=st.integers(0, 100))
def test_there_and_back_is_the_identity(options: dict[str, Any], seed: int, tmp_path_factory) -> None:
    folder = tmp_path_factory.mktemp("identity")
    files = original_files(folder, options, random_weights.random_weights(options, seed=seed))
    exported = _there_and_back(*files, folder)
    assert _content(exported / "weights.hdf5") == _content(files[1])
    convert(exported, folder / "again")
    assert same_parameters(folder / "again", folder / "model")
    assert (folder / "again" / "config.json").read_text() == (folder / "model" / "config.json").read_text()


def test_the_references_own_fixture(shared_dir: Path, tmp_path: Path) -> None:
    fixture = shared_dir / "reference" / "allennlp_fixture"
    exported = _there_and_back(fixture / "options.json", fixture / "lm_weights.hdf5", tmp_path)
    assert _content(exported / "weights.hdf5") == _content(fixture / "lm_weights.hdf5")


def _language_model(folder: Path, **changes: Any) -> ElmoForPreTraining:
    model = random_lm(vocab_size=len(VOCABULARY) + 1, **changes)
    model.elmo.character_cnn.embedding.weight.data[0] = 0
    model.save_pretrained(folder)
    ElmoTokenizer(VOCABULARY).save_pretrained(folder)
    return model


def test_a_language_model_comes_back_with_its_head(tmp_path: Path) -> None:
    model = _language_model(tmp_path / "model", dropout=0.25, lm_softmax="full")
    assert main(["export-hdf5", str(tmp_path / "model"), str(tmp_path / "exported")]) == 0
    with h5py.File(tmp_path / "exported" / "lm_head.hdf5") as file:
        np.testing.assert_array_equal(file["lm/softmax/W"][()], model.lm_head.weight.detach())
        np.testing.assert_array_equal(file["lm/softmax/b"][()], model.lm_head.bias.detach())
    assert main(["convert", str(tmp_path / "exported"), str(tmp_path / "again")]) == 0
    assert same_parameters(tmp_path / "again", tmp_path / "model")
    again = ElmoForPreTraining.from_pretrained(tmp_path / "again")
    assert (again.config.dropout, again.config.lm_softmax, again.config.num_negative_samples) == (0.25, "full", 8)
    assert ElmoTokenizer.from_pretrained(tmp_path / "again").get_vocab() == ElmoTokenizer(VOCABULARY).get_vocab()
    convert(tmp_path / "exported", tmp_path / "bilm", with_head=False)
    assert not any(name.startswith("lm_head") for name in load_file(tmp_path / "bilm" / "model.safetensors"))


def test_a_trained_mix_comes_back(tmp_path: Path) -> None:
    options = random_weights.options("tiny")
    random_weights.write_options(tmp_path / "options.json", options)
    torch.save({**allennlp_state(), **allennlp_mix(0, (0.1, -0.2, 1e-20), 1 / 3)}, tmp_path / "weights.th")
    convert(tmp_path / "weights.th", tmp_path / "model")
    export_hdf5(tmp_path / "model", tmp_path / "exported")
    mix = json.loads((tmp_path / "exported" / "scalar_mix.json").read_text())
    assert mix["scalar_mix_parameters"] == pytest.approx([0.1, -0.2, 1e-20])
    convert(tmp_path / "exported", tmp_path / "again")
    assert same_parameters(tmp_path / "again", tmp_path / "model")
    mix["scalar_mix_parameters"].pop()
    (tmp_path / "exported" / "scalar_mix.json").write_text(json.dumps(mix))
    with pytest.raises(ValueError, match=r"scalar_mix\.json: got 2 scalar_mix_parameters; expected 3"):
        convert(tmp_path / "exported", tmp_path / "other")


def test_a_model_stored_in_half_is_written_in_single(tmp_path: Path) -> None:
    model = random_model()
    model.half().save_pretrained(tmp_path / "half")
    export_hdf5(tmp_path / "half", tmp_path / "exported")
    with h5py.File(tmp_path / "exported" / "weights.hdf5") as file:
        assert file["CNN_proj/W_proj"].dtype == np.float32
        expected = model.character_cnn.projection.weight.detach().float().numpy().T
        np.testing.assert_array_equal(file["CNN_proj/W_proj"][()], expected)


def test_the_shipped_model_can_be_exported(tmp_path: Path) -> None:
    from hf_elmo.model_source import default_model_path

    export_hdf5(default_model_path(), tmp_path / "exported")
    convert(tmp_path / "exported", tmp_path / "again")
    original = ElmoModel.from_pretrained(default_model_path())
    again = ElmoModel.from_pretrained(tmp_path / "again")
    assert again.config.initial_state == "zero"  # the original's; the warm state has no place in its format
    found, expected = again.state_dict(), original.state_dict()
    assert expected.keys() - found.keys() == {"initial_state.cell", "initial_state.hidden"}
    assert all(torch.equal(values, expected[name]) for name, values in found.items())


@pytest.mark.parametrize(
    ("changes", "note"),
    [
        ({"use_skip_connections": False}, "AllenNLP does not read a biLM without skip connections; bilm-tf does"),
        ({"initial_state": "warm"}, "the warm initial state was left out"),
        ({"lstm_size": 6, "character_filters": [[1, 6]]}, "LSTMs as wide as their projection nor a character CNN"),
    ],
)
def test_what_others_do_not_read_is_said(
    changes: dict[str, Any], note: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    random_model(**changes).save_pretrained(tmp_path / "model")
    assert main(["export-hdf5", str(tmp_path / "model"), str(tmp_path / "exported")]) == 0
    assert note in capsys.readouterr().out


def _no_model(folder: Path) -> None:
    (folder / "model.safetensors").unlink()


def _cut(folder: Path) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:3000])


def _nan(folder: Path) -> None:
    model = ElmoModel.from_pretrained(folder)
    model.layers[0].forward_lstm.gates.bias.data[3] = torch.nan
    model.save_pretrained(folder)


def _other_characters(folder: Path) -> None:
    random_model(character_vocab_size=300).save_pretrained(folder)


def _occupied(folder: Path) -> None:
    (folder.parent / "exported").mkdir()
    (folder.parent / "exported" / "precious").touch()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (_no_model, "model.safetensors"),
        (_cut, "damaged or cut off"),
        (_nan, "1 of them NaN"),
        (_other_characters, "character_vocab_size: got 300; expected 262"),
        (_occupied, "is there already"),
    ],
)
def test_what_is_wrong_is_one_line_and_nothing_is_written(
    spoil, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    random_model().save_pretrained(tmp_path / "model")
    spoil(tmp_path / "model")
    before = sorted(tmp_path.rglob("*"))
    capsys.readouterr()
    assert main(["export-hdf5", str(tmp_path / "model"), str(tmp_path / "exported")]) == 2
    said = capsys.readouterr().err.strip()
    assert message in said
    assert len(said.splitlines()) == 1
    assert sorted(tmp_path.rglob("*")) == before


def test_a_folder_of_old_weights_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"without a config\.json"):
        export_hdf5(model_folder(tmp_path / "source"), tmp_path / "exported")
    with pytest.raises(FileNotFoundError, match="no such folder"):
        export_hdf5(tmp_path / "gone", tmp_path / "exported")


def test_a_head_needs_its_vocabulary(tmp_path: Path) -> None:
    _language_model(tmp_path / "model")
    export_hdf5(tmp_path / "model", tmp_path / "exported")
    words = (tmp_path / "exported" / "vocab.txt").read_text(encoding="utf-8")
    (tmp_path / "exported" / "vocab.txt").write_text(words + "more\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"lm_head\.hdf5: dataset lm/softmax/.* by its vocabulary"):
        convert(tmp_path / "exported", tmp_path / "again")
    (tmp_path / "exported" / "vocab.txt").unlink()
    with pytest.raises(ValueError, match="holds a softmax, whose rows are words; expected the vocabulary"):
        convert(tmp_path / "exported", tmp_path / "again")
