"""Networks that are trained on pictures: what they compute, what they learn, and their bench."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from refusals import refused
from small_data import use_source
from torch.nn import functional as F

from zonkey.files.dataset import Dataset, Split
from zonkey_lab import protocols
from zonkey_lab.paper.bench import runner
from zonkey_lab.paper.bench.end_to_end import (
    ClassifierEndToEnd,
    MAMLEndToEnd,
    MatchingEndToEnd,
    PrototypicalEndToEnd,
    RelationEndToEnd,
)
from zonkey_lab.paper.bench.models import FEW_SHOT
from zonkey_lab.paper.bench.pictures import find_side
from zonkey_lab.paper.bench.sources import DataSource, validation_view
from zonkey_lab.paper.experiments import (
    END_TO_END,
    EXPERIMENTS,
    PICTURES,
    QUICK,
    require_suitable,
    runs_of,
)
from zonkey_lab.paper.records import Records, problem_of
from zonkey_lab.peers import Training
from zonkey_lab.peers.fsl import BaseSamples, meta
from zonkey_lab.peers.fsl.meta import EpisodeSizes

SIDE = 16


def masked(n_classes, n, seed=0):
    """Pictures of a class share a pattern of 4 x 4 squares; bright and dark colors are random."""
    rng = np.random.default_rng(seed)
    squares = rng.integers(0, 2, (n_classes, 1, 1, 4, 4))
    masks = squares.repeat(SIDE // 4, 3).repeat(SIDE // 4, 4)
    colors = rng.random((2, n_classes, n, 3, 1, 1))
    X = np.where(masks, 0.5 + 0.5 * colors[0], 0.5 * colors[1])
    return X.reshape(n_classes * n, -1).astype(np.float32), np.repeat(np.arange(n_classes), n)


N_BASE, N_NOVEL = 60, 10
X, Y = masked(N_BASE + N_NOVEL, 6)
BASE = BaseSamples(X[Y < N_BASE], Y[Y < N_BASE])
KINDS = {
    "prototypical": (PrototypicalEndToEnd, {"n_way": 5}, {"max_iter": 6}),
    "matching": (MatchingEndToEnd, {}, {"max_iter": 6}),
    "matching in context": (MatchingEndToEnd, {"full_context": True}, {"max_iter": 6}),
    "relation": (RelationEndToEnd, {}, {"max_iter": 6}),
    "MAML": (MAMLEndToEnd, {"inner_learning_rate": 0.1}, {"max_iter": 3}),
    "MAML, first order": (
        MAMLEndToEnd,
        {"inner_learning_rate": 0.1, "first_order": True},
        {"max_iter": 4},
    ),
    "classifier": (ClassifierEndToEnd, {}, {"max_iter": 30, "batch_size": 32}),
}
each_kind = pytest.mark.parametrize("name", KINDS)


def made(name, base=BASE, **training):
    kind, own, fitting = KINDS[name]
    options = {"learning_rate": 0.01, "n_iter_no_change": None, "device": "cpu"}
    options = {**options, **fitting, **training}
    return kind(base, n_channels=8, n_episodes=40, training=Training(**options), **own)


def score(model):
    classes = np.arange(N_BASE, N_BASE + N_NOVEL)
    options = {"n_shot": 1, "n_query": 4, "n_trials": 20}
    return protocols.n_way_k_shot({"model": model}, X, Y, classes, **options)["model"].mean()


def support(n_way=4, n_shot=2):
    rows = np.flatnonzero(Y >= N_BASE).reshape(N_NOVEL, 6)[:n_way, :n_shot].ravel()
    return X[rows], Y[rows]


# What is learned


@each_kind
def test_training_learns_the_pattern_and_not_the_color(name):
    assert score(made(name, max_iter=0)) < 0.6
    assert score(made(name)) > 0.8


@each_kind
def test_a_picture_is_scored_without_regard_to_the_others(name):
    model = made(name, max_iter=1).fit(*support())
    queries = X[-20:]
    together = model.decision_function(queries)
    alone = np.concatenate([model.decision_function(queries[i : i + 1]) for i in range(20)])
    assert_allclose(together, alone, rtol=1e-3, atol=1e-4)
    assert together.shape == (20, 4)
    assert_array_equal(model.decision_function(queries), together)


@each_kind
def test_the_seed_changes_training_and_its_repetition_nothing(name):
    bases = [BaseSamples(BASE.X, BASE.classes[BASE.codes], random_state=seed) for seed in (0, 0, 1)]
    models = [made(name, base, max_iter=1).fit(*support()) for base in bases]
    found = [model.decision_function(X[-20:]) for model in models]
    assert_array_equal(found[0], found[1])
    assert models[0].loss_curve_ == models[1].loss_curve_ != models[2].loss_curve_
    assert np.abs(found[0] - found[2]).max() > 1e-3


def test_the_best_state_in_episodes_of_validation_classes_is_kept():
    held = Y >= N_BASE
    base = BaseSamples(BASE.X, BASE.classes[BASE.codes], validation=(X[held], Y[held]))
    model = made("prototypical", base, max_iter=5, n_iter_no_change=2).fit(*support())
    assert model.n_iter_ == np.argmax(model.validation_scores_) + 1
    again = made("prototypical", base, max_iter=model.n_iter_).fit(*support())
    for key, value in again.weights_.items():
        assert_allclose(model.weights_[key], value, rtol=1e-6, err_msg=key)
    assert "encoder/0.weight" in model.weights_
    assert made("prototypical", max_iter=0).fit(*support()).n_iter_ == 0


# What is computed


def learner_of(name, n_way=3, **settings):
    model = made(name).set_params(n_channels=3, **settings)
    model.episode_sizes = EpisodeSizes(n_way, 2, 2)
    learner = model._learner(BASE)
    for network in learner.networks.values():
        network.double()
    generator = torch.Generator().manual_seed(0)
    shape = (2, n_way, 2, 3 * SIDE**2)
    episodes = [torch.rand(shape, generator=generator, dtype=torch.float64) for _ in range(2)]
    return learner, *episodes


def maml_by_loops(weights, shots, queries, n_way, n_steps, rate):
    """Return the scores of the queries of one episode, whose classes have the first outputs."""

    def scores(w, pictures):
        Z = pictures
        for i in range(4):
            Z = F.conv2d(Z, w[f"kernel{i}"], padding=1)
            scale, shift, own = w[f"scale{i}"], w[f"shift{i}"], Z[: len(shots)]
            if len(pictures) == len(shots):
                Z = F.batch_norm(Z, None, None, scale, shift, training=True)
            else:
                center, spread = own.mean((0, 2, 3)), own.var((0, 2, 3), unbiased=False)
                Z = F.batch_norm(Z, center, spread, scale, shift)
            Z = F.max_pool2d(F.relu(Z), 2)
        return Z.flatten(1) @ w["W"][:, :n_way] + w["b"][:n_way]

    targets = torch.arange(n_way).repeat_interleave(len(shots) // n_way)
    w = {name: value.detach().clone().requires_grad_() for name, value in weights.items()}
    for _ in range(n_steps):
        loss = F.cross_entropy(scores(w, shots), targets)
        slopes = torch.autograd.grad(loss, list(w.values()))
        w = {
            name: (value - rate * slope).detach().requires_grad_()
            for (name, value), slope in zip(w.items(), slopes, strict=True)
        }
    with torch.no_grad():
        return scores(w, torch.cat([shots, queries]))[len(shots) :]


def test_maml_adapts_every_layer_to_each_episode_alone():
    learner, S, Q = learner_of("MAML", n_steps=3)
    S, Q = learner.encode(S, Q)
    found = learner.logits(S, Q)
    weights = dict(learner.networks["all"].items())
    for e in range(len(S)):
        expected = maml_by_loops(weights, S[e].flatten(0, 1), Q[e].flatten(0, 1), 3, 3, 0.1)
        assert_allclose(found[e].numpy(), expected.numpy(), rtol=1e-6, atol=1e-8)


def test_the_gradient_of_maml_reaches_every_initial_weight():
    learner, S, Q = learner_of("MAML", n_steps=2)
    S, Q = learner.encode(S, Q)
    loss = learner.cross_entropy(learner.adapt(S, Q, learner.first_outputs(S)), learner.targets(Q))
    loss.backward()
    weights, rng = dict(learner.networks["all"].items()), np.random.default_rng(0)

    def objective():
        return learner.cross_entropy(learner.logits(S, Q), learner.targets(Q)).item()

    for name, weight in weights.items():
        assert weight.grad.abs().max() > 0, name
        place = tuple(int(rng.integers(n)) for n in weight.shape)
        values = []
        for step in (1e-7, -1e-7):  # small: the loss jumps where an inner step crosses a kink
            with torch.no_grad():
                weight[place] += step
            values.append(objective())
            with torch.no_grad():
                weight[place] -= step
        slope = (values[0] - values[1]) / 2e-7
        assert_allclose(weight.grad[place].item(), slope, rtol=1e-3, atol=1e-6, err_msg=name)


def test_a_prototypical_network_compares_with_means_of_encoded_shots():
    learner, S, Q = learner_of("prototypical")
    learner.set_mode(False)
    with torch.no_grad():
        found = learner.logits(*learner.encode(S, Q))
        encode = learner.networks["encoder"]
        shots, queries = (
            encode(2 * rows.reshape(-1, 3, SIDE, SIDE) - 1).reshape(2, 3, 2, -1) for rows in (S, Q)
        )
    gaps = queries.flatten(1, 2)[:, :, None] - shots.mean(dim=2)[:, None]
    expected = -gaps.square().sum(dim=3)
    shift = found - expected
    assert_allclose(shift, shift[..., :1].expand_as(shift), rtol=1e-9, atol=1e-9)


def test_a_relation_network_compares_maps_of_every_pair():
    learner, S, Q = learner_of("relation")
    with torch.no_grad():
        shots, queries = learner.encode(S, Q)
        found = learner.logits(shots, queries)
        maps = (3, SIDE // 4, SIDE // 4)
        for e in range(2):
            for q, sample in enumerate(queries[e].flatten(0, 1)):
                for j in range(3):
                    center = shots[e, j].mean(dim=0).reshape(maps)
                    pair = torch.cat([center, sample.reshape(maps)])[None]
                    expected = learner.networks["relation"](pair).item()
                    assert_allclose(found[e, q, j].item(), expected, rtol=1e-9)


def test_pictures_are_moved_and_mirrored_in_training_only():
    learner, S, _ = learner_of("prototypical")
    rows = S.flatten(0, 2)
    still = learner.open_pictures(rows, None)
    assert_allclose(still.flatten(1), 2 * rows - 1)
    rng, seen = np.random.default_rng(0), set()
    for _ in range(60):
        moved = learner.open_pictures(rows, rng)
        padded = F.pad(still, (5,) * 4, mode="replicate")
        places = [
            (top, left, flip)
            for top in range(11)
            for left in range(11)
            for flip in (False, True)
            if torch.equal(
                moved.flip(3) if flip else moved,
                padded[:, :, top : top + SIDE, left : left + SIDE],
            )
        ]
        assert len(places) == 1
        seen.add(places[0])
    assert {flip for *_, flip in seen} == {False, True}
    assert len({top for top, *_ in seen}) > 5
    assert len({left for _, left, _ in seen}) > 5


# What is refused


@pytest.mark.parametrize("n", [256, 3 * 20**2, 3 * 16 * 32])
def test_rows_that_are_no_pictures_are_refused(n):
    assert find_side(3 * 48**2) == 48
    with refused(ValueError, "a side that 16 divides", f"got {n} features", "emoji-pictures"):
        find_side(n)


def test_unequal_shots_are_refused():
    X_shots, y = support()
    with refused(ValueError, "equally many pictures of each class", "from 1 to 2", "Leave some"):
        made("prototypical", max_iter=0).fit(X_shots[1:], y[1:])


# The bench


def picture_source():
    """Return pictures of 40 classes, of which ten are novel and eight for validation."""
    X, y = masked(40, 7, seed=1)
    names = np.array([f"c{i:02}" for i in range(40)])
    novel = y >= 30
    split = Split(
        train=np.flatnonzero(~novel), test_unseen=np.flatnonzero(novel), val_classes=names[22:30]
    )
    prototypes = dict(
        zip(names.tolist(), np.random.default_rng(0).normal(size=(40, 5)), strict=True)
    )
    data = Dataset("squares", X, names[y], prototypes, split)
    return DataSource("squares", lambda: data, lambda: data, lambda: validation_view(data))


def test_the_experiment_trains_stops_and_measures_every_network(tmp_path, monkeypatch):
    source = picture_source()
    use_source(monkeypatch, source)
    monkeypatch.setattr(meta, "_JUDGES", 8)
    small = {"n_channels": 4, "n_episodes": 4, "max_iter": 2}
    for name in END_TO_END:
        monkeypatch.setitem(FEW_SHOT, name, replace(FEW_SHOT[name], fixed=small))
    records = Records(tmp_path)
    scale = replace(QUICK, n_seeds=1, n_trials=3, n_selection_trials=2)
    experiment = replace(EXPERIMENTS["end-to-end"], data="squares")
    steps = list(runner.run_experiments([experiment], ["squares"], records, scale, device="cpu"))
    assert [step.error for step in steps if step.error] == []
    found = {(record["protocol"], record["model"]): record for record in records}
    for name in END_TO_END:
        for n_shot in (1, 5):
            record = found[f"trials-{n_shot}", name]
            assert problem_of(record) == ""
            assert record["results"]["n_shot"] == n_shot
            assert record["data"]["n_features"] == 3 * SIDE**2
            chosen = found[f"selection-{n_shot}", name]["results"]["chosen"]
            assert 0 <= chosen["max_iter"] <= 2
            assert record["settings"]["parameters"] == chosen


def test_networks_on_pictures_run_on_pictures_and_nothing_else_does():
    trained, *others = [EXPERIMENTS["end-to-end"], EXPERIMENTS["mini-imagenet"]]
    runs = [runs_of([trained, *others], data, QUICK) for data in (PICTURES, "cub")]
    pairs = {(key.data, key.model) for found in runs for key in found}
    assert {model for data, model in pairs if data == PICTURES} == {*END_TO_END}
    assert {model for data, model in pairs if data == "cub"} == {
        *EXPERIMENTS["mini-imagenet"].models
    }
    require_suitable([trained], ["cub", "Emoji-Pictures"])
    with refused(ValueError, "end-to-end runs on emoji-pictures only", "got cub", "draws pictures"):
        require_suitable([trained], ["cub"])
    with refused(ValueError, "other data than emoji-pictures", "got emoji-pictures", "--data"):
        require_suitable(others, [PICTURES])
