"""Two small domains, a model of the first, and text of the second: what the tests of adapting share."""

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hf_elmo.pretraining.adapt import main
from hf_elmo.pretraining.pretrain import main as pretrain
from hf_elmo.pretraining.publish import publish
from tests.hf_elmo.pretraining.prepared_corpora import prepare_sentences

COMMON = ["the", "a", "sees", "hears", ".", "dog"]
OLD = ["cat", "bird", "zebra"]
NEW = ["judge", "court", "jury", "plea"]
MODEL = "lstm_size=10 projection_size=6 character_embedding_size=4 character_filters=[[1,4],[2,8]] dropout=0.0"
RUN = ["--use_cpu", "--disable_tqdm", "true", "--per_device_train_batch_size", "4", "--unroll_steps", "5"]
TRAINING = [*RUN, "--max_steps", "30", "--learning_rate", "0.02", "--warmup_steps", "0", "--save_strategy", "no"]


class Domains(NamedTuple):
    """Folders: a trained language model, the same without its head, prepared text and raw text of the other domain."""

    model: Path
    body: Path
    prepared: Path
    raw: Path


def sentences(nouns: list[str], number: int, seed: int) -> list[list[str]]:
    rng = np.random.default_rng(seed)
    verbs = ["sees", "hears"]
    choose = (lambda words: str(rng.choice(words)), [*nouns, "dog"])
    return [
        ["the", choose[0](choose[1]), choose[0](verbs), "a", choose[0](choose[1]), "."][: int(rng.choice([6, 6, 2]))]
        for _ in range(number)
    ]


def make_domains(folder: Path) -> Domains:
    for name in ("old", "new", "raw"):
        (folder / name).mkdir()
    prepare_sentences(folder / "old", sentences(OLD, 150, 0), {"h": sentences(OLD, 15, 1)}, vocab_size=11)
    new = sentences(NEW, 150, 2), sentences(NEW, 15, 3)
    prepare_sentences(folder / "new", new[0], {"h": new[1]}, vocab_size=10)
    for name, text in zip(("train.txt", "heldout.txt"), new, strict=True):
        (folder / "raw" / name).write_text("".join(" ".join(words) + "\n" for words in text))
    flags = ["--prepared", str(folder / "old" / "prepared"), "--output_dir", str(folder / "model"), *TRAINING]
    assert pretrain([*flags, "--report_to", "none", "--model", *MODEL.split(), "num_negative_samples=4"]) == 0
    publish(folder / "model", folder / "body", dtype="float32")
    return Domains(folder / "model", folder / "body", folder / "new" / "prepared", folder / "raw")


def run(model: Path | str, *corpus_and_flags: Path | str, training=TRAINING) -> int:
    return main([str(model), *map(str, corpus_and_flags), *training])


def figures(folder: Path) -> dict:
    return json.loads((folder / "heldout_perplexity.json").read_text())
