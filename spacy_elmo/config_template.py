"""A configuration to train a pipeline on ELMo with: complete, and commented."""

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import spacy
from spacy.language import Language
from spacy.util import CONFIG_SECTION_ORDER, load_model_from_config
from thinc.api import Config

from spacy_elmo.bilm import BiLM

Block = dict[str, Any]

# The trainable components whose model has a `tok2vec`, which ELMo takes the place of.
TASKS = (
    "tagger",
    "morphologizer",
    "trainable_lemmatizer",
    "parser",
    "senter",
    "ner",
    "spancat",
    "spancat_singlelabel",
    "span_finder",
    "textcat",
    "textcat_multilabel",
)
# They find sentence boundaries themselves, and keep those that they find set already.
_BOUNDARIES = ("parser", "senter")

_GIGABYTE = 10**9
_MAX_WORDS_ON_GPU = 32_768
_ENCODER_WIDTH = 96

_EMBED: Block = {
    "@architectures": "spacy.MultiHashEmbed.v2",
    "width": _ENCODER_WIDTH,
    "attrs": ["NORM", "PREFIX", "SUFFIX", "SHAPE"],
    "rows": [5000, 1000, 2500, 2500],
    "include_static_vectors": False,
}
_ENCODE: Block = {
    "@architectures": "spacy.MaxoutWindowEncoder.v2",
    "width": _ENCODER_WIDTH,
    "depth": 4,
    "window_size": 1,
    "maxout_pieces": 3,
}
_MIX: Block = {"@layers": "spacy_elmo.ScalarMix.v1", "dropout": 0.2, "layer_norm": True}


def build_config(
    *,
    pipeline: Sequence[str],
    lang: str = "en",
    model: str | None = None,
    output_mix: bool = False,
    fine_tune: bool = False,
    gpu: bool = False,
) -> Config:
    """A shared biLM, and an `ElmoTok2Vec` that listens to it in every task; nothing is left to be filled in.

    Args:
        pipeline: the tasks, from `TASKS`.
        lang: a language that spaCy knows.
        model: folder or Hub id of an ELMo; None is the one that comes with hf_elmo.
        output_mix: mix the layers once more after the encoder.
        fine_tune: train the biLM too.
        gpu: compute the biLM on a CUDA GPU.

    Raises:
        ValueError: no task, one that is none, or one that is there twice; what `model` names is no ELMo.
        ImportError: spaCy does not know the language.
        OSError: there is no such model.
    """
    _check_tasks(pipeline)
    blank = _blank(lang)
    width, layers = _sizes(model)
    before = [] if _finds_boundaries(pipeline) else ["sentencizer"]
    components: dict[str, Block] = {name: {"factory": name} for name in before}
    components["elmo"] = _elmo(model, fine_tune=fine_tune, gpu=gpu)
    for task in pipeline:
        listener = {"@architectures": "spacy_elmo.ElmoListener.v1", "width": width, "layers": layers}
        components[task] = {"factory": task, "model": _task_model(blank, task, listener, output_mix=output_mix)}
    config = Config(
        {
            "paths": {"train": None, "dev": None, **({} if fine_tune else {"elmo_cache": None})},
            "system": {"gpu_allocator": "pytorch" if gpu else None, "seed": 0},
            "nlp": {"lang": lang, "pipeline": list(components), "batch_size": 256},
            "components": components,
            "training": {
                "annotating_components": before,
                # A rule finds the boundaries: their score says nothing of what was learnt.
                "score_weights": dict.fromkeys(("sents_f", "sents_p", "sents_r")) if before else {},
                "batcher": _batcher(gpu=gpu),
                "optimizer": {"@optimizers": "Adam.v1", "learn_rate": 0.001},
            },
            "initialize": {} if fine_tune else {"before_init": _cache()},
        }
    )
    filled = load_model_from_config(config, auto_fill=True).config
    return Config(filled, section_order=CONFIG_SECTION_ORDER)


def commented(config: Config) -> str:
    """The configuration as text, with comments on what is ELMo's."""
    return "\n".join(_lines(config)) + "\n"


def _check_tasks(pipeline: Sequence[str]) -> None:
    unknown = [task for task in pipeline if task not in TASKS]
    if not pipeline or unknown or len(set(pipeline)) != len(pipeline):
        raise ValueError(
            f"pipeline: got {','.join(pipeline)!r}; expected one or more of {', '.join(TASKS)}, each once. Others can "
            "be added to the configuration by hand."
        )


def _blank(lang: str) -> Language:
    try:
        return spacy.blank(lang)
    except ImportError as error:
        raise ImportError(
            f"lang: got {lang!r}; expected the code of a language that spaCy has, such as en, de, or xx for any: see "
            f"https://spacy.io/usage/models#languages. ({error})"
        ) from error


def _sizes(model: str | None) -> tuple[int, int]:
    """Width and number of layers; from the weights themselves where the configuration is not on this machine yet."""
    bilm = BiLM(name=model)
    width, layers = bilm.sizes
    if width is None or layers is None:
        config = bilm.model.config
        return config.hidden_size, config.num_hidden_layers + 1
    return width, layers


