from pathlib import Path

import h5py
import numpy as np

from tests.oracles.plain_adagrad import adagrad_updates


def test_it_ends_where_the_recorded_run_ended(shared_dir: Path) -> None:
    golden = shared_dir / "reference" / "bilm_training_golden"
    variables, sums = adagrad_updates(golden, 6)
    with h5py.File(golden / "train_after.hdf5") as file:
        for name, values in variables.items():
            np.testing.assert_allclose(values, file[name][()], rtol=0, atol=1e-6)
    assert all((values >= 1).all() for values in sums.values())
