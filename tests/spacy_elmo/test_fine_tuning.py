import copy
import gc

import numpy as np
import pytest
import torch
from spacy.training import Example
from thinc.api import Adam, Optimizer

from hf_elmo import ElmoConfig, ElmoModel
from hf_elmo.character_ids import words_to_character_ids
from hf_elmo.scalar_mix import ScalarMix
from spacy_elmo.fine_tuning import FineTuning, parameters_from_the_top
from spacy_elmo.handed_layers import handed_to
from tests.spacy_elmo.conftest import LAYERS
from tests.spacy_elmo.test_listener import LISTENER, listener_of
from tests.spacy_elmo.test_upstream import shared_nlp, state_of
from tests.spacy_elmo.toy_tasks import add_consumer, initialize, make_examples, mixed_block, train


def sgd(rate: float = 0.1) -> Optimizer:
    """Plain stochastic gradient descent: a step is the rate times the gradient."""
    return Optimizer(rate, beta1=0.0, beta2=0.0, grad_clip=0.0, L2=0.0)


def wake(nlp):
    """An untrained output layer is all zeros, and sends no gradient."""
    output = nlp.get_pipe("tagger").model.get_ref("softmax")
    shape = output.get_param("W").shape
    output.set_param("W", np.random.default_rng(0).normal(size=shape).astype("f"))


def moved(nlp, before):
    """How far each part of the biLM is from what it was, from the top."""
    model = nlp.get_pipe("elmo").bilm
    was = ElmoModel(model.config)
    was.load_state_dict(before)
    return [
        max(float((one - other).detach().abs().max()) for one, other in zip(now, then, strict=True))
        for now, then in zip(parameters_from_the_top(model), parameters_from_the_top(was), strict=True)
    ]


def test_the_bilm_learns_and_the_loss_falls(make_nlp):
    nlp = shared_nlp(make_nlp, "tagger", frozen=False)
    assert nlp.get_pipe("elmo").is_trainable
    examples = make_examples(nlp)
    optimizer = initialize(nlp, examples)
    optimizer.learn_rate = 0.01
    before, vectors = state_of(nlp), nlp("a word")._.elmo.copy()
    losses = train(nlp, examples, optimizer, steps=25)
    assert losses[-1]["tagger"] < 0.7 * losses[0]["tagger"]
    assert losses[0]["elmo"] == 0  # the output layer is all zeros at first, and sends no gradient
    assert losses[1]["elmo"] > 0
    assert min(moved(nlp, before)) > 1e-3
    assert np.abs(nlp("a word")._.elmo - vectors).max() > 1e-3  # prediction sees the new weights
    mix = nlp.get_pipe("elmo").bilm.scalar_mix  # its own, for doc._.elmo
    assert torch.equal(mix.weights, before["scalar_mix.weights"])
    shared = shared_nlp(make_nlp, "tagger")
    frozen = train(shared, examples, initialize(shared, examples), steps=25)
    assert losses[-1]["tagger"] < frozen[-1]["tagger"]


