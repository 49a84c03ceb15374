"""How far the vectors of each precision are from float64, layer by layer.

    python -m tests.benchmarks.precision

The exact vectors are those of `ElmoModel.forward` in float64, one sentence at a time. `error` is the root mean square
of the differences over that of the exact values; `cosine` is between each word's vectors.
"""

import argparse
import copy

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from hf_elmo import ElmoModel
from hf_elmo.character_ids import BOS_WORD, EOS_WORD, words_to_character_ids
from hf_elmo.embedder import ElmoEmbedder
from hf_elmo.model_source import load_model
from tests.benchmarks.sentences import DEFAULT_TEXT, read_sentences, text_file

PRECISIONS = ("fp32", "bf16", "int8")


@torch.no_grad()
def exact_layers(model: ElmoModel, sentences: list[list[str]]) -> np.ndarray:
    """(L + 1, words of all sentences, 2P)"""
    double = copy.deepcopy(model).double()
    length = model.config.max_characters_per_word
    layers = []
    for sentence in sentences:
        rows = words_to_character_ids([BOS_WORD, *sentence, EOS_WORD], max_characters_per_word=length)
        output = double(torch.from_numpy(rows).unsqueeze(0), output_hidden_states=True)
        layers.append(torch.cat(output.hidden_states)[:, 1:-1].numpy())
    return np.concatenate(layers, axis=1)


def errors(found: np.ndarray, exact: np.ndarray) -> tuple[float, float, float, float]:
    """Of one layer (words, 2P): relative error, largest difference, mean and least cosine."""
    difference = found - exact
    cosines = (found * exact).sum(axis=1) / (np.linalg.norm(found, axis=1) * np.linalg.norm(exact, axis=1))
    relative = float(np.sqrt(np.square(difference).mean() / np.square(exact).mean()))
    return relative, float(np.abs(difference).max()), float(cosines.mean()), float(cosines.min())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default=None, help="folder or Hub id (default: the shipped model)")
    parser.add_argument("--text", type=text_file, default=DEFAULT_TEXT, help="UTF-8 text, .txt or .gz")
    parser.add_argument("--words", type=int, default=1000, help="how many of its words (default: 1000)")
    arguments = parser.parse_args()
    model = load_model(arguments.model)
    sentences = read_sentences(arguments.text, arguments.words)
    exact = exact_layers(model, sentences)
    shown = Table(title=f"against float64, {exact.shape[1]:,} words")
    for column in ("precision", "layer", "error", "largest", "cosine, mean", "cosine, least"):
        shown.add_column(column, justify="left" if column == "precision" else "right")
    for precision in PRECISIONS:
        try:
            embedder = ElmoEmbedder(model, precision=precision)
        except ValueError as refused:
            shown.add_row(precision, str(refused))
            continue
        found = np.concatenate(embedder.embed(sentences, layers="all"), axis=1)
        for layer in range(len(exact)):
            relative, largest, mean, least = errors(found[layer], exact[layer])
            shown.add_row(precision, str(layer), f"{relative:.1e}", f"{largest:.1e}", f"{mean:.6f}", f"{least:.6f}")
    Console(width=120).print(shown)


if __name__ == "__main__":
    main()
