import argparse
import json
import stat
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModel

from hf_elmo import ElmoForPreTraining, ElmoModel, ElmoTokenizer
from hf_elmo.cli import publish as command
from hf_elmo.convert import convert
from hf_elmo.pretraining.publish import publish
from tests.hf_elmo.models import ids, random_lm

VOCABULARY = ["<S>", "</S>", "<UNK>", *(f"w{number}" for number in range(9))]


@pytest.fixture
def run_dir(tmp_path) -> Path:
    """What a training run leaves."""
    folder = tmp_path / "run"
    model = random_lm(vocab_size=len(VOCABULARY) + 1)
    model.config.use_cache = False  # as Trainer does
    model.save_pretrained(folder)
    ElmoTokenizer(VOCABULARY).save_pretrained(folder)
    (folder / "README.md").write_text("# A model\n")
    (folder / "training_args.bin").write_bytes(b"x")
    (folder / "checkpoint-6").mkdir()
    return folder


def change(run_dir: Path, value: float) -> None:
    model = ElmoForPreTraining.from_pretrained(run_dir)
    model.elmo.layers[0].forward_lstm.gates.bias.data[3] = value
    model.save_pretrained(run_dir)


def test_is_stored_in_half_and_computes_in_single(run_dir, tmp_path):
    publish(run_dir, tmp_path / "out")
    stored = load_file(tmp_path / "out" / "model.safetensors")
    assert {values.dtype for values in stored.values()} == {torch.float16}
    trained = load_file(run_dir / "model.safetensors")
    bilm = {name.removeprefix("elmo."): v for name, v in trained.items() if not name.startswith("lm_head.")}
    assert stored.keys() - {"scalar_mix.weights", "scalar_mix.gamma"} == bilm.keys()
    assert all(torch.equal(stored[name], values.half()) for name, values in bilm.items())
    model, loading = ElmoModel.from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not any(loading.values())
    assert {values.dtype for values in model.parameters()} == {torch.float32}
    rounded = ElmoModel.from_pretrained(run_dir)
    rounded.half().float()
    character_ids, mask = ids([["The", "dog"], ["a"]])
    vectors = AutoModel.from_pretrained(tmp_path / "out")(character_ids, mask).last_hidden_state
    assert torch.equal(vectors, rounded(character_ids, mask).last_hidden_state)


def test_what_is_written(run_dir, tmp_path):
    publish(run_dir, tmp_path / "out")
    names = {path.name for path in (tmp_path / "out").iterdir()}
    loaded = {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}
    assert names == loaded | {"hf_elmo_classes.py", "README.md"}
    assert ElmoTokenizer.from_pretrained(tmp_path / "out").get_vocab() == {"<pad>": 0} | {
        word: row + 1 for row, word in enumerate(VOCABULARY)
    }
    assert (tmp_path / "out" / "README.md").read_text() == "# A model\n"
    assert "use_cache" not in json.loads((tmp_path / "out" / "config.json").read_text())
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "out").iterdir()}
    assert modes == {stat.S_IMODE((run_dir / "README.md").stat().st_mode)}


def test_the_figure_goes_with_the_card(run_dir, tmp_path):
    (run_dir / "loss_curve.png").write_bytes(b"picture")
    publish(run_dir, tmp_path / "out")
    assert (tmp_path / "out" / "loss_curve.png").read_bytes() == b"picture"
    (run_dir / "README.md").unlink()
    publish(run_dir, tmp_path / "bare")
    assert not (tmp_path / "bare" / "loss_curve.png").exists()


def test_single_precision_and_the_softmax_are_kept_on_request(run_dir, tmp_path):
    publish(run_dir, tmp_path / "out", dtype="float32", with_lm_head=True)
    trained, stored = (load_file(folder / "model.safetensors") for folder in (run_dir, tmp_path / "out"))
    assert trained.keys() == stored.keys()
    assert all(torch.equal(trained[name], stored[name]) for name in stored)
    assert json.loads((tmp_path / "out" / "config.json").read_text())["architectures"] == ["ElmoForPreTraining"]
    publish(run_dir, tmp_path / "half", with_lm_head=True)
    assert torch.equal(
        ElmoForPreTraining.from_pretrained(tmp_path / "half").lm_head.weight, stored["lm_head.weight"].half().float()
    )


def test_hdf5_holds_the_published_weights(run_dir, tmp_path):
    """Those that are stored, so that old and new programs compute the same vectors."""
    publish(run_dir, tmp_path / "out", with_lm_head=True, with_hdf5=True)
    convert(tmp_path / "out" / "hdf5", tmp_path / "back")
    back, stored = (ElmoForPreTraining.from_pretrained(tmp_path / name).state_dict() for name in ("back", "out"))
    for state in (back, stored):
        state["characters"] = state.pop("elmo.character_cnn.embedding.weight")[1:]  # padding has no row in HDF5
    assert back.keys() == stored.keys()
    assert all(torch.equal(back[name], stored[name]) for name in stored)


def test_a_weight_that_does_not_fit_is_refused(run_dir, tmp_path):
    change(run_dir, -70_000.0)
    with pytest.raises(ValueError, match=r"layers\.0\.forward_lstm\.gates\.bias holds 70000; expected at most 65504"):
        publish(run_dir, tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"]
    publish(run_dir, tmp_path / "out", dtype="float32")
    change(run_dir, float("nan"))
    with pytest.raises(ValueError, match="no numbers"):
        publish(run_dir, tmp_path / "more", dtype="float32")


def test_what_cannot_be_published(run_dir, tmp_path):
    with pytest.raises(ValueError, match="dtype: got 'bfloat16'; expected one of 'float16', 'float32'"):
        publish(run_dir, tmp_path / "out", dtype="bfloat16")
    with pytest.raises(FileExistsError):
        publish(run_dir, run_dir)
    ElmoTokenizer(VOCABULARY[:-1]).save_pretrained(run_dir)
    with pytest.raises(ValueError, match="tokenizer of 12 words and a model of 13"):
        publish(run_dir, tmp_path / "out")
    (run_dir / "tokenizer.json").unlink()
    with pytest.raises(FileNotFoundError, match=r"holds no tokenizer\.json"):
        publish(run_dir, tmp_path / "out")
    with pytest.raises(FileNotFoundError, match=r"absent: holds no config\.json"):
        publish(tmp_path / "absent", tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"]


def test_the_command(run_dir, tmp_path, capsys):
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    arguments = [str(run_dir), str(tmp_path / "out"), "--dtype", "float32", "--with-lm-head"]
    assert command.run(parser.parse_args(arguments)) == 0
    assert "lm_head.weight" in load_file(tmp_path / "out" / "model.safetensors")
    assert command.run(parser.parse_args(arguments)) == 2
    assert "is there already" in capsys.readouterr().err


def test_that_there_is_no_card_is_said(run_dir, tmp_path, capsys):
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    assert command.run(parser.parse_args([str(run_dir), str(tmp_path / "out")])) == 0
    assert capsys.readouterr().out == f"written to {tmp_path / 'out'}\n"
    (run_dir / "README.md").unlink()
    assert command.run(parser.parse_args([str(run_dir), str(tmp_path / "bare")])) == 0
    note, last = capsys.readouterr().out.splitlines()
    assert note.startswith(f"there is no model card, since {run_dir} holds no README.md")
    assert last == f"written to {tmp_path / 'bare'}"
