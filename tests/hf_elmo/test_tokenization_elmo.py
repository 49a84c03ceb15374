import copy
import json
import pickle
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import spacy
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import Tokenizer
from transformers import AutoTokenizer, DataCollatorForTokenClassification, DataCollatorWithPadding

from hf_elmo.auto_map import SHIM
from hf_elmo.english_splitting import english_splitting
from hf_elmo.tokenization_elmo import ElmoTokenizer
from tests.oracles.numpy_elmo import sentence_to_ids, word_to_ids

FILE_WORDS = ["<S>", "</S>", "<UNK>", "the", "cat", ",", "sat", "New-York", "The"]
IDS = {word: i for i, word in enumerate(["<pad>", *FILE_WORDS])}
NO_WORD = [0] * 50


@pytest.fixture(scope="module")
def tokenizer():
    return ElmoTokenizer(FILE_WORDS)


@pytest.fixture
def vocab_file(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("".join(f"{word}\n" for word in FILE_WORDS), encoding="utf-8")
    return path


def word_ids(sentence):
    return [IDS["<S>"], *(IDS.get(word, IDS["<UNK>"]) for word in sentence), IDS["</S>"]]


def lists(encoded):
    """Everything as lists, so that encodings can be compared."""
    return {key: value.tolist() if hasattr(value, "tolist") else value for key, value in encoded.items()}


# Words


odd_words = st.one_of(
    st.sampled_from([*FILE_WORDS, "", " ", "a b", "\n", "\0", "\u200b", "e\u0301", "New-York,", "x<S>y", "don't"]),
    st.text(max_size=12),
    st.text(min_size=48, max_size=70),
)
sentences = st.lists(odd_words, max_size=6)


@given(st.lists(sentences, min_size=1, max_size=4))
@example([["New-York", "", "a b", " ", "<S>", "x<S>y", "</S>", "<UNK>", "U.S.", "don't"], []])
@example([[], []])
def test_each_given_word_is_one_position(tokenizer, batch):
    encoded = tokenizer(batch, is_split_into_words=True)
    assert encoded["input_ids"] == [word_ids(sentence) for sentence in batch]
    assert encoded["character_ids"] == [sentence_to_ids(sentence).tolist() for sentence in batch]
    assert encoded["attention_mask"] == [[1] * (len(sentence) + 2) for sentence in batch]
    for i, sentence in enumerate(batch):
        assert encoded.word_ids(i) == [None, *range(len(sentence)), None]


@given(st.lists(sentences, min_size=1, max_size=4), st.sampled_from(["left", "right"]), st.integers(1, 9))
def test_padding_adds_zero_rows_and_changes_nothing_else(tokenizer, batch, side, multiple):
    encoded = tokenizer(
        batch,
        is_split_into_words=True,
        padding=True,
        padding_side=side,
        pad_to_multiple_of=multiple,
        return_tensors="np",
    )
    longest = max(map(len, batch)) + 2
    width = -(-longest // multiple) * multiple
    assert encoded["character_ids"].shape == (len(batch), width, 50)
    for i, sentence in enumerate(batch):
        n = len(sentence) + 2
        here = slice(width - n, width) if side == "left" else slice(0, n)
        assert encoded["input_ids"][i, here].tolist() == word_ids(sentence)
        assert np.array_equal(encoded["character_ids"][i, here], sentence_to_ids(sentence))
        for name in ("input_ids", "character_ids", "attention_mask"):
            outside = encoded[name][i].copy()
            outside[here] = 0
            assert not outside.any(), name
        assert encoded["attention_mask"][i].sum() == n


@given(sentences, st.integers(2, 9), st.sampled_from(["left", "right"]))
def test_truncation_keeps_the_boundaries(tokenizer, sentence, max_length, side):
    tokenizer = copy.deepcopy(tokenizer)
    tokenizer.truncation_side = side
    encoded = tokenizer(sentence, is_split_into_words=True, truncation=True, max_length=max_length)
    room = max_length - 2
    kept = sentence[:room] if side == "right" else sentence[len(sentence) - min(room, len(sentence)) :]
    assert encoded["input_ids"] == word_ids(kept)
    assert encoded["character_ids"] == sentence_to_ids(kept).tolist()


def test_overflowing_words_come_as_further_rows(tokenizer):
    sentence = [f"w{i}" for i in range(7)]
    encoded = tokenizer(
        [["a"], sentence],
        is_split_into_words=True,
        truncation=True,
        max_length=5,
        stride=1,
        return_overflowing_tokens=True,
    )
    pieces = [["a"], sentence[:3], sentence[2:5], sentence[4:7]]
    assert encoded["overflow_to_sample_mapping"] == [0, 1, 1, 1]
    assert encoded["character_ids"] == [sentence_to_ids(piece).tolist() for piece in pieces]


def test_max_length_padding(tokenizer):
    encoded = tokenizer(["the", "cat"], is_split_into_words=True, padding="max_length", max_length=6)
    assert encoded["input_ids"] == [1, 4, 5, 2, 0, 0]
    assert encoded["character_ids"] == [*sentence_to_ids(["the", "cat"]).tolist(), NO_WORD, NO_WORD]


@pytest.mark.parametrize("given_as", [list, tuple])
def test_pairs_are_two_sentences(tokenizer, given_as):
    first, second = ["the", "cat"], ["sat"]
    expected = sentence_to_ids(first).tolist() + sentence_to_ids(second).tolist()
    for encoded in (
        lists(tokenizer(given_as(first), given_as(second), is_split_into_words=True)),
        {k: v[0] for k, v in tokenizer([given_as(first)], [given_as(second)], is_split_into_words=True).items()},
        {k: v[0] for k, v in tokenizer([(first, second)], is_split_into_words=True).items()},
        lists(tokenizer("the cat", "sat")),
        {k: v[0] for k, v in tokenizer([("the cat", "sat")]).items()},
        {k: v[0] for k, v in tokenizer([["the cat", "sat"]]).items()},
    ):
        assert encoded["input_ids"] == [1, 4, 5, 2, 1, 7, 2]
        assert encoded["character_ids"] == expected
    assert tokenizer("the cat", "sat").sequence_ids() == [None, 0, 0, None, None, 1, None]
    assert tokenizer("the cat", "sat", return_token_type_ids=True)["token_type_ids"] == [0, 0, 0, 0, 1, 1, 1]


def test_pairs_without_boundaries_truncated(tokenizer):
    encoded = tokenizer(
        [["a", "b"], ["c"]],
        [["d"], ["e", "f", "g"]],
        is_split_into_words=True,
        add_special_tokens=False,
        truncation=True,
        max_length=3,
        padding="max_length",
    )
    assert encoded["character_ids"] == [[word_to_ids(w) for w in words] for words in ("abd", "cef")]


def test_special_tokens_mask_and_number(tokenizer):
    encoded = tokenizer("the <S> cat", "sat", return_special_tokens_mask=True, padding="max_length", max_length=9)
    assert encoded["special_tokens_mask"] == [1, 0, 0, 0, 1, 1, 0, 1, 1]
    assert (tokenizer.num_special_tokens_to_add(), tokenizer.num_special_tokens_to_add(pair=True)) == (2, 4)


def test_without_boundaries(tokenizer):
    encoded = tokenizer(["the", "cat"], is_split_into_words=True, add_special_tokens=False)
    assert encoded["input_ids"] == [4, 5]
    assert encoded["character_ids"] == [word_to_ids("the"), word_to_ids("cat")]
    assert tokenizer("", add_special_tokens=False)["character_ids"] == []


def test_tensors_and_lists_agree(tokenizer):
    batch = [["the", "cat"], ["New-York", "", "漢字"]]
    plain = tokenizer(batch, is_split_into_words=True, padding=True)
    for kind, of in (("np", np.ndarray), ("pt", torch.Tensor)):
        tensors = tokenizer(batch, is_split_into_words=True, padding=True, return_tensors=kind)
        assert all(type(value) is of for value in tensors.values())
        assert tensors["character_ids"].dtype in (np.int64, torch.int64)
        assert lists(tensors) == lists(plain)
        one = tokenizer(batch[0], is_split_into_words=True, return_tensors=kind)
        assert tuple(one["character_ids"].shape) == (1, 4, 50)
    ragged = tokenizer(batch, is_split_into_words=True)
    assert [len(rows) for rows in ragged["character_ids"]] == [4, 5]
    with pytest.raises(ValueError, match="padding=True"):
        tokenizer(batch, is_split_into_words=True, return_tensors="pt")


def test_a_vocabulary_of_four_words_still_spells(tmp_path):
    tokenizer = ElmoTokenizer()
    assert tokenizer.get_vocab() == {"<pad>": 0, "<S>": 1, "</S>": 2, "<UNK>": 3}
    encoded = tokenizer(["Some", "wörds"], is_split_into_words=True)
    assert encoded["input_ids"] == [1, 3, 3, 2]
    assert encoded["character_ids"] == sentence_to_ids(["Some", "wörds"]).tolist()


def test_case_is_kept(tokenizer):
    assert tokenizer(["The", "the", "THE"], is_split_into_words=True)["input_ids"] == [1, 9, 4, 3, 2]
    composed, decomposed = tokenizer(["é", "e\u0301"], is_split_into_words=True)["character_ids"][1:3]
    assert composed != decomposed


def test_calls_with_words_and_with_text_run_side_by_side(tokenizer):
    words, text = [["New-York", "don't", "x<S>y"]] * 50, ["New-York don't x<S>y"] * 50
    expected = tokenizer(words, is_split_into_words=True)["character_ids"]
    with ThreadPoolExecutor(4) as pool:
        calls = [pool.submit(tokenizer, words if k % 2 else text, is_split_into_words=bool(k % 2)) for k in range(40)]
        results = [call.result()["character_ids"] for call in calls]
    assert all(result == expected for result in results[1::2])
    assert all(len(result[0]) == 10 for result in results[0::2])  # New - York do n't x <S> y and the boundaries


# What is no sentence


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (["a", 3], TypeError, r"the sentence, word 1 is 3 \(int\)"),
        ([["a"], ["b", None]], TypeError, r"sentence 1, word 1 is None \(NoneType\)"),
        ([["a"], ["b", "c\ud800"]], ValueError, r"sentence 1, word 1 is 'c\\ud800': the lone surrogate"),
        ([["a"], "b c"], TypeError, "sentence 1 is str, expected a list of words"),
        ("a b", TypeError, "the sentence is str, expected a list of words"),
    ],
)
def test_bad_words_are_named(tokenizer, given, error, message):
    with pytest.raises(error, match=message):
        tokenizer(given, is_split_into_words=True)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ("a\udc00b", ValueError, "the sentence holds a lone surrogate at position 1"),
        (["a", "b \ud800"], ValueError, "sentence 1 holds a lone surrogate at position 2"),
        (
            [["a", "b", "c"]],
            TypeError,
            "sentence 0 is list, expected a string; pass is_split_into_words=True",
        ),
        (["a", None], TypeError, "sentence 1 is NoneType"),
        ([], ValueError, "empty batch"),
    ],
)
def test_bad_texts_are_named(tokenizer, given, error, message):
    with pytest.raises(error, match=message):
        tokenizer(given)


