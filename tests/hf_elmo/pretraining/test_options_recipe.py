import json
import logging
from pathlib import Path
from typing import Any

import pytest

from hf_elmo import ElmoConfig
from hf_elmo.pretraining.arguments import model_config, parse_arguments, read_recipe, recipe_path
from hf_elmo.pretraining.pretrain import main
from tests.hf_elmo.pretraining.prepared_corpora import prepare_sentences

# As the original's training script writes it, at a size for tests.
TRAINING: dict[str, Any] = {
    "bidirectional": True,
    "char_cnn": {
        "activation": "relu",
        "embedding": {"dim": 4},
        "filters": [[1, 4], [2, 8], [3, 8]],
        "max_characters_per_token": 50,
        "n_characters": 261,
        "n_highway": 2,
    },
    "dropout": 0.2,
    "lstm": {
        "cell_clip": 3,
        "dim": 10,
        "n_layers": 2,
        "proj_clip": 3,
        "projection_dim": 6,
        "use_skip_connections": True,
    },
    "all_clip_norm_val": 5.0,
    "n_epochs": 2,
    "n_train_tokens": 200,
    "batch_size": 3,
    "n_tokens_vocab": 20,
    "unroll_steps": 7,
    "n_negative_samples_batch": 8,
    "learning_rate": 0.1,
}


def write(folder: Path, **changes: Any) -> Path:
    """The options with changes, of which None removes and "a__b" reaches b of a."""
    options = json.loads(json.dumps(TRAINING))
    for name, value in changes.items():
        *parents, last = name.split("__")
        place = options
        for parent in parents:
            place = place[parent]
        if value is None:
            del place[last]
        else:
            place[last] = value
    path = folder / "options.json"
    path.write_text(json.dumps(options))
    return path


def test_every_key_has_its_option(tmp_path):
    flags = ["--prepared", "x", "--recipe", str(write(tmp_path)), "--use_cpu"]
    options, training, model = parse_arguments(flags)
    assert model_config(20, model) == ElmoConfig(
        vocab_size=21,
        character_embedding_size=4,
        character_filters=[[1, 4], [2, 8], [3, 8]],
        projection_size=6,
        lstm_size=10,
        dropout=0.2,
        num_negative_samples=8,
    )
    assert (options.vocab_size, options.unroll_steps, options.words_per_epoch) == (20, 7, 200)
    assert options.scale_loss_by_unroll_steps
    assert options.adagrad_accumulator == 1.0
    assert (training.per_device_train_batch_size, training.num_train_epochs) == (3, 2)
    assert (training.optim, training.learning_rate, training.max_grad_norm) == ("adagrad", 0.1, 5.0)
    assert (training.lr_scheduler_type, training.weight_decay) == ("constant", 0.0)


def test_flags_go_over_it(tmp_path):
    flags = ["--recipe", str(write(tmp_path)), "--prepared", "x", "--use_cpu", "--learning_rate", "0.4"]
    options, training, model = parse_arguments([*flags, "--model", "dropout=0", "--words_per_epoch", "9"])
    assert (training.learning_rate, model["dropout"], options.words_per_epoch) == (0.4, 0, 9)


def test_the_full_softmax(tmp_path):
    path = write(tmp_path, sample_softmax=False, n_negative_samples_batch=None)
    assert read_recipe(path)[1]["lm_softmax"] == "full"


