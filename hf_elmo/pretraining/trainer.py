"""Pretraining with transformers' Trainer: streams with truncated backpropagation through time, or whole sentences."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset
from transformers import Trainer, TrainerState, TrainingArguments
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_utils import TrainOutput, get_last_checkpoint, rotate_checkpoints

from hf_elmo.initial_state import ElmoState
from hf_elmo.modeling_elmo import ElmoForPreTraining, ElmoForPreTrainingOutput
from hf_elmo.ordinary_file import save_file
from hf_elmo.perplexity import perplexity
from hf_elmo.pretraining.checkpoint_error import unwritten_checkpoint
from hf_elmo.pretraining.machine_limit import MachineLimit
from hf_elmo.pretraining.sentence_batches import SentenceBatches
from hf_elmo.pretraining.sparse_gradient import (
    average_over_processes,
    begin_sparse_gradients,
    clip_gradients,
    start_alike,
)
from hf_elmo.pretraining.streams import StreamBatches

Batch = Mapping[str, np.ndarray]

_SECONDS = "training_seconds"
WRITING = ".writing"
_AS_THEY_ARE = ("labels", "backward_labels", "attention_mask")


class StreamDataset(IterableDataset):
    """Streams or sentences as what a `DataLoader` reads."""

    def __init__(self, streams: StreamBatches | SentenceBatches) -> None:
        self.streams = streams

    def __iter__(self) -> Iterator[dict[str, Tensor]]:
        return map(model_inputs, self.streams)


def model_inputs(batch: Batch) -> dict[str, Tensor]:
    """The model's arguments for one batch, whose words come as rows of a table of distinct words.

    Shape:
        distinct_character_ids (N, C), distinct_index, labels (B, T), of streams backward_distinct_index,
        backward_labels (B, T), of sentences attention_mask (B, T)
        → character_ids (B, T, C), labels (B, T), of streams backward_character_ids (B, T, C), backward_labels (B, T),
        of sentences attention_mask (B, T)
    """
    rows = torch.from_numpy(batch["distinct_character_ids"])
    inputs = {name: torch.from_numpy(batch[name]) for name in _AS_THEY_ARE if name in batch}
    inputs["character_ids"] = rows[torch.from_numpy(batch["distinct_index"])]
    if "backward_distinct_index" in batch:
        inputs["backward_character_ids"] = rows[torch.from_numpy(batch["backward_distinct_index"])]
    return inputs


class BiLMTrainer(Trainer):
    """A Trainer whose rows are streams: the LSTM state goes on from batch to batch, and gradients stop at the edge.

    Each process reads streams of its own and keeps their state; both are part of a checkpoint, which is written beside
    its place and renamed when complete.  A run resumed from a checkpoint goes on bit by bit as it would have.

    With `SentenceBatches` instead, each sentence is read by itself from the model's initial state.  Batches then differ
    in their number of words, and the loss of an update is the mean over the words of all its batches and processes.

    Args:
        model: the biLM.
        args: transformers' arguments; `max_steps` is required, streams have no end.
        streams: this process's share of the training text, as streams or as sentences.
        heldout: per name a function that begins a pass over held-out text.
        loss_scale: factor on the loss whose gradient is taken; the reference's is the number of unrolled steps, which
            matters to Adagrad and to clipping.  The logged loss is without it, the logged norm of the gradient with it.
        sparse_softmax_gradient: let a sampled softmax give gradients of the rows it has read only.
        kwargs: as in Trainer.

    Raises:
        ValueError: no number of updates, several GPUs in one process, or an optimiser that takes no sparse gradient.
    """

    def __init__(
        self,
        *,
        model: ElmoForPreTraining,
        args: TrainingArguments,
        streams: StreamBatches | SentenceBatches,
        heldout: Mapping[str, Callable[[], Iterable[Batch]]] | None = None,
        loss_scale: float = 1.0,
        sparse_softmax_gradient: bool = False,
        **kwargs: Any,
    ) -> None:
        _check_arguments(args)
        # Resuming sets the streams themselves; replaying them from their start would read them twice.
        args.ignore_data_skip = True
        args.remove_unused_columns = False
        self.streams = streams
        self.heldout = dict(heldout or {})
        # Before Trainer wraps the model for several processes.
        self._sparse = begin_sparse_gradients(model, args) if sparse_softmax_gradient else []
        # Trainer wants to see an evaluation set; `evaluate` reads `heldout` itself.
        super().__init__(model=model, args=args, eval_dataset=self.heldout or None, **kwargs)
        vars(model.config).pop("use_cache", None)  # Trainer sets it for every model, and it would be saved
        self.loss_scale = loss_scale
        self.machine_limit: MachineLimit | None = None  # set to have the log tell the share of it that is reached
        self._state: ElmoState | None = None
        self._output_dir: str | None = None
        self._started = self._last_log = time.perf_counter()
        self._seconds_before = 0.0
        self._words_since_log = 0

    def get_train_dataloader(self) -> DataLoader:
        """Batches as the streams give them: neither collated nor shared out among processes once more.

        None is read in advance, so that between two updates the streams stand where training does.
        """
        # Its own generator: a loader draws a seed, and from torch's a resumed run would draw one time more.
        return DataLoader(StreamDataset(self.streams), batch_size=None, generator=torch.Generator())

    def create_scheduler(
        self, num_training_steps: int, optimizer: torch.optim.Optimizer | None = None
    ) -> torch.optim.lr_scheduler.LRScheduler:
        """As in Trainer; a decay that is longer than a short run begins right after its warm-up, at the full rate."""
        options = self.args.lr_scheduler_kwargs
        room = max(1, num_training_steps - self.args.get_warmup_steps(num_training_steps))
        if isinstance(options, dict) and options.get("num_decay_steps", 0) > room:
            self.args.lr_scheduler_kwargs = {**options, "num_decay_steps": room}
        return super().create_scheduler(num_training_steps, optimizer)

    @property
    def _carries_state(self) -> bool:
        return not isinstance(self.streams, SentenceBatches)

    def get_batch_samples(self, *args: Any, **kwargs: Any) -> tuple[list[dict[str, Tensor]], int]:
        """The batches of one update, and how many words they predict in each direction, over all processes."""
        batches, _ = super().get_batch_samples(*args, **kwargs)
        predictions = sum(map(_predictions, batches))
        if self._carries_state:
            total = predictions * self.args.world_size
        else:
            total = int(self.accelerator.gather(torch.tensor([predictions], device=self.args.device)).sum())
        self._words_since_log += total
        return batches, total

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Any = None,
    ) -> Any:
        """The scaled loss; keeps the state of streams for the next batch.

        Trainer takes the mean over the batches of an update, which is the one over their words once each batch is
        weighted by its share of the words.
        """
        output: ElmoForPreTrainingOutput = model(**inputs, state=self._state)
        share = 1.0
        if self._carries_state:
            assert output.state is not None
            self._state = output.state.detach()
        elif num_items_in_batch:
            batches = self.current_gradient_accumulation_steps * self.args.world_size
            share = _predictions(inputs) * batches / num_items_in_batch
        loss = output["loss"] * (self.loss_scale * share)
        return (loss, output) if return_outputs else loss

    def training_step(self, *args: Any, **kwargs: Any) -> Tensor:
        """One forward and backward pass; returns the loss without `loss_scale`, for the log.

        Raises:
            FloatingPointError: the loss is no number; nothing is updated or saved any more.
        """
        loss = super().training_step(*args, **kwargs) / self.loss_scale
        if not torch.isfinite(loss):
            raise FloatingPointError(self._diverged(f"a loss of {loss.item()} at update {self.state.global_step + 1}"))
        if self.accelerator.sync_gradients:  # the last batch of an update
            average_over_processes(self._sparse, self.accelerator)
        return loss

    def _clip_grad_norm(self, model: nn.Module) -> Any:
        if self._sparse:
            return clip_gradients(model, self.args.max_grad_norm, self.accelerator)
        return super()._clip_grad_norm(model)

    def _get_grad_norm(self, model: nn.Module, grad_norm: Any = None) -> Any:
        if self._sparse and grad_norm is None:
            grad_norm = clip_gradients(model, float("inf"), self.accelerator)
        return super()._get_grad_norm(model, grad_norm=grad_norm)

    def floating_point_ops(self, inputs: dict[str, Any]) -> int:
        """0, for "not counted": Trainer's estimate would take every character for a word."""
        return 0

    def evaluate(
        self, eval_dataset: Any = None, ignore_keys: list[str] | None = None, metric_key_prefix: str = "eval"
    ) -> dict[str, float]:
        """Perplexity of every held-out text by the exact softmax: average, forward and backward.

        `eval_loss` is the mean of the texts' losses in nats per word, for what wants a single number.
        """
        model = self.accelerator.unwrap_model(self.model)
        results = {name: perplexity(model, map(model_inputs, batches())) for name, batches in self.heldout.items()}
        metrics: dict[str, float] = {}
        for name, result in results.items():
            metrics[f"{metric_key_prefix}_{name}_perplexity"] = result.average
            metrics[f"{metric_key_prefix}_{name}_forward_perplexity"] = result.forward
            metrics[f"{metric_key_prefix}_{name}_backward_perplexity"] = result.backward
        if results:
            metrics[f"{metric_key_prefix}_loss"] = float(
                np.mean([np.log(result.average) for result in results.values()])
            )
        self.log(dict(metrics))
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Adds the speed and the time, the epochs of the text, and which softmax the training loss belongs to."""
        if "loss" in logs:
            softmax = self.accelerator.unwrap_model(self.model).lm_head.training_softmax
            logs = {f"{softmax}_softmax_loss": logs["loss"], **logs}
            now = time.perf_counter()
            logs["words"] = self.state.global_step * self.words_per_update
            logs["words_per_second"] = round(self._words_since_log / (now - self._last_log), 1)
            if self.machine_limit is not None:
                share = self.machine_limit.share(logs["words_per_second"])
                logs["share_of_machine_limit"] = float(f"{share:.4g}")  # tiny for a tiny model
            logs[_SECONDS] = round(self.training_seconds, 1)
            self._last_log, self._words_since_log = now, 0
        # To Trainer the whole run is one epoch, and a resumed one begins at 0 again.
        self.state.epoch = self.streams.epoch
        super().log(logs, start_time)

    @property
    def words_per_update(self) -> int:
        """In each direction, over all processes and accumulated batches; of sentences on average."""
        batches = self.args.gradient_accumulation_steps * self.args.world_size
        return round(self.streams.predictions_per_batch * batches)

    @property
    def training_seconds(self) -> float:
        """Time since the start, evaluation and checkpoints included; of earlier runs what led to the checkpoint."""
        return self._seconds_before + time.perf_counter() - self._started

    def train(
        self,
        resume_from_checkpoint: str | bool | None = None,
        trial: Any = None,
        ignore_keys_for_eval: list[str] | None = None,
    ) -> TrainOutput:
        """As in Trainer; True resumes from the last checkpoint of the output folder.

        Raises:
            FileNotFoundError: no checkpoint, or one of another number of processes.
            ValueError: a checkpoint of other text or settings.
            FloatingPointError: the loss is no number.
        """
        if self.args.world_size > 1:
            start_alike(self._sparse)
        self._started = self._last_log = time.perf_counter()
        if not resume_from_checkpoint:
            return super().train(None, trial, ignore_keys_for_eval)
        checkpoint = self._checkpoint(resume_from_checkpoint)
        self._load_streams(checkpoint)
        state = TrainerState.load_from_json(str(checkpoint / TRAINER_STATE_NAME))
        self._seconds_before = max((entry.get(_SECONDS, 0.0) for entry in state.log_history), default=0.0)
        if state.global_step >= self.args.max_steps:  # Trainer would make one more update
            best = state.best_model_checkpoint if self.args.load_best_model_at_end else None
            self._load_from_checkpoint(best or str(checkpoint))
            self.state = state
            return TrainOutput(state.global_step, 0.0, {})
        return super().train(str(checkpoint), trial, ignore_keys_for_eval)

    @property
    def _output_folder(self) -> Path:
        return Path(self.args.output_dir or ".")

    def last_checkpoint(self) -> str | None:
        """The folder of the last complete checkpoint, or None."""
        return get_last_checkpoint(self._output_folder) if self._output_folder.is_dir() else None

    def _checkpoint(self, resume_from: str | bool) -> Path:
        found = self.last_checkpoint() if resume_from is True else str(resume_from)
        if found is None or not (Path(found) / TRAINER_STATE_NAME).is_file():
            raise FileNotFoundError(
                f"resume_from_checkpoint: got {found or str(self._output_folder)!r}, which holds no checkpoint; "
                "expected the output folder of an earlier run (true), or one of its folders checkpoint-N."
            )
        return Path(found)

    def _load_streams(self, checkpoint: Path) -> None:
        """Where this process's text stood, and of streams the LSTM state that belongs there."""
        tensors_file, cursor_file = self._stream_files(checkpoint)
        files = (tensors_file, cursor_file) if self._carries_state else (cursor_file,)
        if cursor_file.is_file():
            self.streams.load_state_dict(json.loads(cursor_file.read_text(encoding="utf-8")))
        if not all(file.is_file() for file in files):
            raise FileNotFoundError(
                f"{checkpoint}: holds no streams of process {self.args.process_index} of {self.args.world_size}; "
                "resume with as many processes as it was saved with."
            )
        if self._carries_state:
            tensors = load_file(tensors_file)
            self._state = ElmoState(*(tensors[name].to(self.args.device) for name in ElmoState._fields))

    def _save_streams(self, checkpoint: Path) -> None:
        tensors_file, cursor_file = self._stream_files(checkpoint)
        if self._state is not None:
            save_file({name: value.contiguous() for name, value in self._state._asdict().items()}, tensors_file)
        cursor_file.write_text(json.dumps(self.streams.state_dict()), encoding="utf-8")

    def _stream_files(self, checkpoint: Path) -> tuple[Path, Path]:
        rank = self.args.process_index
        return checkpoint / f"stream_state-{rank}.safetensors", checkpoint / f"stream_cursor-{rank}.json"

    def _get_output_dir(self, trial: Any) -> str:
        return self._output_dir or super()._get_output_dir(trial)

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        """Trainer's checkpoint and the streams, written into a folder beside and moved when all of it is there."""
        writing = self._output_folder / WRITING
        name = f"checkpoint-{self.state.global_step}"
        with unwritten_checkpoint(name, writing, last_checkpoint=self.last_checkpoint):
            self._write_checkpoint(model, trial, writing / name)

    def _write_checkpoint(self, model: nn.Module, trial: Any, written: Path) -> None:
        writing, name, output_dir = written.parent, written.name, self._output_folder
        if self.args.should_save:
            shutil.rmtree(writing, ignore_errors=True)
        self.accelerator.wait_for_everyone()
        self._output_dir = str(writing)
        try:
            super()._save_checkpoint(model, trial)
        finally:
            self._output_dir = None
        self._save_streams(writing / name)
        self.accelerator.wait_for_everyone()
        if self.state.best_model_checkpoint == str(writing / name):
            self.state.best_model_checkpoint = str(output_dir / name)
        if self.args.should_save:
            self.state.save_to_json(str(writing / name / TRAINER_STATE_NAME))
            shutil.rmtree(output_dir / name, ignore_errors=True)
            (writing / name).rename(output_dir / name)
            shutil.rmtree(writing)
            rotate_checkpoints(
                str(output_dir),
                save_total_limit=self.args.save_total_limit,
                best_model_checkpoint=self.state.best_model_checkpoint,
            )
        self.accelerator.wait_for_everyone()

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """As in Trainer.

        Raises:
            FloatingPointError: a parameter is no number; nothing was written.
        """
        self._check_parameters()
        super().save_model(output_dir, _internal_call)

    def save_result(self) -> None:
        """Write the model and the tokenizer to the output folder, none of the files before all are complete.

        Raises:
            FloatingPointError: a parameter is no number; nothing was written.
            CheckpointError: they could not be written; the folder is as it was.
        """
        writing = self._output_folder / WRITING
        with unwritten_checkpoint("the result", writing, last_checkpoint=self.last_checkpoint):
            if self.args.should_save:  # what a killed run left there
                shutil.rmtree(writing, ignore_errors=True)
            self.accelerator.wait_for_everyone()
            self.save_model(str(writing))
            if self.args.should_save:
                for file in writing.iterdir():
                    file.replace(self._output_folder / file.name)
                writing.rmdir()

    def _check_parameters(self) -> None:
        """A gradient may have been none after a loss that was a number."""
        for name, parameter in self.accelerator.unwrap_model(self.model).named_parameters():
            if not torch.isfinite(parameter).all():
                raise FloatingPointError(
                    self._diverged(f"values of {name} that are no numbers after update {self.state.global_step}")
                )

    def _diverged(self, got: str) -> str:
        last = self.last_checkpoint()
        resume = "There is no checkpoint yet" if last is None else f"The last usable checkpoint is {last}"
        return (
            f"training diverged: got {got}.  {resume}; resume with a lower max_grad_norm, or start again with a lower "
            "learning_rate (a checkpoint keeps its own)."
        )


