"""Which tables there are, and what stands in them."""

from collections.abc import Iterator, Mapping
from typing import Any

from experiments import ner, pos
from experiments.classification import NO_DROPOUT
from experiments.mixing_tables import head_options, inputs, mixes, options, weights
from experiments.senses import TESTS
from experiments.tables import SEEDS, Cell, Mean, Results, Table, error_reduction, mean_of

# What stands for a row in the list of all, the first that it has.
_SCORES = ("f1", "accuracy", "average_all", "average_test", "average")
_PLACES = ("none", "input", "both")
_NETWORKS = {"spacy": "spaCy's CPU pipeline", "crf": "biLSTM-CRF"}


def all_tables(results: Results) -> list[Table]:
    """In the order of the page."""
    return [
        gains(results),
        _ner(results),
        _probe(results),
        _tagger(results),
        _wsd(results),
        _wic(results),
        _uses(results),
        _neighbours(results),
        _sentences(results),
        _qa(results),
        mixes(results),
        inputs(results),
        options(results),
        head_options(results),
        weights(results),
        _cost(results),
        _adaptation(results),
        _rows(results),
    ]


def gains(results: Results) -> Table:
    """Every pair of rows without and with ELMo."""
    rows: list[list[Cell]] = []
    for label, metric, group, settings, variant in _pairs():
        without = results.mean(metric, group, elmo="none", **settings)
        with_elmo = results.mean(metric, group, elmo="input", variant=variant, **settings)
        if without is not None and with_elmo is not None:
            rows.append([label, without, with_elmo, error_reduction(without, with_elmo)])
    return Table("gains", ["task", "without ELMo", "with ELMo", "error reduction"], rows, SEEDS)


def _pairs() -> Iterator[tuple[str, str, str, dict[str, Any], str | None]]:
    """What the pairs are called, their metric, their group, their settings, and the variant with ELMo."""
    for percent in (100, 10, 1):
        for task in ner.FILES:
            for network, name in _NETWORKS.items():
                settings = {"task": task, "network": network, "percent": percent}
                yield f"NER {task}, {percent} %, {name} (F1)", "f1", "ner", settings, None
    for percent in (100, 10):
        for corpus in pos.FILES:
            settings = {"task": corpus, "network": "spacy", "percent": percent}
            yield f"POS {corpus}, {percent} %, spaCy's tagger (accuracy)", "accuracy", "pos", settings, None
    for variant, how in ((None, ""), (NO_DROPOUT["variant"], ", no dropout of ELMo")):
        for task, label in (("sst5", "SST-5"), ("nli", "SNLI, part of dev")):
            yield f"{label}, biattentive network{how} (accuracy)", "accuracy", "sentences", {"task": task}, variant
        yield f"SQuAD, part of dev, attention flow{how} (F1)", "f1", "qa", {"task": "squad"}, variant


def _ner(results: Results) -> Table:
    rows: list[list[Cell]] = []
    for task in ner.FILES:
        for network, name in _NETWORKS.items():
            for percent in (1, 10, 100):
                scores = [
                    results.mean("f1", "ner", task=task, network=network, percent=percent, elmo=elmo)
                    for elmo in _PLACES
                ]
                if any(score is not None for score in scores):
                    rows.append([f"{task}, {name}", f"{percent} %", *scores, error_reduction(scores[0], scores[1])])
    columns = ["data, network", "training data", "without", "ELMo at input", "input and output", "error reduction"]
    return Table("ner", columns, rows, f"F1 of whole entities; the reduction is that of ELMo at the input. {SEEDS}")


def _probe(results: Results) -> Table:
    found = {corpus: results.metrics(f"pos-{corpus}-probe") for corpus in pos.FILES}
    rows = [[corpus, *_by_layer(metrics)] for corpus, metrics in found.items() if metrics]
    columns = ["corpus", "static vectors", *_layer_columns(found), "average of layers"]
    note = "Accuracy of multinomial logistic regression, in percent."
    return Table("pos-probe", columns, rows, note)


def _by_layer(metrics: Mapping[str, float]) -> list[Cell]:
    """Static vectors, each layer, their average."""
    return [metrics.get("static"), *(metrics[name] for name in _layers(metrics)), metrics.get("average")]


def _layers(metrics: Mapping[str, float]) -> list[str]:
    return sorted(name for name in metrics if name.startswith("layer") and name.removeprefix("layer").isdigit())