def test_pairs_must_match(tokenizer):
    with pytest.raises(ValueError, match="got 1, expected 2"):
        tokenizer(["a", "b"], ["c"])
    with pytest.raises(ValueError, match="got str, expected 1"):
        tokenizer(["a"], "c")


# Raw text


def blank_words(text, nlp=spacy.blank("en")):  # noqa: B008
    return [token.text for token in nlp(text) if not token.is_space]


def test_every_special_case_of_spacy_is_known(tokenizer):
    special_cases = [text for text in spacy.blank("en").tokenizer.rules if text.strip()]
    assert len(special_cases) > 1300
    wrong = {text for text in special_cases if tokenizer.split_into_words(text) != blank_words(text)}
    assert not wrong


TEXTS = [
    "Mr. Smith doesn't live in the U.S., i.e. he isn't American; he's (I'd say) well-known.",
    '"Don\'t!" she cried—"you\'ll fall." It cost $5.30, or £1,000.',
    "“It’s the dog’s,” he said … ‘What’s that?’",
    "They couldn't've known: we'd've told them, I'm sure, y'all.",
    "A 20-year-old won 3-2 at 10am on Jan. 5, 1990-91, in St. Louis, Mo., vs. N.Y.",
    "See www.example.com/a-b, http://x.org/(z) or mail me@example.org. End.Start again...",
    "He ran 5km (3.1 miles) at 20°C. in 1.5h; cf. and/or w/o, #1 & 50% of A.B.C. Corp.'s",
    "cannot gonna gotta dont Im shell hell its Well, let's go goin' 'em 'cause ma'am o'clock",
    "_emphasis_ *bold* [12] {x} <tag> a+b 2^5 2*3 x=3 3.) a) b); :-) :) (see below): --",
    "Mr.Smith was e.g.Here. Ph.D. J.R.R. Tolkien p. 5, pp. 7-8, v. II. Chapter I.",
    "she was--well, she was---so they say — gone ~ she said—",
    "multiple   spaces\tand\nnew lines\u00a0here\u3000too",
    "日本語。日本語、テスト！ Привет, мир. Ünïcödé-words naïve",
]


