"""One word, two meanings: the vectors of "bark" in four sentences, compared."""

import numpy as np

from hf_elmo.allennlp import ElmoEmbedder

SENTENCES = [
    "The dog let out a sharp bark .",
    "We heard the dog give a loud bark .",
    "The bark of the old oak was rough and grey .",
    "The bark of the tall pine was dark and wet .",
]
TOKENS = [sentence.split() for sentence in SENTENCES]


def cosine(u: np.ndarray, v: np.ndarray) -> float:
    return float(u @ v / (np.linalg.norm(u) * np.linalg.norm(v)))


def main() -> None:
    elmo = ElmoEmbedder()
    barks = []
    for vectors, sentence in zip(elmo.embed_sentences(TOKENS), TOKENS, strict=True):
        assert vectors.shape[:2] == (3, len(sentence))
        barks.append(vectors[:, sentence.index("bark")])  # (3, width)

    # The token layer knows the spelling only; the layers above tell the meanings apart.
    assert np.allclose(barks[0][0], barks[2][0], atol=1e-5)
    dog, dog_too, tree, tree_too = (bark[1:].mean(axis=0) for bark in barks)
    print(f"dog ~ dog {cosine(dog, dog_too):.3f}, tree ~ tree {cosine(tree, tree_too):.3f}")
    for one in (dog, dog_too):
        for other in (tree, tree_too):
            print(f"dog ~ tree {cosine(one, other):.3f}")
            assert cosine(one, other) < cosine(dog, dog_too)
            assert cosine(one, other) < cosine(tree, tree_too)


if __name__ == "__main__":
    main()
