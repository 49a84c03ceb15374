"""Text or words to what ELMo reads: word ids, character ids and the attention mask.

Words are never lower-cased, normalised or split further: `is_split_into_words=True` keeps each one whole.
Raw text is split by rules of its own, which give the tokens of `spacy.blank("en")` but no white space tokens.
"""

import copy
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Encoding, Tokenizer
from tokenizers.models import WordLevel
from transformers import BatchEncoding, TokenizersBackend
from transformers.utils import TensorType

from hf_elmo.auto_map import FoundByAutoMap, tokenizer_auto_map, write_shim
from hf_elmo.character_ids import (
    BOS_WORD,
    DEFAULT_MAX_CHARACTERS,
    EOS_WORD,
    NO_WORD,
    PAD_WORD,
    UNK_WORD,
    bad_word,
    check_max_characters,
    is_cut,
    words_to_character_ids,
)
from hf_elmo.english_splitting import english_splitting
from hf_elmo.vocabulary_file import SPECIAL_WORDS, check_vocabulary, read_vocabulary

# tokenizers drops empty words. This one takes their place: no vocabulary holds it, so it is unknown as well.
_EMPTY_WORD = "\n"


class ElmoTokenizer(FoundByAutoMap, TokenizersBackend):
    """Sentences to `input_ids` (word ids), `character_ids` and `attention_mask`, with `<S> </S>` around each.

    A pair is two sentences, each with its own boundaries: `<S> a </S> <S> b </S>`.

    `vocab` are the words of the language model by falling frequency: the path of a vocabulary file, the list
    of its lines (`<S>`, `</S>`, `<UNK>` first), or a mapping of words to ids with `<pad>` 0, as `get_vocab()`
    returns it. Without it all words have the id of `<UNK>`; their character ids, which are all that ELMo
    reads, are spelled the same.

    Shape:
        input_ids, attention_mask (batch, words) · character_ids (batch, words, max_characters_per_word)
    """

    vocab_files_names = {"vocab_file": "vocab.txt", "tokenizer_file": "tokenizer.json"}
    model_input_names = ["input_ids", "character_ids", "attention_mask"]
    model: Any = WordLevel
    _tokenizer: Any

    def __init__(
        self,
        vocab: str | os.PathLike[str] | Sequence[str] | Mapping[str, int] | None = None,
        *,
        max_characters_per_word: int = DEFAULT_MAX_CHARACTERS,
        pad_token: str = PAD_WORD,
        bos_token: str = BOS_WORD,
        eos_token: str = EOS_WORD,
        unk_token: str = UNK_WORD,
        **kwargs: Any,
    ) -> None:
        check_max_characters(max_characters_per_word)
        saved = kwargs.get("tokenizer_file") is not None or kwargs.get("tokenizer_object") is not None
        boundaries_given = "add_bos_token" in kwargs or "add_eos_token" in kwargs
        if not saved:
            self._tokenizer = _new_backend(vocab if vocab is not None else kwargs.get("vocab_file"))
        if boundaries_given or not saved:
            kwargs = {"add_bos_token": True, "add_eos_token": True} | kwargs
        super().__init__(
            max_characters_per_word=int(max_characters_per_word),
            pad_token=pad_token,
            bos_token=bos_token,
            eos_token=eos_token,
            unk_token=unk_token,
            **kwargs,
        )
        self.max_characters_per_word = int(max_characters_per_word)
        self._check_special_ids()
        if not boundaries_given:  # a saved tokenizer.json says it only by its post-processor
            added = self._tokenizer.encode("").ids
            self._add_bos_token, self._add_eos_token = self.bos_token_id in added, self.eos_token_id in added

    @classmethod
    def from_vocab_file(cls, path: str | os.PathLike[str], **kwargs: Any) -> "ElmoTokenizer":
        """The tokenizer of a vocabulary file: one word a line, `<S>`, `</S>`, `<UNK>` first, no `<pad>`."""
        return cls(Path(path), **kwargs)

    @classmethod
    def convert_to_native_format(cls, trust_remote_code: bool = False, **kwargs: Any) -> dict[str, Any]:
        """What `from_pretrained` builds a tokenizer of: tokenizer.json as it was saved, else vocab.txt.

        The base class would keep only the words of tokenizer.json and build the rest anew: a model would not keep
        the splitting it was trained with.
        """
        if kwargs.get("tokenizer_file") is not None and os.path.isfile(kwargs["tokenizer_file"]):
            return kwargs
        native: dict[str, Any] = super().convert_to_native_format(trust_remote_code, **kwargs)
        return native

    def split_into_words(self, text: str) -> list[str]:
        """The words of a raw text, as the tokenizer itself would find them."""
        return [word for word, _ in self._tokenizer.pre_tokenizer.pre_tokenize_str(text)]

    def count_cut_words(self, words: Iterable[str]) -> int:
        """How many of the words have more than `max_characters_per_word - 2` bytes: ELMo misses their end."""
        if isinstance(words, str):
            raise TypeError(f"expected words, got the string {words[:60]!r}: use split_into_words(text)")
        return sum(is_cut(word, max_characters_per_word=self.max_characters_per_word) for word in words)

    def save_vocabulary(self, save_directory: str, filename_prefix: str | None = None) -> tuple[str]:
        """Write vocab.txt: the words by id, one a line, without `<pad>`."""
        name = (filename_prefix + "-" if filename_prefix else "") + self.vocab_files_names["vocab_file"]
        words = sorted(self._tokenizer.get_vocab(with_added_tokens=False).items(), key=lambda item: item[1])
        path = Path(save_directory, name)
        path.write_text("".join(f"{word}\n" for word, _ in words[1:]), encoding="utf-8", newline="\n")
        return (str(path),)

    @property
    def _auto_map(self) -> dict[str, Any]:
        """What the base class writes into tokenizer_config.json."""
        return tokenizer_auto_map()

    def _save_pretrained(
        self, save_directory: str | os.PathLike[str], file_names: tuple[str, ...], *args: Any, **kwargs: Any
    ) -> tuple[str, ...]:
        """As in the base class, and the file by which `trust_remote_code=True` finds this class."""
        names: tuple[str, ...] = super()._save_pretrained(save_directory, file_names, *args, **kwargs)
        return (*names, write_shim(save_directory))

    def pad(self, encoded_inputs: Any, *args: Any, **kwargs: Any) -> BatchEncoding:
        """As in the base class; where there is no word the character ids are 0."""
        padded = super().pad(encoded_inputs, *args, **kwargs)
        rows = padded.get("character_ids")
        if isinstance(rows, np.ndarray) and isinstance(padded["input_ids"], list):  # a single encoding
            padded["character_ids"] = rows.tolist()
        elif isinstance(rows, list):
            padded["character_ids"] = [np.asarray(sentence).tolist() for sentence in rows]
        return padded

    def _pad(self, encoded_inputs: Any, **kwargs: Any) -> Any:  # type: ignore[override]
        padded = super()._pad(encoded_inputs, **kwargs)
        if "character_ids" in padded:
            # An array, not lists: transformers turns it into a tensor many times faster.
            rows = np.asarray(padded["character_ids"], dtype=np.int64)
            rows = rows.reshape(-1, self.max_characters_per_word)
            missing = len(padded["input_ids"]) - len(rows)
            before = missing if (kwargs.get("padding_side") or self.padding_side) == "left" else 0
            widths = ((before, missing - before), (0, 0))
            padded["character_ids"] = np.pad(rows, widths, constant_values=NO_WORD)  # (words, C)
        return padded

    def _encode_plus(  # type: ignore[override]
        self,
        text: Any,
        text_pair: Any = None,
        add_special_tokens: bool = True,
        *,
        is_split_into_words: bool = False,
        return_tensors: Any = None,
        **kwargs: Any,
    ) -> BatchEncoding:
        samples, batched = _samples(text, text_pair, is_split_into_words)
        inputs: Any = [tuple(map(_without_empty_words, sample)) for sample in samples]
        # As a batch always: the base class takes a single text with an empty second one for no pair.
        encoded: BatchEncoding = TokenizersBackend._encode_plus(
            self._keeping_words_whole() if is_split_into_words else self,
            [sample if len(sample) == 2 else sample[0] for sample in inputs],
            None,
            add_special_tokens,
            is_split_into_words=is_split_into_words,
            return_tensors=return_tensors,
            **kwargs,
        )
        encodings = encoded.encodings or []
        origin = encoded.get("overflow_to_sample_mapping", range(len(encodings)))
        words = [self._words(e, samples[int(i)]) for e, i in zip(encodings, origin, strict=True)]
        if is_split_into_words:
            self._give_added_words_their_ids(encoded["input_ids"], words)
        rows = self._character_ids(encodings, words)  # one (words, C) a sentence
        if return_tensors is not None:
            encoded["character_ids"] = _tensor(np.stack(rows), return_tensors)  # (batch, words, C)
            return encoded
        encoded["character_ids"] = [sentence.tolist() for sentence in rows]
        if batched or kwargs.get("return_overflowing_tokens"):
            return encoded
        return BatchEncoding({key: value[0] for key, value in encoded.items()}, encodings)

    def _words(self, encoding: Encoding, sample: tuple[Any, ...]) -> list[str]:
        """The word at each position of an encoding: cut out of the text, or one of the words given."""
        boundaries = {self.bos_token_id: BOS_WORD, self.eos_token_id: EOS_WORD}
        words = []
        for token, part, word, (start, end) in zip(
            encoding.ids, encoding.sequence_ids, encoding.word_ids, encoding.offsets, strict=True
        ):
            if word is None:  # not of the sample: a boundary or padding
                words.append(boundaries.get(token) or self._tokenizer.id_to_token(token))
            else:
                source = sample[part or 0]
                words.append(source[start:end] if isinstance(source, str) else source[word])
        return words

    def _character_ids(self, encodings: list[Encoding], words: list[list[str]]) -> list[NDArray[np.int64]]:
        flat = [word for sentence in words for word in sentence]
        rows = words_to_character_ids(flat, max_characters_per_word=self.max_characters_per_word)
        is_word = np.array([bit for encoding in encodings for bit in encoding.attention_mask], dtype=bool)
        rows[~is_word] = NO_WORD
        ends = np.cumsum([len(sentence) for sentence in words])
        return np.split(rows, ends[:-1])

    def _keeping_words_whole(self) -> "ElmoTokenizer":
        """The tokenizer with a backend that only looks words up, sharing the vocabulary.

        Made anew for each call, so that calls with words and with raw text may run side by side.
        """
        view = copy.copy(self)
        view._tokenizer = Tokenizer(self._tokenizer.model)
        view._tokenizer.post_processor = self._tokenizer.post_processor
        return view

    def _give_added_words_their_ids(self, input_ids: Any, words: list[list[str]]) -> None:
        known = self.vocab_size
        added = {token.content: i for i, token in self.added_tokens_decoder.items() if i >= known}
        if added:
            for ids, sentence in zip(input_ids, words, strict=True):
                for position, word in enumerate(sentence):
                    if word in added:
                        ids[position] = added[word]

    def _check_special_ids(self) -> None:
        got = (self.pad_token_id, self.bos_token_id, self.eos_token_id, self.unk_token_id)
        if got != (0, 1, 2, 3):
            raise ValueError(
                f"{PAD_WORD} {' '.join(SPECIAL_WORDS)} have the ids {got}, expected (0, 1, 2, 3): load a "
                "tokenizer saved by ElmoTokenizer, or pass a vocabulary, and leave the special tokens alone"
            )


