"""A toy corpus that every trainable component of spaCy can learn from, and pipelines on top of ELMo for it.

The words are spelled at random and each sentence has new ones, but "bark" is a verb where it follows a word in "-er"
and a noun elsewhere: only spelling and context tell, as ELMo sees them.
"""

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from spacy.kb import InMemoryLookupKB
from spacy.language import Language
from spacy.training import Example
from spacy.vocab import Vocab

SOURCES = ("listener", "standalone")

Block = dict[str, Any]


def make_examples(nlp: Language, *, count: int = 12, seed: int = 0) -> list[Example]:
    """Sentences of 5 or 6 tokens with every kind of annotation."""
    generator = random.Random(seed)
    return [Example.from_dict(nlp.make_doc(text), gold) for text, gold in _sentences(generator, count)]


def _sentences(generator: random.Random, count: int) -> Iterator[tuple[str, Block]]:
    for number in range(count):
        stem = "".join(generator.choices("abcdefghiklmnop", k=4))
        verb = number % 2 == 0
        words = [f"{stem}er" if verb else f"{stem}y", "bark", "in", f"{stem.title()}ville", "."]
        tags = ["NOUN" if verb else "ADJ", "VERB" if verb else "NOUN", "ADP", "PROPN", "PUNCT"]
        if number % 3 == 0:
            words, tags = ["The", *words], ["DET", *tags]
        place = words.index(f"{stem.title()}ville")
        start = sum(len(word) + 1 for word in words[:place])
        end = start + len(words[place])
        yield (
            " ".join(words),
            {
                "words": words,
                "spaces": [True] * (len(words) - 1) + [False],
                "tags": tags,
                "pos": tags,
                "morphs": [f"Tag={tag}" for tag in tags],
                "lemmas": [word.lower() for word in words],
                "heads": [max(i - 1, 0) for i in range(len(words))],
                "deps": ["ROOT" if i == 0 else tags[i].lower() for i in range(len(words))],
                "sent_starts": [True] + [False] * (len(words) - 1),
                "entities": [(start, end, "PLACE")],
                "links": {(start, end): {"Q1": float(verb), "Q2": float(not verb)}},
                "spans": {"sc": [(start, end, "PLACE")]},
                "cats": {"VERBAL": float(verb), "NOMINAL": float(not verb)},
            },
        )


def source_block(kind: str, folder: str, *, width: int, layers: int) -> Block:
    """The block of a listener, or of a biLM of the component's own."""
    if kind == "listener":
        return {"@architectures": "spacy_elmo.ElmoListener.v1", "width": width, "layers": layers}
    return {"@architectures": "spacy_elmo.ElmoModel.v1", "name": folder}


def mixed_block(source: Block, **mix: Any) -> Block:
    return {
        "@architectures": "spacy_elmo.MixedElmo.v1",
        "source": source,
        "mix": {"@layers": "spacy_elmo.ScalarMix.v1", "dropout": 0.0, **mix},
    }


def tok2vec_block(source: Block, *, encoder: str = "cnn", width: int = 8, output: bool = False, **mix: Any) -> Block:
    encoders = {
        "cnn": {
            "@architectures": "spacy.MaxoutWindowEncoder.v2",
            "width": width,
            "depth": 1,
            "window_size": 1,
            "maxout_pieces": 2,
        },
        "lstm": {"@architectures": "spacy.TorchBiLSTMEncoder.v1", "width": width, "depth": 1, "dropout": 0.0},
        "bilstm": {"@architectures": "spacy_elmo.BiLSTMEncoder.v1", "width": width, "depth": 1, "dropout": 0.0},
        "none": {"@architectures": "spacy.TorchBiLSTMEncoder.v1", "width": width, "depth": 0, "dropout": 0.0},
    }
    scalar_mix = {"@layers": "spacy_elmo.ScalarMix.v1", "dropout": 0.0, **mix}
    return {
        "@architectures": "spacy_elmo.ElmoTok2Vec.v1",
        "source": source,
        "embed": {
            "@architectures": "spacy.MultiHashEmbed.v2",
            "width": 16,
            "attrs": ["NORM"],
            "rows": [50],
            "include_static_vectors": False,
        },
        "input_mix": scalar_mix,
        "encode": encoders[encoder],
        "output_mix": scalar_mix if output else None,
    }


def _parser(state_type: str, tok2vec: Block) -> Block:
    return {
        "@architectures": "spacy.TransitionBasedParser.v2",
        "state_type": state_type,
        "extra_state_tokens": False,
        "hidden_width": 16,
        "maxout_pieces": 2,
        "use_upper": True,
        "tok2vec": tok2vec,
    }


