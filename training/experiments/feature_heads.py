"""The library's task heads on features computed before: [x; ELMo], or x alone (Peters et al. 2018, section 3.3).

x is a character CNN that is trained with the task and, where there are some, static vectors.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from experiments.rows import Settings
from experiments.sentence_features import SentenceFeatures
from hf_elmo.character_cnn import CharacterCNN
from hf_elmo.configuration_elmo import ElmoConfig
from hf_elmo.modeling_elmo import ElmoPreTrainedModel
from hf_elmo.question_answering import ElmoForQuestionAnswering
from hf_elmo.scalar_mix import ScalarMix
from hf_elmo.sentence_boundaries import boundaries_of
from hf_elmo.sequence_classification import ElmoForSequenceClassification
from hf_elmo.task_model import ElmoTaskModel, ElmoVectors
from hf_elmo.token_classification import ElmoForTokenClassification

CHARACTER_FEATURES = 64


class ReadsFeatures(ElmoTaskModel):
    """A task model that looks the biLM's layers up in `SentenceFeatures`.

    Args:
        config: made by `feature_config`.
        has_network: as in the base class.
    """

    features: SentenceFeatures

    def __init__(self, config: ElmoConfig, *, has_network: bool) -> None:
        ElmoPreTrainedModel.__init__(self, config)  # not that of ElmoTaskModel, which makes a biLM
        assert config.num_labels is not None
        self.num_labels = config.num_labels
        given: Any = config
        self.characters = CharacterCNN(_character_config())
        x_size = CHARACTER_FEATURES + given.static_size
        elmo_size = given.layer_size
        at_input = bool(elmo_size) and config.elmo_placement != "output"
        at_output = bool(elmo_size) and config.elmo_placement != "input"
        self.scalar_mix = ScalarMix(config) if at_input else None
        self.output_scalar_mix = ScalarMix(config) if at_output else None
        self.input_size = x_size + (elmo_size if at_input else 0)
        self.beside_size = elmo_size if at_output else 0

    def read(self, character_ids: Tensor, words: Tensor, **kwargs: Any) -> ElmoVectors:
        """As in the base class, from the features."""
        static, layers = self.features.look_up(character_ids, words)
        inside = (words & ~boundaries_of(character_ids)).unsqueeze(-1)  # (B, T, 1)
        x = [self.characters(character_ids) * inside]  # (B, T, 64)
        if static is not None:
            x.append(static)  # (B, T, V)
        x = [F.dropout(torch.cat(x, dim=-1), self.config.x_dropout, self.training)]
        if self.scalar_mix is not None:
            x.append(self._dropped(self.scalar_mix(layers, inside.squeeze(-1))))
        outputs = None
        if self.output_scalar_mix is not None:
            outputs = self._dropped(self.output_scalar_mix(layers, inside.squeeze(-1)))
        return ElmoVectors(torch.cat(x, dim=-1), outputs, inside.squeeze(-1), None)

    def layer_weights(self) -> dict[str, tuple[list[float | None], float]]:
        """Each mix's shares and γ, as `hf_elmo.layer_weights` shows them."""
        weights: dict[str, tuple[list[float | None], float]] = {}
        for place, mix in (("input", self.scalar_mix), ("output", self.output_scalar_mix)):
            if mix is not None:
                shares: list[float | None] = [None] * (self.config.num_hidden_layers + 1)
                for layer, share in zip(mix.layers, mix.weights.softmax(dim=0).tolist(), strict=True):
                    shares[layer] = share
                weights[place] = (shares, mix.gamma.item())
        return weights


# transformers chooses a loss by these names.
class FeaturesForTokenClassification(ElmoForTokenClassification, ReadsFeatures):
    """A biLSTM with a CRF."""


class FeaturesForSequenceClassification(ElmoForSequenceClassification, ReadsFeatures):
    """The biattentive network."""


class FeaturesForQuestionAnswering(ElmoForQuestionAnswering, ReadsFeatures):
    """Attention flow."""


def feature_config(
    features: SentenceFeatures,
    *,
    mix: str = "learned",
    mix_l2: float = 0.0,
    mix_layer_norm: str = "token",
    elmo_dropout: float = 0.5,
    **options: Any,
) -> ElmoConfig:
    """A head's configuration for the features there are.

    Args:
        features: give the sizes.
        mix: "learned", "average" (fixed), "top" or "token" (one layer), "lower" (learned, of the token layer and the
            first biLSTM layer).
        mix_l2: λ.
        mix_layer_norm: of each layer before the mix; "none" for none.
        elmo_dropout: of ELMo.
        options: further fields of `ElmoConfig`.
    """
    depth, width = features.layers_shape
    mix_layers = {"top": [depth - 1], "token": [0], "lower": [0, 1]}.get(mix)
    config = ElmoConfig(
        num_hidden_layers=max(depth - 1, 1),
        projection_size=max(width // 2, 1),
        max_characters_per_word=features.length,
        mix_layers=mix_layers if depth else None,
        mix_trainable=mix != "average",
        mix_layer_norm=mix_layer_norm,
        mix_l2=mix_l2,
        elmo_dropout=elmo_dropout,
        freeze_bilm=False,  # there is none to freeze
        **options,
    )
    given: Any = config
    given.static_size, given.layer_size = features.vectors_size, width
    given.x_dropout = 0.2
    return config


def mix_settings(settings: Settings) -> dict[str, Any]:
    """Those of a row's settings that `feature_config` takes for the mix; its defaults stand for the others."""
    names = ("mix", "mix_l2", "mix_layer_norm", "elmo_dropout")
    return {name: settings[name] for name in names if name in settings}


def _character_config() -> ElmoConfig:
    return ElmoConfig(
        character_embedding_size=16,
        character_filters=[[3, CHARACTER_FEATURES]],
        num_highway_layers=0,
        projection_size=CHARACTER_FEATURES,
    )


def collate(rows: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """Rows of a batch, filled up: character ids with 0, tags with -100; other labels are numbers.

    Shape:
        per row character_ids (T, C), labels (T,) or () → (B, T, C), (B, T) or (B,)
    """
    batch = {}
    for name in rows[0]:
        values = [row[name] for row in rows]
        if values[0].dim() == 0:
            batch[name] = torch.stack(values)
        else:
            fill = 0 if name == "character_ids" else -100
            batch[name] = nn.utils.rnn.pad_sequence(values, batch_first=True, padding_value=fill)
    return batch
