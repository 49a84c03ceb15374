"""Computing the layers of a corpus before training, into a folder that training then reads."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import spacy
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Corpus
from spacy.util import load_config, load_model_from_config

from hf_elmo.layer_cache import CacheStatistics
from spacy_elmo.bilm import BiLM
from spacy_elmo.component import ElmoComponent
from spacy_elmo.elmo_source import bilm_of

_DOCS_AT_ONCE = 64
_EXPECTED = "expected a .spacy file, or a folder of these, as `python -m spacy convert` writes them."


class Warmed(NamedTuple):
    """How far the work is.

    Attributes:
        docs: read so far.
        words: in them.
        statistics: of each biLM's cache.
    """

    docs: int
    words: int
    statistics: list[CacheStatistics]


class CacheWarming:
    """A pipeline's biLMs, and docs as its training will show them.

    Args:
        pipeline: a `config.cfg`, or the folder or package of a pipeline.
        cache_dir: the folder to fill.
        cache_dir_size: bound on it, in bytes; None is the default's.
        store_dtype: as training will have it; None takes it from the pipeline.

    Raises:
        OSError: there is no such pipeline.
        ValueError: it has no frozen biLM.
    """

    def __init__(
        self,
        pipeline: str | Path,
        *,
        cache_dir: str | Path,
        cache_dir_size: int | None = None,
        store_dtype: str | None = None,
    ) -> None:
        trained = not _is_config(pipeline)
        if not trained and not Path(pipeline).is_file():
            raise FileNotFoundError(
                f"{pipeline}: got no such file; expected a configuration, as `python -m spacy_elmo init-config` writes "
                "it, or the folder of a pipeline."
            )
        self.nlp = spacy.load(pipeline) if trained else load_model_from_config(load_config(pipeline), auto_fill=True)
        self.bilms = frozen_bilms(self.nlp)
        if not self.bilms:
            raise ValueError(
                f"{pipeline}: got the components {', '.join(self.nlp.pipe_names) or 'none'}; expected one with a "
                "frozen biLM, such as elmo. The layers of a biLM that is trained change at every step."
            )
        for bilm in self.bilms.values():
            bilm.cache_options = bilm.cache_options.changed(
                cache_dir=str(cache_dir), cache_dir_size=cache_dir_size, store_dtype=store_dtype or self._store_dtype()
            )
        self._before = self._annotating(trained=trained)

    def documents(self, data: Path) -> Iterator[Doc]:
        """The docs of a `.spacy` file or a folder of these, tokenised and cut as by the training corpus.

        Raises:
            FileNotFoundError: there is none.
            ValueError: it is something else.
        """
        if not data.exists():
            raise FileNotFoundError(f"{data}: got no such file; {_EXPECTED}")
        if not any(data.rglob("*.spacy")) if data.is_dir() else data.suffix != ".spacy":
            raise ValueError(f"{data}: got no docs; {_EXPECTED}")
        reader = self.nlp.config.interpolate()["corpora"]["train"]
        options = {name: reader[name] for name in ("gold_preproc", "max_length") if name in reader}
        for example in Corpus(data, **options)(self.nlp):
            yield example.predicted

    def run(self, docs: Iterator[Doc]) -> Iterator[Warmed]:
        """Compute what is not there yet; says after each group of docs how far it is."""
        done = words = 0
        group: list[Doc] = []
        for doc in docs:
            group.append(doc)
            if len(group) == _DOCS_AT_ONCE:
                self._read(group)
                done, words, group = done + len(group), words + sum(map(len, group)), []
                yield self._warmed(done, words)
        self._read(group)
        yield self._warmed(done + len(group), words + sum(map(len, group)))

    def _read(self, docs: Sequence[Doc]) -> None:
        for bilm in self.bilms.values():
            annotated = [self._annotate(doc.copy(), self._before[id(bilm)]) for doc in docs]
            bilm.layers_of(annotated)

    def _annotate(self, doc: Doc, names: Sequence[str]) -> Doc:
        for name in names:
            doc = self.nlp.get_pipe(name)(doc)
        return doc

    def _warmed(self, docs: int, words: int) -> Warmed:
        caches = (bilm.cache for bilm in self.bilms.values())
        return Warmed(docs, words, [cache.statistics for cache in caches if cache is not None])

    def _annotating(self, *, trained: bool) -> dict[int, list[str]]:
        """Per biLM the components that annotate a doc before it: those whose sentence boundaries it sees."""
        names = self.nlp.pipe_names
        annotating = names if trained else self.nlp.config["training"]["annotating_components"]
        return {
            id(bilm): [
                one
                for one in names[: names.index(name)]
                if one in annotating and not isinstance(self.nlp.get_pipe(one), ElmoComponent)
            ]
            for name, bilm in self.bilms.items()
        }

    def _store_dtype(self) -> str | None:
        """That which `[initialize]` asks for."""
        settings: dict[str, Any] = self.nlp.config["initialize"]
        asked = [settings["components"].get(name, {}).get("store_dtype") for name in self.bilms]
        before_init = settings["before_init"] or {}
        if before_init.get("@callbacks") == "spacy_elmo.set_cache.v1":
            asked.append(before_init.get("store_dtype"))
        return next((one for one in asked if one is not None), None)


def frozen_bilms(nlp: Language) -> dict[str, BiLM]:
    """The biLMs of a pipeline that are not trained, by the component they belong to."""
    found = {}
    for name, component in nlp.pipeline:
        if isinstance(component, ElmoComponent):
            if component.fine_tuning is None:
                found[name] = component.shim
            continue
        for node in component.model.walk() if hasattr(component, "model") and hasattr(component.model, "walk") else ():
            if node.name == "elmo_model":
                found[name] = bilm_of(node)
    return found


def _is_config(pipeline: str | Path) -> bool:
    return Path(pipeline).suffix == ".cfg"