@pytest.mark.parametrize("max_words_per_batch", [9, 4096])
def test_gradients_are_those_of_plain_autograd(make_nlp, tiny_folder, max_words_per_batch):
    """Two listeners, two sentences a doc, whitespace: against one sentence after the other in torch."""
    nlp = make_nlp("sentencizer", frozen=False, max_words_per_batch=max_words_per_batch)
    add_consumer(nlp, "tagger", mixed_block(LISTENER, layer_norm=True))
    add_consumer(nlp, "senter", mixed_block({**LISTENER, "grad_factor": 0.5}))
    nlp.initialize(lambda: make_examples(nlp))
    elmo = nlp.get_pipe("elmo")
    docs = [nlp.get_pipe("sentencizer")(nlp.make_doc(text)) for text in ["The dog  barks . A tree !", "", "word"]]
    elmo.update([Example(doc, doc.copy()) for doc in docs])
    generator = np.random.default_rng(0)
    reference = ElmoModel.from_pretrained(tiny_folder)
    config = {"num_hidden_layers": LAYERS - 1}
    twins = {
        "tagger": (1.0, ScalarMix(ElmoConfig(**config, mix_layer_norm="token"))),
        "senter": (0.5, ScalarMix(ElmoConfig(**config))),
    }
    loss = torch.zeros(())
    for name, (factor, twin) in twins.items():
        outputs, backprop = nlp.get_pipe(name).model.layers[0](docs, is_train=True)
        targets = [generator.normal(size=one.shape).astype("f") for one in outputs]
        backprop([target.copy() for target in targets])
        for doc, target in zip(docs, targets, strict=True):
            for sentence in doc.sents:
                words = [token for token in sentence if not token.is_space]
                ids = words_to_character_ids(["<S>", *[token.text for token in words], "</S>"])
                output = reference(torch.from_numpy(ids)[None], output_hidden_states=True)
                layers = [layer[:, 1:-1] for layer in output.hidden_states]
                mixed = twin(layers, torch.ones(1, len(words), dtype=torch.bool))[0]
                loss = loss + factor * (mixed * torch.from_numpy(target[[token.i for token in words]])).sum()
    loss.backward()
    expected = dict(reference.named_parameters())
    compared = 0
    for name, parameter in elmo.bilm.named_parameters():
        if name.startswith("scalar_mix."):
            assert parameter.grad is None
            continue
        compared += 1
        assert parameter.grad.abs().max() > 0, name
        torch.testing.assert_close(parameter.grad, expected[name].grad, rtol=1e-3, atol=1e-5)
    assert compared > 5


def test_the_learning_rate_has_its_own_factor(make_nlp):
    steps = []
    for factor in (1.0, 0.25):
        nlp = shared_nlp(make_nlp, "tagger", frozen=False, learning_rate_factor=factor)
        examples = make_examples(nlp)
        initialize(nlp, examples)
        wake(nlp)
        before = state_of(nlp)
        train(nlp, examples, sgd(), steps=1)
        steps.append({name: value - before[name] for name, value in state_of(nlp).items()})
    name = "layers.0.forward_lstm.gates.weight"
    assert steps[0][name].abs().max() > 1e-6
    for name, step in steps[0].items():
        torch.testing.assert_close(steps[1][name], 0.25 * step, rtol=1e-2, atol=1e-7)


def test_layers_are_unfrozen_from_the_top(make_nlp):
    nlp = shared_nlp(make_nlp, "tagger", frozen=False, unfreeze_after=[1, 3])
    examples = make_examples(nlp)
    optimizer = initialize(nlp, examples)
    before, learning = state_of(nlp), []
    for _ in range(6):
        train(nlp, examples, optimizer, steps=1)
        learning.append([distance > 0 for distance in moved(nlp, before)])
    # the top layer, the layer below, the token layer
    assert learning == [[False] * 3, [True, False, False], [True, False, False], *[[True, True, False]] * 3]


def test_the_order_of_steps_does_not_depend_on_how_spacy_trains(make_nlp):
    """`nlp.update(sgd=...)` asks for a step before the listeners have learnt, `spacy train` after."""
    results = []
    for at_once in (True, False):
        nlp = shared_nlp(make_nlp, "tagger", "senter", frozen=False)
        examples = make_examples(nlp)
        initialize(nlp, examples)
        wake(nlp)
        optimizer = sgd(0.01)
        for _ in range(3):
            nlp.update(examples, sgd=optimizer if at_once else False)
            for _, component in [] if at_once else nlp.pipeline:
                component.finish_update(optimizer)
        results.append(state_of(nlp))
    for name, value in results[0].items():
        torch.testing.assert_close(value, results[1][name], rtol=0, atol=1e-6)


def test_accumulated_batches_make_one_step(make_nlp):
    nlp = shared_nlp(make_nlp, "tagger", frozen=False)
    examples = make_examples(nlp)
    initialize(nlp, examples)
    calls = []

    def optimizer(key, weights, gradient, *, lr_scale=1.0):
        calls.append((key, float(np.abs(gradient).max())))
        return weights, gradient

    wake(nlp)
    elmo = nlp.get_pipe("elmo")
    for part in (examples[:6], examples[6:]):
        nlp.update(part, sgd=False)
    elmo.finish_update(optimizer)
    assert len(calls) == len({key for key, _ in calls}) > 5
    assert elmo.fine_tuning.steps == 1


