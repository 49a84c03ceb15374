import hashlib
import json

import pytest
import torch
from transformers.configuration_utils import PreTrainedConfig

from hf_elmo import ElmoConfig, ElmoModel
from hf_elmo.weights_hash import OF_THE_MIX, WITHOUT_EFFECT, RememberedHash, weights_hash
from tests.hf_elmo.models import random_model, tiny_config

# One other value for every option that counts.
CHANGES = {
    "character_activation": "tanh",
    "use_skip_connections": False,
    "cell_clip": 2.0,
    "projection_clip": None,
    "max_characters_per_word": 40,
    "initial_state": "carry",
}
SHAPES = {
    "character_vocab_size",
    "character_embedding_size",
    "character_filters",
    "num_highway_layers",
    "projection_size",
    "lstm_size",
    "num_hidden_layers",
}


def test_the_hash_is_sha256_of_options_and_values():
    model = random_model()
    own = set(ElmoConfig.__dataclass_fields__) - set(PreTrainedConfig.__dataclass_fields__) - WITHOUT_EFFECT
    expected = hashlib.sha256(json.dumps({name: getattr(model.config, name) for name in own}, sort_keys=True).encode())
    for name in sorted(model.state_dict()):
        value = model.state_dict()[name].numpy()
        expected.update(f"{name} torch.float32 {value.shape}\n".encode() + value.tobytes())
    assert weights_hash(model) == expected.hexdigest()


def test_every_option_is_known_to_matter_or_not():
    """A new option of the configuration has to be put into one of the lists, or the other."""
    own = set(ElmoConfig.__dataclass_fields__) - set(PreTrainedConfig.__dataclass_fields__)
    assert own == WITHOUT_EFFECT | OF_THE_MIX | CHANGES.keys() | SHAPES


@pytest.mark.parametrize("option", CHANGES)
def test_an_option_that_matters_tells(option):
    one, other = random_model(), random_model()
    assert weights_hash(one) == weights_hash(other)
    setattr(other.config, option, CHANGES[option])
    assert weights_hash(one) != weights_hash(other)
    assert weights_hash(one, mix=False) != weights_hash(other, mix=False)


def test_every_parameter_tells():
    model = random_model()
    known = {weights_hash(model)}
    for parameter in model.parameters():
        with torch.no_grad():
            parameter.view(-1)[-1] += 1e-6 + parameter.view(-1)[-1].abs() * 1e-6
        known.add(weights_hash(model))
    assert len(known) == 1 + len(list(model.parameters()))


def test_the_mix_can_be_left_out():
    one, other = random_model(), random_model()
    other.config.mix_layer_norm = "token"
    with torch.no_grad():
        other.scalar_mix.gamma.fill_(9.0)
    assert weights_hash(one) != weights_hash(other)
    assert weights_hash(one, mix=False) == weights_hash(other, mix=False)


def test_a_saved_model_has_the_same_hash(tmp_path):
    model = random_model(vocab_size=30, dropout=0.3)
    model.save_pretrained(tmp_path)
    assert weights_hash(ElmoModel.from_pretrained(tmp_path)) == weights_hash(model)


def test_the_dtype_tells():
    assert weights_hash(random_model()) != weights_hash(random_model().double())
    assert weights_hash(random_model().bfloat16()) != weights_hash(random_model().half())


def test_the_hash_is_computed_once(monkeypatch):
    import hf_elmo.weights_hash as module

    model, computed = random_model(), []
    remembered = RememberedHash(model)

    def counted(*args, **kwargs):
        computed.append(1)
        return weights_hash(*args, **kwargs)

    monkeypatch.setattr(module, "weights_hash", counted)
    assert remembered() == remembered() == weights_hash(model)
    assert len(computed) == 1
    with torch.no_grad():
        next(model.parameters()).add_(1.0)
    assert remembered() == weights_hash(model)
    model.config.cell_clip = 1.0
    assert remembered() == weights_hash(model)
    model.load_state_dict(ElmoModel(tiny_config()).state_dict())
    assert remembered() == weights_hash(model)
    assert len(computed) == 4
