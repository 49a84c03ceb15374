"""The README.md of a pretrained model, as the Hugging Face Hub shows it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from huggingface_hub import ModelCardData

from hf_elmo.configuration_elmo import ElmoConfig
from hf_elmo.modeling_elmo import ElmoModel
from hf_elmo.pretraining.shards import HELDOUT_PREFIX, TRAIN
from hf_elmo.pretraining.text import TextAs

_TEXT = """---
{metadata}
---

# {name}

An ELMo biLM ([Peters et al. 2018](https://aclanthology.org/N18-1202)): a vector for every word, from the characters of
the word and from the sentence around it. {layers} LSTM layers in each direction ({lstm_size} cells projected to
{projection_size}), vectors of {hidden_size} components, {parameters:,} parameters without the language model's softmax.

## Use

With transformers (`pip install spacy-elmo`):

```python
import hf_elmo  # makes ELMo known to transformers
from transformers import AutoModel, AutoTokenizer

tokenizer, model = AutoTokenizer.from_pretrained("{name}"), AutoModel.from_pretrained("{name}")
words = tokenizer([["A", "short", "sentence", "."]], is_split_into_words=True, return_tensors="pt")
vectors = model(**words).last_hidden_state  # (sentences, words with both boundaries, {hidden_size})
```

With spaCy:

```python
import spacy

nlp = spacy.blank("{language}")
nlp.add_pipe("elmo", config={{"model": "{name}"}})
vectors = nlp("A short sentence.")._.elmo  # (tokens, {hidden_size})
```

`"{name}"` is this folder's path, or its id on the Hub.

{adaptation}## Training data

{words:,} words in {sentences:,} sentences; tokens: {tokeniser}. The language model's vocabulary has
{vocab_size:,} words, which leaves {oov} of the training text to `<UNK>`; the vectors themselves read every word's
characters.

{sources}

## Training

{passes}

{settings}

{time} of wall-clock time on {hardware}, evaluation and checkpoints included; work lost to interruptions is not.
{figure}
## Perplexity on held-out text

{perplexity}

## Limits

* The model has read nothing but the text above{and_before}, in one language, and reflects its age, domains and
  prejudices.
* A word is read up to its {bytes}th byte of UTF-8; what is beyond is cut off.
* Words are expected as the tokeniser above splits them; with other conventions the vectors are less good.
"""

CARD = "README.md"
_DATA = "## Training data"
_CONVENTIONS = """By the full softmax: every word and every sentence's closing boundary is predicted once in each
direction, words outside the vocabulary count as the one word `<UNK>`, and {reading}. The
average is the root of forward times backward. Texts, and models with another vocabulary, compare only with the share of
`<UNK>` in mind."""
_READING = {
    "streams": "the state is carried from sentence to sentence",
    "sentences": "each sentence is read by itself from the initial state",
}


def model_card(
    config: ElmoConfig,
    report: Mapping[str, Any],
    log_history: Sequence[Mapping[str, Any]],
    metrics: Mapping[str, float],
    *,
    name: str,
    seconds: float,
    hardware: str,
    words_per_update: int,
    settings: Mapping[str, Any] | None = None,
    licences: Mapping[str, str] | None = None,
    model_licence: str | None = None,
    language: str = "en",
    text_as: TextAs = "streams",
    figure: str | None = None,
    figure_words: int = 0,
    adaptation: str | None = None,
    base_model: str | None = None,
) -> str:
    """A model card in Markdown, with the Hub's metadata on top.

    Args:
        config: of the model.
        report: the content of the corpus's prepared.json.
        log_history: the log of Trainer; its last step is the number of updates.
        metrics: by held-out text, `eval_TEXT_perplexity` and the same with `_forward` and `_backward` after TEXT.
        name: what the model is called.
        seconds: the training took.
        hardware: it ran on.
        words_per_update: and direction, over all processes.
        settings: of the optimisation, shown as they are.
        licences: by source or held-out text, shown as they are.
        model_licence: of the weights, as the Hub writes it.
        language: code of the text's language.
        text_as: how held-out text was read.
        figure: name of the file beside the card that shows the run's progress.
        figure_words: of each held-out text that were read for the figure; 0 for all.
        adaptation: of a model that was trained before: a section on what it was adapted from.
        base_model: the id of that model on the Hub, if it is there.
    """
    licences = licences or {}
    train = report["splits"][TRAIN]
    updates = max((entry.get("step", 0) for entry in log_history), default=0)
    read = updates * words_per_update
    metadata = ModelCardData(
        language=language,
        license=model_licence,
        library_name="transformers",
        tags=["elmo", "bilm", "hf_elmo", "spacy", "word-embeddings"],
        pipeline_tag="feature-extraction",
        metrics=["perplexity"],
        base_model=base_model,
    )
    return _TEXT.format(
        metadata=metadata.to_yaml(),
        name=name,
        language=language,
        layers=config.num_hidden_layers,
        lstm_size=config.lstm_size,
        projection_size=config.projection_size,
        hidden_size=config.hidden_size,
        parameters=_num_parameters(config),
        words=train["tokens"],
        sentences=train["sentences"],
        tokeniser=report["tokeniser"],
        vocab_size=report["vocab_size"],
        oov=_percent(train["oov_rate"]),
        sources=_sources(train, licences),
        passes=f"{updates:,} updates of {words_per_update:,} words in each direction: {read:,} words, "
        f"{read / max(1, train['predictions_per_direction']):.2f} passes over the text.",
        settings=_table(("setting", "value"), (settings or {}).items()),
        time=_duration(seconds),
        hardware=hardware,
        perplexity=_perplexity(report, metrics, licences, text_as),
        figure="" if figure is None else _figure(figure, figure_words),
        bytes=config.max_characters_per_word - 2,
        adaptation=f"{adaptation}\n\n" if adaptation else "",
        and_before=" and that of the model it was adapted from" if adaptation else "",
    )


def named_for_hub(card: str, repo_id: str) -> str:
    """The card with its programs loading the model from the Hub.

    Args:
        card: as `model_card` wrote it, or anything else, which is left as it is.
        repo_id: the model's id there.
    """
    return _loading(card, _heading(card), repo_id)


def carried_card(card: str, name: str, *, old_name: str | None = None, section: str) -> str:
    """The card of a model that was made of another without training it.

    Args:
        card: of the other, as `model_card` wrote it; of anything else only the section is added.
        name: of the new one, which the card's programs then load.
        old_name: what they load now; by default the card's heading.
        section: what is to be said about the new one, with a heading of the second level; it takes the place of one
            with the same heading.
    """
    heading = _heading(card)
    loading = _loading(card, old_name or heading, name)
    if loading != card:
        card = loading.replace(f"# {heading}\n", f"# {name}\n", 1)
    lines, title = card.splitlines(), section.splitlines()[0]
    titles = [number for number, line in enumerate(lines) if line.startswith("## ")] + [len(lines)]
    if title in lines:
        begin = lines.index(title)
        end = min(number for number in titles if number > begin)
    else:
        begin = end = next((number for number in titles if lines[number:] and lines[number] == _DATA), len(lines))
    before, after = ("\n".join(part).strip("\n") for part in (lines[:begin], lines[end:]))
    return "\n\n".join(filter(None, (before, section, after))) + "\n"


def _heading(card: str) -> str | None:
    return next((line.removeprefix("# ") for line in card.splitlines() if line.startswith("# ")), None)


def _loading(card: str, old: str | None, new: str) -> str:
    """With another name in the programs."""
    for place in ('from_pretrained("{}")', '{{"model": "{}"}}', '`"{}"` is this folder') if old is not None else ():
        card = card.replace(place.format(old), place.format(new))
    return card


def _figure(file: str, words: int) -> str:
    part = f"of about the first {words:,} words of each text" if words else "of the whole texts"
    return (
        f"\n![Training loss and held-out perplexity over the words read]({file})\n\n"
        f"The training loss is that of the softmax above; perplexities are by the full softmax, {part}.\n"
    )


def _sources(split: Mapping[str, Any], licences: Mapping[str, str]) -> str:
    return _table(
        ("source", "words", "sentences", "share", "licence"),
        (
            (
                _name(name, part),
                f"{part['tokens']:,}",
                f"{part['sentences']:,}",
                _percent(part["share"]),
                _licence(name, licences),
            )
            for name, part in split["sources"].items()
        ),
    )


def _name(source: str, part: Mapping[str, Any]) -> str:
    times = part.get("times", 1)
    return source if times == 1 else f"{source}, read {times} times"


def _perplexity(
    report: Mapping[str, Any], metrics: Mapping[str, float], licences: Mapping[str, str], text_as: TextAs
) -> str:
    rows = []
    for split, part in report["splits"].items():
        name = split.removeprefix(HELDOUT_PREFIX)
        if f"eval_{name}_perplexity" in metrics:
            keys = (f"eval_{name}_perplexity", f"eval_{name}_forward_perplexity", f"eval_{name}_backward_perplexity")
            values = (f"{metrics[key]:.2f}" for key in keys)
            rows.append((name, f"{part['tokens']:,}", _percent(part["oov_rate"]), *values, _licence(name, licences)))
    if not rows:
        return "None was held out."
    header = ("text", "words", "`<UNK>`", "average", "forward", "backward", "licence")
    return f"{_table(header, rows)}\n\n{_CONVENTIONS.format(reading=_READING[text_as])}"


def _licence(name: str, licences: Mapping[str, str]) -> str:
    return licences.get(name, "not stated")


def _table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(str(cell).replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} minutes"
    return f"{seconds / 3600:.1f} hours"


def _num_parameters(config: ElmoConfig) -> int:
    with torch.device("meta"):
        model = ElmoModel(config, add_scalar_mix=False)
    return sum(parameter.numel() for parameter in model.parameters())
