"""The tables of the mixes: which is best, what it reads beside, its options, and what it learns."""

from typing import Any

from experiments.classification import NO_DROPOUT
from experiments.mixing import HEAD_OPTIONS, INPUTS, MIXES, OPTIONS
from experiments.tables import SEEDS, Cell, Results, Table


def mixes(results: Results) -> Table:
    """One layer, a fixed average, or a learned mix, as the paper's Table 2."""
    names = {
        "top": "last layer only",
        "average": "average, fixed",
        "l2-1": "learned, λ = 1",
        "l2-0.001": "learned, λ = 0.001",
    }
    scores = _variants(results, "conll03", list(MIXES))
    titles = ["without ELMo", "learned, λ = 0", *(names[variant] for variant in MIXES)]
    rows: list[list[Cell]] = [[title, score] for title, score in zip(titles, scores, strict=True)]
    rows = [rows[0], *rows[2:], rows[1]]
    return Table("mixes", ["mix", "NER conll03, 10 %, biLSTM-CRF (F1)"], _measured(rows), SEEDS)


def head_options(results: Results) -> Table:
    """The options of the mix in the library's heads."""
    names = {
        "nonorm": "no layer norm",
        "nodropout": "no dropout of ELMo",
        "layers01": "token layer and biLSTM 1 only",
        "l2-0.001": "λ = 0.001",
    }
    assert set(names) == {*HEAD_OPTIONS, "l2-0.001"}
    tasks = {
        "conll03": "NER conll03, 10 % (F1)",
        "conll03, all": "NER conll03, 100 % (F1)",
        "wnut17, all": "NER wnut17, 100 % (F1)",
        "sst5": "SST-5 (accuracy)",
    }
    columns_of = [_variants(results, task, list(names)) for task in tasks]
    titles = ["without ELMo", "layer norm, dropout 0.5, all layers, λ = 0", *names.values()]
    rows: list[list[Cell]] = [list(row) for row in zip(titles, *columns_of, strict=True)]
    note = "biLSTM-CRF, and the biattentive network. Mean ± standard deviation (number of seeds)."
    return Table("head-options", ["the mix in the heads", *tasks.values()], _measured(rows), note)


# Of the tasks that try mixes: group, metric, and which of the group's rows.
_TASKS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "conll03": ("ner", "f1", {"task": "conll03", "network": "crf", "percent": 10}),
    "conll03, all": ("ner", "f1", {"task": "conll03", "network": "crf", "percent": 100}),
    "wnut17, all": ("ner", "f1", {"task": "wnut17", "network": "crf", "percent": 100}),
    "sst5": ("sentences", "accuracy", {"task": "sst5"}),
}


def _variants(results: Results, task: str, variants: list[str]) -> list[Cell]:
    """Scores without ELMo, with it, and of each variant, over the seeds that all of them have."""
    group, metric, told = _TASKS[task]
    compared = [(group, {**told, "elmo": elmo}) for elmo in ("none", "input")]
    for variant in variants:
        at_home = task == "sst5" and variant == NO_DROPOUT["variant"]
        compared.append((group if at_home else "mixing", {**told, "variant": variant}))
    comparable = results.with_common_seeds(*compared)
    return [comparable.mean(metric, where, **settings) for where, settings in compared]


def inputs(results: Results) -> Table:
    """Token layer and all layers, without and with static vectors, as the paper's Table 7."""
    told = {"task": "conll03", "network": "crf", "percent": 10}
    names = {"none": "no ELMo", "token": "token layer", "all": "all layers"}
    results = results.with_common_seeds(
        *(("ner", {**told, "elmo": elmo}) for elmo in ("none", "input")),
        *(("mixing", {**told, "variant": variant, "elmo": "input"}) for variant in INPUTS),
        ("mixing", {**told, "variant": "noglove", "elmo": "none"}),
    )
    with_glove = {
        "none": results.mean("f1", "ner", elmo="none", **told),
        "token": results.mean("f1", "mixing", variant="token", **told),
        "all": results.mean("f1", "ner", elmo="input", **told),
    }
    without = {
        "none": results.mean("f1", "mixing", elmo="none", variant="noglove", **told),
        "token": results.mean("f1", "mixing", variant="token-noglove", **told),
        "all": results.mean("f1", "mixing", elmo="input", variant="noglove", **told),
    }
    assert {"token", "token-noglove", "noglove"} == set(INPUTS)
    rows: list[list[Cell]] = [[name, without[key], with_glove[key]] for key, name in names.items()]
    columns = ["ELMo", "without static vectors", "with static vectors"]
    return Table("inputs", columns, _measured(rows), f"NER on 10 % of conll03, F1 of the biLSTM-CRF. {SEEDS}")


def options(results: Results) -> Table:
    """The options of the mix in spaCy's pipeline."""
    told = {"task": "conll03", "network": "spacy", "percent": 10}
    names = {
        "nonorm": "no layer norm",
        "nodropout": "no dropout",
        "dropout0.5": "dropout 0.5",
        "layers01": "token layer and biLSTM 1 only",
        "spacytop": "biLSTM 2 only",
    }
    results = results.with_common_seeds(
        *(("ner", {**told, "elmo": elmo}) for elmo in ("none", "input")),
        *(("mixing", {**told, "variant": variant}) for variant in OPTIONS),
    )
    rows: list[list[Cell]] = [
        ["without ELMo", results.mean("f1", "ner", elmo="none", **told)],
        ["as init-config writes it (layer norm, dropout 0.2)", results.mean("f1", "ner", elmo="input", **told)],
    ]
    for variant in OPTIONS:
        rows.append([names[variant], results.mean("f1", "mixing", variant=variant, **told)])
    return Table("options", ["the mix in spaCy's pipeline", "NER conll03, 10 % (F1)"], _measured(rows), SEEDS)


def _measured(rows: list[list[Cell]]) -> list[list[Cell]]:
    """Without rows of which nothing was measured."""
    return [row for row in rows if any(cell is not None for cell in row[1:])]


def learnt_weights(results: Results) -> dict[str, tuple[list[float], float]]:
    """Per task and place of the mix the layers' shares and γ, over the seeds with the largest part of the data."""
    found: dict[str, list[tuple[list[float], float]]] = {}
    for result in results.results:
        settings = result["settings"]
        whole = settings.get("percent", 100) == 100
        if not (result["layer_weights"] and whole) or result["group"] in ("mixing", "adaptation"):
            continue
        if settings["elmo"] == "both" and result["group"] in ("ner", "sentences"):
            continue  # a figure with one row for each task
        for place, (shares, gamma) in result["layer_weights"].items():
            name = f"{settings['task']}, {settings['network']}"
            name = f"{name}, {place}" if settings["elmo"] == "both" else name
            found.setdefault(name, []).append((shares, gamma))
    return {
        name: (
            [sum(values) / len(values) for values in zip(*(shares for shares, _ in each), strict=True)],
            sum(gamma for _, gamma in each) / len(each),
        )
        for name, each in found.items()
    }


def weights(results: Results) -> Table:
    """What every task's mix has learnt, as the paper's Figure 2."""
    learnt = learnt_weights(results)
    depth = max((len(shares) for shares, _ in learnt.values()), default=0)
    columns = ["task, network", "token layer", *(f"biLSTM {number}" for number in range(1, depth)), "γ"]
    rows: list[list[Cell]] = [[name, *shares, gamma] for name, (shares, gamma) in learnt.items()]
    return Table("weights", columns, rows, "Shares after the softmax, on average over the seeds.")
