import json
import pickle
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from hf_elmo import ElmoConfig, ElmoModel
from hf_elmo.cli.main import main
from hf_elmo.convert import convert
from hf_elmo.convert.allennlp import read_settings, settings_config
from hf_elmo.convert.published_options import published_config
from tests.hf_elmo.convert.formats import OPTIONS, WEIGHTS, allennlp_mix, allennlp_state, same_parameters
from tests.hf_elmo.models import WORDS, layers_of
from tests.oracles import numpy_elmo, random_weights

TASK = "text_field_embedder.token_embedder_elmo."
SENTENCES = [WORDS[:5], WORDS[5:8]]


@pytest.fixture
def options(tmp_path: Path) -> Path:
    random_weights.write_options(tmp_path / "options.json", OPTIONS)
    return tmp_path / "options.json"


def _save(folder: Path, state: Any, name: str = "weights.th", **kwargs: Any) -> Path:
    torch.save(state, folder / name, **kwargs)
    return folder / name


def _task_state() -> dict[str, torch.Tensor]:
    """ELMo inside a tagger, after training."""
    state = allennlp_state(prefix=f"{TASK}_elmo._elmo_lstm.")
    state |= allennlp_mix(0, (0.3, -0.7, 1.1), 1.7, prefix=f"{TASK}_elmo.")
    return {**state, "crf.transitions": torch.ones(3, 3), "encoder.weight": torch.ones(2, 2)}


@pytest.mark.parametrize("name", ["tiny", "tanh", "three_layers", "no_highway", "three_highways", "tight_clip"])
def test_it_computes_what_the_weight_file_computes(name: str, tmp_path: Path) -> None:
    options = random_weights.options(name)
    weights = random_weights.random_weights(options, seed=1)
    random_weights.write_options(tmp_path / "options.json", options)
    convert(_save(tmp_path, allennlp_state(options, weights)), tmp_path / "out")
    model = ElmoModel.from_pretrained(tmp_path / "out")
    expected, _ = numpy_elmo.embed_batch(SENTENCES, options, weights)
    for got, wanted in zip(layers_of(model, SENTENCES), expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-5)


def test_all_but_the_forget_gates_bias_is_bit_equal(options: Path, tmp_path: Path) -> None:
    random_weights.write_hdf5(tmp_path / "weights.hdf5", WEIGHTS)
    convert(options, tmp_path / "weights.hdf5", tmp_path / "hdf5")
    convert(options, _save(tmp_path, allennlp_state()), tmp_path / "th")
    one, other = (load_file(tmp_path / name / "model.safetensors") for name in ("hdf5", "th"))
    cells = OPTIONS["lstm"]["dim"]
    for name, values in one.items():
        if name.endswith("gates.bias"):
            torch.testing.assert_close(other[name], values, rtol=0, atol=6e-8)
            assert torch.equal(other[name][: 2 * cells], values[: 2 * cells])
            assert torch.equal(other[name][3 * cells :], values[3 * cells :])
        else:
            assert torch.equal(other[name], values), name


