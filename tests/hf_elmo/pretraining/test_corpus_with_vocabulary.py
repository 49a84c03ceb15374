from itertools import islice, pairwise

import numpy as np
import pytest

from hf_elmo.pretraining.corpus_with_vocabulary import with_vocabulary
from hf_elmo.pretraining.sentence_batches import SentenceBatches
from hf_elmo.pretraining.shards import PreparedCorpus
from hf_elmo.pretraining.streams import HeldoutStreams, StreamBatches
from tests.hf_elmo.pretraining.prepared_corpora import HELDOUT, SENTENCES, equal, prepare_sentences, sentences_of
from tests.oracles.numpy_elmo import word_to_ids

# Words of the text and others, in an order that is not the text's.
VOCABULARY = ["<S>", "</S>", "<UNK>", "v3", "absent", "v1", "h2", "w9", "nowhere"]


@pytest.fixture(scope="module")
def seen(prepared) -> PreparedCorpus:
    return with_vocabulary(prepared, VOCABULARY)


def test_the_text_is_the_same(prepared, seen):
    for split in prepared.splits:
        assert sentences_of(seen, split) == sentences_of(prepared, split)


def test_the_vocabulary_comes_first_and_every_word_is_there_once(prepared, seen):
    assert seen.vocabulary() == VOCABULARY
    assert seen.vocab_size == len(VOCABULARY)
    assert sorted(seen.words) == sorted({*prepared.words, *VOCABULARY})
    assert len(seen.words) == seen.report["distinct_words"]


def test_counts_go_with_their_words(prepared, seen):
    counted = dict(zip(prepared.words, prepared.counts.tolist(), strict=True))
    assert {word: counted.get(word, 0) for word in seen.words} == dict(
        zip(seen.words, seen.counts.tolist(), strict=True)
    )


def test_unknown_words_are_counted_anew(seen):
    texts = {"train": SENTENCES, "heldout-h": HELDOUT}
    for split, sentences in texts.items():
        words = [word for sentence in sentences for word in sentence]
        unknown = sum(word not in VOCABULARY for word in words)
        assert seen.split_report(split)["oov_tokens"] == unknown
        assert seen.split_report(split)["oov_rate"] == pytest.approx(unknown / len(words), abs=1e-6)


def test_the_corpus_itself_stays_as_it_was(prepared, seen):
    again = PreparedCorpus.open(prepared.path)
    assert again.report == prepared.report
    assert prepared.split_report("train")["oov_tokens"] != seen.split_report("train")["oov_tokens"]


def test_labels_are_the_ids_of_the_vocabulary(seen):
    ids = {word: 1 + row for row, word in enumerate(VOCABULARY)}
    spelled = {tuple(word_to_ids(word)): word for word in seen.words}
    checked = 0
    for batch in SentenceBatches(seen, "heldout-h", words_per_batch=20, endless=False):
        words = [spelled.get(tuple(row)) for row in batch["distinct_character_ids"].tolist()]
        for index, labels in zip(batch["distinct_index"], batch["labels"], strict=True):
            for place, label in zip(index, labels, strict=True):
                assert label == (-100 if words[place] is None else ids.get(words[place], 3))
                checked += words[place] is not None
    assert checked == sum(len(words) + 2 for words in HELDOUT)


def test_streams_are_those_of_a_corpus_prepared_with_the_vocabulary(tmp_path):
    """The two ways to the same end give the same words and labels."""
    (tmp_path / "vocab.txt").write_text("".join(f"{word}\n" for word in VOCABULARY))
    folders = [tmp_path / name for name in ("own", "given")]
    for folder in folders:
        folder.mkdir()
    own = prepare_sentences(folders[0], SENTENCES, {"h": HELDOUT}, vocab_size=12)
    given = prepare_sentences(folders[1], SENTENCES, {"h": HELDOUT}, vocabulary=tmp_path / "vocab.txt")
    seen = with_vocabulary(own, VOCABULARY)
    sizes = {"batch_size": 3, "unroll_steps": 4}
    for make in (lambda corpus: StreamBatches(corpus, **sizes), lambda c: HeldoutStreams(c, "heldout-h", **sizes)):
        pairs = list(zip(islice(make(seen), 50), islice(make(given), 50), strict=True))
        assert len(pairs) >= 5
        for one, other in pairs:
            for name in ("labels", "backward_labels"):
                assert np.array_equal(one[name], other[name])
            for name in ("distinct_index", "backward_distinct_index"):
                words = [batch["distinct_character_ids"][batch[name]] for batch in (one, other)]
                assert np.array_equal(*words)


def test_streams_go_on_with_the_same_vocabulary_only(seen, prepared):
    sizes = {"batch_size": 2, "unroll_steps": 3}
    streams = StreamBatches(with_vocabulary(prepared, VOCABULARY), **sizes)
    next(streams)
    state = streams.state_dict()
    same = StreamBatches(seen, **sizes)
    same.load_state_dict(state)
    assert equal(next(same), next(streams))
    for corpus in (prepared, with_vocabulary(prepared, VOCABULARY[:-1])):
        with pytest.raises(ValueError, match="words_sha256"):
            StreamBatches(corpus, **sizes).load_state_dict(state)


def test_the_corpus_s_own_vocabulary_changes_nothing(prepared):
    assert with_vocabulary(prepared, prepared.vocabulary()) is prepared
    longer = with_vocabulary(prepared, prepared.words[: prepared.vocab_size - 1])
    assert longer.vocab_size == prepared.vocab_size - 1


def test_frequent_words_first_among_the_rest(seen):
    rest = seen.counts[len(VOCABULARY) :].tolist()
    assert all(one >= other for one, other in pairwise(rest))
