"""BERT-base and DistilBERT of transformers, of their published sizes with random weights, on tokenised sentences.

Their subwords are WordPieces of a vocabulary of BERT's size at most, learned from another part of the same text.
Batches of 32 sentences are sorted by length, so that little is padded.
"""

from collections.abc import Callable, Iterable, Sequence

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.processors import BertProcessing
from tokenizers.trainers import WordPieceTrainer
from transformers import BertConfig, BertModel, DistilBertConfig, DistilBertModel, PreTrainedModel

NAMES = ("BERT-base", "DistilBERT")
BATCH_SIZE = 32
_VOCAB_SIZE = 30_522
_LONGEST = 512
_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")


def train_tokenizer(texts: Iterable[str]) -> Tokenizer:
    """Lower-casing WordPieces, as BERT-base-uncased has."""
    tokenizer = Tokenizer(WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = BertPreTokenizer()
    tokenizer.train_from_iterator(
        texts, WordPieceTrainer(vocab_size=_VOCAB_SIZE, special_tokens=list(_SPECIAL), show_progress=False)
    )
    pad, _, begin, end = (tokenizer.token_to_id(name) for name in _SPECIAL)
    tokenizer.post_processor = BertProcessing(("[SEP]", end), ("[CLS]", begin))
    tokenizer.enable_padding(pad_id=pad, pad_token="[PAD]")
    tokenizer.enable_truncation(_LONGEST)
    return tokenizer


def pieces_per_word(tokenizer: Tokenizer, sentences: Sequence[Sequence[str]]) -> float:
    """Without the two special pieces of each sentence."""
    pieces = sum(
        sum(tokenizer.encode(list(sentence), is_pretokenized=True).attention_mask) - 2 for sentence in sentences
    )
    return pieces / sum(map(len, sentences))


def build(name: str) -> PreTrainedModel:
    """The model, in evaluation mode."""
    torch.manual_seed(0)
    model = (
        BertModel(BertConfig(), add_pooling_layer=False) if name == "BERT-base" else DistilBertModel(DistilBertConfig())
    )
    return model.eval()


def embedding(model: PreTrainedModel, tokenizer: Tokenizer) -> Callable[[Sequence[Sequence[str]]], None]:
    """From sentences to the last layer of all pieces, which is let go of."""

    @torch.inference_mode()
    def embed(sentences: Sequence[Sequence[str]]) -> None:
        by_length = sorted(sentences, key=len)
        for start in range(0, len(by_length), BATCH_SIZE):
            batch = tokenizer.encode_batch(
                [list(s) for s in by_length[start : start + BATCH_SIZE]], is_pretokenized=True
            )
            ids = torch.tensor([encoding.ids for encoding in batch])  # (B, T)
            mask = torch.tensor([encoding.attention_mask for encoding in batch])
            model(input_ids=ids, attention_mask=None if bool(mask.all()) else mask)

    return embed
