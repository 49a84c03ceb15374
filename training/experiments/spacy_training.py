"""spaCy's own CPU configuration for NER and tagging, without and with ELMo, trained in this process."""

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import spacy
from spacy.language import Language
from spacy.tokens import Doc, DocBin
from spacy.training import Example, biluo_tags_to_spans, iob_to_biluo
from spacy.training.initialize import init_nlp
from spacy.training.loop import train
from spacy.util import registry
from thinc.api import Config

from experiments.clock import clock
from experiments.readers.columns import Tagged
from experiments.resources import LAYER_FOLDER_BYTES, STORE_DTYPE, Resources
from spacy_elmo.config_template import build_config
from spacy_elmo.layer_weights import learnt_layer_weights

_CACHE_BYTES = 2 * 10**9
_NEVER = 10**9


class Trained(NamedTuple):
    """A pipeline, and what it took to train it."""

    nlp: Language
    steps: int
    words: int
    seconds: float


def train_spacy(
    task: str, sentences: Sequence[Tagged], resources: Resources, *, elmo: str, words: int, seed: int, **mix: Any
) -> Trained:
    """Train for whole epochs, about so many words in all; the last weights count, nothing is selected.

    Args:
        task: "ner" or "tagger".
        sentences: each is a doc.
        resources: the biLM, and the folder of its layers.
        elmo: "none", "input" or "both".
        words: to be read in training.
        seed: of the initial weights and the order.
        mix: fields of the scalar mixes that are to differ from `init-config`'s.
    """
    size = sum(len(sentence.words) for sentence in sentences)
    epochs = max(1, round(words / size))
    config = spacy_config(task, resources, elmo=elmo, seed=seed, epochs=epochs, **mix)
    with tempfile.TemporaryDirectory() as folder:
        docs = _docs(spacy.blank("en"), task, sentences)
        DocBin(docs=docs).to_disk(Path(folder, "train.spacy"))
        DocBin(docs=docs[:10]).to_disk(Path(folder, "dev.spacy"))
        config["paths"].update(train=str(Path(folder, "train.spacy")), dev=str(Path(folder, "dev.spacy")))
        if elmo != "none":
            config["paths"]["elmo_cache"] = str(resources.layer_folder)
        log = StepLog()
        registry.loggers.register("experiments.StepLog.v1", func=lambda: log.logger)
        nlp = init_nlp(config.interpolate())
        seconds = clock(resources.device)
        start = seconds()
        with open(os.devnull, "w") as nowhere:
            train(nlp, None, stdout=nowhere, stderr=nowhere)
        spent = seconds() - start
    return Trained(nlp, log.steps, size * epochs, spent)


def spacy_config(task: str, resources: Resources, *, elmo: str, seed: int, epochs: int, **mix: Any) -> Config:
    """What `python -m spacy_elmo init-config` writes; without ELMo the same words' features and the same encoder.

    Every doc is one sentence, so that no component looks for sentences.
    """
    config = build_config(pipeline=[task], model=resources.model, output_mix=elmo == "both")
    config["nlp"]["pipeline"].remove("sentencizer")
    del config["components"]["sentencizer"]
    tok2vec = config["components"][task]["model"]["tok2vec"]
    if elmo == "none":
        config["nlp"]["pipeline"].remove("elmo")
        del config["components"]["elmo"], config["paths"]["elmo_cache"]
        config["initialize"]["before_init"] = None
        config["components"][task]["model"]["tok2vec"] = {
            "@architectures": "spacy.Tok2Vec.v2",
            "embed": tok2vec["embed"],
            "encode": tok2vec["encode"],
        }
    else:
        config["initialize"]["before_init"].update(
            cache_size=_CACHE_BYTES, cache_dir_size=LAYER_FOLDER_BYTES, store_dtype=STORE_DTYPE
        )
        for place in ("input_mix", "output_mix"):
            if tok2vec[place] is not None:
                tok2vec[place].update(mix)
    score = {"ner": "ents_f", "tagger": "tag_acc"}[task]
    config["system"]["seed"] = seed
    config["training"].update(
        annotating_components=[],
        max_epochs=epochs,
        max_steps=0,
        patience=0,
        eval_frequency=_NEVER,
        score_weights={score: 1.0},
        logger={"@loggers": "experiments.StepLog.v1"},
    )
    return config


class StepLog:
    """Counts updates, and prints nothing."""

    def __init__(self) -> None:
        self.steps = 0

    def logger(self, nlp: Language, stdout: Any = None, stderr: Any = None) -> tuple[Any, Any]:
        """What spaCy calls a logger: one function for each step, one for the end."""

        def step(info: dict[str, Any] | None) -> None:
            self.steps += 1

        return step, lambda: None


def evaluate_spacy(task: str, nlp: Language, sentences: Sequence[Tagged]) -> dict[str, float]:
    """Scores of spaCy's own scorer, in percent: of whole entities, or of tags."""
    gold = _docs(nlp, task, sentences)
    examples = [Example(Doc(nlp.vocab, words=[token.text for token in doc]), doc) for doc in gold]
    scores = nlp.evaluate(examples)
    if task == "tagger":
        return {"accuracy": 100 * scores["tag_acc"]}
    return {
        name: 100 * (scores[key] or 0.0)
        for name, key in (("f1", "ents_f"), ("precision", "ents_p"), ("recall", "ents_r"))
    }


def spacy_layer_weights(nlp: Language, task: str) -> dict[str, tuple[list[float | None], float]]:
    """Of the task's mixes: "input" and, where there is one, "output"."""
    weights = {}
    for name, learnt in learnt_layer_weights(nlp).items():
        if name.startswith(task):
            weights[name.partition(": ")[2] or "input"] = learnt
    return weights


def _docs(nlp: Language, task: str, sentences: Sequence[Tagged]) -> list[Doc]:
    docs = []
    for sentence in sentences:
        doc = Doc(nlp.vocab, words=sentence.words)
        if task == "ner":
            doc.set_ents(biluo_tags_to_spans(doc, iob_to_biluo(sentence.labels)))
        else:
            for token, label in zip(doc, sentence.labels, strict=True):
                token.tag_ = label
        docs.append(doc)
    return docs
