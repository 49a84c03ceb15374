import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from hf_elmo import ElmoForPreTraining, ElmoModel, ElmoTokenizer
from hf_elmo.pretraining.adagrad_start import ACCUMULATORS, StartedAdagrad, load_accumulators, save_accumulators
from hf_elmo.pretraining.pretrain import main
from tests.hf_elmo.models import random_lm
from tests.hf_elmo.pretraining.prepared_corpora import HELDOUT, SENTENCES, prepare_sentences

LEARNING_RATE = 0.05


@pytest.fixture(scope="module")
def prepared(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    prepare_sentences(folder, SENTENCES, {"h": HELDOUT}, shard_words=80)
    return folder / "prepared"


@pytest.fixture
def model_dir(prepared: Path, tmp_path: Path) -> Path:
    """A language model of the corpus's words, with accumulators."""
    words = (prepared / "vocab.txt").read_text(encoding="utf-8").splitlines()
    model = random_lm(vocab_size=len(words) + 1, lm_softmax="full", dropout=0.0)
    model.elmo.character_cnn.embedding.weight.data[0] = 0
    model.save_pretrained(tmp_path / "lm")
    ElmoTokenizer(words).save_pretrained(tmp_path / "lm")
    generator = torch.Generator().manual_seed(1)
    sums = {n: 1 + 9 * torch.rand(p.shape, generator=generator) for n, p in model.named_parameters()}
    save_accumulators(sums, tmp_path / "lm")
    return tmp_path / "lm"


def _run(prepared: Path, model_dir: Path, out: Path, *flags: str) -> int:
    base = ["--prepared", str(prepared), "--output_dir", str(out), "--init_from", str(model_dir), "--optim", "adagrad"]
    options = ["--learning_rate", str(LEARNING_RATE), "--lr_scheduler_type", "constant", "--max_grad_norm", "0"]
    sizes = ["--per_device_train_batch_size", "2", "--unroll_steps", "5", "--heldout_tokens", "10"]
    quiet = ["--report_to", "none", "--use_cpu", "--disable_tqdm", "true", "--max_steps", "1"]
    return main([*base, *options, *sizes, *quiet, *flags])


def test_the_first_update_is_adagrads_with_these_sums(prepared: Path, model_dir: Path, tmp_path: Path) -> None:
    r"""\(w ← w - η g / \sqrt{a + g^2}\), with the gradient found from an update with another sum."""
    assert _run(prepared, model_dir, tmp_path / "one", "--save_steps", "1") == 0
    before, after = (load_file(folder / "model.safetensors") for folder in (model_dir, tmp_path / "one"))
    sums = load_file(model_dir / ACCUMULATORS)
    (model_dir / ACCUMULATORS).unlink()
    assert _run(prepared, model_dir, tmp_path / "fresh", "--adagrad_accumulator", "4") == 0
    fresh = load_file(tmp_path / "fresh" / "model.safetensors")
    moved = 0
    for name, values in before.items():
        step = ((values - fresh[name]) / LEARNING_RATE).double()  # g / sqrt(4 + g²)
        gradient = 2 * step / (1 - step.square()).sqrt()
        expected = LEARNING_RATE * gradient / (sums[name] + gradient.square()).sqrt()
        torch.testing.assert_close((values - after[name]).double(), expected, rtol=1e-3, atol=1e-6)
        moved += int((expected.abs() > 1e-4).sum())
    assert moved > 200


def test_a_resumed_run_keeps_its_own_sums(prepared: Path, model_dir: Path, tmp_path: Path) -> None:
    straight, broken = tmp_path / "straight", tmp_path / "broken"
    assert _run(prepared, model_dir, straight, "--max_steps", "4") == 0
    assert _run(prepared, model_dir, broken, "--max_steps", "2", "--save_steps", "2") == 0
    assert _run(prepared, model_dir, broken, "--max_steps", "4", "--resume_from_checkpoint", "true") == 0
    one, other = (load_file(folder / "model.safetensors") for folder in (straight, broken))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_options_of_training_may_differ(prepared: Path, model_dir: Path, tmp_path: Path) -> None:
    assert _run(prepared, model_dir, tmp_path / "out", "--model", "dropout=0.2", "lm_softmax=sampled") == 0
    config = ElmoForPreTraining.from_pretrained(tmp_path / "out").config
    assert (config.dropout, config.lm_softmax, config.lstm_size) == (0.2, "sampled", 10)


def _no_head(model_dir: Path) -> None:
    ElmoModel.from_pretrained(model_dir).save_pretrained(model_dir)


def _cut(model_dir: Path) -> None:
    weights = model_dir / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:2000])


def _no_tokenizer(model_dir: Path) -> None:
    (model_dir / "tokenizer.json").unlink()


def _other_words(model_dir: Path) -> None:
    words = ElmoTokenizer.from_pretrained(model_dir).get_vocab()
    ordered = sorted(words, key=words.__getitem__)[1:]
    ElmoTokenizer([*ordered[:-1], "another"]).save_pretrained(model_dir)


def _other_sums(model_dir: Path) -> None:
    sums = load_file(model_dir / ACCUMULATORS)
    sums["lm_head.bias"] = sums["lm_head.bias"][1:].clone()
    save_file(sums, model_dir / ACCUMULATORS)


def _zero_sums(model_dir: Path) -> None:
    sums = load_file(model_dir / ACCUMULATORS)
    sums["lm_head.bias"][2] = 0
    save_file(sums, model_dir / ACCUMULATORS)


def _cut_sums(model_dir: Path) -> None:
    (model_dir / ACCUMULATORS).write_bytes(b"xx")


@pytest.mark.parametrize(
    ("spoil", "flags", "message"),
    [
        (_no_head, [], "got a model without its softmax"),
        (_cut, [], "cannot read its model.safetensors"),
        (_no_tokenizer, [], "which holds no tokenizer.json"),
        (_other_words, [], "expected 'another', as in"),
        (_other_sums, [], "lm_head.bias: got ("),
        (_zero_sums, [], "a sum of squares that is not positive"),
        (_cut_sums, [], "damaged or cut off"),
        (lambda folder: None, ["--model", "lstm_size=11"], "lstm_size: got 11; expected 10"),
        (lambda folder: None, ["--vocab_size", "9"], "got a corpus with 9 words"),
    ],
)
def test_what_does_not_fit_is_one_line(
    spoil, flags: list[str], message: str, prepared: Path, model_dir: Path, tmp_path: Path, capsys
) -> None:
    spoil(model_dir)
    capsys.readouterr()
    assert _run(prepared, model_dir, tmp_path / "out", *flags) == 2
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("hf-elmo pretrain: ")]
    assert len(said) == 1
    assert message in said[0]
    assert not list((tmp_path / "out").glob("*"))


def test_sums_are_those_given(model_dir: Path) -> None:
    model = ElmoForPreTraining.from_pretrained(model_dir)
    sums = load_accumulators(model_dir, model)
    optimizer = StartedAdagrad(list(model.parameters()), sums=sums, lr=0.1, eps=0.0)
    stored = load_file(model_dir / ACCUMULATORS)
    for name, parameter in model.named_parameters():
        assert torch.equal(optimizer.state[parameter]["sum"], stored[name])
    (model_dir / ACCUMULATORS).unlink()
    assert load_accumulators(model_dir, model) is None
    assert json.loads((model_dir / "config.json").read_text())["model_type"] == "elmo"