def _layer_columns(found: Mapping[str, Mapping[str, float]]) -> list[str]:
    depth = max((len(_layers(metrics)) for metrics in found.values()), default=0)
    return ["token layer", *(f"biLSTM {number}" for number in range(1, depth))] if depth else []


def _tagger(results: Results) -> Table:
    rows: list[list[Cell]] = []
    for corpus in pos.FILES:
        for percent in (10, 100):
            scores = [
                results.mean("accuracy", "pos", task=corpus, network="spacy", percent=percent, elmo=elmo)
                for elmo in ("none", "input")
            ]
            if any(score is not None for score in scores):
                rows.append([corpus, f"{percent} %", *scores, error_reduction(*scores)])
    return Table("pos-tagger", ["corpus", "training data", "without", "with ELMo", "error reduction"], rows, SEEDS)


def _wsd(results: Results) -> Table:
    metrics = results.metrics("senses-wsd")
    names = {"first_sense": "first sense of WordNet", "most_frequent": "most frequent sense of SemCor"}
    depth = sum(name.startswith("layer") and name.endswith("_all") for name in metrics)
    names |= {f"layer{n}": "token layer" if n == 0 else f"biLSTM {n}" for n in range(depth)}
    names["average"] = "average of layers"
    names |= {f"frequency_{way}": f"{name}, and frequency" for way, name in names.items() if "_" not in way}
    rows: list[list[Cell]] = [
        [name, *(metrics.get(f"{way}_{test}") for test in (*TESTS, "all"))]
        for way, name in names.items()
        if f"{way}_all" in metrics
    ]
    note = ""
    if metrics:
        note = (
            f"F1 in percent; {metrics['instances']:,.0f} instances, of which {metrics['fallback']:.1f} % have a lemma "
            f"that SemCor has not, and get the first sense; {metrics['senses']:,.0f} senses averaged. With frequency: "
            f"a weight times the logarithm of a sense's uses in SemCor is added to its cosine; the weight is chosen on "
            f"semeval2007."
        )
    return Table("wsd", ["nearest sense by", *TESTS, "all"], rows, note)


def _wic(results: Results) -> Table:
    metrics = results.metrics("senses-wic")
    ways = [*sorted({name.split("_")[0] for name in metrics if name.startswith("layer")}), "average"] if metrics else []
    rows: list[list[Cell]] = [
        [_way(way), *(metrics[f"{way}_{split}"] for split in ("train", "dev", "test"))] for way in ways
    ]
    note = "Accuracy in percent; the threshold is chosen on train. Half of the pairs of dev and test are alike."
    return Table("wic", ["cosine of", "train", "dev", "test"], rows, note)


def _uses(results: Results) -> Table:
    metrics = results.metrics("senses-neighbours")
    rows: list[list[Cell]] = [[_way(name), metrics[name]] for name in _layers(metrics)]
    if metrics:
        rows.append(["most frequent sense", metrics["most_frequent"]])
    note = f'{metrics["uses"]:.0f} uses of the noun "play" in SemCor.' if metrics else ""
    return Table("uses", ["layer", "nearest other use has the same sense (%)"], rows, note)


def _way(name: str) -> str:
    if not name.startswith("layer"):
        return "average of layers"
    number = int(name.removeprefix("layer"))
    return f"biLSTM {number}" if number else "token layer"


def _neighbours(results: Results) -> Table:
    rows: list[list[Cell]] = []
    for result in results.find("senses"):
        for entry in result["details"].get("neighbours", []):
            for number, near in enumerate(entry["nearest"], start=1):
                source = f"{entry['source']['text']} ({entry['source']['sense']})" if number == 1 else ""
                rows.append([source, f"{near['text']} ({near['sense']})"])
    return Table("neighbours", ["use (sense)", "nearest uses by the top layer"], rows, texts=2)


def _sentences(results: Results) -> Table:
    rows: list[list[Cell]] = []
    for task, label in (("sst5", "SST-5"), ("nli", "SNLI, part of dev")):
        scores = _by_way(results, "accuracy", "sentences", task)
        if any(score is not None for score in scores):
            rows.append([label, *scores])
    note = "Accuracy in percent; mean ± standard deviation (number of seeds)."
    return Table("sentences", ["task", *(heading for heading, _ in _WAYS)], rows, note)