def _finds_boundaries(pipeline: Sequence[str]) -> bool:
    return any(task in _BOUNDARIES for task in pipeline)


def _elmo(model: str | None, *, fine_tune: bool, gpu: bool) -> Block:
    learning = {"frozen": False, "learning_rate_factor": 0.1, "unfreeze_after": [0, 400, 800]} if fine_tune else {}
    return {
        "factory": "elmo",
        "set_vectors": False,
        **learning,
        "model": {
            "@architectures": "spacy_elmo.ElmoModel.v1",
            "name": model,
            **({"device": "cuda", "max_words_per_batch": _MAX_WORDS_ON_GPU} if gpu else {}),
        },
    }


def _task_model(nlp: Language, task: str, listener: Block, *, output_mix: bool) -> Block:
    """The task's default architecture, on ELMo."""
    default: Any = nlp.get_factory_meta(task).default_config
    model: Block = copy.deepcopy(default["model"])
    model["tok2vec"] = {
        "@architectures": "spacy_elmo.ElmoTok2Vec.v1",
        "source": listener,
        "embed": _EMBED,
        "input_mix": _MIX,
        "encode": _ENCODE,
        "output_mix": _MIX if output_mix else None,
    }
    return copy.deepcopy(model)


def _batcher(*, gpu: bool) -> Block:
    growing = {"@schedules": "compounding.v1", "start": 100, "stop": 1000, "compound": 1.001}
    return {
        "@batchers": "spacy.batch_by_words.v1",
        "discard_oversize": False,
        "tolerance": 0.2,
        "size": 2000 if gpu else growing,
    }


def _cache() -> Block:
    return {
        "@callbacks": "spacy_elmo.set_cache.v1",
        "cache_size": _GIGABYTE,
        "cache_dir": "${paths.elmo_cache}",
        "store_dtype": "float32",
    }


def _lines(config: Config) -> Iterator[str]:
    section = ""
    for line in config.to_str().strip().splitlines():
        if line.startswith("["):
            section = line.strip("[]")
            comments = _section_comments(config, section)
        else:
            comments = _COMMENTS.get((section, line.partition(" = ")[0]), [])
        yield from (f"# {comment}" for comment in comments)
        yield line


def _section_comments(config: Config, section: str) -> list[str]:
    if section == "paths":
        return _INTRODUCTION[: 3 if "elmo_cache" in config["paths"] else 2]
    if section == "components.elmo":
        return _FROZEN if config["components"]["elmo"]["frozen"] else _FINE_TUNED
    if section == "training":
        return _WITH_SENTENCIZER if config["training"]["annotating_components"] else _WHOLE_DOCS
    if section == "initialize.before_init":
        return _CACHE
    parts = section.split(".")
    if len(parts) < 3 or parts[0] != "components":
        return []
    last = parts[-1]
    return _BLOCKS.get(last, []) if parts[-2] == "tok2vec" or last == "tok2vec" or parts[1] == "elmo" else []


_INTRODUCTION = [
    "A pipeline on ELMo. Train it by",
    "  python -m spacy train CONFIG --output OUTPUT --paths.train train.spacy --paths.dev dev.spacy",
    "and keep what the biLM computes for the next run by adding --paths.elmo_cache FOLDER",
]
_FROZEN = [
    "One biLM for all tasks. It is frozen: its weights stay as they are, and it hands its layers to the tasks.",
    "It is no matter of frozen_components below.",
]
_FINE_TUNED = [
    "One biLM for all tasks, trained by their gradients: with a tenth of their learning rate, the top layer from the",
    "start, the layer below from step 400 on, the token layer from step 800 on.",
]
_BLOCKS = {
    "tok2vec": ["[x; ELMo] into the encoder (Peters et al. 2018, section 3.3)"],
    "source": ["Where the shared biLM's layers arrive; width and layers are those of the biLM."],
    "embed": ["x: spaCy's own features of a word"],
    "input_mix": ["The task's own mix of the layers, learnt: see python -m spacy_elmo weights OUTPUT/model-best"],
    "output_mix": ["Another mix, next to what the encoder gives"],
}
_WITH_SENTENCIZER = [
    "The sentencizer annotates in training too, so that the biLM reads the same sentences then as later.",
]
_WHOLE_DOCS = [
    "The boundaries of sentences are for the pipeline itself to find, so the biLM reads each doc as a whole.",
]
_CACHE = [
    "While the pipeline is trained, the biLM reads every sentence once: its layers are kept, up to so many bytes in",
    "memory, and in a folder if paths.elmo_cache names one. A saved pipeline has no cache.",
]
_COMMENTS = {
    ("components.elmo", "set_vectors"): ["true lets token.vector and similarity read ELMo"],
    ("components.elmo", "device"): ["null, here and below: as in the block [components.elmo.model]"],
    ("components.elmo", "save_weights"): ["false saves where the weights came from, and their hash, in their place"],
    ("components.elmo.model", "name"): ["Folder or Hugging Face id of an ELMo; null is the one that is installed"],
    ("components.elmo.model", "device"): ["cpu, cuda, cuda:0, mps; null is where spaCy computes"],
    ("components.elmo.model", "max_words_per_batch"): ["Less saves memory"],
}