@pytest.mark.parametrize("text", TEXTS)
def test_raw_text_is_split_as_by_spacy(tokenizer, text):
    assert tokenizer.split_into_words(text) == blank_words(text)
    encoded = tokenizer(text, return_offsets_mapping=True)
    words = blank_words(text)
    assert encoded["character_ids"] == sentence_to_ids(words).tolist()
    assert [text[start:end] for start, end in encoded["offset_mapping"][1:-1]] == words
    assert encoded.word_ids() == [None, *range(len(words)), None]


PIECES = """
    a The Mr. U.S. don't he's it 1 20 km e.g. I 's com é ' ’ " “ - -- — , . ... : ; ! ? ( ) $ % / @ # _ +
"""


def test_almost_any_run_of_characters_is_split_as_by_spacy(tokenizer):
    pieces = PIECES.split()
    choice = np.random.default_rng(0)
    runs = ["".join(choice.choice(pieces, size=choice.integers(1, 6))) for _ in range(3000)]
    same = sum(tokenizer.split_into_words(run) == blank_words(run) for run in runs)
    assert same / len(runs) > 0.99  # 0.9947; tests/benchmarks/tokenizer_agreement.py measures real text


@given(st.text(max_size=200))
def test_splitting_loses_nothing_but_white_space(tokenizer, text):
    words = tokenizer.split_into_words(text)
    assert "".join(words) == "".join(text.split())