# What stands beside each other for the heads of sentences and of questions.
_WAYS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("without", {"elmo": "none"}),
    ("ELMo at input", {"elmo": "input"}),
    ("input, no dropout of ELMo", {"elmo": "input", "variant": NO_DROPOUT["variant"]}),
    ("input and output", {"elmo": "both"}),
)


def _by_way(results: Results, metric: str, group: str, task: str) -> list[Mean | None]:
    """Scores over the seeds that all ways have; the last, that of input and output, may have fewer."""
    compared = [(group, {"task": task, **told}) for _, told in _WAYS]
    comparable = results.with_common_seeds(*compared[:-1])
    return [comparable.mean(metric, where, **told) for where, told in compared]


def _qa(results: Results) -> Table:
    rows: list[list[Cell]] = []
    for metric, label in (("f1", "F1"), ("exact", "exact match")):
        scores = _by_way(results, metric, "qa", "squad")[:-1]
        if any(score is not None for score in scores):
            rows.append([label, *scores])
    return Table("qa", ["measure", *(heading for heading, _ in _WAYS[:-1])], rows)


def _cost(results: Results) -> Table:
    names = {
        "elmo": "the biLM, all layers",
        "bert-base": "size of BERT-base, random weights",
        "distilbert": "size of DistilBERT, random weights",
    }
    rows: list[list[Cell]] = []
    for network, name in names.items():
        for result in results.find("cost", network=network):
            metrics = result["metrics"]
            threads = f"{result['device']}, {result['threads']} thread(s)"
            rows.append([name, metrics["parameters"] / 1e6, threads, metrics["words_per_second"]])
    note = (
        "Sentences of conll03 testa, float32, sorted by length, in the processor's time; the others read one piece a "
        "word, fewer than text has."
    )
    return Table("cost", ["network", "million parameters", "on", "words/s"], rows, note)


def _adaptation(results: Results) -> Table:
    rows: list[list[Cell]] = []
    for label, metric, group, settings, variant in (
        *(
            (
                f"NER wnut17, {percent} %, {_NETWORKS[network]}{', adapted in one pass' if variant else ''} (F1)",
                "f1",
                "ner",
                {"task": "wnut17", "network": network, "percent": percent},
                variant,
            )
            for network, percent, variant in (
                ("spacy", 10, None),
                ("spacy", 10, "once"),
                ("spacy", 100, None),
                ("crf", 100, None),
            )
        ),
        ("POS ewt, 10 %, spaCy's tagger", "accuracy", "pos", {"task": "ewt", "network": "spacy", "percent": 10}, None),
    ):
        compared = [
            (group, {**settings, "elmo": "none"}),
            (group, {**settings, "elmo": "input"}),
            ("adaptation", {**settings, "elmo": "input", "variant": variant}),
        ]
        comparable = results.with_common_seeds(*compared)
        without, before, after = (comparable.mean(metric, where, **told) for where, told in compared)
        rows.append([label, without, before, after, error_reduction(before, after)])
    before_probe, after_probe = (results.metrics(f"{group}-ewt-probe") for group in ("pos", "adaptation"))
    for name in _layers(after_probe):
        rows.append(
            [
                f"POS ewt, probe of {_way(name)}",
                None,
                mean_of([before_probe[name]]) if name in before_probe else None,
                mean_of([after_probe[name]]),
                error_reduction(before_probe.get(name), after_probe[name]),
            ]
        )
    columns = ["task", "without ELMo", "before adaptation", "after", "error reduction by it"]
    return Table("adaptation", columns, [row for row in rows if row[3] is not None], SEEDS)


def _rows(results: Results) -> Table:
    rows: list[list[Cell]] = []
    for result in results.results:
        metrics = result["metrics"]
        score = next((metrics[name] for name in _SCORES if name in metrics), None)
        speed = result["words"] / (60 * result["training_minutes"]) if result["training_minutes"] else None
        rows.append(
            [
                f"`{result['name']}`",
                score,
                str(result["steps"]),
                f"{result['words']:,}",
                f"{speed:,.0f}" if speed else None,
                f"{result['training_minutes']:.1f}",
                f"{result['cpu_minutes' if result['device'] == 'cpu' else 'minutes']:.1f}",
            ]
        )
    columns = ["row", "score", "steps", "words", "words/s in training", "minutes of training", "minutes in all"]
    return Table(
        "rows",
        columns,
        rows,
        "Minutes are the processor's, one thread. The command, data, seed and settings of each are in rows/NAME.json.",
    )
