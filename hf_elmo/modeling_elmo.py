"""ELMo for transformers: the biLM, its scalar mix, and the language model that is pretrained."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import initialization as init
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_utils import PreTrainedModel
from transformers.processing_utils import Unpack
from transformers.utils import ModelOutput, TransformersKwargs, can_return_tuple
from transformers.utils.generic import merge_with_config_defaults
from transformers.utils.output_capturing import capture_outputs

from hf_elmo.adaptive_lm_head import AdaptiveLMHead
from hf_elmo.auto_map import FoundByAutoMap
from hf_elmo.character_cnn import CharacterCNN, Highway
from hf_elmo.configuration_elmo import ElmoConfig
from hf_elmo.initial_state import ElmoState, InitialState
from hf_elmo.lm_head import LMHead, check_word_ids
from hf_elmo.loaded_weights import (
    bilm_weights,
    readable_weights,
    refuse_offloaded,
    refuse_other_shapes,
    refuse_wrong,
)
from hf_elmo.ordinary_file import make_ordinary
from hf_elmo.projected_lstm import ProjectedLSTM
from hf_elmo.reading_order import ReadingOrder, ReadingOrders, reading_orders
from hf_elmo.scalar_mix import ScalarMix
from hf_elmo.stored_mix import choose_layers, load_as_saved


@dataclass
class ElmoModelOutput(ModelOutput):
    """Output of [`ElmoModel`].

    Attributes:
        last_hidden_state: (B, T, 2P) the scalar mix, or the top layer of a model without one; 0 at padding.
        hidden_states: on request L + 1 tensors (B, T, 2P): token layer twice, layer 1 .. L, forward half first.
        state: the LSTMs' final state, where a state was handed in or the configuration carries it.
    """

    last_hidden_state: Tensor | None = None
    hidden_states: tuple[Tensor, ...] | None = None
    state: ElmoState | None = None


@dataclass
class ElmoForPreTrainingOutput(ModelOutput):
    """Output of [`ElmoForPreTraining`].

    Attributes:
        loss: () mean of both directions' losses, in nats per word, if labels were given.
        forward_loss, backward_loss: () each direction's loss.
        forward_hidden_state, backward_hidden_state: (B, T, P) what the softmax reads.
        hidden_states: on request the biLM's layers.
        state: the LSTMs' final state.
    """

    loss: Tensor | None = None
    forward_loss: Tensor | None = None
    backward_loss: Tensor | None = None
    forward_hidden_state: Tensor | None = None
    backward_hidden_state: Tensor | None = None
    hidden_states: tuple[Tensor, ...] | None = None
    state: ElmoState | None = None


class ElmoLayer(GradientCheckpointingLayer):
    """One layer of the biLM: two LSTMs that never see each other, and the skip connection around both.

    Args:
        config: sizes and clips.
        skip: add the input to the output.
        dropout: probability, on the layer's input; the skip connection adds the dropped input, as in the reference.
    """

    def __init__(self, config: ElmoConfig, *, skip: bool, dropout: float) -> None:
        super().__init__()
        self.skip = skip
        self.dropout = dropout
        self.forward_lstm, self.backward_lstm = (
            ProjectedLSTM(
                projection_size=config.projection_size,
                lstm_size=config.lstm_size,
                cell_clip=config.cell_clip,
                projection_clip=config.projection_clip,
            )
            for _ in range(2)
        )

    def forward(
        self, hidden_states: Tensor, cell: Tensor, hidden: Tensor, orders: ReadingOrders | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Shape: hidden_states (B, T, 2P), cell (2, B, D), hidden (2, B, P) → the same three.

        Without `orders` each half is read from left to right to its end.
        """
        inputs = F.dropout(hidden_states, self.dropout, self.training)  # (B, T, 2P)
        forward_inputs, backward_inputs = inputs.chunk(2, dim=-1)  # (B, T, P) each
        forward, backward, step_mask = (orders.forward, orders.backward, orders.step_mask) if orders else (None,) * 3
        forward_outputs, forward_cell, forward_hidden = _run(
            self.forward_lstm, forward_inputs, cell[0], hidden[0], forward, step_mask
        )
        backward_outputs, backward_cell, backward_hidden = _run(
            self.backward_lstm, backward_inputs, cell[1], hidden[1], backward, step_mask
        )
        outputs = torch.cat([forward_outputs, backward_outputs], dim=-1)  # (B, T, 2P)
        if self.skip:
            outputs = outputs + inputs
        if orders is not None:
            outputs = outputs * orders.mask.unsqueeze(-1)
        return (
            outputs,
            torch.stack([forward_cell, backward_cell]),
            torch.stack([forward_hidden, backward_hidden]),
        )