def _tagger(tok2vec: Block) -> Block:
    return {"@architectures": "spacy.Tagger.v2", "tok2vec": tok2vec}


def _spancat(tok2vec: Block) -> Block:
    return {
        "@architectures": "spacy.SpanCategorizer.v1",
        "tok2vec": tok2vec,
        "reducer": {"@layers": "spacy.mean_max_reducer.v1", "hidden_size": 8},
        "scorer": {"@layers": "spacy.LinearLogistic.v1"},
    }


def _textcat_reduce(tok2vec: Block) -> Block:
    return {
        "@architectures": "spacy.TextCatReduce.v1",
        "tok2vec": tok2vec,
        "exclusive_classes": True,
        "use_reduce_first": False,
        "use_reduce_last": False,
        "use_reduce_max": True,
        "use_reduce_mean": True,
    }


def _textcat_ensemble(tok2vec: Block) -> Block:
    return {
        "@architectures": "spacy.TextCatEnsemble.v2",
        "tok2vec": tok2vec,
        "linear_model": {
            "@architectures": "spacy.TextCatBOW.v3",
            "exclusive_classes": True,
            "ngram_size": 1,
            "no_output_layer": False,
            "length": 64,
        },
    }


def _textcat_attention(tok2vec: Block) -> Block:
    return {
        "@architectures": "spacy.TextCatParametricAttention.v1",
        "tok2vec": tok2vec,
        "exclusive_classes": True,
    }


# label: factory, architecture of its model
CONSUMERS: dict[str, tuple[str, Callable[[Block], Block]]] = {
    "ner": ("ner", lambda tok2vec: _parser("ner", tok2vec)),
    "parser": ("parser", lambda tok2vec: _parser("parser", tok2vec)),
    "tagger": ("tagger", _tagger),
    "morphologizer": ("morphologizer", _tagger),
    "senter": ("senter", _tagger),
    "lemmatizer": ("trainable_lemmatizer", _tagger),
    "spancat": ("spancat", _spancat),
    "textcat_reduce": ("textcat", _textcat_reduce),
    "textcat_ensemble": ("textcat", _textcat_ensemble),
    "textcat_attention": ("textcat", _textcat_attention),
    "span_finder": (
        "span_finder",
        lambda tok2vec: {
            "@architectures": "spacy.SpanFinder.v1",
            "tok2vec": tok2vec,
            "scorer": {"@layers": "spacy.LinearLogistic.v1", "nO": 2},
        },
    ),
    "entity_linker": (
        "entity_linker",
        lambda tok2vec: {"@architectures": "spacy.EntityLinker.v2", "tok2vec": tok2vec, "nO": None},
    ),
}


def add_consumer(nlp: Language, label: str, tok2vec: Block, **options: Any) -> Any:
    factory, architecture = CONSUMERS[label]
    if label == "spancat":
        options = {"suggester": {"@misc": "spacy.ngram_suggester.v1", "sizes": [1]}, **options}
    if label == "parser":
        options = {"min_action_freq": 1, **options}
    return nlp.add_pipe(factory, name=label, config={"model": architecture(tok2vec), **options})


def train(nlp: Language, examples: list[Example], optimizer: Any, *, steps: int = 10, **options: Any) -> list[Block]:
    """The losses of each step."""
    losses: list[Block] = [{} for _ in range(steps)]
    for one in losses:
        nlp.update(examples, sgd=optimizer, losses=one, **options)
    return losses


def make_kb(vocab: Vocab) -> InMemoryLookupKB:
    """Two entities; every name of the toy corpus may be either."""
    kb = InMemoryLookupKB(vocab, entity_vector_length=3)
    kb.set_entities(["Q1", "Q2"], [10, 10], [np.array([1.0, 0, 0]), np.array([0, 1.0, 0])])
    for seed in range(3):
        for text, gold in _sentences(random.Random(seed), 12):
            ((start, end, _),) = gold["entities"]
            kb.add_alias(text[start:end], ["Q1", "Q2"], [0.5, 0.5])
    return kb


def initialize(nlp: Language, examples: list[Example]) -> Any:
    """`nlp.initialize`, with a knowledge base for an entity linker."""
    if nlp.has_pipe("entity_linker"):
        nlp.config["initialize"]["components"]["entity_linker"] = {}
        nlp.get_pipe("entity_linker").set_kb(make_kb)
    return nlp.initialize(lambda: examples)
