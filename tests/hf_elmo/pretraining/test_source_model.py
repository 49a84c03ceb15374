import pytest
import torch

from hf_elmo import ElmoModel, ElmoTokenizer
from hf_elmo.pretraining.source_model import load_source_model
from tests.hf_elmo.models import ids, random_lm, random_model

WORDS = ["<S>", "</S>", "<UNK>", "the", "dog"]


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.chdir(tmp_path)


def test_a_language_model_with_its_vocabulary(tmp_path):
    model = random_lm(vocab_size=len(WORDS) + 1)
    model.save_pretrained(tmp_path / "lm")
    ElmoTokenizer(vocab=WORDS).save_pretrained(tmp_path / "lm")
    source = load_source_model(str(tmp_path / "lm"), dropout=0.25, num_negative_samples=3)
    assert source.has_head
    assert source.has_vocabulary
    assert source.vocabulary == WORDS
    assert source.shown_name == "lm"
    assert source.hub_id is None
    config = source.model.config
    assert (config.dropout, config.num_negative_samples, config.lstm_size) == (0.25, 3, model.config.lstm_size)
    assert source.model.lm_head.num_negative_samples == 3
    assert [layer.dropout for layer in source.model.elmo.layers] == [0.25, 0.25]
    assert all(torch.equal(values, model.state_dict()[name]) for name, values in source.model.state_dict().items())


def test_a_body_without_a_head(tmp_path, capfd):
    random_model().save_pretrained(tmp_path / "body")
    capfd.readouterr()
    source = load_source_model(str(tmp_path / "body"))
    assert not source.has_head
    assert not source.has_vocabulary
    loaded = ElmoModel.from_pretrained(tmp_path / "body")
    with torch.no_grad():
        expected = loaded(*ids([["a", "dog"]]), output_hidden_states=True).hidden_states[-1]
        torch.testing.assert_close(source.model.elmo(*ids([["a", "dog"]])).last_hidden_state, expected)


def test_the_model_in_the_package():
    source = load_source_model("default")
    assert source.has_vocabulary
    assert source.shown_name == "the model in hf_elmo"
    assert source.model.dtype == torch.float32
    assert source.hub_id is None


def test_a_folder_of_that_name_goes_before_it(tmp_path):
    random_model().save_pretrained(tmp_path / "default")
    assert load_source_model("default").model.config.lstm_size == random_model().config.lstm_size


class TestRefused:
    def test_a_head_without_its_vocabulary(self, tmp_path):
        random_lm(vocab_size=6).save_pretrained(tmp_path)
        with pytest.raises(ValueError, match="tokenizer of 4 words and a softmax of 6"):
            load_source_model(str(tmp_path))

    def test_a_head_with_another_vocabulary(self, tmp_path):
        random_lm(vocab_size=30).save_pretrained(tmp_path)
        ElmoTokenizer(vocab=WORDS).save_pretrained(tmp_path)
        with pytest.raises(ValueError, match="tokenizer of 6 words and a softmax of 30"):
            load_source_model(str(tmp_path))

    def test_a_tokenizer_of_another_row_length(self, tmp_path):
        random_lm(vocab_size=6).save_pretrained(tmp_path)
        ElmoTokenizer(vocab=WORDS, max_characters_per_word=20).save_pretrained(tmp_path)
        with pytest.raises(ValueError, match="tokenizer of 20 characters a word and a model of 50"):
            load_source_model(str(tmp_path))

    def test_a_head_of_another_shape_is_not_taken_for_none(self, tmp_path):
        model = random_lm(vocab_size=6)
        model.config.vocab_size = 9
        model.save_pretrained(tmp_path)
        with pytest.raises(ValueError, match=r"do not fit its config\.json, lm_head"):
            load_source_model(str(tmp_path))

    def test_half_a_head_or_body(self, tmp_path):
        from safetensors.torch import load_file, save_file

        for name in ("lm_head.bias", "elmo.layers.0.forward_lstm.gates.weight"):
            folder = tmp_path / name
            random_lm().save_pretrained(folder)
            tensors = load_file(folder / "model.safetensors")
            del tensors[name]
            save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
            with pytest.raises(ValueError, match=f"do not fit.*{name}"):
                load_source_model(str(folder))

    def test_what_is_no_model(self, tmp_path):
        with pytest.raises(OSError, match="no ELMo model 'nowhere'"):
            load_source_model("nowhere")
        (tmp_path / "config.json").write_text('{"model_type": "bert"}')
        with pytest.raises(ValueError, match="type 'bert'; expected 'elmo'"):
            load_source_model(str(tmp_path))
        with pytest.raises(ValueError, match="dropout: got 2"):
            load_source_model("default", dropout=2)
