"""Run by `torchrun` for test_two_processes.py: one update of every case, and each process's parameters after it."""

import sys
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from transformers import TrainingArguments

from hf_elmo import ElmoForPreTraining
from hf_elmo.pretraining.sentence_batches import SentenceBatches
from hf_elmo.pretraining.shards import PreparedCorpus
from hf_elmo.pretraining.streams import StreamBatches
from hf_elmo.pretraining.text import training_text
from hf_elmo.pretraining.trainer import BiLMTrainer
from hf_elmo.sampled_softmax import Negatives
from tests.hf_elmo.models import randomise, tiny_config

ACCUMULATION, BATCH_SIZE, UNROLL_STEPS = 2, 3, 4
NEGATIVES = Negatives(torch.tensor([0, 1, 4, 6, 9]), num_tries=7)
SAMPLED = {"lm_softmax": "sampled", "num_negative_samples": 5}
ADAPTIVE = {"lm_softmax": "adaptive", "adaptive_cutoffs": [4, 30], "adaptive_div_value": 2}
# Configuration, how text is read, whether gradients are sparse, where they are clipped.
CASES: dict[str, tuple[dict[str, Any], Any, bool, float]] = {
    "streams": ({"lm_softmax": "full"}, "streams", False, 0.0),
    "sentences": ({"lm_softmax": "full"}, "sentences", False, 0.0),
    "adaptive": (ADAPTIVE, "sentences", False, 0.0),
    "sparse": (SAMPLED, "streams", True, 0.0),
    "sparse-clipped": (SAMPLED, "sentences", True, 0.05),
}


def model_of(prepared: PreparedCorpus, options: dict[str, Any], seed: int = 0) -> ElmoForPreTraining:
    model = ElmoForPreTraining(tiny_config(vocab_size=prepared.vocab_size + 1, dropout=0.0, **options))
    randomise(model, seed)
    return model


def text_of(prepared: PreparedCorpus, args: TrainingArguments, text_as: Any) -> StreamBatches | SentenceBatches:
    return training_text(
        prepared,
        args,
        text_as=text_as,
        unroll_steps=UNROLL_STEPS,
        shuffle="independent",
        vocab_size=prepared.vocab_size,
        max_characters_per_word=50,
    )


def main(prepared_folder: str, out: str) -> None:
    prepared = PreparedCorpus.open(prepared_folder)
    for name, (options, text_as, sparse, max_norm) in CASES.items():
        args = TrainingArguments(
            output_dir=f"{out}/{name}",
            max_steps=1,
            per_device_train_batch_size=BATCH_SIZE,
            gradient_accumulation_steps=ACCUMULATION,
            optim="sgd",
            learning_rate=1.0,
            lr_scheduler_type="constant",
            max_grad_norm=max_norm,
            logging_steps=1,
            save_strategy="no",
            use_cpu=True,
            disable_tqdm=True,
            report_to="none",
        )
        trainer = BiLMTrainer(
            model=model_of(prepared, options, seed=args.process_index),  # the first process's is to be trained
            args=args,
            streams=text_of(prepared, args, text_as),
            sparse_softmax_gradient=sparse,
        )
        trainer.train()
        entry = next(entry for entry in trainer.state.log_history if "loss" in entry)
        model = trainer.accelerator.unwrap_model(trainer.model)
        logged = {f"log.{key}": torch.tensor(entry[key]) for key in ("loss", "grad_norm")}
        parameters = {key: value.detach().contiguous() for key, value in model.named_parameters()}
        save_file({**parameters, **logged}, Path(out) / f"{name}-{args.process_index}.safetensors")


if __name__ == "__main__":
    import hf_elmo.lm_head

    hf_elmo.lm_head.draw_negatives = lambda *_: NEGATIVES
    main(*sys.argv[1:])
