"""Ray Data makes the same dump; run where Ray is installed: pip install ".[ray]"."""

from dataclasses import replace

import numpy as np
import pytest

from hf_elmo.dump import DumpOptions, dump
from tests.hf_elmo.dump.dumps import contents, many_sentences, names_in, read_back

ray = pytest.importorskip("ray", reason='Ray is not installed: pip install ".[ray]"')

SENTENCES = many_sentences(40)
LOCAL = DumpOptions(part_megabytes=0.004, layers="all")
RAY = replace(LOCAL, engine="ray", workers=2, device="cpu")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def cluster():
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def test_the_same_dump(model, tmp_path):
    steps = []
    for engine, options in (("local", LOCAL), ("ray", RAY)):
        dump(SENTENCES, tmp_path / engine / "v.parquet", model=model, options=options, progress=steps.append)
    assert steps[-1].words == sum(map(len, SENTENCES))
    assert steps[-1].share == 1.0
    local, distributed = (read_back(tmp_path / engine / "v.parquet") for engine in ("local", "ray"))
    for (words, one), (same_words, other) in zip(local, distributed, strict=True):
        assert words == same_words
        np.testing.assert_allclose(one, other, atol=1e-5)
    assert names_in(tmp_path / "ray") == ["v.parquet"]


def test_goes_on_where_another_was_broken_off(model, tmp_path):
    dump(SENTENCES, tmp_path / "whole", model=model, options=LOCAL)

    def text():
        yield from SENTENCES[:20]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dump(text(), tmp_path / "v", model=model, options=LOCAL)
    # A gap, as several workers leave it.
    (tmp_path / ".v.parts" / "parts" / "00000.safetensors").unlink()
    left = len(list((tmp_path / ".v.parts" / "parts").iterdir()))
    assert left >= 1
    steps = []
    options = replace(RAY, resume=True)
    dump(SENTENCES, tmp_path / "v", model=model, options=options, progress=steps.append)
    assert 0 < steps[0].share_before < 1
    assert contents(tmp_path / "v").keys() == contents(tmp_path / "whole").keys()
    for (_, one), (_, other) in zip(read_back(tmp_path / "whole"), read_back(tmp_path / "v"), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_what_goes_wrong_in_a_worker_is_said_in_a_line(model, tmp_path):
    with pytest.raises(ValueError, match="device: got 'nonsense', which cannot be used here"):
        dump(SENTENCES, tmp_path / "v", model=model, options=replace(RAY, device="nonsense"))
    assert names_in(tmp_path) == []