@pytest.mark.parametrize("zipped", [True, False])
def test_inside_a_task_with_its_mix(
    zipped: bool, options: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    weights = _save(tmp_path, _task_state(), _use_new_zipfile_serialization=zipped)
    assert main(["convert", str(weights), str(options), str(tmp_path / "out")]) == 0
    assert "2 tensors outside text_field_embedder.token_embedder_elmo._elmo. were left out" in capsys.readouterr().out
    stored = load_file(tmp_path / "out" / "model.safetensors")
    assert torch.equal(stored.pop("scalar_mix.weights"), torch.tensor([0.3, -0.7, 1.1]))
    assert torch.equal(stored.pop("scalar_mix.gamma"), torch.tensor([1.7]))
    convert(options, _save(tmp_path, allennlp_state(), "plain.th"), tmp_path / "plain")
    plain = load_file(tmp_path / "plain" / "model.safetensors")
    assert all(torch.equal(values, plain[name]) for name, values in stored.items())


def test_the_bilm_by_itself(options: Path, tmp_path: Path) -> None:
    convert(options, _save(tmp_path, allennlp_state(prefix="")), tmp_path / "bilm")
    convert(options, _save(tmp_path, allennlp_state(), "elmo.th"), tmp_path / "elmo")
    assert same_parameters(tmp_path / "bilm", tmp_path / "elmo")


def test_several_mixes(options: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mixes = {**allennlp_mix(0, (0.0, 1.0, 2.0), 1.0), **allennlp_mix(1, (3.0, 4.0, 5.0), 0.5)}
    weights = _save(tmp_path, {**allennlp_state(), **mixes})
    for number, expected in ((None, [0.0, 1.0, 2.0]), (1, [3.0, 4.0, 5.0])):
        out = tmp_path / f"out{number}"
        more = [] if number is None else ["--scalar-mix", str(number)]
        assert main(["convert", str(weights), str(options), str(out), *more]) == 0
        assert ElmoModel.from_pretrained(out).scalar_mix.weights.tolist() == expected
        kept = load_file(out / "scalar_mixes.safetensors")
        assert kept.keys() == mixes.keys()
        assert all(torch.equal(kept[name], values) for name, values in mixes.items())
    assert "of 2 scalar mixes the model has number 0" in capsys.readouterr().out
    with pytest.raises(ValueError, match="scalar_mix: got 2; expected one of 0, 1"):
        convert(weights, options, tmp_path / "other", scalar_mix=2)


def test_several_elmos(options: Path, tmp_path: Path) -> None:
    other = {name: values + 1 for name, values in allennlp_state(prefix="b._elmo_lstm.").items()}
    alike = allennlp_state(prefix="c._elmo_lstm.")
    first = allennlp_state(prefix="a._elmo_lstm.")
    with pytest.raises(ValueError, match=r"2 different ELMos, under a\._elmo_lstm\., b\._elmo_lstm\.; .*--prefix"):
        convert(options, _save(tmp_path, {**first, **other}), tmp_path / "out")
    convert(options, _save(tmp_path, {**first, **other}), tmp_path / "a", prefix="a.")
    convert(options, _save(tmp_path, {**alike, **first}), tmp_path / "alike")
    assert same_parameters(tmp_path / "a", tmp_path / "alike")


def _archive(folder: Path, config: dict[str, Any], options: str | None) -> Path:
    (folder / "config.json").write_text(json.dumps(config))
    with tarfile.open(folder / "model.tar.gz", "w:gz") as archive:
        archive.add(folder / "config.json", "config.json")
        archive.add(_save(folder, _task_state()), "weights.th")
        (folder / "tokens.txt").write_text("@@UNKNOWN@@\nthe\n")
        archive.add(folder / "tokens.txt", "vocabulary/tokens.txt")
        if options is not None:
            archive.add(folder / "options.json", options)
    return folder / "model.tar.gz"


def _config(**embedder: Any) -> dict[str, Any]:
    embedders = {"tokens": {"type": "embedding"}, "elmo": {"type": "elmo_token_embedder", **embedder}}
    return {"model": {"type": "crf_tagger", "text_field_embedder": {"token_embedders": embedders}}}


@pytest.mark.parametrize("where", ["fta/model.text_field_embedder.token_embedders.elmo.options_file", "options.json"])
def test_an_archive(where: str, options: Path, tmp_path: Path) -> None:
    archive = _archive(tmp_path, _config(do_layer_norm=True, options_file="/data/o.json"), where)
    (tmp_path / "elsewhere").mkdir()
    archive = archive.rename(tmp_path / "elsewhere" / "model.tar.gz")
    convert(archive, tmp_path / "out")
    model = ElmoModel.from_pretrained(tmp_path / "out")
    assert model.scalar_mix.weights.tolist() == pytest.approx([0.3, -0.7, 1.1])
    assert (model.config.mix_layer_norm, model.config.mix_layer_norm_eps) == ("batch", 1e-13)


def test_an_archive_without_options_needs_them(options: Path, tmp_path: Path) -> None:
    archive = _archive(tmp_path, _config(options_file="/data/mine.json"), None)
    with pytest.raises(ValueError, match=r"without their options\.json \(its config\.json names /data/mine\.json\)"):
        convert(archive, tmp_path / "out")
    convert(archive, options, tmp_path / "out")
    assert ElmoModel.from_pretrained(tmp_path / "out").config.lstm_size == OPTIONS["lstm"]["dim"]


def test_options_of_published_models_are_known_by_name(tmp_path: Path) -> None:
    address = "https://allennlp.s3.amazonaws.com/models/elmo/2x1024_128_2048cnn_1xhighway/"
    small = published_config(f"{address}elmo_2x1024_128_2048cnn_1xhighway_options.json")
    assert small == ElmoConfig(lstm_size=1024, projection_size=128, num_highway_layers=1)
    assert published_config("elmo_2x4096_512_2048cnn_2xhighway_5.5B_options.json") == ElmoConfig()
    assert published_config("elmo_2x4096_512_2048cnn_7xhighway_options.json") is None
    assert published_config("my_options.json") is None
    assert settings_config(read_settings(_config())) == ElmoConfig()  # AllenNLP's own default
    assert settings_config(read_settings({"model": {"type": "simple_tagger"}})) is None
    assert read_settings(_config(scalar_mix_parameters=[1, 2, 3])).mix == {"mix_trainable": False}
    wrong = _archive(tmp_path, _config(), None)
    with pytest.raises(ValueError, match=r"model\.tar\.gz: weights\.th: got other tensors|expected .* by the options"):
        convert(wrong, tmp_path / "out")


class _Evil:
    def __reduce__(self) -> Any:
        return (Path.touch, (Path("evil"),))


def _without_projection(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: values for name, values in state.items() if "_projection" not in name}


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"model": _Evil()}, "cannot be read as a state dict"),
        ([torch.ones(2)], "got list; expected a state dict"),
        ({"encoder.weight": torch.ones(2)}, "among 1 tensors; expected an ELMo in the state dict"),
        (_without_projection(allennlp_state()), "missing _elmo_lstm.backward_layer_0.state_projection.weight"),
        ({**allennlp_state(), "_elmo_lstm.new": torch.ones(2)}, "not expected new"),
        (
            {**allennlp_state(), "_elmo_lstm._token_embedder._projection.bias": torch.ones(3)},
            r"_projection.bias: got shape \(3,\); expected \(16,\)",
        ),
        (
            {**allennlp_state(), "_elmo_lstm._token_embedder._projection.bias": torch.full((16,), torch.nan)},
            "16 of them NaN",
        ),
        (
            {**allennlp_state(), "_elmo_lstm._token_embedder._projection.bias": torch.ones(16, dtype=torch.int64)},
            "got values of torch.int64",
        ),
        ({**allennlp_state(), **allennlp_mix(0, (1.0, 2.0), 1.0)}, "scalar_mix_0: got .*; expected gamma and 3"),
    ],
)
def test_what_is_wrong_is_named(state: Any, message: str, options: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=message) as caught:
        convert(options, _save(tmp_path, state), tmp_path / "out")
    assert str(tmp_path / "weights.th") in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "evil").exists()


