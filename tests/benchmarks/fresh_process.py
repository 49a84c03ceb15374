"""What the first use of a model costs, measured in a process of its own, which `costs.py` starts.

It prints seconds of importing, of loading and of the first sentence, and the peak of memory, as one line of JSON.
"""

import argparse
import importlib
import json
import resource
import sys
import time
from pathlib import Path


def peak_bytes() -> int:
    """The most memory that this process has held.

    Linux hands the parent's peak down to a child's `ru_maxrss`, so there it is read elsewhere.
    """
    status = Path("/proc/self/status")
    if status.is_file():
        (line,) = (line for line in status.read_text(encoding="ascii").splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # macOS counts bytes, others kibibytes


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--module", required=True, help="what is imported first")
    parser.add_argument("--model", default=None, help="what the embedder then loads: a folder, or 'shipped'")
    parser.add_argument("--sentences", default=None, help="JSON lists of words, to be embedded last")
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    clock = time.process_time if arguments.threads == 1 else time.perf_counter
    found: dict[str, float] = {}

    begin = clock()
    importlib.import_module(arguments.module)
    found["import_seconds"] = clock() - begin
    if arguments.model is not None:
        import torch

        from hf_elmo.embedder import ElmoEmbedder
        from hf_elmo.model_source import load_model

        torch.set_num_threads(arguments.threads)
        begin = clock()
        model = load_model(None if arguments.model == "shipped" else arguments.model)
        found["load_seconds"] = clock() - begin
        begin = clock()
        embedder = ElmoEmbedder(model)
        embedder.embed([["A", "first", "sentence", "."]])
        found["first_sentence_seconds"] = clock() - begin
        found["peak_bytes_one_sentence"] = peak_bytes()
        with open(arguments.sentences, encoding="utf-8") as file:
            for _ in embedder.embed_stream(json.load(file)):
                pass
    found["peak_bytes"] = peak_bytes()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
