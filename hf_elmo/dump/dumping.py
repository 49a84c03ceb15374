"""The vectors of a text of any size to a file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from hf_elmo.character_ids import is_cut
from hf_elmo.dump import formats
from hf_elmo.dump.layers import check_layers, embed_windows, vectors_per_word
from hf_elmo.dump.options import DumpOptions, FormatName
from hf_elmo.dump.parts import Part, split_into_parts, write_part
from hf_elmo.dump.work_folder import WorkFolder
from hf_elmo.embedder import ElmoEmbedder, check_is_model
from hf_elmo.model_source import load_model
from hf_elmo.modeling_elmo import ElmoModel
from hf_elmo.text_input import TextInput
from hf_elmo.text_progress import Progress

Sentences = Iterable[Sequence[str]]


class Dumped(NamedTuple):
    """What a dump holds.

    Attributes:
        sentences, words: how many.
        cut_words: how many of the words are longer than the model reads; their ends do not count.
        was_complete: nothing was left to do.
    """

    sentences: int
    words: int
    cut_words: int
    was_complete: bool = False


ShowProgress = Callable[[Progress], None]


def dump(
    sentences: Sentences,
    out: str | Path,
    *,
    model: ElmoModel | str | Path | None = None,
    options: DumpOptions | None = None,
    progress: ShowProgress | None = None,
) -> Dumped:
    """Write the vectors of every word of every sentence, with memory for one part of them.

    Nothing stands under the name `out` before it is complete.  Until then the parts that are done are beside it, and a
    run that was broken off goes on with `DumpOptions(resume=True)`; the result is the same to the bit, provided that
    the machine computes the same.

    Args:
        sentences: lists of words, which a continued run reads again from the start; of a
            [`TextInput`][hf_elmo.text_input.TextInput] progress knows the share that is done.
        out: the file, or the folder of safetensors, to make.
        model: a model, its folder or its id on the Hugging Face Hub; by default ("default") the package's own.
        options: layers, format and so on.
        progress: is told how far it is, a few times a minute or more.

    Raises:
        FileExistsError: `out` is there already, or an unfinished run, and the options do not say what to do about it.
        ValueError: layers that the model does not have; a word with a lone surrogate; numbers too large for float16; a
            run to be continued that has other settings or another text.
        TypeError: a sentence that is no list of words; something else than a model or a name in the model's place.
        ImportError: a library that the format or the engine needs is missing.
    """
    return _Run(sentences, Path(out), model, options or DumpOptions(), progress or (lambda _: None)).run()


class _Run:
    def __init__(
        self,
        sentences: Sentences,
        out: Path,
        model: ElmoModel | str | Path | None,
        options: DumpOptions,
        progress: ShowProgress,
    ) -> None:
        self.sentences = sentences
        self.options = options
        self.progress = progress
        self.format: FormatName = formats.format_of(out, options.format)
        formats.check_available(self.format)
        if options.engine == "ray":
            from hf_elmo.dump import on_ray

            on_ray.check_available()
        self.work = WorkFolder(out)
        self.out = self.work.out
        self._check_out()
        if model is not None and not isinstance(model, str | Path):
            check_is_model(model, load="its path")
            self.model, self.device = model, options.device or str(model.device)
        else:
            self.model = load_model(model)
            self.device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
        check_layers(options.layers, self.model.config)
        self.settings = {
            "model": model_digest(self.model),
            "layers": options.layers if isinstance(options.layers, str) else list(options.layers),
            "dtype": options.dtype,
            "part_megabytes": options.part_megabytes,
            "max_words_per_batch": options.max_words_per_batch,
        }
        self.counted = _Counted(self.model.config.max_characters_per_word)

    def run(self) -> Dumped:
        with self.work.locked():
            self._check_out()
            if not self.work.is_begun:
                self.work.clear()  # what a run left that was broken off while it cleared away
            if self.options.resume and self.work.is_placed:
                self.work.clear()
                return self._dumped(was_complete=self._is_complete(self.out))
            if self.options.resume and self.work.is_begun:
                self.work.resume(self.settings)
            elif self.options.resume and self.out.exists() and not self.options.overwrite:
                return self._dumped(was_complete=self._is_complete(self.out))
            else:
                self.work.begin(self.settings)
            self._make()
            return self._dumped()

    def _check_out(self) -> None:
        """Before anything is computed: whether `out` may be written."""
        options, work = self.options, self.work
        formats.check_replaceable(self.format, self.out)
        if work.is_begun and not options.resume and not options.overwrite:
            raise FileExistsError(
                f"{self.out}: a run was broken off before it was complete; continue it with --resume, or begin anew "
                "with --overwrite."
            )
        there = self.out.exists() and not (self.out.is_dir() and not any(self.out.iterdir()))
        if there and not options.overwrite and not (options.resume and (work.is_placed or not work.is_begun)):
            raise FileExistsError(f"{self.out}: is there already; choose another name, or replace it with --overwrite.")

    def _make(self) -> None:
        if self.work.finished.exists():
            self._is_complete(self.work.finished)
        else:
            try:
                count = self._compute()
            except BaseException:
                if not self.work.part_files():
                    self.work.clear()
                raise
            self.work.check_no_more_than(count)
            formats.finish(self.format, self.work, self._info(), with_sentences=self.options.with_sentences)
        self.work.place()

    def _compute(self) -> int:
        """Every part that is not there yet; returns how many there are."""
        if self.options.engine == "ray":
            from hf_elmo.dump import on_ray

            return on_ray.compute(
                self._parts(), self.work, model=self.model, options=self.options, progress=self.progress
            )
        embedder = make_embedder(self.model, self.device, self.options)
        share_of = _share_of(self.sentences)
        count, words, begin, share_before = 0, 0, share_of(), 0.0
        for part in self._parts():
            count += 1
            end = share_of()
            if self.work.has(part):
                share_before += (end or 0.0) - (begin or 0.0)
            else:
                for done in embed_part(part, self.work, embedder, self.options):
                    share = None if begin is None or end is None else begin + (end - begin) * done / part.num_words
                    self.progress(Progress(words + done, share, share_before))
                words += part.num_words
            begin = end
        return count

    def _parts(self) -> Iterator[Part]:
        size = np.dtype(self.options.dtype).itemsize * self.model.config.hidden_size
        return split_into_parts(
            self.counted.pass_on(self.sentences),
            bytes_per_word=size * vectors_per_word(self.options.layers, self.model.config),
            bytes_per_part=self.options.bytes_per_part,
        )

    def _is_complete(self, path: Path) -> bool:
        """Whether a finished dump is the one that was asked for.

        Raises:
            FileExistsError: it is another.
        """
        found = formats.read_info(self.format, path)
        for _ in self._parts():
            pass
        if found != self._info():
            raise FileExistsError(
                f"{self.out}: is complete already, but of another text or with other settings; choose another name, or "
                "replace it with --overwrite."
            )
        return True

    def _info(self) -> dict[str, Any]:
        counted = self.counted
        sizes = {"sentences": counted.sentences, "words": counted.words, "text_sha256": counted.digest.hexdigest()}
        return {"settings": self.settings, **sizes}

    def _dumped(self, *, was_complete: bool = False) -> Dumped:
        return Dumped(self.counted.sentences, self.counted.words, self.counted.cut_words, was_complete)


class _Counted:
    """Counts what passes through, and takes its digest."""

    def __init__(self, max_characters_per_word: int) -> None:
        self.max_characters_per_word = max_characters_per_word
        self.sentences = self.words = self.cut_words = 0
        self.digest = hashlib.sha256()

    def pass_on(self, sentences: Sentences) -> Iterator[Sequence[str]]:
        for sentence in sentences:
            yield sentence  # whoever takes it checks it
            self.sentences += 1
            self.words += len(sentence)
            self.cut_words += sum(
                is_cut(word, max_characters_per_word=self.max_characters_per_word) for word in sentence
            )
            self.digest.update(json.dumps(list(sentence)).encode())


def make_embedder(model: ElmoModel, device: str, options: DumpOptions) -> ElmoEmbedder:
    """The model on a device.

    Raises:
        ValueError: there is no such device.
    """
    try:
        torch.nn.Module.to(model, torch.device(device))
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"device: got {device!r}, which cannot be used here: {error}") from error
    return ElmoEmbedder(model, max_words_per_batch=options.max_words_per_batch)


def embed_part(part: Part, work: WorkFolder, embedder: ElmoEmbedder, options: DumpOptions) -> Iterator[int]:
    """Compute and write one part; yields how many of its words are done, before it is written."""
    # A word's vector rounds by the words it was computed with: of a part's own, whichever parts this run has computed.
    embedder.forget_words()
    vectors: list[np.ndarray] = []
    done = 0
    for window in embed_windows(embedder, part.sentences, options.layers):
        for vector in window:
            vectors.append(_stored(vector, options.dtype, part.first + len(vectors)))
            done += vector.shape[-2]
        if done:
            yield done
    write_part(work.part_file(part.number), part, vectors, beside=work.unfinished)


def model_digest(model: ElmoModel) -> str:
    """The same for the same weights and the same configuration, wherever they came from."""
    config = model.config.to_dict()
    for name in ("_name_or_path", "architectures", "dtype", "transformers_version"):
        config.pop(name, None)
    digest = hashlib.sha256(json.dumps(config, sort_keys=True, default=str).encode())
    for name, values in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(values.detach().float().cpu().contiguous().numpy())
    return digest.hexdigest()


def _stored(vector: np.ndarray, dtype: str, sentence: int) -> np.ndarray:
    with np.errstate(over="ignore"):
        stored = np.ascontiguousarray(vector, dtype=dtype)
    if not np.isfinite(stored).all():
        raise ValueError(
            f"sentence {sentence}: got values up to {np.abs(vector).max():g}; expected numbers that {dtype} can hold "
            f"(at most {np.finfo(dtype).max:g})" + ("; store them as float32." if dtype == "float16" else ".")
        )
    return stored


def _share_of(sentences: Sentences) -> Callable[[], float | None]:
    total = sentences.bytes_total if isinstance(sentences, TextInput) else 0
    if not isinstance(sentences, TextInput) or not total:
        return lambda: None
    text = sentences
    return lambda: min(1.0, text.bytes_read / total)