def _predictions(batch: Mapping[str, Tensor]) -> int:
    """Words that a batch predicts in each direction."""
    mask = batch.get("attention_mask")
    if mask is None:
        return batch["labels"].numel()
    return int(mask.sum()) - len(mask)  # every word but the one that the direction begins with


def _check_arguments(args: TrainingArguments) -> None:
    if args.max_steps <= 0:
        raise ValueError(f"max_steps: got {args.max_steps}; expected the number of updates, since streams have no end.")
    if args.n_gpu > 1:
        raise ValueError(
            f"got {args.n_gpu} GPUs for one process; expected one each, since every process keeps the state of its own "
            f"streams: start with `torchrun --nproc_per_node {args.n_gpu}`, or choose one by CUDA_VISIBLE_DEVICES."
        )
    if args.auto_find_batch_size:
        raise ValueError("auto_find_batch_size: got true; expected false, since the streams are there before training.")
    if args.push_to_hub:
        raise ValueError(
            "push_to_hub: got true; expected false.  Upload the folder that `hf-elmo publish` makes of the run."
        )
    for option in ("save_strategy", "eval_strategy", "logging_strategy"):
        if str(getattr(args, option).value) == "epoch":
            raise ValueError(
                f'{option}: got "epoch"; expected "steps" or "no", since streams run on over their epochs.'
            )
