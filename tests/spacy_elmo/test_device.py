import numpy as np
import pytest
import torch

from spacy_elmo.device import check_device, torch_device
from tests.spacy_elmo.conftest import LAYERS, WIDTH
from tests.spacy_elmo.test_entry_points import run_python
from tests.spacy_elmo.toy_tasks import add_consumer, initialize, make_examples, mixed_block, source_block, train

TEXT = "The dog let out a sharp bark ."
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU here")
without_cuda = pytest.mark.skipif(torch.cuda.is_available(), reason="a CUDA GPU is here")


@pytest.mark.parametrize("name", ["", "gpu", "cuda:", "cuda:a", "CPU", "cpu:0", "cuda:-1", "xla"])
def test_names_that_are_none_are_refused(make_nlp, name):
    with pytest.raises(ValueError, match=r'device: got .*; expected "cpu", "cuda", "cuda:0"'):
        make_nlp(device=name)


def test_names_that_are_some():
    for name in (None, "cpu", "cuda", "cuda:0", "cuda:12", "mps"):
        check_device(name)


@without_cuda
@pytest.mark.parametrize("name", ["cuda", "cuda:1"])
def test_a_gpu_that_is_absent_is_named_when_the_weights_are_loaded(make_nlp, name):
    nlp = make_nlp(device=name)  # a configuration for another machine can be read here
    for use in (nlp, lambda text: list(nlp.pipe([text])), lambda text: nlp.initialize()):
        with pytest.raises(ValueError, match=rf"device: got '{name}'.*finds no CUDA GPU here.*\"cpu\""):
            use(TEXT)


@pytest.mark.skipif(torch.backends.mps.is_available(), reason="an Apple GPU is here")
def test_apples_gpu_is_named_too():
    with pytest.raises(ValueError, match="device: got 'mps'"):
        torch_device("mps")


def test_the_default_is_spacys(make_nlp):
    assert torch_device(None) == torch.device("cpu")  # no test of this process asks spaCy for a GPU
    nlp = make_nlp(device="cpu")
    assert nlp.get_pipe("elmo").bilm.device == torch.device("cpu")
    np.testing.assert_array_equal(nlp(TEXT)._.elmo, make_nlp()(TEXT)._.elmo)


def test_preferring_a_gpu_breaks_nothing(tiny_folder):
    """Also where there is none, or none that spaCy can use."""
    printed = run_python(
        "import spacy\n"
        "used = spacy.prefer_gpu()\n"
        "for device in (None, 'cpu'):\n"
        "    nlp = spacy.blank('en')\n"
        f"    nlp.add_pipe('elmo', config={{'model': {str(tiny_folder)!r}, 'device': device, 'all_layers': True}})\n"
        "    doc = nlp('The dog barks .')\n"
        "    assert type(doc._.elmo).__module__ == 'numpy', type(doc._.elmo)\n"
        "    assert doc._.elmo.any() and doc[1].vector.any() and doc[1].similarity(doc[0]) < 1\n"
        "    assert len(nlp.to_bytes()) > 1000\n"
        "    nlp.from_bytes(nlp.to_bytes())\n"
        "    kinds = {p.device.type for p in nlp.get_pipe('elmo').bilm.parameters()}\n"
        "    assert kinds == {'cuda' if used and device is None else 'cpu'}, kinds\n"
        "print('done')"
    )
    assert printed.strip() == "done"


@needs_cuda
def test_a_gpu_gives_the_same_without_cupy(make_nlp):
    on_cpu, on_gpu = (make_nlp(device=device, all_layers=True)(TEXT) for device in ("cpu", "cuda:0"))
    np.testing.assert_allclose(on_gpu._.elmo_layers, on_cpu._.elmo_layers, atol=1e-4)
    np.testing.assert_allclose(on_gpu._.elmo, on_cpu._.elmo, atol=1e-4)


@needs_cuda
@pytest.mark.parametrize("frozen", [True, False])
def test_training_with_the_bilm_on_a_gpu_and_the_task_on_the_cpu(make_nlp, frozen):
    nlp = make_nlp(device="cuda", frozen=frozen)
    add_consumer(nlp, "tagger", mixed_block(source_block("listener", "", width=WIDTH, layers=LAYERS)))
    examples = make_examples(nlp)
    optimizer = initialize(nlp, examples)
    optimizer.learn_rate = 0.01
    losses = train(nlp, examples, optimizer, steps=15)
    assert losses[-1]["tagger"] < 0.8 * losses[0]["tagger"]
    assert nlp.get_pipe("elmo").bilm.device.type == "cuda"