def _run(
    lstm: ProjectedLSTM,
    inputs: Tensor,
    cell: Tensor,
    hidden: Tensor,
    order: ReadingOrder | None,
    step_mask: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """One direction in its reading order; outputs back in the order of the positions."""
    if order is None:
        return lstm(inputs, cell, hidden)
    outputs, cell, hidden = lstm(order.read(inputs), cell, hidden, step_mask)
    return order.put_back(outputs), cell, hidden


class ElmoPreTrainedModel(FoundByAutoMap, PreTrainedModel):
    """What all ELMo models share: configuration, names, initialisation, freezing."""

    config: ElmoConfig
    config_class = ElmoConfig
    base_model_prefix = "elmo"
    main_input_name = "character_ids"
    supports_gradient_checkpointing = True
    _no_split_modules = ["ElmoLayer"]
    _can_record_outputs = {"hidden_states": ElmoLayer}
    # A pretrained biLM has no mix of its own; its untrained value is the plain average.
    _keys_to_ignore_on_load_missing = [r"scalar_mix\."]
    _keys_to_ignore_on_load_unexpected = [r"^lm_head\.", r"scalar_mix\."]

    @classmethod
    def is_custom_code(cls) -> bool:
        """False: initial values are written with transformers' own functions, which spare loaded parameters.

        Of code outside transformers it assumes otherwise, and then passes over every module that has no parameter of
        its own, such as the LSTMs, leaving them with the values of plain linear layers.
        """
        return False

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: Any, *args: Any, **kwargs: Any) -> Any:
        """As in the base class, but what is frozen stays frozen, and no weight of the biLM stays at a random value.

        The base class makes every parameter trainable, and initialises those that a file has not or has in another
        shape.  With `output_loading_info=True` the caller is told of these instead.

        Where `mix_layers` are others than the model was saved with, a trained mix keeps the weights of those that it
        has, and an untrained one starts as their average.

        Raises:
            OSError: no such model.
            ValueError: one of another kind, with a damaged file, or whose weights do not fit its configuration; a
                trained mix without a layer of `mix_layers`; a `device_map` that leaves a part on the disk.
        """
        source = pretrained_model_name_or_path
        report_wanted = kwargs.pop("output_loading_info", False)
        other_shapes_wanted = kwargs.pop("ignore_mismatched_sizes", False)
        assert cls.config_class is not None
        options, other_layers = load_as_saved(cls.config_class, source, kwargs)
        with readable_weights(source):
            loaded: Any = super().from_pretrained(
                source, *args, output_loading_info=True, ignore_mismatched_sizes=True, **options
            )
        model, report = loaded
        if source is not None and not report_wanted:
            mismatched = set() if other_shapes_wanted else {name for name, *_ in report["mismatched_keys"]}
            refuse_wrong(source, bilm_weights({*report["missing_keys"], *mismatched}, cls.base_model_prefix))
            refuse_other_shapes(source, mismatched)
        if other_layers is not None:
            anew = other_shapes_wanted or report_wanted
            num_layers = model.config.num_hidden_layers + 1
            report["mismatched_keys"] |= choose_layers(
                model, other_layers, num_layers=num_layers, source=source, anew=anew
            )
        refuse_offloaded(getattr(model, "hf_device_map", {}))
        model.freeze_as_configured()
        return (model, report) if report_wanted else model

    def save_pretrained(self, save_directory: str | os.PathLike[str], *args: Any, **kwargs: Any) -> None:
        """As in the base class, but the weights have the permissions of the other files.

        Raises:
            ValueError: an option of the configuration outside its range; then nothing is written.
        """
        self.config.check()
        super().save_pretrained(save_directory, *args, **kwargs)
        make_ordinary(*Path(save_directory).glob("model*.safetensors"))

    def freeze_as_configured(self) -> None:
        """Stop training what the configuration says is not trained."""
        for module in self.modules():
            if isinstance(module, ScalarMix):
                module.requires_grad_(self.config.mix_trainable)

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """The reference's initial values (bilm-tf), on modules whose children were initialised before."""
        if isinstance(module, CharacterCNN):
            self._init_character_cnn(module)
        elif isinstance(module, Highway):
            std = module.carry.in_features**-0.5
            init.normal_(module.carry.weight, std=std)
            init.normal_(module.transform.weight, std=std)
            init.constant_(module.carry.bias, -2.0)  # mostly pass-through
            init.zeros_(module.transform.bias)
        elif isinstance(module, ProjectedLSTM):
            init.xavier_uniform_(module.gates.weight)
            init.zeros_(module.gates.bias)
            if module.projection is not None:
                init.xavier_uniform_(module.projection.weight)
        elif isinstance(module, ScalarMix):
            init.zeros_(module.weights)
            init.ones_(module.gamma)
        elif isinstance(module, LMHead):
            init.normal_(module.weight, std=self.config.projection_size**-0.5)
            init.zeros_(module.bias)
        elif isinstance(module, AdaptiveLMHead):
            for linear in (module.adaptive.head, *module.adaptive.tail.modules()):
                if isinstance(linear, nn.Linear):
                    init.normal_(linear.weight, std=linear.in_features**-0.5)
            init.zeros_(module.adaptive.head.bias)
        elif isinstance(module, InitialState):
            for stored in module.buffers():
                init.zeros_(stored)
        else:
            super()._init_weights(module)

    def _init_character_cnn(self, module: CharacterCNN) -> None:
        if not getattr(module.embedding.weight, "_is_hf_initialized", False):
            init.uniform_(module.embedding.weight, -1.0, 1.0)
            module.embedding.weight[module.embedding.padding_idx].zero_()
        for convolution in module.convolutions:
            assert isinstance(convolution, nn.Conv1d)
            if self.config.character_activation == "relu":
                init.uniform_(convolution.weight, -0.05, 0.05)
            else:
                init.normal_(convolution.weight, std=(convolution.kernel_size[0] * convolution.in_channels) ** -0.5)
            assert convolution.bias is not None
            init.zeros_(convolution.bias)
        if module.projection is not None:
            init.normal_(module.projection.weight, std=module.projection.in_features**-0.5)
            init.zeros_(module.projection.bias)

    def resize_token_embeddings(self, *args: Any, **kwargs: Any) -> Any:
        """Refused: every word is spelled in characters, so that a new word needs no new row.

        Raises:
            ValueError: always.
        """
        raise ValueError(
            "resize_token_embeddings: ELMo has no embedding of words, and reads any word; leave the call out."
        )

    def freeze_bilm(self) -> None:
        """Stop training the biLM; the scalar mix and any head stay trainable."""
        for name, parameter in self.base_model.named_parameters():
            if not name.startswith("scalar_mix."):
                parameter.requires_grad_(False)


