"""A hash of what a biLM's vectors depend on: its weights' values, and the options that matter."""

import hashlib
import json

import torch
from transformers.configuration_utils import PreTrainedConfig

from hf_elmo.configuration_elmo import ElmoConfig
from hf_elmo.modeling_elmo import ElmoModel
from hf_elmo.weights_snapshot import WeightsSnapshot

_MIX = "scalar_mix."
# Options of training, of a language model's or a task's head, and of words' ids: no vector depends on them.
WITHOUT_EFFECT = frozenset(
    [
        "vocab_size",
        "dropout",
        "mix_l2",
        "mix_trainable",
        "lm_softmax",
        "adaptive_cutoffs",
        "adaptive_div_value",
        "freeze_bilm",
        "elmo_dropout",
        "elmo_placement",
        "classifier_num_layers",
        "classifier_lstm_size",
        "classifier_dropout",
        "use_crf",
        "pooling",
        "pool_boundaries",
        "sentence_pairs",
        "num_negative_samples",
        "pad_token_id",
        "bos_token_id",
        "eos_token_id",
        "unk_token_id",
    ]
)
OF_THE_MIX = frozenset(["mix_layers", "mix_layer_norm", "mix_layer_norm_eps"])


def weights_hash(model: ElmoModel, *, mix: bool = True) -> str:
    """SHA-256 of a model's parameters and options.

    It does not depend on the format of a file, its name, or the device: the same values give the same hash.

    Args:
        model: the model.
        mix: False leaves the scalar mix out; what is left determines the layers.

    Returns:
        64 hexadecimal digits
    """
    digest = hashlib.sha256(_options(model.config, mix=mix).encode())
    for name, tensor in sorted(model.state_dict().items()):
        if mix or not name.startswith(_MIX):
            digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
            values = tensor.detach().contiguous().cpu().reshape(-1)
            digest.update(values.view(torch.uint8).numpy().data)
    return digest.hexdigest()


class RememberedHash:
    """`weights_hash` of one model, computed again only where weights or options have changed.

    What counts as changed: [`WeightsSnapshot`][hf_elmo.weights_snapshot.WeightsSnapshot].

    Args:
        model: the model.
        mix: as in `weights_hash`.
    """

    def __init__(self, model: ElmoModel, *, mix: bool = True) -> None:
        self.model = model
        self.mix = mix
        self._known: tuple[WeightsSnapshot, str, str] | None = None

    def __call__(self) -> str:
        """The hash of the weights as they are now."""
        options = _options(self.model.config, mix=self.mix)
        if self._known is not None:
            snapshot, known_options, known = self._known
            if options == known_options and snapshot.matches(self.model):
                return known
        snapshot = WeightsSnapshot(self.model)
        known = weights_hash(self.model, mix=self.mix)
        self._known = (snapshot, options, known)
        return known


def _options(config: ElmoConfig, *, mix: bool) -> str:
    """ELMo's own options; those of transformers say how a model was saved, not what it computes."""
    own = ElmoConfig.__dataclass_fields__.keys() - PreTrainedConfig.__dataclass_fields__.keys() - WITHOUT_EFFECT
    if not mix:
        own -= OF_THE_MIX
    return json.dumps({name: getattr(config, name) for name in own}, sort_keys=True)