# What a call gives


def _samples(text: Any, text_pair: Any, is_split_into_words: bool) -> tuple[list[tuple[Any, ...]], bool]:
    """The samples, each one or two texts (or lists of words), and whether they came as a batch."""
    batched = isinstance(text, list | tuple) and (
        not is_split_into_words or (len(text) > 0 and isinstance(text[0], list | tuple))
    )
    if not batched:
        samples = [(text,) if text_pair is None else (text, text_pair)]
    elif text_pair is None:
        samples = [_sample(item, is_split_into_words) for item in text]
    elif isinstance(text_pair, list | tuple) and len(text) == len(text_pair):
        samples = list(zip(text, text_pair, strict=True))
    else:
        got = len(text_pair) if isinstance(text_pair, list | tuple) else type(text_pair).__name__
        raise ValueError(f"text_pair must be a list as long as text: got {got}, expected {len(text)}")
    if not samples:
        raise ValueError("got an empty batch, expected at least one text")
    for index, sample in enumerate(samples):
        for part in sample:
            where = f"sentence {index}" if batched else "the sentence"
            if is_split_into_words:
                _check_words(part, where)
            else:
                _check_text(part, where)
    return samples, batched


def _sample(item: Any, is_split_into_words: bool) -> tuple[Any, ...]:
    """One item of a batch, which may be a pair."""
    if not isinstance(item, list | tuple):
        return (item,)
    is_pair = len(item) > 0 and isinstance(item[0], list | tuple) if is_split_into_words else len(item) == 2
    return tuple(item) if is_pair else (item,)


