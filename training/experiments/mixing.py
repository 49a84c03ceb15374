"""Which mix: one layer, a fixed average, or learned with λ (Table 2); token layer and static vectors (Table 7).

And the options of the mix, in spaCy's pipeline and in the library's heads.
"""

from typing import Any

from experiments import classification, ner
from experiments.budget import Budget
from experiments.rows import Row

GROUP = "mixing"
# A row of the tables, and what is told to the network; the learned mix with λ = 0 and static vectors is in group ner.
MIXES: dict[str, dict[str, Any]] = {
    "top": {"mix": "top"},
    "average": {"mix": "average"},
    "l2-1": {"mix_l2": 1.0},
    "l2-0.001": {"mix_l2": 0.001},
}
INPUTS: dict[str, dict[str, Any]] = {
    "token": {"mix": "token"},
    "token-noglove": {"mix": "token", "glove": False},
    "noglove": {"glove": False},
}
# What is told to the mix in spaCy's pipeline, in place of what `init-config` writes: layer norm, dropout 0.2.
OPTIONS: dict[str, dict[str, Any]] = {
    "nonorm": {"layer_norm": False},
    "nodropout": {"dropout": 0.0},
    "dropout0.5": {"dropout": 0.5},
    "layers01": {"layers": [0, 1]},
    "spacytop": {"layers": [2]},
}
# What is told to the mix in the heads, in place of layer norm, dropout 0.5 and all layers; and λ for sentiment, which
# without dropout is in group sentences.
HEAD_OPTIONS: dict[str, dict[str, Any]] = {
    "nonorm": {"mix_layer_norm": "none"},
    "nodropout": {"elmo_dropout": 0.0},
    "layers01": {"mix": "lower"},
}


def rows(budget: Budget) -> list[Row]:
    """NER on 10 % of conll03, by both networks, repeated; some options on sentiment and on all of NER's data."""
    found = [
        ner.row(
            budget,
            group=GROUP,
            task="conll03",
            percent=10,
            network="crf",
            elmo="input",
            seed=seed,
            variant=name,
            **told,
        )
        for name, told in {**MIXES, **INPUTS, **HEAD_OPTIONS}.items()
        for seed in range(budget.seeds)
    ]
    found += [
        ner.row(
            budget,
            group=GROUP,
            task="conll03",
            percent=10,
            network="crf",
            elmo="none",
            seed=seed,
            variant="noglove",
            glove=False,
        )
        for seed in range(budget.seeds)
    ]
    found += [
        ner.row(
            budget,
            group=GROUP,
            task="conll03",
            percent=10,
            network="spacy",
            elmo="input",
            seed=seed,
            variant=name,
            mix_options=told,
        )
        for name, told in OPTIONS.items()
        for seed in range(budget.seeds)
    ]
    found += [
        classification.row(budget, group=GROUP, task="sst5", elmo="input", seed=0, variant=name, **told)
        for name, told in {**HEAD_OPTIONS, "l2-0.001": MIXES["l2-0.001"]}.items()
        if name != "nodropout"
    ]
    found += [
        ner.row(
            budget,
            group=GROUP,
            task=task,
            percent=100,
            network="crf",
            elmo="input",
            seed=0,
            variant="nodropout",
            **HEAD_OPTIONS["nodropout"],
        )
        for task in ner.FILES
    ]
    return found
