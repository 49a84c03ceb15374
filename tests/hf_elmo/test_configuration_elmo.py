import json
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoConfig

from hf_elmo import ElmoConfig
from tests.hf_elmo.models import tiny_config


def test_the_defaults_are_the_papers() -> None:
    config = ElmoConfig()
    assert (config.lstm_size, config.projection_size, config.hidden_size) == (4096, 512, 1024)
    assert sum(count for _, count in config.character_filters) == 2048
    assert config.num_mixed_layers == 3


def test_default_filters_are_not_shared() -> None:
    ElmoConfig().character_filters[0][1] = 7
    assert ElmoConfig().character_filters[0] == [1, 32]


def test_saving_and_loading_keeps_every_option(tmp_path: Path) -> None:
    config = tiny_config(cell_clip=None, mix_layers=[0, 2], mix_layer_norm="token", initial_state="warm")
    config.save_pretrained(tmp_path)
    assert ElmoConfig.from_pretrained(tmp_path).to_dict() == config.to_dict()
    assert isinstance(AutoConfig.from_pretrained(tmp_path), ElmoConfig)


def test_zero_clips_mean_none() -> None:
    config = tiny_config(cell_clip=0, projection_clip=0.0)
    assert config.cell_clip is None
    assert config.projection_clip is None


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("lstm_size", 0, "lstm_size: got 0"),
        ("lstm_size", "512", "lstm_size"),
        ("max_characters_per_word", 2, "max_characters_per_word"),
        ("character_filters", [[1, 4], [99, 4]], r"\[99, 4\]"),
        ("character_filters", [], "empty"),
        ("character_activation", "gelu", "'relu', 'tanh'"),
        ("initial_state", "random", "'zero', 'warm', 'carry'"),
        ("mix_layers", [0, 3], "top"),
        ("mix_layers", [1, 1], "distinct"),
        ("cell_clip", -1.0, "positive"),
        ("dropout", 1.0, "dropout: got 1.0"),
        ("mix_l2", -0.1, "mix_l2"),
        ("mix_l2", float("nan"), "mix_l2"),
        ("vocab_size", 3, "vocab_size"),
        ("lm_softmax", "hierarchical", "'sampled', 'full', 'adaptive'"),
        ("elmo_dropout", 1.0, "elmo_dropout: got 1.0"),
        ("classifier_dropout", -0.1, "classifier_dropout: got -0.1"),
        ("elmo_placement", "middle", "elmo_placement: got 'middle'; expected one of 'input', 'output', 'both'"),
        ("pooling", "cls", "pooling: got 'cls'; expected one of 'mean', 'max', 'biattention'"),
        ("classifier_num_layers", -1, "classifier_num_layers: got -1; expected an integer of at least 0"),
        ("classifier_lstm_size", 0, "classifier_lstm_size: got 0"),
        ("freeze_bilm", "yes", "freeze_bilm"),
        ("use_crf", 1, "use_crf"),
    ],
)
def test_values_out_of_range_are_refused(option: str, value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        tiny_config(**{option: value})
    assert len(str(caught.value).splitlines()) == 1


def test_cutoffs_of_an_adaptive_softmax_are_chosen_and_kept(tmp_path: Path) -> None:
    assert ElmoConfig().adaptive_cutoffs is None
    config = ElmoConfig(lm_softmax="adaptive", vocab_size=793_472)
    assert config.adaptive_cutoffs == [39_673, 198_367]
    config.save_pretrained(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["adaptive_cutoffs"] == [39_673, 198_367]
    for vocab_size in range(4, 60):
        ElmoConfig(lm_softmax="adaptive", vocab_size=vocab_size)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"adaptive_cutoffs": []}, r"adaptive_cutoffs: got \[\]; expected rising integers from 1 to 28"),
        ({"adaptive_cutoffs": [0, 5]}, r"got \[0, 5\]"),
        ({"adaptive_cutoffs": [5, 29]}, r"got \[5, 29\].*29 rows"),
        ({"adaptive_cutoffs": [7, 5]}, r"got \[7, 5\]"),
        ({"adaptive_cutoffs": [5, 5]}, r"got \[5, 5\]"),
        ({"adaptive_cutoffs": [5, 5.5]}, "adaptive_cutoffs"),
        ({"adaptive_cutoffs": "5"}, "adaptive_cutoffs"),
        ({"adaptive_cutoffs": [5], "adaptive_div_value": 0.5}, "adaptive_div_value: got 0.5"),
        ({"adaptive_cutoffs": [5], "adaptive_div_value": float("inf")}, "adaptive_div_value: got inf"),
        ({"adaptive_cutoffs": [5, 9], "adaptive_div_value": 4}, r"width 0; expected at most .* = 2\.45, or fewer"),
    ],
)
def test_an_adaptive_softmax_that_cannot_be_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        tiny_config(lm_softmax="adaptive", **options)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    "typo", ["lstm_sise", "projecton_size", "num_hidden_layer", "use_crff", "freeze_biLM", "character_filter"]
)
def test_a_misspelt_option_is_refused_with_a_suggestion(typo: str) -> None:
    with pytest.raises(ValueError, match="did you mean"):
        ElmoConfig(**{typo: 3})


