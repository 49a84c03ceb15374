"""A folder laid out as that of the data, written by the tests."""

import gzip
import json
from pathlib import Path

CONLL = """\
Peter NNP I-NP I-PER
Blackburn NNP I-NP I-PER
visited VBD I-VP O
Rome NNP I-NP I-LOC
Paris NNP I-NP B-LOC
. . O O

The DT I-NP O
European NNP I-NP I-ORG
Commission NNP I-NP I-ORG
met VBD I-VP O
Anna NNP I-NP I-PER
. . O O

"""
WNUT = "Empire\tB-location\nState\tI-location\n=\tO\nESB\tB-location\n\t\ngood\tO\nnight\tO\nPxleyes\tB-corporation\n"
CONLLU = """\
# text = He doesn't sing.
1\tHe\the\tPRON\tPRP\t_\t4\tnsubj\t_\t_
2-3\tdoesn't\t_\t_\t_\t_\t_\t_\t_\t_
2\tdoes\tdo\tAUX\tVBZ\t_\t4\taux\t_\t_
3\tn't\tnot\tPART\tRB\t_\t4\tadvmod\t_\t_
4\tsing\tsing\tVERB\tVB\t_\t0\troot\t_\tSpaceAfter=No
4.1\tsings\tsing\tVERB\tVB\t_\t_\t_\t_\t_
5\t.\t.\tPUNCT\t.\t_\t4\tpunct\t_\t_

1\tDogs\tdog\tNOUN\tNNS\t_\t2\tnsubj\t_\t_
2\tbark\tbark\tVERB\tVBP\t_\t0\troot\t_\t_

"""
TREES = (
    "(3 (2 It) (4 (2 is) (4 (4 good) (2 .))))\n(0 (1 (2 A) (0 bad)) (1 film))\n(2 (2 -LRB-) (2 (2 so) (2 so\\/so)))\n"
)
PREMISES = ("A dog runs.", "Two women talk.", "A man sleeps.", "Children play.", "It rains.", "A cat sits there.")
CONTEXT = 'Rome is the capital of Italy. It lies on the Tiber, called "the river" by all.'
SEMCOR = [
    {
        "tokens": ["A", "fine", "play", "by", "New_York", "."],
        "senses": [
            {"i": 2, "lemma": "play", "pos": "NN", "keys": ["play%1:10:00::"]},
            {"i": 4, "lemma": "new_york", "pos": "NNP", "keys": ["new_york%1:15:00::"]},
        ],
    },
    {
        "tokens": ["They", "play", "a", "play", "on", "words", "."],
        "senses": [
            {"i": 1, "lemma": "play", "pos": "VB", "keys": ["play%2:33:00::"]},
            {"i": 3, "lemma": "play", "pos": "NN", "keys": ["play%1:04:00::"]},
        ],
    },
    {
        "tokens": ["The", "play", "was", "dry", "."],
        "senses": [
            {"i": 1, "lemma": "play", "pos": "NN", "keys": ["play%1:10:00::"]},
            {"i": 3, "lemma": "dry", "pos": "JJ", "keys": ["dry%5:00:00:dull:00"]},
        ],
    },
]
RAGANATO = """\
<?xml version="1.0" encoding="UTF-8" ?>
<corpus lang="en" source="test"><text id="d0">
<sentence id="d0.s0">
<wf lemma="the" pos="DET">The</wf>
<instance id="d0.s0.t0" lemma="play" pos="NOUN">play</instance>
<instance id="d0.s0.t1" lemma="belong_to" pos="VERB">belongs to</instance>
<wf lemma="dry" pos="ADJ">dry</wf>
<instance id="d0.s0.t2" lemma="dry" pos="ADJ">dry</instance>
<wf lemma="." pos=".">.</wf>
</sentence>
</text></corpus>
"""
GOLD = "d0.s0.t0 play%1:10:00:: play%1:99:00::\nd0.s0.t1 belong_to%2:42:00::\nd0.s0.t2 dry%3:00:01::\n"
INDEX = """\
belong_to%2:42:00:: 02749904 1 10
dry%3:00:01:: 02551380 1 32
dry%5:00:00:dull:00 00000001 5 0
play%1:10:00:: 07007945 1 50
play%1:04:00:: 00000002 2 9
"""
SETS = ("senseval2", "senseval3", "semeval2007", "semeval2013", "semeval2015")


def write_data(folder: Path) -> None:
    for name in ("eng.train", "eng.testa"):
        _write(folder / "tasks" / "conll03" / name, CONLL * 6)
    for name in ("train", "dev", "test"):
        _write(folder / "tasks" / "wnut17" / f"{name}.conll", WNUT + "\t\n" + WNUT)
        _write(folder / "tasks" / "ewt" / f"{name}.conllu", CONLLU * 6)
        _write_gz(folder / "tasks" / "gum" / f"{name}.conllu.gz", CONLLU * 6)
        _write(folder / "tasks" / "sst5" / f"{name}.txt", TREES * 4)
        pairs = [("N", "1-1", "A play .", "This play .", "T"), ("V", "0-2", "Play it .", "They now play .", "F")]
        _write(
            folder / "tasks" / "wic" / name / f"{name}.data.txt",
            "".join(f"play\t{pos}\t{at}\t{a}\t{b}\n" for pos, at, a, b, _ in pairs),
        )
        _write(folder / "tasks" / "wic" / name / f"{name}.gold.txt", "".join(f"{pair[4]}\n" for pair in pairs))
    lines = [
        {"premise": premise, "hypothesis": f"Somebody {word}s.", "label": label}
        for premise in PREMISES
        for word, label in (("wait", "neutral"), ("move", "entailment"), ("vanishe", "contradiction"))
    ]
    _write(folder / "tasks" / "nli" / "snli_dev.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    for name in ("train", "test"):
        _write(folder / "tasks" / "squad_devsplit" / f"{name}.json", json.dumps(squad()))
    _write_gz(
        folder / "tasks" / "semcor" / "semcor.jsonl.gz",
        "".join(json.dumps({"doc": "d", **one}) + "\n" for one in SEMCOR),
    )
    for name in SETS:
        _write(folder / "tasks" / "wsd_eval" / name / f"{name}.data.xml", RAGANATO)
        _write(folder / "tasks" / "wsd_eval" / name / f"{name}.gold.key.txt", GOLD)
    _write(folder / "index.sense", INDEX)
    words = ("the", "play", "rome", "dog", "is", ".")
    vectors = "".join(f"{word} {number}.5 -{number}.25 {number}\n" for number, word in enumerate(words))
    _write_gz(folder / "vectors" / "glove.6B.50d.top100k.txt.gz", f"{len(words)} 3\n{vectors}")


def squad() -> dict[str, object]:
    entries = [
        {"id": "1", "question": "What is Rome?", "answers": [{"text": "the capital", "answer_start": 8}]},
        {
            "id": "2",
            "question": "Where does it lie?",
            "answers": [{"text": "the Tiber", "answer_start": 41}, {"text": "Tiber", "answer_start": 45}],
        },
    ]
    return {"version": "1.1", "data": [{"title": "Rome", "paragraphs": [{"context": CONTEXT, "qas": entries}]}]}


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _write_gz(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode(), mtime=0))
