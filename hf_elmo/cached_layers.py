"""An embedder with a memory: the biLM reads every sentence once."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from hf_elmo.embedder import ElmoEmbedder
from hf_elmo.layer_cache import LayerCache
from hf_elmo.weights_hash import RememberedHash


class CachedLayers:
    """Every layer of sentences, from a cache as far as they are there.

    Args:
        embedder: computes those that are not.
        cache: where they are kept; may serve several embedders.
    """

    def __init__(self, embedder: ElmoEmbedder, cache: LayerCache) -> None:
        self.embedder = embedder
        self.cache = cache
        self._hash = RememberedHash(embedder.model, mix=False)

    def embed(self, sentences: Sequence[Sequence[str]]) -> Iterator[NDArray[np.float32]]:
        """The layers of each sentence, in the order given; not to be written to.

        A sentence that is there twice is computed once.

        Shape:
            per sentence of n words (L + 1, n, 2P)

        Raises:
            ValueError: as `ElmoEmbedder.embed`.
            TypeError: as `ElmoEmbedder.embed`.
        """
        weights = f"{self._hash()} {self.embedder.precision}"
        places = [tuple(sentence) for sentence in sentences]
        waiting: dict[tuple[str, ...], int] = {}  # how often each is still to be given
        for words in places:
            waiting[words] = waiting.get(words, 0) + 1
        found = {words: self.cache.get(weights, words) for words in waiting}
        missing = [words for words, layers in found.items() if layers is None]
        computed = self.embedder.embed(missing, layers="all")[::-1]
        for words in missing:
            found[words] = self.cache.put(weights, words, computed.pop())
        for words in places:
            layers = found[words]
            assert layers is not None
            waiting[words] -= 1
            if not waiting[words]:  # what was given is not held on to
                del found[words]
            yield layers
            del layers