def _check_words(words: Any, where: str) -> None:
    if not isinstance(words, list | tuple):
        raise TypeError(
            f"{where} is {type(words).__name__}, expected a list of words; "
            "leave out is_split_into_words=True to have a text split"
        )
    try:
        "".join(words).encode("utf-8")
    except (TypeError, UnicodeEncodeError):
        raise bad_word(words, where=f"{where}, ") from None


def _check_text(text: Any, where: str) -> None:
    if not isinstance(text, str):
        raise TypeError(
            f"{where} is {type(text).__name__}, expected a string; pass is_split_into_words=True for lists of words"
        )
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{where} holds a lone surrogate at position {error.start}, which has no UTF-8 spelling, near "
            f"{text[max(0, error.start - 10) : error.start + 10]!r}; decode the text with errors='replace'"
        ) from None


def _without_empty_words(part: Any) -> Any:
    return part if isinstance(part, str) else [word or _EMPTY_WORD for word in part]


def _tensor(rows: NDArray[np.int64], kind: str | TensorType) -> Any:
    """`rows` (batch, words, C) as the kind of tensor that was asked for."""
    if TensorType(kind) == TensorType.NUMPY:
        return rows
    # A list of arrays is what BatchEncoding converts fast.
    return BatchEncoding({"character_ids": list(rows)}, tensor_type=kind)["character_ids"]