@pytest.mark.parametrize("zipped", [True, False])
def test_damage_is_one_line(zipped: bool, options: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    weights = _save(tmp_path, allennlp_state(), _use_new_zipfile_serialization=zipped)
    content, rng = weights.read_bytes(), np.random.default_rng(0)
    for share in (0.0, 0.01, 0.5, 0.99):
        weights.write_bytes(content[: int(share * len(content))])
        assert main(["convert", str(options), str(weights), str(tmp_path / "out")]) == 2
        said = capsys.readouterr().err.strip()
        assert len(said.splitlines()) == 1
        assert str(weights) in said
    for _ in range(20):
        damaged = bytearray(content)
        for place in rng.integers(0, 3000, 6):
            damaged[place] = rng.integers(0, 256)
        weights.write_bytes(damaged)
        status = main(["convert", str(options), str(weights), str(tmp_path / f"out{_}")])
        assert status in (0, 2)
        assert len(capsys.readouterr().err.strip().splitlines()) == (1 if status else 0)


def test_a_pickle_of_something_else(options: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "weights.th").write_bytes(pickle.dumps(_Evil()))
    with pytest.raises(ValueError, match="cannot be read as a state dict"):
        convert(options, tmp_path / "weights.th", tmp_path / "out")
    assert not (tmp_path / "evil").exists()