class ElmoModel(ElmoPreTrainedModel):
    """The biLM and the mix of its layers: character ids → one vector per word (Peters et al. 2018, section 3).

    The tokenizer adds `<S>` and `</S>`; the model neither adds nor strips them.

    Args:
        config: sizes and options.
        add_scalar_mix: make `last_hidden_state` the scalar mix of the layers, as a feature extractor.  Without it
            `last_hidden_state` is the top layer and the biLM has its dropout, as in a language model.
    """

    def __init__(self, config: ElmoConfig, add_scalar_mix: bool = True) -> None:
        super().__init__(config)
        dropout = 0.0 if add_scalar_mix else config.dropout
        self.character_cnn = CharacterCNN(config)
        self.layers = nn.ModuleList(
            ElmoLayer(config, skip=config.use_skip_connections and depth > 0, dropout=dropout)
            for depth in range(config.num_hidden_layers)
        )
        self.initial_state = InitialState(config)
        self.scalar_mix = ScalarMix(config) if add_scalar_mix else None
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        """The characters' embedding."""
        return self.character_cnn.embedding

    def set_input_embeddings(self, value: nn.Module) -> None:
        """Replace the characters' embedding."""
        assert isinstance(value, nn.Embedding)
        self.character_cnn.embedding = value

    @merge_with_config_defaults
    @capture_outputs(tie_last_hidden_states=False)
    def forward(
        self,
        character_ids: Tensor,
        attention_mask: Tensor | None = None,
        input_ids: Tensor | None = None,
        backward_character_ids: Tensor | None = None,
        state: ElmoState | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> ElmoModelOutput:
        """Compute the layers of every word.

        Args:
            character_ids: rows of character ids; a row of zeros is no word.
            attention_mask: 1 at words, 0 at padding, on any side; by default the rows that are not all zero.
            input_ids: word ids; accepted, since the tokenizer returns them too, and not read.
            backward_character_ids: where the backward direction reads a stream of its own, already in its reading
                order; then no row is padded.
            state: the state before the first word, instead of the configured one.

        Shape:
            character_ids (B, T, C), attention_mask (B, T), input_ids (B, T), backward_character_ids (B, T, C)

        Raises:
            ValueError: an argument of another shape.
        """
        self._check_shapes(character_ids, attention_mask, backward_character_ids, state)
        if backward_character_ids is None:
            mask = words_of(character_ids, attention_mask)  # (B, T)
            orders = reading_orders(mask)
            token_layer = self.character_cnn(character_ids)  # (B, T, P)
            hidden_states = torch.cat([token_layer, token_layer], dim=-1) * mask.unsqueeze(-1)  # (B, T, 2P)
        else:
            mask, orders = character_ids.new_ones(character_ids.shape[:2], dtype=torch.bool), None
            token_layers = self.character_cnn(torch.stack([character_ids, backward_character_ids]))  # (2, B, T, P)
            hidden_states = torch.cat(token_layers.unbind(), dim=-1)  # (B, T, 2P)

        return_state = state is not None or self.config.initial_state == "carry"
        if state is None:
            state = self.initial_state(character_ids.shape[0], like=hidden_states)
        layers, final_cells, final_hiddens = [hidden_states], [], []
        for layer, cell, hidden in zip(self.layers, state.cell.unbind(), state.hidden.unbind(), strict=True):
            hidden_states, cell, hidden = layer(hidden_states, cell, hidden, orders)
            layers.append(hidden_states)
            final_cells.append(cell)
            final_hiddens.append(hidden)

        return ElmoModelOutput(
            last_hidden_state=hidden_states if self.scalar_mix is None else self.scalar_mix(layers, mask),
            state=ElmoState(torch.stack(final_cells), torch.stack(final_hiddens)) if return_state else None,
        )

    def _check_shapes(
        self,
        character_ids: Tensor,
        attention_mask: Tensor | None,
        backward_character_ids: Tensor | None,
        state: ElmoState | None,
    ) -> None:
        length = self.config.max_characters_per_word
        if character_ids.dim() != 3 or character_ids.shape[-1] != length:
            raise ValueError(
                f"character_ids: got shape {tuple(character_ids.shape)}; expected (batch, words, {length}), as "
                "ElmoTokenizer returns under the same name (its input_ids are word ids)."
            )
        if character_ids.shape[1] == 0 or character_ids.is_floating_point():
            raise ValueError(
                f"character_ids: got shape {tuple(character_ids.shape)} of {character_ids.dtype}; expected integers, "
                "and at least one word (the boundaries count)."
            )
        words = character_ids.shape[:2]
        if attention_mask is not None and attention_mask.shape != words:
            raise ValueError(
                f"attention_mask: got shape {tuple(attention_mask.shape)}; expected {tuple(words)}, one entry a word."
            )
        if backward_character_ids is not None and backward_character_ids.shape != character_ids.shape:
            raise ValueError(
                f"backward_character_ids: got shape {tuple(backward_character_ids.shape)}; expected that of "
                f"character_ids, {tuple(character_ids.shape)}."
            )
        if state is not None and state.batch_size != words[0]:
            raise ValueError(
                f"state: got one of {state.batch_size} rows; expected {words[0]}, the batch size "
                "(CarriedState matches rows between batches of different sizes)."
            )


class ElmoForPreTraining(ElmoPreTrainedModel):
    """The biLM with its softmax over words: the joint forward and backward likelihood (section 3.1).

    Args:
        config: sizes and options; `vocab_size`, `lm_softmax` with its options, and `dropout` act here only.
    """

    # The loss is a mean over this call's words; Trainer must not divide it once more when it accumulates gradients.
    accepts_loss_kwargs = False

    def __init__(self, config: ElmoConfig) -> None:
        super().__init__(config)
        self.elmo = ElmoModel(config, add_scalar_mix=False)
        self.lm_head = AdaptiveLMHead(config) if config.lm_softmax == "adaptive" else LMHead(config)
        self.post_init()

    def get_output_embeddings(self) -> None:
        """None: the head has a row per word and the input one per character, so they are neither tied nor resized."""
        return None

    @can_return_tuple
    def forward(
        self,
        character_ids: Tensor,
        attention_mask: Tensor | None = None,
        input_ids: Tensor | None = None,
        labels: Tensor | None = None,
        backward_character_ids: Tensor | None = None,
        backward_labels: Tensor | None = None,
        state: ElmoState | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> ElmoForPreTrainingOutput:
        """Loss of predicting each word from the words before it, and from those after it.

        Args:
            character_ids, attention_mask, input_ids, state: as in [`ElmoModel.forward`].
            labels: word ids; 0 and negative ones are ignored.  Without `backward_character_ids` these are the words of
                `character_ids` themselves, boundaries included, and the shift by one word happens here.
            backward_character_ids: a stream of its own for the backward direction, already reversed.  Then `labels` and
                `backward_labels` hold, for each position, the word id that its direction reads next.
            backward_labels: see above.

        Shape:
            labels, backward_labels (B, T)

        Raises:
            ValueError: backward ids without backward labels or the reverse; an argument of another shape; a label that
                is no word of the vocabulary.
        """
        if labels is not None and (backward_character_ids is None) != (backward_labels is None):
            raise ValueError(
                "backward_labels: expected together with backward_character_ids, since a stream of its own has words "
                f"of its own; got backward_character_ids {_presence(backward_character_ids)} and backward_labels "
                f"{_presence(backward_labels)}."
            )
        for name, ids in (("labels", labels), ("backward_labels", backward_labels)):
            if ids is not None:
                check_word_ids(name, ids, shape=character_ids.shape[:2], vocab_size=self.config.vocab_size)
        if state is None:
            state = self.elmo.initial_state(character_ids.shape[0], like=next(self.elmo.parameters()))
        output = self.elmo(
            character_ids,
            attention_mask=attention_mask,
            backward_character_ids=backward_character_ids,
            state=state,
            return_dict=True,
            **kwargs,
        )
        top = F.dropout(output.last_hidden_state, self.config.dropout, self.training)  # (B, T, 2P)
        forward_top, backward_top = top.chunk(2, dim=-1)  # (B, T, P) each
        forward_loss = backward_loss = loss = None
        if labels is not None:
            if backward_labels is None:
                forward_labels, backward_labels = neighbours(labels, words_of(character_ids, attention_mask))
            else:
                forward_labels = labels
            forward_loss = self.lm_head.loss(forward_top, forward_labels)
            backward_loss = self.lm_head.loss(backward_top, backward_labels)
            loss = 0.5 * (forward_loss + backward_loss)
        return ElmoForPreTrainingOutput(
            loss=loss,
            forward_loss=forward_loss,
            backward_loss=backward_loss,
            forward_hidden_state=forward_top,
            backward_hidden_state=backward_top,
            hidden_states=output.hidden_states,
            state=output.state,
        )


def words_of(character_ids: Tensor, attention_mask: Tensor | None) -> Tensor:
    """Where the words of a padded batch are, (B, T) bool: by the mask, else where a row of ids is not zero."""
    return (character_ids > 0).any(dim=-1) if attention_mask is None else attention_mask.bool()


def neighbours(labels: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """What each direction predicts at each word of whole sentences: the next word id and the previous one.

    -100 where there is none, and at padding, which no direction reads.

    Shape:
        labels (B, T), mask (B, T) True at words → (B, T), (B, T)
    """
    labels = labels.masked_fill(~mask, -100)
    none = labels.new_full((labels.shape[0], 1), -100)
    following, previous = torch.cat([labels[:, 1:], none], dim=1), torch.cat([none, labels[:, :-1]], dim=1)
    return following.masked_fill(~mask, -100), previous.masked_fill(~mask, -100)


def _presence(argument: Any) -> str:
    return "missing" if argument is None else "given"