# Vocabulary


def _new_backend(vocab: str | os.PathLike[str] | Sequence[str] | Mapping[str, int] | None) -> Tokenizer:
    backend = Tokenizer(WordLevel(_word_ids(vocab), unk_token=UNK_WORD))
    backend.pre_tokenizer = english_splitting()
    return backend


def _word_ids(vocab: str | os.PathLike[str] | Sequence[str] | Mapping[str, int] | None) -> dict[str, int]:
    """Ids by word, `<pad>` 0 before the words of the vocabulary."""
    if vocab is None:
        words: list[str] = list(SPECIAL_WORDS)
    elif isinstance(vocab, str | os.PathLike):
        words = read_vocabulary(Path(vocab))
    elif isinstance(vocab, Mapping):
        by_id = sorted(vocab, key=vocab.__getitem__)
        if [vocab[word] for word in by_id] != list(range(len(by_id))) or by_id[:1] != [PAD_WORD]:
            raise ValueError(f"the ids of a vocab mapping must be 0 ({PAD_WORD}), 1, 2, ... without gaps")
        words = by_id[1:]
        check_vocabulary((f"vocab, id {i}", word) for i, word in enumerate(words, start=1))
    else:
        words = list(vocab)
        check_vocabulary((f"vocab, word {i}", word) for i, word in enumerate(words))
    return {word: i for i, word in enumerate((PAD_WORD, *words))}
