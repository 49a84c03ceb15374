import argparse
import importlib.util
import json
import logging
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from safetensors.torch import load_file
from transformers import AutoModel, AutoTokenizer

from hf_elmo import ElmoConfig, ElmoForPreTraining, ElmoTokenizer
from hf_elmo.cli import pretrain as command
from hf_elmo.perplexity import perplexity
from hf_elmo.pretraining.arguments import RECIPES, model_config, parse_arguments
from hf_elmo.pretraining.pretrain import main
from hf_elmo.pretraining.publish import publish
from hf_elmo.pretraining.run_results import report_for
from hf_elmo.pretraining.sentence_batches import SentenceBatches
from hf_elmo.pretraining.streams import HeldoutStreams, StreamBatches
from hf_elmo.pretraining.trainer import model_inputs
from tests.hf_elmo.pretraining.prepared_corpora import prepare_sentences

REPOSITORY = Path(__file__).resolve().parents[3]
MODEL = {
    "character_embedding_size": 4,
    "character_filters": [[1, 4], [2, 8], [3, 8]],
    "num_highway_layers": 1,
    "projection_size": 6,
    "lstm_size": 10,
    "num_negative_samples": 8,
}
# Parameters of the published models; projection, cells, highway layers.
PUBLISHED = {
    "original": (93_600_848, 512, 4096, 2),
    "medium": (28_027_728, 256, 2048, 1),
    "small": (13_593_296, 128, 1024, 1),
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Path:
    """Folder with a prepared corpus and a recipe for it."""
    folder = tmp_path_factory.mktemp("corpus")
    rng = np.random.default_rng(0)
    sentences = [[f"w{word}" for word in rng.zipf(1.5, rng.integers(1, 9)).clip(max=60)] for _ in range(90)]
    heldout = {"h": sentences[:9], "more": [["unseen", *words] for words in sentences[:5]]}
    prepare_sentences(folder, sentences[9:], heldout, shard_words=80)
    recipe = {
        "model": MODEL,
        "prepared": str(folder / "prepared"),
        "per_device_train_batch_size": 3,
        "unroll_steps": 5,
        "max_steps": 6,
        "learning_rate": 0.05,
        "optim": "adagrad",
        "logging_steps": 1,
        "heldout_tokens": 10,
        "disable_tqdm": True,
        "use_cpu": True,
    }
    (folder / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    return folder


def run(corpus, out, *flags) -> int:
    return main(["--recipe", str(corpus / "recipe.yaml"), "--output_dir", str(out), *flags])


def refused(capsys, *arguments) -> str:
    """What is said of arguments that cannot be."""
    capsys.readouterr()
    assert main(arguments) == 2
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    return message


class TestRecipes:
    @pytest.mark.parametrize("path", sorted(RECIPES.glob("*.yaml")), ids=lambda path: path.stem)
    def test_parses_and_describes_a_model(self, path):
        options, training, model = parse_arguments(["--prepared", "x", "--recipe", path.stem, "--use_cpu"])
        config = model_config(1000, model)
        assert config.vocab_size == 1001
        assert options.prepared == "x"
        assert yaml.safe_load(path.read_text())["learning_rate"] == training.learning_rate

    @pytest.mark.parametrize("name", PUBLISHED)
    def test_the_published_models_are_trained_as_published(self, name):
        parameters, projection_size, lstm_size, highways = PUBLISHED[name]
        options, training, model = parse_arguments(["--prepared", "x", "--recipe", name, "--use_cpu"])
        config = model_config(793_471, model)
        assert config == ElmoConfig(
            vocab_size=793_472, projection_size=projection_size, lstm_size=lstm_size, num_highway_layers=highways
        )
        with torch.device("meta"):
            elmo = ElmoForPreTraining(config).elmo
        assert elmo.num_parameters() == parameters + 16  # the row of "no word"
        assert (options.unroll_steps, options.adagrad_accumulator) == (20, 1.0)
        assert options.scale_loss_by_unroll_steps
        assert options.sparse_softmax_gradient
        assert options.text_as == "streams"
        assert (training.per_device_train_batch_size, training.num_train_epochs) == (128, 10)
        assert (training.optim, training.learning_rate, training.max_grad_norm) == ("adagrad", 0.2, 10.0)
        assert (training.lr_scheduler_type, training.weight_decay) == ("constant", 0.0)
        assert (config.dropout, config.lm_softmax, config.num_negative_samples) == (0.1, "sampled", 8192)

    def test_flags_go_over_a_recipe(self, corpus):
        recipe = ["--recipe", str(corpus / "recipe.yaml")]
        flags = ["--model", "lstm_size=7", "dropout=0.25", "--unroll_steps=9", "--model", "projection_clip=null"]
        options, training, model = parse_arguments([*flags, *recipe, "--learning_rate", "0.5"])
        assert (options.unroll_steps, training.learning_rate, training.max_steps) == (9, 0.5, 6)
        assert model == {**MODEL, "lstm_size": 7, "dropout": 0.25, "projection_clip": None}
        assert Path(options.prepared) == corpus / "prepared"


class TestUserErrors:
    @pytest.mark.parametrize(
        ("recipe", "message"),
        [
            ("unroll_step: 3", r"r\.yaml: got the option 'unroll_step', .* did you mean 'unroll_steps'\?"),
            ("model: {lstm_sise: 3}", "got 'lstm_sise', .* did you mean 'lstm_size'"),
            ("model: 3", "got 3; expected a mapping"),
            ("just words", "got str; expected a mapping"),
            ("a: [", "no YAML"),
            ("model: {vocab_size: 3}", "set it by --vocab_size"),
            ("model: {lstm_size: big}", "'lstm_size' expected int, got str"),
            ("model: {lstm_size: 0}", "lstm_size: got 0"),
            ("vocab_size: 2", "got vocab_size 2"),
            ("adagrad_accumulator: 0\noptim: adagrad", "adagrad_accumulator: got 0.0"),
            ("save_strategy: epoch", "save_strategy"),
            ("data_licences: nowhere.yaml", r"nowhere\.yaml"),
            ("resume_from_checkpoint: 'true'", "holds no checkpoint"),
        ],
    )
    def test_in_a_recipe(self, corpus, tmp_path, capsys, recipe, message):
        (tmp_path / "r.yaml").write_text(recipe)
        out = tmp_path / "out"
        flags = ["--recipe", str(tmp_path / "r.yaml"), "--prepared", str(corpus / "prepared")]
        assert_matches(message, refused(capsys, *flags, "--output_dir", str(out), "--use_cpu"))
        assert not list(out.glob("*"))

    def test_in_flags(self, corpus, tmp_path, capsys):
        recipe = ["--recipe", str(corpus / "recipe.yaml"), "--output_dir", str(tmp_path)]
        assert_matches("expected one of adapt, default,", refused(capsys, "--recipe", "huge", "--prepared", "x"))
        assert_matches("got 'lstm_sise', .* mean 'lstm_size'", refused(capsys, *recipe, "--model", "lstm_sise=3"))
        assert_matches("got 'lstm_size'; expected NAME=VALUE", refused(capsys, *recipe, "--model", "lstm_size"))
        assert_matches(r"without prepared\.json", refused(capsys, *recipe, "--prepared", str(tmp_path)))
        assert_matches("no such folder", refused(capsys, *recipe, "--prepared", str(tmp_path / "absent")))

    @pytest.mark.parametrize("flags", [["--unroll_step", "3"], ["--unroll_steps", "many"], ["--shuffle", "no"], []])
    def test_that_the_parser_finds(self, capsys, flags):
        with pytest.raises(SystemExit, match="2"):
            main(flags)
        assert len(capsys.readouterr().err.splitlines()) < 5

    def test_a_value_of_a_recipe_is_checked_like_a_flag(self, tmp_path, capsys):
        (tmp_path / "r.yaml").write_text("unroll_steps: 2.5")
        with pytest.raises(SystemExit, match="2"):
            main(["--recipe", str(tmp_path / "r.yaml"), "--prepared", "x"])
        assert "invalid int value: '2.5'" in capsys.readouterr().err

    def test_licences_of_sources_that_are_not_there(self, corpus, tmp_path, capsys):
        (tmp_path / "licences.yaml").write_text("trian: public domain")
        message = refused(
            capsys, "--data_licences", str(tmp_path / "licences.yaml"), "--recipe", str(corpus / "recipe.yaml")
        )
        assert_matches("got the source 'trian'; expected some of h, more, train", message)


def assert_matches(pattern: str, message: str) -> None:
    with pytest.raises(ValueError, match=pattern):
        raise ValueError(message)


class TestRun:
    @pytest.fixture(scope="class")
    @classmethod
    def out(cls, corpus, tmp_path_factory) -> Path:
        """The folder of a run from a shell."""
        out = tmp_path_factory.mktemp("runs") / "tiny"
        (corpus / "licences.yaml").write_text("train: public domain\nh: CC0\n")
        flags = ["--output_dir", str(out), "--save_steps", "3", "--eval_strategy", "steps", "--eval_steps", "6"]
        licences = ["--data_licences", str(corpus / "licences.yaml"), "--model_licence", "apache-2.0"]
        shell(corpus, *flags, *licences)
        return out

    def test_model_and_tokenizer_load(self, corpus, out):
        model = ElmoForPreTraining.from_pretrained(out)
        tokenizer = ElmoTokenizer.from_pretrained(out)
        words = (corpus / "prepared" / "vocab.txt").read_text().splitlines()
        assert [tokenizer.convert_ids_to_tokens(1 + row) for row in range(len(words))] == words
        assert len(model.lm_head.weight) == len(words)
        assert {name: getattr(model.config, name) for name in MODEL} == MODEL
        assert "use_cache" not in json.loads((out / "config.json").read_text())
        saved = load_file(out / "checkpoint-6" / "model.safetensors")
        assert all(torch.equal(values, saved[name]) for name, values in model.state_dict().items())
        inputs = AutoTokenizer.from_pretrained(out)([["w1", "new"]], is_split_into_words=True, return_tensors="pt")
        assert AutoModel.from_pretrained(out)(**inputs).last_hidden_state.shape == (1, 4, 12)

    def test_perplexity_of_the_whole_texts_is_there(self, corpus, out):
        metrics = json.loads((out / "heldout_perplexity.json").read_text())
        prepared = prepared_of(corpus)
        model = ElmoForPreTraining.from_pretrained(out)
        for name in ("h", "more"):
            streams = HeldoutStreams(prepared, f"heldout-{name}", batch_size=8, unroll_steps=5)
            expected = perplexity(model, map(model_inputs, streams))
            assert metrics[f"eval_{name}_perplexity"] == pytest.approx(expected.average, rel=1e-6)
            assert metrics[f"eval_{name}_backward_perplexity"] == pytest.approx(expected.backward, rel=1e-6)

    def test_log_and_card_are_there(self, out):
        log = json.loads((out / "training_log.json").read_text())
        assert [entry["step"] for entry in log if "loss" in entry] == [1, 2, 3, 4, 5, 6]
        card = (out / "README.md").read_text()
        for text in (
            "# tiny\n",
            "license: apache-2.0",
            "| public domain |",
            "| CC0 |",
            "6 updates of 15 words",
            "| adagrad |",
        ):
            assert text in card

    def test_the_log_tells_the_share_of_the_machines_limit(self, out):
        log = [entry for entry in json.loads((out / "training_log.json").read_text()) if "loss" in entry]
        assert [entry["words"] for entry in log] == [15, 30, 45, 60, 75, 90]
        assert all(entry["share_of_machine_limit"] > 0 for entry in log)
        shares = [entry["share_of_machine_limit"] / entry["words_per_second"] for entry in log]
        assert shares == pytest.approx([shares[0]] * 6, rel=2e-3)  # one limit; four digits of a share

    def test_the_card_shows_the_curve(self, out):
        pytest.importorskip("matplotlib", reason='needs matplotlib: pip install "spacy-elmo[plots]"')
        assert (out / "loss_curve.png").read_bytes()[:4] == b"\x89PNG"
        assert "](loss_curve.png)" in (out / "README.md").read_text()
        assert "by the full softmax, of about the first 10 words of each text." in (out / "README.md").read_text()

    def test_a_checkpoint_loads_like_the_result(self, out):
        assert (
            len(ElmoTokenizer.from_pretrained(out / "checkpoint-3"))
            == ElmoForPreTraining.from_pretrained(out / "checkpoint-3").config.vocab_size
        )

    def test_the_folder_belongs_to_its_run(self, corpus, out, capsys):
        recipe = ["--recipe", str(corpus / "recipe.yaml"), "--output_dir", str(out)]
        assert_matches("holds checkpoint-6 of an earlier run", refused(capsys, *recipe))
        resume = [*recipe, "--resume_from_checkpoint", "true"]
        assert_matches("lstm_size: got 11; expected 10", refused(capsys, *resume, "--model", "lstm_size=11"))

    def test_training_goes_on_for_longer(self, corpus, out, tmp_path):
        flags = ["--max_steps", "8", "--resume_from_checkpoint", str(out / "checkpoint-6"), "--seed", "42"]
        assert run(corpus, tmp_path / "longer", *flags) == 0
        log = json.loads((tmp_path / "longer" / "training_log.json").read_text())
        assert [entry["step"] for entry in log if "loss" in entry] == [1, 2, 3, 4, 5, 6, 7, 8]


def prepared_of(corpus):
    from hf_elmo.pretraining.shards import PreparedCorpus

    return PreparedCorpus.open(corpus / "prepared")


def shell(corpus, *flags, check=True, launch=(sys.executable, "training/pretrain.py"), wait=True):
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1"}
    arguments = [*launch, "--recipe", str(corpus / "recipe.yaml"), *flags]
    process = subprocess.Popen(
        arguments, cwd=REPOSITORY, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if wait:
        output, _ = process.communicate(timeout=300)
        assert not check or process.returncode == 0, output
    return process


def test_updates_are_counted_in_epochs(corpus, tmp_path):
    flags = ["--max_steps", "-1", "--num_train_epochs", "0.5", "--gradient_accumulation_steps", "2"]
    assert run(corpus, tmp_path, *flags, "--start_at_word_frequencies", "--vocab_size", "20") == 0
    updates = json.loads((tmp_path / "training_log.json").read_text())[-1]["step"]
    per_epoch = StreamBatches(prepared_of(corpus), batch_size=3, unroll_steps=5).batches_per_epoch
    assert updates == round(0.5 * per_epoch / 2)
    assert ElmoForPreTraining.from_pretrained(tmp_path).config.vocab_size == 21


@pytest.mark.skipif(torch.accelerator.is_available(), reason="there is a GPU, which is taken")
def test_the_default_recipe_needs_no_flag_to_train_on_a_cpu(tmp_path):
    """It has bf16, which transformers refuses where it finds no GPU and is not told to use the CPU."""
    _, training, _ = parse_arguments(["--recipe", "default", "--prepared", "x", "--output_dir", str(tmp_path)])
    assert training.use_cpu
    assert training.bf16


@pytest.mark.parametrize(("updates", "rates"), [(6, [0.5, 0.75, 1, 1, 1, 0.75]), (4, [0.5, 0.75, 1, 0.75])])
def test_a_long_decay_fits_into_a_short_run(corpus, tmp_path, updates, rates):
    schedule = {"num_decay_steps": 4 if updates == 4 else 2, "decay_type": "linear", "min_lr_ratio": 0.5}
    flags = ["--lr_scheduler_type", "warmup_stable_decay", "--warmup_steps", "2", "--max_steps", str(updates)]
    assert run(corpus, tmp_path, *flags, "--lr_scheduler_kwargs", json.dumps(schedule)) == 0
    log = json.loads((tmp_path / "training_log.json").read_text())
    found = [entry["learning_rate"] / 0.05 for entry in log if "learning_rate" in entry]
    assert found == pytest.approx(rates)


def test_a_run_starts_from_word_vectors_and_its_card_says_so(corpus, tmp_path):
    (tmp_path / "vectors.txt").write_text("".join(f"w{word} {word} {-word} 1.5\n" for word in range(1, 40)))
    flags = ["--word_vectors", str(tmp_path / "vectors.txt"), "--start_at_word_frequencies", "--max_steps", "1"]
    assert run(corpus, tmp_path / "out", *flags, "--learning_rate", "0") == 0
    weight = ElmoForPreTraining.from_pretrained(tmp_path / "out").lm_head.weight
    tokenizer = ElmoTokenizer.from_pretrained(tmp_path / "out")
    rows = [tokenizer.convert_tokens_to_ids(f"w{word}") - 1 for word in (1, 2, 3, 4)]
    steps = weight[rows, :2].diff(dim=0)  # the vectors' first two numbers go up and down by one step from word to word
    torch.testing.assert_close(steps, steps[:1].expand_as(steps), rtol=1e-4, atol=1e-6)
    assert steps[0, 0] == -steps[0, 1] > 0
    card = (tmp_path / "out" / "README.md").read_text()
    start = (
        "random; the softmax's biases at the logarithms of the words' frequencies; the softmax fitted to vectors.txt"
    )
    assert f"| first values | {start} |" in card


def test_report_for_another_vocabulary_counts_unknown_words_anew(corpus):
    prepared = prepared_of(corpus)
    assert report_for(prepared, prepared.vocab_size) is prepared.report
    report = report_for(prepared, 10)
    known = set(prepared.words[:10])
    words = [word for line in (corpus / "more.txt").read_text().splitlines() for word in line.split()]
    assert report["vocab_size"] == 10
    assert report["splits"]["heldout-more"]["oov_tokens"] == sum(word not in known for word in words)
    assert report["splits"]["heldout-more"]["oov_rate"] == pytest.approx(
        report["splits"]["heldout-more"]["oov_tokens"] / len(words), abs=1e-6
    )


class TestWholeSentences:
    """The other way to read text, with the softmax that is exact, in one run."""

    FLAGS = ("--text_as", "sentences", "--optim", "adamw_torch", "--gradient_accumulation_steps", "2")
    ADAPTIVE = ("--model", "lm_softmax=adaptive", "adaptive_cutoffs=[4,20]", "adaptive_div_value=2")

    @pytest.fixture(scope="class")
    @classmethod
    def out(cls, corpus, tmp_path_factory) -> Path:
        out = tmp_path_factory.mktemp("runs") / "whole"
        flags = ["--max_steps", "-1", "--num_train_epochs", "1", "--save_steps", "2", "--start_at_word_frequencies"]
        assert run(corpus, out, *cls.FLAGS, *cls.ADAPTIVE, *flags, "--eval_strategy", "steps", "--eval_steps", "2") == 0
        return out

    def test_updates_are_counted_in_epochs(self, corpus, out):
        log = json.loads((out / "training_log.json").read_text())
        batches = SentenceBatches(prepared_of(corpus), words_per_batch=15)
        assert log[-1]["step"] == round(batches.batches_per_epoch / 2)
        last = [entry for entry in log if "loss" in entry][-1]
        assert last["epoch"] == pytest.approx(1, abs=2 / batches.batches_per_epoch)
        assert last["adaptive_softmax_loss"] == last["loss"]

    def test_perplexity_is_that_of_whole_sentences(self, corpus, out):
        model = ElmoForPreTraining.from_pretrained(out)
        text = SentenceBatches(prepared_of(corpus), "heldout-h", words_per_batch=40, endless=False)
        metrics = json.loads((out / "heldout_perplexity.json").read_text())
        assert metrics["eval_h_perplexity"] == pytest.approx(perplexity(model, map(model_inputs, text)).average)

    def test_the_card_says_so(self, corpus, out):
        card = (out / "README.md").read_text()
        batches = SentenceBatches(prepared_of(corpus), words_per_batch=15)
        for text in (
            "| text, held-out too, read as | whole sentences, each from the initial state |",
            "| words in a batch, padding and boundaries counted | at most 15 |",
            "| batches of an update | 2 |",
            "| softmax while training | adaptive, clusters from word 4, 20 on |",
            f"updates of {round(2 * batches.predictions_per_batch)} words",
            "each sentence is read by itself",
        ):
            assert text in card
        assert "the state is carried" not in card

    def test_is_published_with_its_head(self, out, tmp_path):
        publish(out, tmp_path / "elmo")
        publish(out, tmp_path / "lm", with_lm_head=True)
        assert not any(name.startswith("lm_head") for name in load_file(tmp_path / "elmo" / "model.safetensors"))
        model = ElmoForPreTraining.from_pretrained(tmp_path / "lm")
        for name, values in load_file(out / "model.safetensors").items():
            torch.testing.assert_close(model.state_dict()[name], values, rtol=1e-3, atol=1e-6)
        tokenizer = AutoTokenizer.from_pretrained(tmp_path / "elmo")
        inputs = tokenizer([["w1"]], is_split_into_words=True, return_tensors="pt")
        assert AutoModel.from_pretrained(tmp_path / "elmo")(**inputs).last_hidden_state.shape == (1, 3, 12)


def test_sparse_gradients_from_the_command_line(corpus, tmp_path, capsys):
    assert run(corpus, tmp_path / "sparse", "--sparse_softmax_gradient", "--model", "num_negative_samples=4") == 0
    assert "| gradient of the softmax | of the rows that were read |" in (tmp_path / "sparse" / "README.md").read_text()
    assert run(corpus, tmp_path / "adam", "--sparse_softmax_gradient", "--optim", "adamw_torch") == 2
    assert_matches("sparse_softmax_gradient: got optim 'adamw_torch'", capsys.readouterr().err)
    assert not (tmp_path / "adam").exists()


def test_divergence_is_one_message(corpus, tmp_path, capsys):
    flags = ["--learning_rate", "1e30", "--max_grad_norm", "0", "--save_steps", "1"]
    assert run(corpus, tmp_path, *flags) == 1
    assert_matches("training diverged: .* update", capsys.readouterr().err)


def test_without_matplotlib_the_log_tells_how_to_get_the_figure(corpus, tmp_path, monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with caplog.at_level(logging.INFO):
        assert run(corpus, tmp_path, "--max_steps", "1") == 0
    assert (
        'No figure of the loss in the model card: drawing needs matplotlib: pip install "spacy-elmo[plots]"'
        in caplog.text
    )
    assert "](" not in (tmp_path / "README.md").read_text().split("## Training\n")[1]
    assert not (tmp_path / "loss_curve.png").exists()


def test_progress_takes_the_place_of_trainers_bar(corpus, tmp_path, capsys):
    assert run(corpus, tmp_path, "--disable_tqdm", "false", "--eval_strategy", "steps", "--eval_steps", "3") == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("update ")]
    evaluations = [line for line in lines if "perplexity" in line]
    assert len(evaluations) == 3  # two while training, one of the whole texts
    assert re.match(
        r"update 3 of 6, loss \d\.\d{3} \(sampled softmax\), perplexity [\d.]+ \(h\), perplexity [\d.]+ \(more\), "
        r"[\d,]+ words/s \(\d+ % of the machine's limit\), 0:\d\d left$",
        evaluations[0],
    )


class TestReporting:
    def test_tensorboard_gets_every_number_of_the_log(self, corpus, tmp_path):
        pytest.importorskip("tensorboard", reason="needs tensorboard: pip install tensorboard")
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        flags = ["--report_to", "tensorboard", "--eval_strategy", "steps", "--eval_steps", "3"]
        assert run(corpus, tmp_path, *flags) == 0
        (folder,) = {file.parent for file in tmp_path.rglob("events.out.tfevents.*")}
        events = EventAccumulator(str(folder)).Reload()
        names = set(events.Tags()["scalars"])
        assert {"train/loss", "train/words_per_second", "train/share_of_machine_limit", "train/words"} <= names
        assert {"eval/h_perplexity", "eval/more_forward_perplexity"} <= names
        log = json.loads((tmp_path / "training_log.json").read_text())
        losses = [(event.step, event.value) for event in events.Scalars("train/loss")]
        assert losses == [(entry["step"], pytest.approx(entry["loss"])) for entry in log if "loss" in entry]

    def test_what_is_not_installed_is_said(self, corpus, tmp_path, capsys):
        if importlib.util.find_spec("wandb") is not None:
            pytest.skip("wandb is installed")
        assert run(corpus, tmp_path, "--report_to", "wandb") == 2
        assert "WandbCallback requires wandb to be installed" in capsys.readouterr().err


def test_the_command_passes_every_flag_on(monkeypatch, capsys):
    parser = argparse.ArgumentParser(prog="hf-elmo")
    parser.add_argument("--version", action="version", version="0")
    sub = parser.add_subparsers().add_parser("pretrain")
    command.add_arguments(sub)
    flags = ["--recipe", "small", "--bf16", "-h", "--version", "--model", "a=1", "b=2"]
    assert parser.parse_args(["pretrain", *flags]).flags == flags
    with pytest.raises(SystemExit, match="0"):
        command.run(parser.parse_args(["pretrain", "--help"]))
    help_text = capsys.readouterr().out
    assert "usage: hf-elmo pretrain" in help_text
    assert "--unroll_steps" in help_text
    assert "--max_grad_norm" in help_text


@pytest.mark.slow
def test_killed_at_any_moment_training_goes_on_exactly(corpus, tmp_path):
    recipe = ["--max_steps", "40", "--save_steps", "1", "--save_total_limit", "2", "--model", "dropout=0.1"]
    shell(corpus, *recipe, "--output_dir", str(tmp_path / "straight"))
    broken = [*recipe, "--output_dir", str(tmp_path / "broken")]
    seed = random.SystemRandom().randrange(10**6)
    moments = random.Random(seed)
    for kill in range(3):
        resume = ["--resume_from_checkpoint", "true"] if kill else []
        before = set((tmp_path / "broken").glob("checkpoint-*"))
        process = shell(corpus, *broken, *resume, wait=False)
        while not set((tmp_path / "broken").glob("checkpoint-*")) - before:
            assert process.poll() is None, process.stdout.read()
            time.sleep(0.01)
        time.sleep(moments.random() / 4)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        left = sorted(path.name for path in (tmp_path / "broken").iterdir())
        assert "model.safetensors" not in left, f"killed too late (seed {seed})"
    shell(corpus, *broken, "--resume_from_checkpoint", "true")
    for name in ("model.safetensors", "checkpoint-40/stream_state-0.safetensors"):
        one, other = (load_file(tmp_path / folder / name) for folder in ("straight", "broken"))
        assert one.keys() == other.keys()
        assert all(torch.equal(one[key], other[key]) for key in one), f"seed {seed}, then {left}"


@pytest.mark.slow
def test_two_processes_train_one_model(corpus, tmp_path):
    torchrun = (sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2", "training/pretrain.py")
    options = ["--save_steps", "3", "--model", "dropout=0.1"]
    shell(corpus, *options, "--output_dir", str(tmp_path / "straight"), launch=torchrun)
    files = {path.name for path in (tmp_path / "straight" / "checkpoint-3").iterdir()}
    assert {f"stream_{kind}" for kind in ("state-0.safetensors", "state-1.safetensors", "cursor-0.json")} <= files
    states = [load_file(tmp_path / "straight" / "checkpoint-3" / f"stream_state-{rank}.safetensors") for rank in (0, 1)]
    assert not torch.equal(states[0]["cell"], states[1]["cell"])
    checkpoint = str(tmp_path / "straight" / "checkpoint-3")
    resumed = [*options, "--output_dir", str(tmp_path / "resumed"), "--resume_from_checkpoint", checkpoint]
    shell(corpus, *resumed, launch=torchrun)
    one, other = (load_file(tmp_path / folder / "model.safetensors") for folder in ("straight", "resumed"))
    assert all(torch.equal(one[key], other[key]) for key in one)
    alone = shell(corpus, *resumed[:-3], str(tmp_path / "alone"), *resumed[-2:], check=False)
    assert alone.returncode == 2
