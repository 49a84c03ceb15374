"""What the LSTMs of inference read, recorded call by call."""

from typing import Any, NamedTuple

import pytest

from hf_elmo.packed_lstm import PackedLSTM
from hf_elmo.paired_lstm import PairedLSTM


class Read(NamedTuple):
    """One direction of one layer.

    Attributes:
        steps: of time.
        positions: of all sentences together.
    """

    steps: int
    positions: int


def record_reads(monkeypatch: pytest.MonkeyPatch) -> list[Read]:
    """A list that grows with each read from now on, of batches and of single sentences."""
    reads: list[Read] = []
    packed, paired = PackedLSTM.read, PairedLSTM.read

    def read_batch(self: PackedLSTM, inputs: Any, sizes: Any, *state: Any) -> Any:
        reads.append(Read(len(sizes), len(inputs)))
        return packed(self, inputs, sizes, *state)

    def read_sentence(self: PairedLSTM, inputs: Any, *state: Any) -> Any:
        reads.extend([Read(len(inputs), len(inputs))] * 2)
        return paired(self, inputs, *state)

    monkeypatch.setattr(PackedLSTM, "read", read_batch)
    monkeypatch.setattr(PairedLSTM, "read", read_sentence)
    return reads
