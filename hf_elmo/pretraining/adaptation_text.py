"""The text of an adaptation: a prepared folder, or raw text, which is prepared first."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from transformers import TrainingArguments

from hf_elmo.pretraining.adapt_options import AdaptOptions, TextOptions
from hf_elmo.pretraining.corpus import Source
from hf_elmo.pretraining.prepare import prepare
from hf_elmo.pretraining.prepare_options import PrepareOptions
from hf_elmo.pretraining.shards import PreparedCorpus

PREPARED = "prepared"


def is_prepared(location: str) -> bool:
    """Whether a folder was made by `hf-elmo prepare`."""
    return (Path(location) / "prepared.json").is_file()


def open_text(
    corpus: Sequence[str],
    options: AdaptOptions,
    text: TextOptions,
    training: TrainingArguments,
    *,
    new_vocabulary: bool,
    max_characters_per_word: int,
) -> PreparedCorpus:
    """Open a prepared folder, or prepare raw text in `output_dir`/prepared; a run that is resumed reads it from there.

    Of several processes the first prepares, and the others wait.

    Raises:
        OSError, ValueError: text or options are not as they should be.
    """
    if any(map(is_prepared, corpus)):
        if len(corpus) > 1:
            raise ValueError(
                f"CORPUS: got {len(corpus)}, among them a prepared folder; expected one prepared folder, or raw text "
                "alone, which `hf-elmo prepare` joins."
            )
        if text.given():
            raise ValueError(
                f"{text.given()[0]}: got it for {corpus[0]}, which is prepared; leave it out, or name the raw text."
            )
        return PreparedCorpus.open(corpus[0])
    folder = Path(str(training.output_dir)) / PREPARED
    resumes = bool(training.resume_from_checkpoint) and is_prepared(str(folder))
    with training.main_process_first(local=False, desc="preparing the text"):
        if training.process_index > 0 or resumes:
            return PreparedCorpus.open(folder)
        _check_new(folder)
        return prepare(
            [Source.parse(source, layout=text.layout) for source in corpus],
            folder,
            heldout=[Source.parse(source, layout=text.layout) for source in text.heldout],
            options=PrepareOptions(
                vocab_size=options.vocab_size,
                min_count=text.min_count if new_vocabulary and options.vocab_size is None else None,
                heldout_share=text.heldout_share,
                document=text.document,
                processes=text.processes,
                language=options.language,
                encoding=text.encoding,
                encoding_errors=text.encoding_errors,
                column=text.column,
                max_characters_per_word=max_characters_per_word,
                seed=training.seed,
            ),
        )


def _check_new(folder: Path) -> None:
    if folder.exists():
        raise FileExistsError(
            f"{folder}: is there already, from an earlier run; expected a new output_dir.  To read that text again, "
            "name it as CORPUS; to go on with that run, add --resume_from_checkpoint true."
        )