@pytest.mark.parametrize(
    "run",
    [
        "(" * 20_000,
        "x" + "!" * 20_000 + "y",
        "'" * 20_000 + "x",
        "a." * 10_000,
        "x" + ":)" * 10_000,
        "a" * 200_000,
    ],
    ids=lambda run: run[:4],
)
def test_a_freak_run_of_characters_takes_no_forever(run):
    # Regular expressions of this kind can take quadratic or exponential time, or make tokenizers panic.
    begin = time.process_time()
    pieces = english_splitting().pre_tokenize_str(run)
    assert "".join(piece for piece, _ in pieces) == run
    assert time.process_time() - begin < 10


def test_boundaries_in_raw_text_are_boundaries(tokenizer):
    encoded = tokenizer("the<S>cat</S>")
    assert encoded["input_ids"] == [1, 4, 1, 5, 2, 2]
    assert encoded["character_ids"] == sentence_to_ids(["the", "<S>", "cat", "</S>"]).tolist()


def test_decoding(tokenizer):
    assert tokenizer.decode(tokenizer("The cat, dog")["input_ids"]) == "<S> The cat , <UNK> </S>"
    assert tokenizer.batch_decode([[1, 4, 5, 2, 0]], skip_special_tokens=True) == ["the cat"]
    assert tokenizer.convert_ids_to_tokens([8, 3]) == ["New-York", "<UNK>"]
    assert tokenizer.tokenize("the don't") == ["the", "<UNK>", "<UNK>"]


