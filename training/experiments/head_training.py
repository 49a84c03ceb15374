"""Training a head for a number of words by transformers' Trainer, and its predictions."""

import math
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from transformers import Trainer, TrainingArguments
from transformers.trainer_callback import PrinterCallback

from experiments.clock import clock
from experiments.feature_heads import collate

Example = dict[str, Tensor]
_EVALUATION_WORDS = 4096


class Training(NamedTuple):
    """What it took."""

    steps: int
    words: int
    seconds: float


def train_head(
    model: nn.Module,
    examples: Sequence[Example],
    *,
    words: int,
    batch_size: int,
    learning_rate: float,
    seed: int,
    device: str,
) -> Training:
    """Adam, a learning rate that falls to 0, and no more words than were asked for; nothing is selected.

    Args:
        model: a head, in evaluation mode afterwards.
        examples: rows with character_ids and labels.
        words: to be read in training.
        batch_size: rows a step.
        learning_rate: of the first step.
        seed: of the rows' order and of dropout.
        device: "cpu" or "cuda".
    """
    mean = sum(len(example["character_ids"]) for example in examples) / len(examples)
    steps = max(1, math.ceil(words / (batch_size * mean)))
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            max_steps=steps,
            per_device_train_batch_size=batch_size,
            learning_rate=learning_rate,
            optim="adamw_torch",
            weight_decay=0.0,
            max_grad_norm=5.0,
            seed=seed,
            use_cpu=device == "cpu",
            save_strategy="no",
            logging_strategy="no",
            report_to=[],
            disable_tqdm=True,
            remove_unused_columns=False,
            dataloader_pin_memory=device != "cpu",
        )
        rows: Any = list(examples)
        trainer = Trainer(model=model, args=arguments, train_dataset=rows, data_collator=collate)
        trainer.remove_callback(PrinterCallback)
        seconds = clock(device)
        start = seconds()
        trainer.train()
    model.eval()
    return Training(steps, round(steps * batch_size * mean), seconds() - start)


@torch.no_grad()
def predict(model: nn.Module, examples: Sequence[Example], *, device: str) -> Iterator[tuple[int, Any, int]]:
    """Every example's number, the output of its batch, and its row in it; examples of a length meet in a batch."""
    model.eval()
    for batch in _batches([len(example["character_ids"]) for example in examples]):
        rows = collate([{"character_ids": examples[number]["character_ids"]} for number in batch])
        output = model(**{name: value.to(device) for name, value in rows.items()})
        for row, number in enumerate(batch):
            yield number, output, row


def _batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    batch: list[int] = []
    for number in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and lengths[number] * (len(batch) + 1) > _EVALUATION_WORDS:
            yield batch
            batch = []
        batch.append(number)
    if batch:
        yield batch
