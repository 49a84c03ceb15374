import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from hf_elmo import ElmoForPreTraining, ElmoModel, ElmoTokenizer
from hf_elmo.convert.conversion import convert
from hf_elmo.perplexity import perplexity
from hf_elmo.pretraining.corpus_with_vocabulary import with_vocabulary
from hf_elmo.pretraining.publish import publish
from hf_elmo.pretraining.shards import PreparedCorpus
from hf_elmo.pretraining.streams import HeldoutStreams
from hf_elmo.pretraining.trainer import model_inputs
from tests.hf_elmo.models import ids, original_files
from tests.hf_elmo.pretraining.adaptations import NEW, OLD, RUN, Domains, figures, make_domains, run
from tests.hf_elmo.pretraining.prepared_corpora import sentences_of
from tests.oracles import random_weights

REPOSITORY = Path(__file__).resolve().parents[3]
SPECIAL = ["<S>", "</S>", "<UNK>"]


@pytest.fixture(scope="module")
def domains(tmp_path_factory) -> Domains:
    return make_domains(tmp_path_factory.mktemp("domains"))


def perplexity_of(folder: Path, prepared: Path):
    """By another way than the run's: the folder loaded, and the text read in its tokenizer's words."""
    model, tokenizer = ElmoForPreTraining.from_pretrained(folder), ElmoTokenizer.from_pretrained(folder)
    words = tokenizer.convert_ids_to_tokens(list(range(1, len(tokenizer))))
    corpus = with_vocabulary(PreparedCorpus.open(prepared), words)
    streams = HeldoutStreams(corpus, "heldout-h", batch_size=64, unroll_steps=5)
    return perplexity(model, map(model_inputs, streams))


def words_of(folder: Path) -> list[str]:
    tokenizer = ElmoTokenizer.from_pretrained(folder)
    return tokenizer.convert_ids_to_tokens(list(range(1, len(tokenizer))))