# Padding after the call


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("kind", [None, "np", "pt"])
def test_pad_later_is_pad_at_once(tokenizer, side, kind):
    batch = [["the"], ["New-York", "", "cat"], []]
    at_once = tokenizer(batch, is_split_into_words=True, padding=True, padding_side=side, return_tensors=kind)
    single = [tokenizer(sentence, is_split_into_words=True) for sentence in batch]
    for features in (single, [dict(s) for s in single], {k: [s[k] for s in single] for k in single[0]}):
        later = tokenizer.pad(features, padding_side=side, return_tensors=kind)
        assert {k: type(v) for k, v in later.items()} == {k: type(v) for k, v in at_once.items()}
        assert lists(later) == lists(at_once)
    json.dumps(lists(later))


def test_pad_takes_tensors(tokenizer):
    features = [tokenizer(text, return_tensors="pt") for text in ("the cat sat", "cat")]
    later = tokenizer.pad([{k: v[0] for k, v in feature.items()} for feature in features], pad_to_multiple_of=8)
    assert isinstance(later["character_ids"], torch.Tensor)
    assert lists(later) == lists(tokenizer(["the cat sat", "cat"], padding=True, pad_to_multiple_of=8))


def test_pad_one_encoding(tokenizer):
    padded = tokenizer.pad(dict(tokenizer("cat")), padding="max_length", max_length=4)
    assert padded["input_ids"] == [1, 5, 2, 0]
    assert padded["character_ids"] == [*sentence_to_ids(["cat"]).tolist(), NO_WORD]


def test_pad_without_character_ids(tokenizer):
    assert tokenizer.pad([{"input_ids": [1, 2]}, {"input_ids": [1]}])["input_ids"] == [[1, 2], [1, 0]]


def test_stock_collators(tokenizer):
    batch = [["the", "cat"], ["sat"] * 5]
    encoded = [dict(tokenizer(sentence, is_split_into_words=True)) for sentence in batch]
    expected = lists(tokenizer(batch, is_split_into_words=True, padding=True))
    assert lists(DataCollatorWithPadding(tokenizer)(encoded)) == expected
    labelled = [feature | {"labels": [-100, *range(len(s)), -100]} for feature, s in zip(encoded, batch, strict=True)]
    collated = lists(DataCollatorForTokenClassification(tokenizer)(labelled))
    assert collated.pop("labels") == [[-100, 0, 1, -100, -100, -100, -100], [-100, 0, 1, 2, 3, 4, -100]]
    assert collated == expected


# Cut words