@pytest.mark.parametrize("size", ["small", "medium", "original"])
def test_the_published_files_are_trained_as_our_recipes_of_them(size, tmp_path, caplog):
    """They have no keys on the training; those of the published models' training are taken, and it is said."""
    with caplog.at_level(logging.INFO):
        ours, our_model = read_recipe(recipe_path(size))
        filters = [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]]
        char_cnn = {**TRAINING["char_cnn"], "embedding": {"dim": 16}, "filters": filters, "n_characters": 262}
        char_cnn["n_highway"] = our_model["num_highway_layers"]
        lstm = {**TRAINING["lstm"], "dim": our_model["lstm_size"], "projection_dim": our_model["projection_size"]}
        (tmp_path / "options.json").write_text(json.dumps({"lstm": lstm, "char_cnn": char_cnn}))
        recipe, model = read_recipe(tmp_path / "options.json")
    assert {**recipe, "save_total_limit": 2} == ours
    assert model_config(99, model) == model_config(99, our_model)
    assert "not given, so as the published models were trained: dropout 0.1, all_clip_norm_val 10.0" in caplog.text


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batchsize": 3}, "got the key 'batchsize', which does not exist; did you mean 'batch_size'?"),
        ({"lstm__n_layer": 3}, "got the key 'lstm.n_layer', which does not exist; did you mean 'lstm.n_layers'?"),
        ({"anything": {"else": 1}}, "got the key 'anything.else', which does not exist; remove it"),
        ({"optimizer": "adam"}, "optimizer: got 'adam'; expected 'adagrad'"),
        ({"share_embedding_softmax": True}, "share_embedding_softmax: got True; expected false"),
        ({"bidirectional": False}, "bidirectional: got False; expected true"),
        ({"char_cnn": None}, "word embeddings"),
        ({"char_cnn__n_characters": 256}, "n_characters: got 256; expected 261 or 262"),
        ({"lstm__dim": None}, "lstm.dim: missing"),
        ({"lstm__dim": 0}, "lstm_size: got 0"),
        ({"batch_size": 2.5}, "batch_size: got 2.5; expected a positive integer"),
        ({"unroll_steps": True}, "unroll_steps: got True; expected a positive integer"),
        ({"n_epochs": 0}, "n_epochs: got 0; expected a positive integer"),
        ({"learning_rate": "high"}, "learning_rate: got 'high'; expected a positive number"),
        ({"all_clip_norm_val": -1}, "all_clip_norm_val: got -1; expected a positive number"),
        ({"dropout": 1.0}, "dropout: got 1.0; expected a number from 0 to below 1"),
        ({"sample_softmax": "yes"}, "sample_softmax: got 'yes'; expected true or false"),
        (
            {"n_negative_samples_batch": 21},
            "n_negative_samples_batch: got 21; expected at most n_tokens_vocab = 20",
        ),
    ],
)
def test_what_cannot_be_is_said_in_a_line_with_the_files_name(tmp_path, capsys, changes, message):
    path = write(tmp_path, **changes)
    assert main(["--recipe", str(path), "--prepared", "x"]) == 2
    error = capsys.readouterr().err
    assert f"{path}: " in error
    assert message in error
    assert error.count("\n") == 1


class TestRun:
    @pytest.fixture(scope="class")
    @classmethod
    def prepared(cls, tmp_path_factory):
        sentences = [[f"w{(7 * place + number) % 30}" for place in range(1 + number % 9)] for number in range(40)]
        return prepare_sentences(tmp_path_factory.mktemp("corpus"), sentences)

    def run(self, prepared, folder: Path, *flags: str, **changes: Any) -> int:
        recipe = ["--recipe", str(write(folder, **changes)), "--prepared", str(prepared.path)]
        return main([*recipe, "--output_dir", str(folder / "out"), "--use_cpu", "--disable_tqdm", "true", *flags])

    def test_as_many_updates_as_the_original_makes(self, prepared, tmp_path, caplog):
        with caplog.at_level(logging.WARNING):
            assert self.run(prepared, tmp_path) == 0
        log = json.loads((tmp_path / "out" / "training_log.json").read_text())
        assert log[-1]["step"] == 2 * (200 // (3 * 7))
        config = ElmoConfig.from_pretrained(tmp_path / "out")
        assert (config.lstm_size, config.vocab_size) == (10, 21)
        assert caplog.text == ""

    def test_another_text_than_the_options_count_is_said(self, prepared, tmp_path, caplog):
        with caplog.at_level(logging.WARNING):
            assert self.run(prepared, tmp_path, "--max_steps", "-1", n_train_tokens=400, n_epochs=1) == 0
        words = prepared.split_report("train")["tokens"]
        assert f"n_train_tokens in an options.json): got 400, and the text has {words}" in caplog.text
        assert f"are {400 / words:.3g} passes over it" in caplog.text

    def test_more_words_in_the_softmax_than_the_text_has(self, prepared, tmp_path, capsys):
        assert self.run(prepared, tmp_path, n_tokens_vocab=793_471) == 2
        assert "got vocab_size 793471 (n_tokens_vocab of an options.json), expected 4 to 33" in capsys.readouterr().err
        assert not (tmp_path / "out").exists()