def weights_of(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def refused(capsys, *arguments) -> str:
    capsys.readouterr()
    assert run(*arguments) == 2
    message = capsys.readouterr().err.splitlines()[-1]
    assert message.startswith("hf-elmo adapt: ")
    return message


class TestVocabularyKept:
    @pytest.fixture(scope="class")
    @classmethod
    def out(cls, domains, tmp_path_factory) -> Path:
        out = tmp_path_factory.mktemp("runs") / "kept"
        assert run(domains.model, domains.prepared, "--output_dir", out, "--model", "dropout=0.05") == 0
        return out

    def test_perplexity_falls(self, domains, out):
        adaptation = figures(out)["adaptation"]
        before, after = (adaptation[moment]["h"]["perplexity"] for moment in ("before", "after"))
        assert after < 0.8 * before
        assert adaptation["before_is_comparable"]
        assert adaptation["start"] == {"h": {k: v for k, v in adaptation["before"]["h"].items() if k != "oov_rate"}}

    def test_both_perplexities_are_those_of_the_two_folders(self, domains, out):
        adaptation = figures(out)["adaptation"]
        for moment, folder in (("before", domains.model), ("after", out)):
            expected = perplexity_of(folder, domains.prepared)
            got = adaptation[moment]["h"]
            assert got["perplexity"] == pytest.approx(expected.average, rel=1e-5)
            assert got["forward_perplexity"] == pytest.approx(expected.forward, rel=1e-5)
            assert got["backward_perplexity"] == pytest.approx(expected.backward, rel=1e-5)
            assert got["predictions_per_direction"] == expected.predictions
        assert figures(out)["eval_h_perplexity"] == adaptation["after"]["h"]["perplexity"]

    def test_the_vocabulary_is_the_model_s(self, domains, out):
        assert words_of(out) == words_of(domains.model)
        unknown = Counter(word in words_of(out) for s in heldout_of(domains) for word in s)
        share = unknown[False] / unknown.total()
        assert figures(out)["adaptation"]["before"]["h"]["oov_rate"] == pytest.approx(share, abs=1e-6)

    def test_the_configuration_is_the_model_s_but_for_what_training_reads(self, domains, out):
        kept, changed = (json.loads((folder / "config.json").read_text()) for folder in (domains.model, out))
        assert {name for name in kept if kept[name] != changed.get(name)} <= {"dropout", "use_cache"}
        assert changed["dropout"] == 0.05

    def test_the_card_says_where_it_comes_from(self, domains, out):
        card = (out / "README.md").read_text()
        adaptation = figures(out)["adaptation"]
        figure = f"{adaptation['before']['h']['perplexity']:.2f} | {adaptation['after']['h']['perplexity']:.2f}"
        for text in (
            "## Adapted from model\n",
            "kept, over its 11 words",
            figure,
            "that of the model it was adapted from",
        ):
            assert text in card
        assert str(domains.model.parent) not in card

    def test_the_folder_is_not_written_over(self, domains, out, capsys):
        assert "which holds a model" in refused(capsys, domains.model, domains.prepared, "--output_dir", out)
        assert "which holds a model" in refused(capsys, domains.model, domains.prepared, "--output_dir", domains.model)


def heldout_of(domains) -> list[list[str]]:
    return sentences_of(PreparedCorpus.open(domains.prepared), "heldout-h")


class TestVocabularyNew:
    @pytest.fixture(scope="class")
    @classmethod
    def out(cls, domains, tmp_path_factory) -> Path:
        out = tmp_path_factory.mktemp("runs") / "new"
        assert run(domains.model, domains.prepared, "--output_dir", out, "--vocabulary", "new") == 0
        return out

    def test_the_words_are_the_text_s(self, domains, out):
        assert words_of(out) == (domains.prepared / "vocab.txt").read_text().split()
        assert len(weights_of(out)["lm_head.bias"]) == len(words_of(out)) == 10
        assert set(words_of(out)) & set(NEW)
        assert not set(words_of(out)) & set(OLD)

    def test_before_start_and_after(self, domains, out):
        adaptation = figures(out)["adaptation"]
        assert not adaptation["before_is_comparable"]
        assert "cannot be compared" in adaptation["conventions"]
        before, after = (perplexity_of(folder, domains.prepared) for folder in (domains.model, out))
        assert adaptation["before"]["h"]["perplexity"] == pytest.approx(before.average, rel=1e-5)
        assert adaptation["after"]["h"]["perplexity"] == pytest.approx(after.average, rel=1e-5)
        assert after.average < 0.9 * adaptation["start"]["h"]["perplexity"]

    def test_rows_of_words_of_both_are_carried_over(self, domains, tmp_path):
        """A run whose learning rate is nothing shows the start."""
        flags = ["--output_dir", tmp_path / "out", "--vocabulary", "new", "--vocab_size", "12"]
        training = [*RUN, "--max_steps", "1", "--learning_rate", "0"]
        assert run(domains.model, domains.prepared, *flags, training=training) == 0
        old, new = weights_of(domains.model), weights_of(tmp_path / "out")
        rows = {word: row for row, word in enumerate(words_of(domains.model))}
        shared = [word for word in words_of(tmp_path / "out") if word in rows]
        assert {*SPECIAL, "dog", "the"} <= set(shared)
        assert set(words_of(tmp_path / "out")) - set(shared) >= {"judge", "court", "jury"}
        for row, word in enumerate(words_of(tmp_path / "out")):
            assert torch.equal(new["lm_head.weight"][row], old["lm_head.weight"][rows.get(word, 2)])
            assert word == "<UNK>" or word not in rows or new["lm_head.bias"][row] == old["lm_head.bias"][rows[word]]
        assert all(torch.equal(old[name], new[name]) for name in old if name.startswith("elmo."))
        adaptation = figures(tmp_path / "out")["adaptation"]
        assert adaptation["start"] == adaptation["after"]


class TestWithoutAHead:
    def test_the_head_starts_at_the_words_frequencies(self, domains, tmp_path, caplog):
        caplog.set_level("INFO")
        assert run(domains.body, domains.prepared, "--output_dir", tmp_path / "out") == 0
        assert "the softmax is new, over 10 words and started at their frequencies" in caplog.text
        adaptation = figures(tmp_path / "out")["adaptation"]
        assert adaptation["before"] == {}
        start = unigram_perplexities(domains.prepared)
        assert adaptation["start"]["h"]["forward_perplexity"] == pytest.approx(start[0], rel=1e-5)
        assert adaptation["start"]["h"]["backward_perplexity"] == pytest.approx(start[1], rel=1e-5)
        assert adaptation["after"]["h"]["perplexity"] < 0.9 * adaptation["start"]["h"]["perplexity"]

    def test_the_vocabulary_can_be_the_body_s(self, domains, tmp_path):
        assert run(domains.body, domains.prepared, "--output_dir", tmp_path / "out", "--vocabulary", "keep") == 0
        assert words_of(tmp_path / "out") == words_of(domains.body)

    def test_a_converted_body(self, domains, tmp_path, capsys):
        options = random_weights.options("tiny")
        files = original_files(tmp_path, options, random_weights.random_weights(options, seed=1))
        convert(*files, tmp_path / "converted")
        message = refused(
            capsys, tmp_path / "converted", domains.prepared, "--output_dir", tmp_path / "no", "--vocabulary", "keep"
        )
        assert "got keep for" in message
        assert "--vocabulary new" in message
        assert not (tmp_path / "no").exists()
        flags = ["--output_dir", tmp_path / "out", "--head_warm_up_steps", "30"]
        assert run(tmp_path / "converted", domains.prepared, *flags) == 0
        result = figures(tmp_path / "out")["adaptation"]
        assert result["after"]["h"]["perplexity"] < result["start"]["h"]["perplexity"]
        assert words_of(tmp_path / "out") == (domains.prepared / "vocab.txt").read_text().split()
        # All updates were the head's: the vectors are those of the weights that were converted.
        models = [ElmoModel.from_pretrained(tmp_path / name).eval() for name in ("converted", "out")]
        with torch.no_grad():
            one, other = (model(*ids([["a", "dog"]])).last_hidden_state for model in models)
        assert torch.equal(one, other)


def unigram_perplexities(prepared: Path) -> list[float]:
    """Of the held-out words under their frequencies in the training text, boundaries and `<UNK>` included."""
    corpus = PreparedCorpus.open(prepared)
    vocabulary = corpus.vocabulary()
    train, heldout = (sentences_of(corpus, split) for split in ("train", "heldout-h"))

    def counted(text, closing):
        words = Counter(word if word in vocabulary else "<UNK>" for sentence in text for word in sentence)
        return words + Counter({name: len(text) * share for name, share in closing.items()})

    frequency = counted(train, {"<S>": 0.5, "</S>": 0.5})
    weights = {word: max(1, frequency[word]) for word in vocabulary}
    results = []
    for closing in ("</S>", "<S>"):
        predicted = counted(heldout, {closing: 1})
        loss = -sum(n * np.log(weights[word] / sum(weights.values())) for word, n in predicted.items())
        results.append(float(np.exp(loss / predicted.total())))
    return results


class TestRawText:
    def test_is_prepared_in_the_run_s_folder(self, domains, tmp_path):
        out = tmp_path / "out"
        text = [f"t:sentences={domains.raw / 'train.txt'}", "--heldout", f"h:sentences={domains.raw / 'heldout.txt'}"]
        assert run(domains.model, *text, "--output_dir", out) == 0
        assert heldout_of(domains) == sentences_of(PreparedCorpus.open(out / "prepared"), "heldout-h")
        expected = perplexity_of(domains.model, domains.prepared)
        assert figures(out)["adaptation"]["before"]["h"]["perplexity"] == pytest.approx(expected.average, rel=1e-5)

    def test_without_held_out_text_training_goes_on(self, domains, tmp_path, caplog):
        caplog.set_level("INFO")
        text = f"t:sentences={domains.raw / 'train.txt'}"
        flags = ["--output_dir", tmp_path / "out", "--vocabulary", "new", "--min_count", "40"]
        assert run(domains.model, text, *flags) == 0
        assert "No text is held out, so that no perplexity can be had" in caplog.text
        assert figures(tmp_path / "out")["adaptation"]["after"] == {}
        counts = Counter((domains.raw / "train.txt").read_text().split())
        assert set(words_of(tmp_path / "out")[3:]) == {word for word in counts if counts[word] >= 40}


class TestWarmState:
    def test_after_training(self, domains, tmp_path):
        out = tmp_path / "out"
        assert run(domains.model, domains.prepared, "--output_dir", out, "--store_warm_state") == 0
        model = ElmoForPreTraining.from_pretrained(out)
        assert model.config.initial_state == "warm"
        assert model.elmo.initial_state.cell.abs().sum() > 0
        states = figures(out)["adaptation"]["initial_states"]["texts"]["h"]["states"]
        assert list(states) == ["zero", "warm", "carry"]
        assert len({state["perplexity"] for state in states.values()}) == 3
        assert len({state["predictions_per_direction"] for state in states.values()}) == 1
        assert "| h | " in (out / "README.md").read_text().split("warm state.")[1]
        # The state is of the weights after training, which are otherwise those of a run without it.
        assert run(domains.model, domains.prepared, "--output_dir", tmp_path / "cold") == 0
        warm, cold = weights_of(out), weights_of(tmp_path / "cold")
        assert warm.keys() - cold.keys() == {"elmo.initial_state.cell", "elmo.initial_state.hidden"}
        assert all(torch.equal(values, warm[name]) for name, values in cold.items())
        publish(out, tmp_path / "published")
        published = ElmoModel.from_pretrained(tmp_path / "published").initial_state
        torch.testing.assert_close(published.cell, model.elmo.initial_state.cell, atol=1e-3, rtol=1e-3)

    def test_without_training(self, domains, tmp_path, capsys):
        flags = ["--store_warm_state", "--max_steps", "0", "--warm_state_tokens", "200"]
        assert run(domains.model, domains.prepared, "--output_dir", tmp_path / "out", *flags, training=RUN) == 0
        before, after = weights_of(domains.model), weights_of(tmp_path / "out")
        assert all(torch.equal(values, after[name]) for name, values in before.items())
        assert words_of(tmp_path / "out") == words_of(domains.model)
        assert ElmoForPreTraining.from_pretrained(tmp_path / "out").config.initial_state == "warm"
        states = figures(tmp_path / "out")["initial_states"]["texts"]["h"]["states"]
        assert list(states) == ["zero", "warm", "carry"]
        assert "│ warm " in capsys.readouterr().out

    def test_the_card_goes_with_the_weights(self, domains, tmp_path):
        stored = ["--store_warm_state", "--max_steps", "0", "--warm_state_tokens", "200"]
        warm = tmp_path / "warm"
        assert run(domains.model, domains.prepared, "--output_dir", warm, *stored, training=RUN) == 0
        for name in ("loss_curve.png", "training_log.json"):
            assert (warm / name).read_bytes() == (domains.model / name).read_bytes()
        card, source = ((folder / "README.md").read_text() for folder in (warm, domains.model))
        about = card[card.index("## Warm state\n") : card.index("## Training data\n")]
        assert re.search(
            r"The weights are those of model, .* over the first 20\d words of the training text \(train\)\.", about
        )
        assert re.search(r"\| h \| \d+ \| warm \| [\d.]+ \|", about)
        assert card.replace(about, "") == source.replace("# model\n", "# warm\n").replace('"model"', '"warm"').replace(
            '{"warm": "warm"}', '{"model": "warm"}'
        )
        publish(warm, tmp_path / "published", repo_id="user/warm")
        published = (tmp_path / "published" / "README.md").read_text()
        assert 'from_pretrained("user/warm")' in published
        assert "## Warm state" in published
        assert (tmp_path / "published" / "loss_curve.png").is_file()
        # Once more: the section is replaced.
        assert run(warm, domains.prepared, "--output_dir", tmp_path / "again", *stored[:-2], training=RUN) == 0
        again = (tmp_path / "again" / "README.md").read_text()
        assert again.count("## Warm state") == 1
        assert "The weights are those of warm," in again

    def test_without_a_card_there_is_none(self, domains, tmp_path):
        shutil.copytree(domains.body, tmp_path / "body")
        (tmp_path / "body" / "README.md").unlink()
        flags = ["--store_warm_state", "--max_steps", "0"]
        assert run(tmp_path / "body", domains.prepared, "--output_dir", tmp_path / "out", *flags, training=RUN) == 0
        assert not (tmp_path / "out" / "README.md").exists()

    def test_of_a_body_without_a_head(self, domains, tmp_path, caplog):
        caplog.set_level("INFO")
        flags = ["--store_warm_state", "--max_steps", "0"]
        assert run(domains.body, domains.prepared, "--output_dir", tmp_path / "out", *flags, training=RUN) == 0
        assert "no perplexity can be had" in caplog.text
        model = ElmoModel.from_pretrained(tmp_path / "out")
        assert model.config.initial_state == "warm"
        assert not any(name.startswith("lm_head") for name in weights_of(tmp_path / "out"))
        assert not (tmp_path / "out" / "heldout_perplexity.json").exists()

    def test_a_model_that_has_one_gets_a_new_one(self, domains, tmp_path):
        stored = ["--store_warm_state", "--max_steps", "0"]
        assert run(domains.model, domains.prepared, "--output_dir", tmp_path / "warm", *stored, training=RUN) == 0
        assert run(tmp_path / "warm", domains.prepared, "--output_dir", tmp_path / "out") == 0
        old, new = (weights_of(tmp_path / name)["elmo.initial_state.cell"] for name in ("warm", "out"))
        assert (old - new).abs().max() > 1e-3


def test_a_resumed_run_goes_on_exactly(domains, tmp_path):
    """From raw text, with a warm-up of the head that ends after the checkpoint, and dropout."""
    text = [f"t:sentences={domains.raw / 'train.txt'}", "--heldout", f"h:sentences={domains.raw / 'heldout.txt'}"]
    training = [*RUN, "--max_steps", "12", "--save_steps", "4", "--logging_steps", "1", "--learning_rate", "0.02"]
    options = ["--vocabulary", "new", "--head_warm_up_steps", "6", "--model", "dropout=0.2", "--store_warm_state"]
    arguments = (domains.model, *text, *options)
    out = {name: tmp_path / name for name in ("straight", "broken")}
    for folder in out.values():
        assert run(*arguments, "--output_dir", folder, "--save_total_limit", "9", training=training) == 0
    whole = weights_of(out["broken"])
    # As an interruption after update 4 would have left it.
    for path in out["broken"].iterdir():
        if path.name not in ("checkpoint-4", "prepared"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    (domains.raw / "moved.txt").write_text("unread")
    resume = ["--output_dir", out["broken"], "--resume_from_checkpoint", "true"]
    assert run(*arguments, *resume, training=training) == 0
    resumed = weights_of(out["broken"])
    assert resumed.keys() == whole.keys()
    assert all(torch.equal(values, resumed[name]) for name, values in whole.items())
    logs = [json.loads((folder / "training_log.json").read_text()) for folder in out.values()]
    losses = [[(entry["step"], entry["loss"]) for entry in log if "loss" in entry] for log in logs]
    assert losses[0] == losses[1]
    assert len(losses[0]) == 12
    assert figures(out["straight"]) == figures(out["broken"])
    early, late = (load_file(out["straight"] / f"checkpoint-{n}" / "model.safetensors") for n in (4, 8))
    source = weights_of(domains.model)
    body = [name for name in source if name.startswith("elmo.")]
    assert all(torch.equal(source[name], early[name]) for name in body)
    assert not any(torch.equal(early[name], late[name]) for name in body if "highway" not in name)


class TestUserErrors:
    def test_of_the_model(self, domains, tmp_path, capsys, monkeypatch):
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
        out = ["--output_dir", tmp_path / "out"]
        assert "no ELMo model 'nowhere'" in refused(capsys, "nowhere", domains.prepared, *out)
        (tmp_path / "bert").mkdir()
        (tmp_path / "bert" / "config.json").write_text('{"model_type": "bert"}')
        assert "type 'bert'" in refused(capsys, tmp_path / "bert", domains.prepared, *out)
        assert not (tmp_path / "out").exists()

    @pytest.mark.parametrize("flags", [[], ["--vocabulary", "keep"]])
    def test_a_size_for_a_vocabulary_that_is_kept(self, domains, tmp_path, capsys, flags):
        flags = [*flags, "--vocab_size", "9", "--output_dir", tmp_path / "out"]
        assert "vocab_size: got 9, but" in refused(capsys, domains.model, domains.prepared, *flags)

    def test_of_the_text(self, domains, tmp_path, capsys):
        out = ["--output_dir", tmp_path / "out"]
        assert "absent" in refused(capsys, domains.model, tmp_path / "absent", *out)
        raw = domains.raw / "train.txt"
        assert "expected one prepared folder" in refused(capsys, domains.model, domains.prepared, raw, *out)
        message = refused(capsys, domains.model, domains.prepared, "--heldout_share", "0.1", *out)
        assert "heldout_share: got it for" in message

    def test_text_of_an_earlier_run(self, domains, tmp_path, capsys):
        shutil.copytree(domains.prepared, tmp_path / "out" / "prepared")
        message = refused(capsys, domains.model, domains.raw / "train.txt", "--output_dir", tmp_path / "out")
        assert "from an earlier run" in message
        assert "resume_from_checkpoint" in message

    def test_a_run_of_another_model_is_not_gone_on_with(self, domains, tmp_path, capsys):
        training = [*RUN, "--max_steps", "2", "--save_steps", "1"]
        out = ["--output_dir", tmp_path / "out"]
        assert run(domains.model, domains.prepared, *out, training=training) == 0
        (tmp_path / "out" / "config.json").unlink()
        assert "holds checkpoint-2 of an earlier run" in refused(capsys, domains.model, domains.prepared, *out)
        message = refused(
            capsys, domains.model, domains.prepared, *out, "--vocabulary", "new", "--resume_from_checkpoint", "true"
        )
        assert "vocab_size: got 11; expected 12" in message


@pytest.mark.slow
def test_the_script_and_the_command(domains, tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    arguments = [str(domains.model), str(domains.prepared), "--output_dir", str(tmp_path / "out"), *RUN]
    command = [sys.executable, "training/adapt.py", *arguments, "--max_steps", "2"]
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "│ before │ after │" in done.stdout.replace("┃", "│")
    assert "softmax is kept" in done.stderr


@pytest.mark.slow
def test_two_processes(domains, tmp_path):
    """The head's warm-up, the preparing of raw text and the warm state, by torchrun."""
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1"}
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2", "--standalone"]
    text = [f"t:sentences={domains.raw / 'train.txt'}", "--heldout", f"h:sentences={domains.raw / 'heldout.txt'}"]
    flags = [*text, "--output_dir", str(tmp_path / "out"), *RUN, "--max_steps", "4", "--head_warm_up_steps", "4"]
    command = [*launch, "-m", "hf_elmo.pretraining.adapt", str(domains.model), *flags, "--store_warm_state"]
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    before, after = weights_of(domains.model), weights_of(tmp_path / "out")
    same = {name: torch.equal(values, after[name]) for name, values in before.items()}
    assert same == {name: name.startswith("elmo.") for name in before}
    assert "warm" in figures(tmp_path / "out")["adaptation"]["initial_states"]["texts"]["h"]["states"]