def test_the_byte_limit_is_a_setting(tmp_path):
    tokenizer = ElmoTokenizer(FILE_WORDS, max_characters_per_word=7)
    encoded = tokenizer([["elephant", "я" * 3]], is_split_into_words=True)
    assert encoded["character_ids"] == [sentence_to_ids(["elephant", "я" * 3], 7).tolist()]
    assert tokenizer.count_cut_words(["elephant", "я" * 3, "яя", "<S>", "12345", ""]) == 2
    tokenizer.save_pretrained(tmp_path)
    assert json.loads((tmp_path / "tokenizer_config.json").read_text())["max_characters_per_word"] == 7
    assert ElmoTokenizer.from_pretrained(tmp_path).max_characters_per_word == 7
    changed = ElmoTokenizer.from_pretrained(tmp_path, max_characters_per_word=9)
    assert len(changed("a")["character_ids"][0]) == 9
    padded = changed.pad([changed("a"), changed("a b")], return_tensors="np")
    assert padded["character_ids"].shape == (2, 4, 9)


@pytest.mark.parametrize(("bad", "error"), [(2, ValueError), (-1, ValueError), (50.0, TypeError), ("50", TypeError)])
def test_a_bad_byte_limit_is_refused(bad, error):
    with pytest.raises(error, match="max_characters_per_word"):
        ElmoTokenizer(max_characters_per_word=bad)


def test_counting_needs_words(tokenizer):
    with pytest.raises(TypeError, match="split_into_words"):
        tokenizer.count_cut_words("a text")


# Vocabularies and files


def test_all_forms_of_a_vocabulary_agree(tokenizer, vocab_file):
    assert tokenizer.get_vocab() == IDS
    assert (tokenizer.vocab_size, len(tokenizer)) == (10, 10)
    for other in (
        ElmoTokenizer(vocab_file),
        ElmoTokenizer(str(vocab_file)),
        ElmoTokenizer(vocab_file=str(vocab_file)),
        ElmoTokenizer(tokenizer.get_vocab()),
        ElmoTokenizer.from_vocab_file(vocab_file),
        ElmoTokenizer.from_pretrained(vocab_file.parent),
    ):
        assert other.get_vocab() == IDS
        assert lists(other("The cat, don't")) == lists(tokenizer("The cat, don't"))


def test_vocab_file_is_read_as_the_original_reads_it(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_bytes("<S>\r\n</S>\r\n<UNK>\r\nnaïve \r\na\u2028b\r\n!!!MAXTERMID\r\n".encode())
    tokenizer = ElmoTokenizer.from_vocab_file(path)
    assert tokenizer.vocab_size == 6
    assert tokenizer.convert_tokens_to_ids(["naïve", "a\u2028b"]) == [4, 5]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["<S>", "<UNK>", "</S>"], "line 2: got '<UNK>', expected '</S>'"),
        (["<pad>", "<S>", "</S>", "<UNK>"], "line 1: got '<pad>', expected '<S>'.*<pad> is added"),
        (["\ufeff<S>", "</S>", "<UNK>"], "line 1: got '\\\\ufeff<S>'"),
        (["<S>", "</S>"], "ends before '<UNK>'"),
        ([], "ends before '<S>'"),
        ([*FILE_WORDS, "x", "cat"], "line 11: got 'cat', which is already at .*vocab.txt, line 5"),
        ([*FILE_WORDS, "", "x"], "line 10: got '', expected a word"),
        ([*FILE_WORDS, "   "], "line 10: got ''"),
        ([*FILE_WORDS, "<pad>"], "line 10: got '<pad>', which is added before the first word"),
        (["<S>", "</S>", "<UNK>", "a", "!!!MAXTERMID", "a"], "line 6: got 'a'"),
    ],
)
def test_a_faulty_vocab_file_is_refused_with_its_line(tmp_path, lines, message):
    path = tmp_path / "vocab.txt"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        ElmoTokenizer.from_vocab_file(path)


def test_a_missing_or_binary_vocab_file_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no vocabulary file .*nothing\.txt"):
        ElmoTokenizer.from_vocab_file(tmp_path / "nothing.txt")
    (tmp_path / "vocab.txt").write_bytes(b"<S>\n\xff\xfe")
    with pytest.raises(ValueError, match=r"vocab\.txt is not UTF-8 text"):
        ElmoTokenizer.from_vocab_file(tmp_path / "vocab.txt")


