"""SemCor as JSON lines, the test sets of Raganato et al. (2017), and WordNet's order of senses."""

import gzip
import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import NamedTuple

# The digit of a sense key: nouns, verbs, adjectives (and their satellites, 5), adverbs.
_PARTS = {"NOUN": "1", "VERB": "2", "ADJ": "3", "ADV": "4"}


class Use(NamedTuple):
    """A word, or several that are one, in a sentence.

    Attributes:
        start, end: its first word, and the word after its last.
        lemma: with its part of speech, such as "play%1".
        senses: the WordNet sense keys that are right.
        name: of a test's instance.
    """

    start: int
    end: int
    lemma: str
    senses: frozenset[str]
    name: str = ""


class Sensed(NamedTuple):
    """A sentence and those of its words whose sense is known."""

    words: list[str]
    uses: list[Use]


def lemma_of(key: str) -> str:
    """Of a sense key, with its part of speech: play%1:04:00:: → play%1; satellites (5) count as adjectives (3)."""
    lemma, _, rest = key.partition("%")
    return f"{lemma}%{rest[:1].replace('5', '3')}"


def sense_keys(key: str) -> list[str]:
    """SemCor writes several senses of a word as one key: year%1:28:02::;1:28:01:: → year%1:28:02::, year%1:28:01::."""
    lemma, _, rest = key.partition("%")
    return [f"{lemma}%{sense}" for sense in rest.split(";")]


def read_semcor(path: Path) -> list[Sensed]:
    """The sentences of SemCor; words joined by "_" are taken apart."""
    sentences = []
    for line in gzip.decompress(path.read_bytes()).decode().splitlines():
        entry = json.loads(line)
        words: list[str] = []
        places = []
        for token in entry["tokens"]:
            parts = [part for part in token.split("_") if part] or [token]
            places.append((len(words), len(words) + len(parts)))
            words.extend(parts)
        uses = []
        for sense in entry["senses"]:
            start, end = places[sense["i"]]
            keys = [key for joined in sense["keys"] for key in sense_keys(joined)]
            uses.append(Use(start, end, lemma_of(keys[0]), frozenset(keys)))
        sentences.append(Sensed(words, uses))
    return sentences


def read_raganato(folder: Path) -> list[Sensed]:
    """One test set: NAME.data.xml and NAME.gold.key.txt.

    Raises:
        ValueError: an instance without a key.
    """
    name = folder.name
    gold = {}
    for line in (folder / f"{name}.gold.key.txt").read_text(encoding="utf-8").splitlines():
        instance, *keys = line.split()
        gold[instance] = frozenset(keys)
    sentences = []
    for sentence in ET.parse(folder / f"{name}.data.xml").iter("sentence"):
        words: list[str] = []
        uses = []
        for element in sentence:
            parts = (element.text or "").replace("_", " ").split() or [element.text or "_"]
            if element.tag == "instance":
                instance = element.attrib["id"]
                if instance not in gold:
                    raise ValueError(f"{folder}: got no key of {instance}; expected one in {name}.gold.key.txt.")
                lemma = f"{element.attrib['lemma'].lower()}%{_PARTS[element.attrib['pos']]}"
                uses.append(Use(len(words), len(words) + len(parts), lemma, gold[instance], instance))
            words.extend(parts)
        sentences.append(Sensed(words, uses))
    return sentences


def read_first_senses(path: Path) -> dict[str, str]:
    """Each lemma's first sense, from WordNet's index.sense."""
    first = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        key, _, number, _ = line.split()
        if number == "1":
            first[lemma_of(key)] = key
    return first
