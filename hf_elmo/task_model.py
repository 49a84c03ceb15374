"""What the task heads share: the biLM, frozen or not, and where its mixes go (Peters et al. 2018, section 3.3)."""

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import initialization as init

from hf_elmo.configuration_elmo import ElmoConfig
from hf_elmo.crf import CRF, IGNORED
from hf_elmo.modeling_elmo import ElmoModel, ElmoPreTrainedModel
from hf_elmo.scalar_mix import ScalarMix
from hf_elmo.sentence_boundaries import boundaries_of


class ElmoVectors(NamedTuple):
    """What the biLM gives a task.

    Attributes:
        inputs: (B, T, W) what the task's network reads: a mix, or the token layer.
        outputs: (B, T, 2P) the mix that goes beside what the network gives, or None.
        words: (B, T) bool, True at words other than `<S>` and `</S>`.
        hidden_states: on request the biLM's layers.
    """

    inputs: Tensor
    outputs: Tensor | None
    words: Tensor
    hidden_states: tuple[Tensor, ...] | None


class ElmoTaskModel(ElmoPreTrainedModel):
    """A biLM under a task's layers.

    Args:
        config: `freeze_bilm`, `elmo_dropout`, `elmo_placement` and the mix's options are read here.
        has_network: whether the task has a network between ELMo and its classifier.

    Raises:
        ValueError: ELMo at the output of a network that is not there.
    """

    # The losses are means over a call; Trainer must not divide them once more when it accumulates gradients.
    accepts_loss_kwargs = False
    # What gives the words' vectors; a baseline has something simpler.
    vectors_class: type[nn.Module] = ElmoModel

    def __init__(self, config: ElmoConfig, *, has_network: bool) -> None:
        super().__init__(config)
        assert config.num_labels is not None
        self.num_labels: int = config.num_labels
        if config.elmo_placement != "input" and not has_network:
            raise ValueError(
                f"elmo_placement: got {config.elmo_placement!r} for a classifier right on ELMo; expected 'input', or a "
                "network to stand beside: set classifier_num_layers to 1 or more."
            )
        self.elmo = self.vectors_class(config)
        self.output_scalar_mix = ScalarMix(config) if config.elmo_placement == "both" else None
        # Width of what the network reads, and of what stands beside its output.
        self.input_size = config.projection_size if config.elmo_placement == "output" else config.hidden_size
        self.beside_size = 0 if config.elmo_placement == "input" else config.hidden_size

    def post_init(self) -> None:
        """As in the base class, and freeze what is not trained."""
        super().post_init()
        self.freeze_as_configured()

    def freeze_as_configured(self) -> None:
        """Stop training what the configuration says is not trained."""
        super().freeze_as_configured()
        if self.config.freeze_bilm:
            self.freeze_bilm()

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, nn.LSTM | nn.GRU):
            for name, parameter in module.named_parameters():
                if name.startswith("weight_ih"):
                    init.xavier_uniform_(parameter)
                elif name.startswith("weight_hh"):
                    init.orthogonal_(parameter)
                else:
                    init.zeros_(parameter)
        elif isinstance(module, CRF):
            for parameter in module.parameters():
                init.uniform_(parameter, -0.1, 0.1)
        elif isinstance(module, nn.Linear):
            init.xavier_uniform_(module.weight)
            if module.bias is not None:
                init.zeros_(module.bias)
        else:
            super()._init_weights(module)

    def read(self, character_ids: Tensor, words: Tensor, **kwargs: Any) -> ElmoVectors:
        """Run the biLM once, and mix its layers for the task.

        Args:
            character_ids: as in [`ElmoModel.forward`].
            words: True at words, boundaries included.
            kwargs: for [`ElmoModel.forward`].

        Shape:
            character_ids (B, T, C), words (B, T) bool
        """
        wanted = kwargs.pop("output_hidden_states", None)
        if wanted is None:
            wanted = bool(self.config.output_hidden_states)
        placement = self.config.elmo_placement
        output = self.elmo(
            character_ids,
            attention_mask=words,
            output_hidden_states=wanted if placement == "input" else True,
            return_dict=True,
            **kwargs,
        )
        mix, layers, beside = output.last_hidden_state, output.hidden_states, None
        if placement == "output":
            mix, beside = layers[0][..., : self.input_size], mix  # (B, T, P), (B, T, 2P)
        elif self.output_scalar_mix is not None:
            beside = self.output_scalar_mix(layers, words)  # (B, T, 2P)
        return ElmoVectors(
            inputs=self._dropped(mix),
            outputs=None if beside is None else self._dropped(beside),
            words=words & ~boundaries_of(character_ids),
            hidden_states=layers if placement == "input" else _selected(layers, wanted),
        )

    def with_penalty(self, loss: Tensor) -> Tensor:
        """The loss and λ‖w‖² of every mix."""
        for module in self.modules():
            if isinstance(module, ScalarMix) and module.l2:
                loss = loss + module.penalty()
        return loss

    def _dropped(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.config.elmo_dropout, self.training)


def beside(x: Tensor, outputs: Tensor | None) -> Tensor:
    """What a network gives, with ELMo beside it where ELMo goes to the output.

    Shape:
        x (B, T, W), outputs (B, T, 2P) or None → (B, T, W + 2P) or (B, T, W)
    """
    return x if outputs is None else torch.cat([x, outputs], dim=-1)


def check_labels(name: str, labels: Tensor, *, shape: torch.Size, count: int) -> None:
    """Check class numbers.

    Args:
        name: of the argument.
        labels: class numbers; -100 is ignored.
        shape: the shape that they should have.
        count: how many classes there are.

    Raises:
        ValueError: another shape, or a number that is no class.
    """
    if labels.shape != shape:
        raise ValueError(f"{name}: got shape {tuple(labels.shape)}; expected {tuple(shape)}.")
    if torch.compiler.is_compiling():  # values are not known yet
        return
    wrong = labels[(labels != IGNORED) & ((labels < 0) | (labels >= count))]
    if len(wrong):
        raise ValueError(f"{name}: got {int(wrong[0])}; expected 0 to {count - 1}, or {IGNORED} for none.")


def _selected(layers: tuple[Tensor, ...], wanted: bool | int | list[int]) -> tuple[Any, ...] | None:
    """The layers that were asked for, as transformers returns them: all, none, or None in place of the others."""
    if isinstance(wanted, bool):
        return layers if wanted else None
    indices = {index % len(layers) for index in ([wanted] if isinstance(wanted, int) else wanted)}
    return tuple(layer if number in indices else None for number, layer in enumerate(layers))