@pytest.mark.parametrize(
    ("vocab", "error", "message"),
    [
        (["the", "cat"], ValueError, "word 0: got 'the', expected '<S>'"),
        ([*FILE_WORDS, 7], TypeError, r"word 9: got 7 \(int\)"),
        ([*FILE_WORDS, "a\nb"], ValueError, r"word 9: got 'a\\nb'"),
        ([*FILE_WORDS, " a"], ValueError, "word 9: got ' a'"),
        ([*FILE_WORDS, "a\ud800"], ValueError, "word 9: .* lone surrogate"),
        ({"<S>": 0, "</S>": 1, "<UNK>": 2}, ValueError, r"must be 0 \(<pad>\)"),
        ({"<pad>": 0, "<S>": 1, "</S>": 2, "<UNK>": 4}, ValueError, "without gaps"),
        ({"<pad>": 0, "<S>": 1, "<UNK>": 2, "</S>": 3}, ValueError, "id 2: got '<UNK>', expected '</S>'"),
    ],
)
def test_a_faulty_vocabulary_is_refused(vocab, error, message):
    with pytest.raises(error, match=message):
        ElmoTokenizer(vocab)


def test_special_tokens_keep_their_places():
    with pytest.raises(ValueError, match=r"\(0, 4, 2, 3\), expected \(0, 1, 2, 3\)"):
        ElmoTokenizer(bos_token="[BOS]")


def test_save_and_load(tokenizer, tmp_path):
    texts = ["The cat, don't New-York U.S.", "a b", ""]
    expected = lists(tokenizer(texts, padding=True))
    files = tokenizer.save_pretrained(tmp_path)
    assert {path.rsplit("/", 1)[-1] for path in files} == {"tokenizer.json", "tokenizer_config.json", SHIM}
    config = json.loads((tmp_path / "tokenizer_config.json").read_text())
    assert config["tokenizer_class"] == "ElmoTokenizer"
    assert str(tmp_path) not in json.dumps(config)
    for loaded in (
        ElmoTokenizer.from_pretrained(tmp_path),
        AutoTokenizer.from_pretrained(tmp_path),
        pickle.loads(pickle.dumps(tokenizer)),
        copy.deepcopy(tokenizer),
    ):
        assert type(loaded) is ElmoTokenizer
        assert loaded.get_vocab() == IDS
        assert loaded.add_bos_token
        assert loaded.add_eos_token
        assert lists(loaded(texts, padding=True)) == expected
        words = [["New-York", "", "a b"]]
        assert lists(loaded(words, is_split_into_words=True)) == lists(tokenizer(words, is_split_into_words=True))