def test_a_listener_that_learns_nothing_does_not_hold_the_others_up(make_nlp):
    """An excluded component, as a frozen one, never sends a gradient."""
    nlp = shared_nlp(make_nlp, "tagger", "senter", frozen=False)
    examples = make_examples(nlp)
    optimizer = initialize(nlp, examples)
    before = state_of(nlp)
    train(nlp, examples, optimizer, steps=4, exclude=["senter"])
    assert nlp.get_pipe("elmo").fine_tuning.steps == 3  # the last batch waits, in case that the other comes
    assert max(moved(nlp, before)) > 0
    nlp.update(examples, sgd=False, exclude=["senter"])
    assert nlp.get_pipe("elmo").fine_tuning.steps == 4
    nlp.get_pipe("elmo").finish_update(optimizer)
    assert nlp.get_pipe("elmo").fine_tuning.steps == 5


def test_a_gradient_factor_of_zero_leaves_the_bilm_alone(make_nlp):
    nlp = make_nlp(frozen=False)
    add_consumer(nlp, "tagger", mixed_block({**LISTENER, "grad_factor": 0.0}))
    examples = make_examples(nlp)
    optimizer = initialize(nlp, examples)
    before = state_of(nlp)
    losses = train(nlp, examples, optimizer, steps=3)
    assert moved(nlp, before) == [0.0] * LAYERS
    assert losses[-1]["elmo"] == 0.0
    assert losses[-1]["tagger"] < losses[0]["tagger"]


def test_a_component_excluded_from_training_is_frozen(make_nlp):
    nlp = shared_nlp(make_nlp, "tagger", frozen=False)
    examples = make_examples(nlp)
    optimizer = initialize(nlp, examples)
    before = state_of(nlp)
    losses = train(nlp, examples, optimizer, steps=3, exclude=["elmo"], annotates=["elmo"])
    assert moved(nlp, before) == [0.0] * LAYERS
    assert losses[-1]["tagger"] < losses[0]["tagger"]


def test_gradients_that_come_too_late_are_an_error(make_nlp):
    nlp = shared_nlp(make_nlp, "tagger", frozen=False)
    nlp.initialize(lambda: make_examples(nlp))
    doc = nlp.make_doc("a word")
    nlp.get_pipe("elmo").update([Example(doc, doc.copy())])
    layers, backprop = listener_of(nlp)([doc], is_train=True)
    backprop(layers)
    with pytest.raises(RuntimeError, match="on which the biLM has been trained already"):
        backprop(layers)


def test_a_batch_is_let_go_when_it_is_done(make_nlp):
    nlp = shared_nlp(make_nlp, "tagger", frozen=False)
    nlp.initialize(lambda: make_examples(nlp))
    doc = nlp.make_doc("a word")
    nlp.get_pipe("elmo").update([Example(doc, doc.copy())])
    batch = handed_to(doc, "elmo").batch
    ((_, graph),) = batch._read
    layers, backprop = listener_of(nlp)([doc], is_train=True)
    backprop(layers)
    gc.collect()
    assert batch._read == []
    assert nlp.get_pipe("elmo").fine_tuning._batch is None
    assert graph.grad_fn is not None


def test_averages_are_the_bilms_too(make_nlp, tmp_path):
    nlp = shared_nlp(make_nlp, "tagger", frozen=False)
    examples = make_examples(nlp)
    initialize(nlp, examples)
    optimizer = Adam(0.02, use_averages=True)
    train(nlp, examples, optimizer, steps=5)
    last = nlp("a word")._.elmo.copy()
    with nlp.use_params(optimizer.averages):
        averaged = nlp("a word")._.elmo.copy()
        nlp.to_disk(tmp_path)
    assert np.abs(averaged - last).max() > 1e-4
    np.testing.assert_array_equal(nlp("a word")._.elmo, last)
    saved = ElmoModel.from_pretrained(tmp_path / "elmo" / "model")
    name = "layers.0.forward_lstm.gates.weight"
    key = (nlp.get_pipe("elmo").shim.id, name)
    np.testing.assert_array_equal(saved.state_dict()[name].numpy(), optimizer.averages[key])


