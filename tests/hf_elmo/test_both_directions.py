"""Two directions in two threads: what one thread computes, and nothing left of them afterwards."""

import threading
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hf_elmo import both_directions
from hf_elmo.both_directions import run_both
from hf_elmo.embedder import ElmoEmbedder
from hf_elmo.packed_batch import BACKWARD, FORWARD
from tests.hf_elmo.models import WORDS, random_model

CPU = torch.device("cpu")
WITH_OPENMP = "parallel backend: OpenMP" in torch.__config__.parallel_info()


@pytest.fixture(params=[2, 3])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    if not WITH_OPENMP:
        pytest.skip("PyTorch is built without OpenMP here")
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def _of_new_thread() -> int:
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    return found[0]


def test_each_direction_has_a_share_of_the_threads(threads: int) -> None:
    found: dict[int, tuple[int, int, bool]] = {}

    def read(direction: int) -> None:
        found[direction] = (threading.get_ident(), torch.get_num_threads(), torch.is_inference_mode_enabled())

    run_both(read, CPU)
    assert [found[direction][1:] for direction in (FORWARD, BACKWARD)] == [(threads - threads // 2, True), (1, True)]
    assert len({found[FORWARD][0], found[BACKWARD][0], threading.get_ident()}) == 3
    assert torch.get_num_threads() == _of_new_thread() == threads


def test_they_run_at_once(threads: int) -> None:
    meeting = threading.Barrier(2, timeout=30)
    run_both(lambda _: (meeting.wait(), None)[1], CPU)


@pytest.mark.parametrize("missing", ["threads", "OpenMP"])
def test_otherwise_one_direction_is_read_after_the_other(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1 if missing == "threads" else 2)
    monkeypatch.setattr(both_directions, "_threads_have_shares", lambda: missing != "OpenMP")
    found = []
    run_both(lambda direction: found.append((direction, threading.get_ident())), CPU)
    assert found == [(FORWARD, threading.get_ident()), (BACKWARD, threading.get_ident())]


@pytest.mark.parametrize("failing", [FORWARD, BACKWARD])
def test_a_failure_comes_out_and_leaves_nothing(threads: int, failing: int) -> None:
    def read(direction: int) -> None:
        if direction == failing:
            raise ValueError("no memory")

    with pytest.raises(ValueError, match="no memory"):
        run_both(read, CPU)
    assert torch.get_num_threads() == _of_new_thread() == threads
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("ThreadPoolExecutor")]


@pytest.mark.timeout(60)
def test_a_thread_that_cannot_start_is_not_waited_for(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    class OneThread(both_directions.ThreadPoolExecutor):
        def submit(self, *arguments):
            if self._work_queue.qsize() or self._threads:
                raise RuntimeError("can't start new thread")
            return super().submit(*arguments)

    monkeypatch.setattr(both_directions, "ThreadPoolExecutor", OneThread)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        run_both(lambda _: None, CPU)
    assert torch.get_num_threads() == threads


sentences = st.lists(st.lists(st.sampled_from(WORDS), max_size=9), min_size=2, max_size=7)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batch=sentences)
def test_vectors_are_those_of_one_thread(threads: int, batch: list[list[str]]) -> None:
    """The model is so small that no product is divided between threads."""
    for layers in ("mix", "all", "token"):
        found = ElmoEmbedder(MODEL).embed(batch, layers=layers)
        torch.set_num_threads(1)
        expected = ElmoEmbedder(MODEL).embed(batch, layers=layers)
        torch.set_num_threads(threads)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-6)


MODEL = random_model()