def test_saving_what_was_loaded_changes_nothing(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    ElmoTokenizer(FILE_WORDS).save_pretrained(first)
    ElmoTokenizer.from_pretrained(first).save_pretrained(second)
    assert (second / "tokenizer.json").read_text() == (first / "tokenizer.json").read_text()
    config = json.loads((first / "tokenizer_config.json").read_text())
    again = json.loads((second / "tokenizer_config.json").read_text())
    assert {key: again[key] for key in config} == config


def test_tokenizer_json_serves_without_this_package(tokenizer, tmp_path):
    tokenizer.save_pretrained(tmp_path)
    plain = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    assert plain.encode("The cat doesn't").ids == tokenizer("The cat doesn't")["input_ids"]


def test_a_saved_tokenizer_keeps_its_own_splitting(tokenizer, tmp_path):
    tokenizer.save_pretrained(tmp_path)
    path = tmp_path / "tokenizer.json"
    saved = json.loads(path.read_text())
    saved["pre_tokenizer"] = {"type": "WhitespaceSplit"}
    path.write_text(json.dumps(saved))
    assert ElmoTokenizer.from_pretrained(tmp_path).split_into_words("don't, U.S.") == ["don't,", "U.S."]


def test_save_vocabulary_is_read_back(tokenizer, tmp_path):
    (path,) = tokenizer.save_vocabulary(str(tmp_path), filename_prefix="my")
    assert path.endswith("my-vocab.txt")
    with open(path, encoding="utf-8") as file:
        assert file.read().split("\n") == [*FILE_WORDS, ""]
    assert ElmoTokenizer(path).get_vocab() == IDS


def test_boundaries_can_be_switched_off_and_stay_off(tmp_path):
    tokenizer = ElmoTokenizer(FILE_WORDS, add_bos_token=False)
    assert tokenizer(["cat"], is_split_into_words=True)["input_ids"] == [5, 2]
    tokenizer.save_pretrained(tmp_path)
    loaded = ElmoTokenizer.from_pretrained(tmp_path)
    assert (loaded.add_bos_token, loaded.add_eos_token) == (False, True)
    assert loaded("cat")["input_ids"] == [5, 2]
    loaded.add_bos_token = True
    assert loaded("cat")["character_ids"] == sentence_to_ids(["cat"]).tolist()


def test_words_added_later(tokenizer, tmp_path):
    tokenizer = copy.deepcopy(tokenizer)
    assert tokenizer.add_tokens(["foo", "New York"]) == 2
    words = ["foo", "foobar", "New York", "cat"]
    tokenizer.save_pretrained(tmp_path)
    for each in (tokenizer, ElmoTokenizer.from_pretrained(tmp_path)):
        encoded = each(words, is_split_into_words=True)
        assert encoded["input_ids"] == [1, 10, 3, 11, 5, 2]
        assert encoded["character_ids"] == sentence_to_ids(words).tolist()
        tensors = each([words], is_split_into_words=True, return_tensors="pt")
        assert tensors["input_ids"].tolist() == [[1, 10, 3, 11, 5, 2]]


def test_a_large_vocabulary_keeps_the_splitting(tmp_path):
    # Above 100,000 words transformers looks whether the tokenizer is Mistral's and needs another splitting.
    tokenizer = ElmoTokenizer([*FILE_WORDS, *(f"w{i}" for i in range(100_000))])
    tokenizer.save_pretrained(tmp_path)
    for each in (tokenizer, ElmoTokenizer.from_pretrained(tmp_path)):
        assert each.split_into_words("don't w7") == ["do", "n't", "w7"]
        assert each("w7")["input_ids"] == [1, 17, 2]


def test_the_main_inputs(tokenizer):
    assert tokenizer.model_input_names == ["input_ids", "character_ids", "attention_mask"]
    assert set(tokenizer("a")) == set(tokenizer.model_input_names)
    assert set(tokenizer("a", return_attention_mask=False)) == {"input_ids", "character_ids"}
    assert tokenizer.is_fast


@pytest.mark.parametrize("options", [{}, {"return_tensors": "np"}, {"return_overflowing_tokens": True}])
def test_an_empty_second_text_is_a_sentence_too(tokenizer, options):
    """`<S> a b </S> <S> </S>`, alone as in a batch."""
    for single, batch in (
        (tokenizer("a b", "", **options), tokenizer(["a b"], [""], **options)),
        (
            tokenizer(["a", "b"], [], is_split_into_words=True, **options),
            tokenizer([["a", "b"]], [[]], is_split_into_words=True, **options),
        ),
        (tokenizer("", "", **options), tokenizer([""], [""], **options)),
    ):
        assert single.keys() == batch.keys()
        for name in single:
            wanted = batch[name] if options else batch[name][0]
            assert np.array_equal(single[name], wanted), name
        assert single.sequence_ids(0) == batch.sequence_ids(0)
    assert tokenizer("a b", "")["attention_mask"] == [1] * 6
    assert tokenizer("a b", None)["attention_mask"] == tokenizer("a b")["attention_mask"] == [1] * 4
