"""The two directions at once, each in a thread of its own with half of PyTorch's threads."""

import functools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import torch

from hf_elmo.packed_batch import BACKWARD, FORWARD


def run_both(read: Callable[[int], None], device: torch.device) -> None:
    """Call `read` for each direction; at once, where a CPU has threads for both.

    Half the threads on a direction are more than all of them on one after the other: much of a step is too small to be
    divided, and waits for nothing.

    Args:
        read: called with a direction, in inference mode.
        device: of the tensors.

    Raises:
        What `read` raises.
    """
    threads = torch.get_num_threads()
    if device.type != "cpu" or threads == 1 or not _threads_have_shares():
        read(FORWARD)
        read(BACKWARD)
        return
    all_set = threading.Barrier(3)

    def read_with(direction: int, share: int) -> None:
        torch.get_num_threads()  # a thread begins with the number of all, which is set when it is first asked for
        torch.set_num_threads(share)  # of this thread, and of those that begin from now on
        all_set.wait()
        with torch.inference_mode():
            read(direction)

    # The threads do not outlive the call: a process that is forked later has none that it misses.
    with ThreadPoolExecutor(2) as pool:
        try:
            reading = [
                pool.submit(read_with, direction, share)
                for direction, share in ((FORWARD, threads - threads // 2), (BACKWARD, threads // 2))
            ]
            all_set.wait()
        except BaseException:
            all_set.abort()  # or a thread would wait for ever for one that could not be started
            raise
        finally:
            torch.set_num_threads(threads)
        for one in reading:
            one.result()


@functools.cache
def _threads_have_shares() -> bool:
    """PyTorch's other ways of parallel work have one number of threads for the whole process."""
    return "parallel backend: OpenMP" in torch.__config__.parallel_info()