def test_a_batch_under_way_is_not_copied(make_nlp):
    nlp = shared_nlp(make_nlp, "tagger", frozen=False)
    nlp.initialize(lambda: make_examples(nlp))
    doc = nlp.make_doc("a word")
    nlp.get_pipe("elmo").update([Example(doc, doc.copy())])
    assert copy.deepcopy(nlp.get_pipe("elmo").fine_tuning)._batch is None


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"learning_rate_factor": 0.0}, "learning_rate_factor"),
        ({"learning_rate_factor": float("inf")}, "learning_rate_factor"),
        ({"unfreeze_after": []}, "unfreeze_after"),
        ({"unfreeze_after": [0, -1]}, "unfreeze_after"),
    ],
)
def test_impossible_options_are_refused(options, named):
    with pytest.raises(ValueError, match=named):
        FineTuning(**options)


def test_options_that_contradict_each_other_are_refused(make_nlp):
    with pytest.raises(ValueError, match="frozen = true with learning_rate_factor"):
        make_nlp(learning_rate_factor=0.1)
    with pytest.raises(ValueError, match="unfreeze_after"):
        make_nlp(unfreeze_after=[0])


def test_more_layers_than_there_are(make_nlp):
    nlp = shared_nlp(make_nlp, "tagger", frozen=False, unfreeze_after=[0, 1, 2, 3])
    examples = make_examples(nlp)
    with pytest.raises(ValueError, match="unfreeze_after: got 4 entries; expected at most 3"):
        train(nlp, examples, initialize(nlp, examples), steps=1)


def test_it_may_annotate_while_it_learns(make_nlp):
    """spaCy annotates after the component's update, and before those who listen have learnt from it."""
    nlp = shared_nlp(make_nlp, "tagger", frozen=False)
    examples = make_examples(nlp)
    optimizer = initialize(nlp, examples)
    wake(nlp)
    before = state_of(nlp)
    losses = train(nlp, examples, optimizer, steps=1, annotates=["elmo"])
    assert losses[0]["elmo"] > 0
    assert min(moved(nlp, before)) > 0
    doc = examples[0].predicted
    nlp.get_pipe("elmo")(doc)  # the batch is done: what is handed out now is what is computed now
    assert handed_to(doc, "elmo").batch is None


def test_initialising_again_begins_anew(make_nlp):
    nlp = shared_nlp(make_nlp, "tagger", frozen=False, unfreeze_after=[0, 2])
    elmo, examples = nlp.get_pipe("elmo"), make_examples(nlp)

    def run():
        optimizer = initialize(nlp, examples)
        start = state_of(nlp)
        wake(nlp)
        train(nlp, examples, optimizer, steps=4)
        return start, state_of(nlp), elmo.fine_tuning.steps

    (start, end, steps), (start_again, _, steps_again) = run(), run()
    assert any(not torch.equal(start[name], end[name]) for name in start)
    assert all(torch.equal(start[name], start_again[name]) for name in start)
    assert steps == steps_again == 4


def test_initialising_keeps_weights_that_came_otherwise(make_nlp, tmp_path):
    nlp = shared_nlp(make_nlp, "tagger", frozen=False)
    examples = make_examples(nlp)
    initialize(nlp, examples)
    given = nlp.get_pipe("elmo").bilm
    for parameter in given.parameters():
        parameter.data *= 0.5
    nlp.get_pipe("elmo").bilm = given
    wake(nlp)
    train(nlp, examples, nlp.resume_training(), steps=2)
    trained = state_of(nlp)
    initialize(nlp, examples)
    assert all(torch.equal(trained[name], value) for name, value in state_of(nlp).items())


def test_more_steps_than_layers_show_before_training(make_nlp):
    nlp = shared_nlp(make_nlp, "tagger", frozen=False, unfreeze_after=[0] * (LAYERS + 1))
    with pytest.raises(ValueError, match=f"got {LAYERS + 1} entries; expected at most {LAYERS}"):
        initialize(nlp, make_examples(nlp))
