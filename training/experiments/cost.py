"""Words a second of the biLM beside networks of the size of BERT-base and DistilBERT."""

from collections.abc import Callable
from statistics import median

import torch
from transformers import BertConfig, BertModel, DistilBertConfig, DistilBertModel

from experiments.budget import Budget, first
from experiments.clock import clock
from experiments.readers.columns import read_columns
from experiments.resources import Resources
from experiments.rows import Measurement, Row, Settings
from hf_elmo.embedder import ElmoEmbedder

GROUP = "cost"
_TEXT = "tasks/conll03/eng.testa"
_SENTENCES = 512
_RUNS = 3
_BATCH_WORDS = 4096


def rows(budget: Budget) -> list[Row]:
    """One for each network."""
    settings = {**budget.settings(), "runs": _RUNS if budget.sentences is None else 1}
    minutes = {"elmo": 0.5, "bert-base": 5.0, "distilbert": 3.0}
    return [
        Row(
            f"{GROUP}-{network}",
            GROUP,
            {"network": network, **settings},
            measure,
            (_TEXT,),
            minutes=minutes[network],
            reads_model=network == "elmo",
            alone=True,
        )
        for network in minutes
    ]


def measure(resources: Resources, settings: Settings) -> Measurement:
    """The median of a few runs over the same sentences, float32, after one to warm up on a few of them."""
    most = settings["most_sentences"] or _SENTENCES
    sentences = [sentence.words for sentence in first(read_columns(resources.path(_TEXT)), most)]
    words = sum(map(len, sentences))
    run, parameters = _network(settings["network"], resources)
    run(sentences[:32])
    seconds, now = [], clock(resources.device)
    for _ in range(settings["runs"]):
        start = now()
        run(sentences)
        if resources.device != "cpu":
            torch.cuda.synchronize()
        seconds.append(now() - start)
    return Measurement(
        {"words_per_second": words / median(seconds), "parameters": parameters, "sentences": len(sentences)},
        words=words * settings["runs"],
    )


def _network(network: str, resources: Resources) -> tuple[Callable[[list[list[str]]], None], int]:
    """What reads sentences, and its number of parameters."""
    if network == "elmo":
        # Without the memory of words between calls: every run computes everything.
        embedder = ElmoEmbedder(resources.bilm, max_cached_words=0)
        return lambda sentences: _exhaust(embedder, sentences), resources.bilm.num_parameters()
    model: BertModel | DistilBertModel
    model = BertModel(BertConfig()) if network == "bert-base" else DistilBertModel(DistilBertConfig())
    model = model.eval().to(resources.device)
    return lambda sentences: _read(model, sentences), model.num_parameters()


def _exhaust(embedder: ElmoEmbedder, sentences: list[list[str]]) -> None:
    embedder.embed(sentences, layers="all")


@torch.inference_mode()
def _read(model: BertModel | DistilBertModel, sentences: list[list[str]]) -> None:
    """One piece a word, fewer than a real text has, with random weights: only the time is looked at."""
    batch: list[int] = []
    for length in sorted(len(sentence) + 2 for sentence in sentences):
        if batch and length * (len(batch) + 1) > _BATCH_WORDS:
            _forward(model, batch)
            batch = []
        batch.append(length)
    if batch:
        _forward(model, batch)


def _forward(model: BertModel | DistilBertModel, lengths: list[int]) -> None:
    device = model.device
    mask = torch.arange(max(lengths), device=device) < torch.tensor(lengths, device=device).unsqueeze(1)  # (B, T)
    model(input_ids=torch.randint(1000, 20_000, mask.shape, device=device), attention_mask=mask.long())
