"""Parts of a dump computed by Ray Data, in several processes or on several machines.

Texts, model and parts lie in the work folder, which all machines have to see; through Ray go only the parts' numbers.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hf_elmo.dump.options import DumpOptions
from hf_elmo.dump.parts import Part
from hf_elmo.dump.work_folder import WorkFolder
from hf_elmo.model_source import load_model, without_progress_bars

if TYPE_CHECKING:
    from hf_elmo.embedder import ElmoEmbedder
    from hf_elmo.modeling_elmo import ElmoModel
    from hf_elmo.text_progress import Progress


def check_available() -> None:
    """Raises ImportError where Ray is missing."""
    _ray()


def compute(
    parts: Iterator[Part],
    work: WorkFolder,
    *,
    model: ElmoModel,
    options: DumpOptions,
    progress: Callable[[Progress], None],
) -> int:
    """Compute every part that is not there yet; returns how many there are.

    The text is read to its end first: words are a thousandth of their vectors.

    Raises:
        ImportError: Ray is not installed.
        ValueError: what went wrong in a worker.
        RuntimeError: what went wrong with the workers.
    """
    from hf_elmo.text_progress import Progress

    ray = _ray()
    missing, count, words, words_before = [], 0, 0, 0
    for part in parts:
        count += 1
        words += part.num_words
        if work.has(part):
            words_before += part.num_words
        else:
            _write_text(work, part)
            missing.append({"part": part.number})
    if not missing:
        return count
    if not ray.is_initialized():
        ray.init(include_dashboard=False, log_to_driver=False)
    done = 0
    for row in _rows(ray, missing, work, model, options):
        done += row["words"]
        before = words_before / max(1, words)
        progress(Progress(done, before + done / max(1, words), before))
    return count


def _rows(
    ray: Any, missing: list[dict[str, int]], work: WorkFolder, model: ElmoModel, options: DumpOptions
) -> Iterator[dict[str, Any]]:
    """A row for every part as it is done."""
    from ray import data

    gpus = int(ray.cluster_resources().get("GPU", 0)) if options.device in (None, "cuda") else 0
    device = options.device or ("cuda" if gpus else "cpu")
    with without_progress_bars():
        model.save_pretrained(work.model)
    workers = min(options.workers or gpus or int(ray.cluster_resources()["CPU"]), len(missing))
    data.DataContext.get_current().enable_progress_bars = False
    results = data.from_items(missing, override_num_blocks=len(missing)).map_batches(
        PartWorker,
        fn_constructor_args=(str(work.out), device, options),
        batch_size=1,
        compute=data.ActorPoolStrategy(size=workers),
        num_cpus=1,
        num_gpus=1 if gpus else 0,
    )
    try:
        for row in results.iter_rows():
            if row["error"]:
                raise ValueError(row["error"])
            yield row
    except ray.exceptions.RayError as error:
        raise RuntimeError(f"Ray: {str(error).strip().splitlines()[-1]}") from error


class PartWorker:
    """Computes parts in a process of Ray.

    Args:
        out: of the dump, whose work folder holds texts and model.
        device: where to compute.
        options: of the dump.
    """

    def __init__(self, out: str, device: str, options: DumpOptions) -> None:
        self.work = WorkFolder(Path(out))
        self.device = device
        self.options = options
        self.embedder: ElmoEmbedder | None = None

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[Any]]:
        """Parts by their numbers → how many words each has, or what went wrong: Ray hands errors on as long texts."""
        words, errors = [], []
        for number in map(int, batch["part"]):
            try:
                words.append(self._compute(number))
                errors.append("")
            except (OSError, ValueError) as error:
                words.append(0)
                errors.append(str(error))
        return {"words": words, "error": errors}

    def _compute(self, number: int) -> int:
        from hf_elmo.dump.dumping import embed_part, make_embedder

        if self.embedder is None:
            self.embedder = make_embedder(load_model(self.work.model), self.device, self.options)
        content = json.loads(_text_file(self.work, number).read_text(encoding="utf-8"))
        part = Part(number, content["first"], content["sentences"])
        for _ in embed_part(part, self.work, self.embedder, self.options):
            pass
        return part.num_words


def _write_text(work: WorkFolder, part: Part) -> None:
    content = {"first": part.first, "sentences": part.sentences}
    unfinished = work.unfinished / f"text-{part.number}"
    unfinished.write_text(json.dumps(content), encoding="utf-8")
    os.replace(unfinished, _text_file(work, part.number))


def _text_file(work: WorkFolder, number: int) -> Path:
    return work.texts / f"{number:05d}.json"


def _ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise ImportError('computing on several machines needs Ray: pip install "spacy-elmo[ray]"') from error
    return ray