def test_a_misspelt_option_in_a_file_is_refused(tmp_path: Path) -> None:
    tiny_config().save_pretrained(tmp_path)
    file = tmp_path / "config.json"
    options = json.loads(file.read_text())
    options["lstm_dimm"] = 3
    options["projection_sizes"] = 3
    file.write_text(json.dumps(options))
    with pytest.raises(ValueError, match="'projection_size'"):
        ElmoConfig.from_pretrained(tmp_path)


GIVEN_WRONG = [
    ("mix_layer_norm", "tokens", "mix_layer_norm: got 'tokens'; expected one of 'none', 'token', 'batch'"),
    ("pooling", "average", "pooling: got 'average'"),
    ("initial_state", "cold", "initial_state: got 'cold'"),
    ("elmo_placement", "outputs", "elmo_placement: got 'outputs'"),
    ("mix_layers", [-1], r"mix_layers: got \[-1\]; expected distinct layers from 0"),
    ("mix_layers", [5], r"mix_layers: got \[5\]"),
    ("mix_l2", -1.0, "mix_l2: got -1.0"),
    ("use_crf", "yes", "Field 'use_crf' expected bool, got str"),
    ("mix_l2", "much", "mix_l2"),
]


@pytest.mark.parametrize(("option", "value", "message"), GIVEN_WRONG)
def test_options_beside_a_file_are_checked_like_those_in_it(
    tmp_path: Path, option: str, value: Any, message: str
) -> None:
    tiny_config().save_pretrained(tmp_path)
    for load in (ElmoConfig.from_pretrained, AutoConfig.from_pretrained):
        with pytest.raises(ValueError, match=message) as caught:
            load(tmp_path, **{option: value})
        assert len(str(caught.value).splitlines()) == 1


def test_options_beside_a_file_mean_what_they_mean_in_it(tmp_path: Path) -> None:
    tiny_config().save_pretrained(tmp_path)
    given: dict[str, Any] = {"cell_clip": 0, "lm_softmax": "adaptive", "adaptive_div_value": 2, "mix_layers": (1, 2)}
    loaded = ElmoConfig.from_pretrained(tmp_path, **given).to_dict()
    assert {name: loaded[name] for name in tiny_config().to_dict()} == tiny_config(**given).to_dict()


def test_arguments_of_transformers_itself_are_passed_on(tmp_path: Path) -> None:
    tiny_config().save_pretrained(tmp_path)
    config, unused = ElmoConfig.from_pretrained(
        tmp_path,
        return_unused_kwargs=True,
        mix_layers=[1],
        num_labels=5,
        dtype="float16",
        attn_implementation="eager",
        output_hidden_states=True,
        _commit_hash="0" * 40,
        device_map="cpu",
    )
    assert unused.pop("device_map") == "cpu"
    assert not unused.keys() & {"mix_layers", "num_labels", "output_hidden_states"}
    assert (config.mix_layers, config.num_labels, config.output_hidden_states) == ([1], 5, True)
    assert str(config.dtype).endswith("float16")
    named = ElmoConfig.from_pretrained(tmp_path, id2label={0: "no", 1: "yes", 2: "?"}, label2id={"no": 0})
    assert (named.num_labels, named.id2label[2]) == (3, "?")


def test_what_was_given_is_not_changed(tmp_path: Path) -> None:
    content = tiny_config().to_dict()
    ElmoConfig.from_dict(content, mix_layers=[0])
    assert content["mix_layers"] is None


def test_a_wrong_option_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    config = tiny_config()
    config.mix_layer_norm = "tokens"
    with pytest.raises(ValueError, match="mix_layer_norm: got 'tokens'"):
        config.save_pretrained(tmp_path / "out")
    assert not (tmp_path / "out").exists()
