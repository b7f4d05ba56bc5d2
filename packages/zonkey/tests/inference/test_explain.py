"""Explanations: sums are exact, effects are those of loops over changed models, texts are safe."""

import io
import json
import re
import sys
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from any_shot_cases import (
    COUNTS,
    GIVEN,
    PROTOTYPES,
    SEEN,
    UNSEEN,
    X_NEW,
    NaiveModel,
    X,
    Y,
    fitted,
    world,
)
from few_shot_cases import prepared as few_shot
from libraries import in_every_library
from numpy.testing import assert_allclose
from reference_posterior import kernel_value, left_out_of_all, mean_of_others, predicted, score
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import zonkey
from zonkey import AnyShotClassifier, Prototypes, ZeroShotClassifier
from zonkey.config import config_context
from zonkey.inference import explain as explain_module
from zonkey.preprocessing import FeatureNormalizer
from zonkey.testing import linear_problem

# Without samples, with one, without a prototype, with many samples: each against another kind.
PAIRS = [["bee", "fox"], ["cow", "dog"], ["dog", "elk"], ["ant", "gnu"], ["hen", "bee"]]
BATCH = np.random.default_rng(1).normal(size=(25, 6)) * 1.5
ROW = X_NEW[0]


def column(explanation, part, name):
    """Return a column of a part by label, or by number for attributes."""
    rows = explanation.to_dict()[part]
    return {row.get("label", row.get("dimension")): row[name] for row in rows}


def both(explanation):
    """Return the two labels, and the end of the columns of each."""
    return [(explanation.label, "winner"), (explanation.runner_up, "runner_up")]


def center_of(model, label):
    return model.centers_[model.classes_.tolist().index(label)]


def naive_shares(naive, label):
    """Return the weights of class means in a center, by classes whose means are axes."""
    own = np.array([float(other == label) for other in SEEN])
    n, n0 = naive.counts.get(label, 0), naive.worth_of(label)
    weights = np.zeros(len(SEEN))
    if n0:
        axes = np.eye(len(naive.anchors))
        if label in naive.anchors:
            place, counts = naive.anchors.index(label), [naive.counts[j] for j in naive.anchors]
            of_anchors = left_out_of_all(place, naive.K, naive.Lambda, naive.M, counts, axes)
        else:
            values = np.array([naive.k(label, other) for other in naive.anchors])
            of_anchors = predicted(values, naive.K, naive.Lambda, axes)
        weights[[SEEN.index(anchor) for anchor in naive.anchors]] = of_anchors
    return dict(zip(SEEN, (n0 * weights + n * own) / (n0 + n), strict=True))


def naive_effects(naive, label, x):
    """Replace one number after the other, and rebuild the center from the other classes."""
    if label not in naive.prototypes:
        return np.zeros(4)
    y = naive.prototypes[label]
    mean = np.mean([naive.prototypes[other] for other in naive.prototypes], axis=0)
    n, n0 = naive.counts.get(label, 0), naive.worth
    others = [i for i, anchor in enumerate(naive.anchors) if anchor != label]
    effects = []
    for a in range(4):
        scores = []
        for vector in (y, np.where(np.arange(4) == a, mean, y)):
            k = [
                kernel_value(naive.kernel, vector, naive.prototypes[naive.anchors[i]], naive.gamma)
                for i in others
            ]
            K, Lambda = (M[np.ix_(others, others)] for M in (naive.K, naive.Lambda))
            M = naive.M[others]
            if label in naive.anchors:
                counts = [naive.counts[j] for j in naive.anchors]
                place = naive.anchors.index(label)
                M = M - mean_of_others(place, naive.M, counts, naive.M)
            prior = predicted(np.array(k), K, Lambda, M)
            center = (n0 * prior + naive.sums.get(label, 0)) / (n0 + n)
            scores.append(score(x, center, naive.penalty(label)))
        effects.append(scores[0] - scores[1])
    return np.array(effects)


@pytest.mark.parametrize("label", SEEN)
def test_centered_means_have_shares_in_their_own_priors(label):
    scaler = StandardScaler()
    naive = NaiveModel(scaler.fit_transform(X), Y, PROTOTYPES, **GIVEN)
    model = fitted(preprocessing=scaler, candidates=[label, UNSEEN[0]])
    explanation = model.explain(X[label == Y][0], k=2)
    end = "winner" if explanation.label == label else "runner_up"
    shares = column(explanation, "seen_classes", f"share_{end}")
    center = sum(shares[j] * naive.sums[j] / naive.counts[j] for j in shares)
    assert_allclose(center, naive.center(label), atol=1e-10)


@pytest.mark.parametrize(
    ("pair", "kernel"), list(zip(PAIRS, ["linear", "rbf", "poly", "rbf", "linear"], strict=True))
)
def test_shares_pulls_and_effects_are_those_of_the_loops(kernel, pair):
    naive = NaiveModel(X, Y, PROTOTYPES, **(GIVEN | {"kernel": kernel}))
    model = fitted(kernel=kernel, candidates=pair)
    means = {label: naive.sums[label] / naive.counts[label] for label in SEEN}
    winners = set()
    for x in X_NEW:
        explanation = model.explain(x)
        winners.add(explanation.label)
        assert {explanation.label, explanation.runner_up} == set(pair)
        pulls, effects = [], []
        for label, end in both(explanation):
            expected = naive_shares(naive, label)
            shares = column(explanation, "seen_classes", f"share_{end}")
            assert_allclose([shares.get(j, 0) for j in SEEN], [*expected.values()], atol=1e-10)
            pulls.append(column(explanation, "seen_classes", f"pull_{end}"))
            assert set(shares) <= set(SEEN)
            for j, pull in pulls[-1].items():
                assert pull == pytest.approx(2 * expected[j] * (x @ means[j]), abs=1e-9)
            found = column(explanation, "attributes", f"effect_{end}")
            effects.append(naive_effects(naive, label, x))
            assert_allclose([found[a] for a in range(4)], effects[-1], atol=1e-9)
        difference = column(explanation, "seen_classes", "difference")
        assert_allclose([*difference.values()], [pulls[0][j] - pulls[1][j] for j in difference])
        difference = column(explanation, "attributes", "difference")
        expected = effects[0] - effects[1]
        assert_allclose([difference[a] for a in range(4)], expected, atol=1e-9)
        assert [*difference] == sorted(difference, key=lambda a: -abs(difference[a]))
    assert len(winners) == 2


@pytest.mark.parametrize(
    ("is_adapted", "candidates"),
    [(False, "all"), (True, "all"), (True, ["cow", "dog", "gnu", "hen"])],
)
def test_pulls_add_up_to_scores_less_length_and_penalty(is_adapted, candidates):
    model = fitted(candidates=candidates, kernel="arccos" if is_adapted else "rbf")
    model = model.adapt(BATCH) if is_adapted else model
    scores, chances = model.decision_function(X_NEW), model.predict_proba(X_NEW)
    for i, x in enumerate(X_NEW):
        explanation = model.explain(x, k=4)
        kinds = [row["kind"] for row in explanation.parts["seen_classes"]]
        assert kinds.count("unlabeled samples") == is_adapted
        for label, end in both(explanation):
            total = sum(column(explanation, "seen_classes", f"pull_{end}").values())
            assert total == pytest.approx(2 * x @ center_of(model, label), abs=1e-10)
        best = [row["label"] for row in explanation.parts["classes"]]
        assert best == model.predict_top([x], k=4)[0].tolist()
        for row in explanation.parts["classes"]:
            place = model.classes_.tolist().index(row["label"])
            c = model.centers_[place]
            assert row["score"] == pytest.approx(scores[i, place], rel=1e-12)
            assert row["score"] == pytest.approx(2 * x @ c - c @ c - row["penalty"], abs=1e-9)
            assert row["margin"] == pytest.approx(scores[i].max() - scores[i, place], abs=1e-12)
            assert row["probability"] == pytest.approx(chances[i, place], rel=1e-12)
            assert row["n_samples"] == COUNTS[row["label"]]
            assert row["kind"] == ("seen" if row["label"] in SEEN else "unseen")
        assert explanation.label == explanation.answer == model.predict([x])[0]
        assert explanation.margin == explanation.parts["classes"][1]["margin"]


def test_effects_pass_through_the_transformer_of_prototypes():
    model = fitted(
        prototype_transformer=FeatureNormalizer(power=0.6, center=True),
        preprocessing=FeatureNormalizer(center=True),
        candidates=["elk"],
    )
    x = model.preprocessing_.transform([ROW])[0]
    effects = column(model.explain(ROW), "attributes", "effect_winner")
    for a, vectors in enumerate(replaced_one_by_one("elk")):
        before, after = (score(x, c, 0) for c in model.project(vectors))
        assert effects[a] == pytest.approx(before - after, abs=1e-10)


def replaced_one_by_one(label):
    """Return pairs of the prototype and the same with one number replaced by the mean."""
    y, mean = PROTOTYPES[label], np.mean([*PROTOTYPES.values()], axis=0)
    return [[y, np.where(np.arange(4) == a, mean, y)] for a in range(4)]


def test_effects_of_a_class_with_samples_are_those_of_a_model_that_never_saw_it():
    # The diagonal of this kernel is 1, so the ridge does not depend on the classes.
    # Far from the origin, that does not depend on the samples either.
    transformer, far, row = FeatureNormalizer(power=0.6, center=True), X + 5, ROW + 5
    model = fitted(far, Y, prototype_transformer=transformer, candidates=["fox"])
    others = fitted(far[Y != "fox"], Y[Y != "fox"], prototype_transformer=transformer)
    n0, n, total = GIVEN["worth"], COUNTS["fox"], far[Y == "fox"].sum(axis=0)
    effects = column(model.explain(row), "attributes", "effect_winner")
    for a, vectors in enumerate(replaced_one_by_one("fox")):
        centers = (n0 * others.project(vectors) + total) / (n0 + n)
        before, after = (score(row, c, 0) for c in centers)
        assert effects[a] == pytest.approx(before - after, abs=1e-10)
        assert abs(before - after) > 1e-6


def test_effects_in_blocks_are_the_same():
    models = fitted(), _paper()
    expected = models[0].explain(ROW), models[1].explain(P.X_new[0])
    with config_context(working_memory=16 * 30 / 2**20):
        found = models[0].explain(ROW), models[1].explain(P.X_new[0])
    for one, other in zip(found, expected, strict=True):
        for end in ("winner", "runner_up"):
            a, b = (column(e, "attributes", f"effect_{end}") for e in (one, other))
            assert a == pytest.approx(b, abs=1e-12)


def test_values_of_attributes():
    names = ["wings", "legs", "fur", "horns"]
    prototypes = Prototypes([*PROTOTYPES], [*PROTOTYPES.values()], names)
    explanation = fitted(prototypes=prototypes, candidates=["bee", "dog"]).explain(ROW)
    embedded, means = fitted().embed([ROW])[0], np.mean([*PROTOTYPES.values()], axis=0)
    ends = dict(both(explanation))
    for row in explanation.parts["attributes"]:
        a = row["dimension"]
        assert row["attribute"] == names[a]
        assert row["sample"] == pytest.approx(embedded[a])
        assert row["mean"] == pytest.approx(means[a])
        assert row[ends["bee"]] == PROTOTYPES["bee"][a]
        # "dog" has no prototype.
        assert (row[ends["dog"]], row[f"effect_{ends['dog']}"]) == (None, 0.0)
    names = [row["attribute"] for row in fitted().explain(ROW).parts["attributes"]]
    assert sorted(names) == [f"dimension {a}" for a in range(4)]


# Samples.


def kept(**parameters):
    """Return a model that keeps samples."""
    return fitted(adapt_weight="auto", **parameters)


def test_samples_are_those_of_fit_and_add_up_to_their_class():
    weights = np.random.default_rng(3).uniform(0.5, 2, len(Y))
    weights[:4] = 0
    model = kept(sample_weight=weights, preprocessing=FeatureNormalizer(center=True))
    explanation = model.explain(ROW)
    Z, z = (model.preprocessing_.transform(rows) for rows in (X, [ROW]))
    rows = explanation.parts["samples"]
    assert sorted(row["row"] for row in rows) == [*range(4, len(Y))]
    for row in rows:
        i = row["row"]
        assert row["label"] == Y[i]
        assert row["distance"] == pytest.approx(np.linalg.norm(Z[i] - z[0]), abs=1e-5)
        for _, end in both(explanation):
            share = column(explanation, "seen_classes", f"share_{end}").get(Y[i], 0)
            pull = share * weights[i] / weights[Y[i] == Y].sum() * 2 * (Z[i] @ z[0])
            assert row[f"pull_{end}"] == pytest.approx(pull, abs=1e-6)
        assert row["difference"] == pytest.approx(row["pull_winner"] - row["pull_runner_up"])
    assert all(a["difference"] >= b["difference"] for a, b in pairwise(rows))
    totals = dict.fromkeys(SEEN, 0.0)
    for row in rows:
        totals[row["label"]] += row["difference"]
    pulls = column(explanation, "seen_classes", "difference")
    assert totals == pytest.approx({label: pulls.get(label, 0.0) for label in SEEN}, abs=1e-5)


def test_at_most_fifty_samples_are_listed():
    drawn = world(2, n_classes=12)
    model = AnyShotClassifier(drawn.prototypes, **(GIVEN | {"adapt_weight": "auto"}))
    reserve = model.fit(*drawn.draw(np.arange(9), 70)).state_.reserve
    explanation = model.explain(drawn.means[10])
    assert len(explanation.parts["samples"]) == 50
    assert f"{9 * 64} samples" in explanation.notes["samples"]
    assert (reserve.rows.dtype, len(reserve.rows)) == (np.int64, 9 * 64)


def test_without_kept_samples_the_reason_is_told():
    explanation = fitted().explain(ROW)
    assert explanation.parts["samples"] == []
    assert "`adapt_temperature` and `adapt_weight`" in explanation.table()
    drawn = world(2, n_classes=12)
    model = AnyShotClassifier(drawn.prototypes, **(GIVEN | {"adapt_weight": "auto"}))
    model.fit(*drawn.draw(np.arange(6), 8), validation=drawn.draw([7, 8, 9], 5))
    explanation = model.explain(drawn.means[10])
    assert explanation.parts["samples"] == []
    assert "validation" in explanation.notes["samples"]
    assert len(model.state_.reserve.rows) == 0


def test_samples_that_came_later_count_and_are_not_listed():
    model = kept().partial_fit(X_NEW[:2], ["fox", "owl"])
    explanation = model.with_candidates(["fox", "owl"]).explain(X_NEW[1])
    assert explanation.label == "owl"
    assert column(explanation, "seen_classes", "share_winner")["owl"] == 1
    assert column(explanation, "classes", "n_samples") == {"owl": 1, "fox": COUNTS["fox"] + 1}
    rows = explanation.parts["samples"]
    assert "owl" not in {row["label"] for row in rows}
    shares = column(explanation, "seen_classes", "share_runner_up")
    for row in rows:
        i = row["row"]
        n = COUNTS[Y[i]] + (Y[i] == "fox")
        pull = 2 * shares.get(Y[i], 0) / n * (X[i] @ X_NEW[1])
        assert row["pull_runner_up"] == pytest.approx(pull, abs=1e-5)


# Copies of a model.


def test_removed_classes_still_teach():
    model = fitted(candidates=UNSEEN).without_classes(["fox", "hen"])
    explanation = model.explain(ROW)
    kinds = column(explanation, "seen_classes", "kind")
    assert kinds["fox"] == "removed"
    assert set(kinds.values()) == {"seen", "removed"}
    pulls = column(explanation, "seen_classes", "pull_winner")
    center = center_of(model, explanation.label)
    assert sum(pulls.values()) == pytest.approx(2 * ROW @ center, abs=1e-10)
    known = [label for label in PROTOTYPES if label not in ("fox", "hen")]
    mean = np.mean([PROTOTYPES[label] for label in known], axis=0)
    assert column(explanation, "attributes", "mean")[2] == pytest.approx(mean[2])


def test_adapted_copies_show_unlabeled_samples_only_where_they_acted():
    model = fitted(candidates=["bee", "fox"]).adapt(BATCH).with_candidates(["bee", "elk"])
    explanation = model.explain(ROW)
    moved = {end: column(explanation, "seen_classes", f"pull_{end}")[None] for end in ENDS}
    ends = dict(both(explanation))
    assert abs(moved[ends["bee"]]) > 1e-3
    assert abs(moved[ends["elk"]]) < 1e-12
    idle = fitted(adapt_weight=0.0).adapt(BATCH).explain(ROW)
    assert None not in column(idle, "seen_classes", "kind")


ENDS = ("winner", "runner_up")


def test_one_candidate():
    explanation = kept(candidates=["elk"]).explain(ROW)
    assert (explanation.label, explanation.runner_up, explanation.margin) == ("elk", None, None)
    for part in ("seen_classes", "samples", "attributes"):
        name = "effect" if part == "attributes" else "pull"
        for row in explanation.parts[part]:
            assert row[f"{name}_runner_up"] is None
            assert row["difference"] == row[f"{name}_winner"]
    assert "single candidate" in explanation.table()
    assert "runner-up" not in explanation.table().split("\n", 2)[2]
    _drawn(explanation)


def test_models_without_attributes_say_so():
    blind = AnyShotClassifier(preprocessing=None, temperature=1.0).fit(X, Y).explain(ROW)
    assert column(blind, "seen_classes", "share_winner")[blind.label] == 1
    labels = sorted(PROTOTYPES)
    K = np.array([[PROTOTYPES[a] @ PROTOTYPES[b] for b in labels] for a in labels])
    by_values = fitted(prototypes=Prototypes(labels, K), kernel="precomputed").explain(ROW)
    undescribed = fitted(candidates=["dog"]).explain(ROW)
    nothing_left = fitted().without_classes([*PROTOTYPES]).explain(ROW)
    one_hot = ZeroShotClassifier(random_state=0).fit(X, Y).explain(ROW)
    for explanation, reason in [
        (blind, "no prototypes"),
        (by_values, "precomputed"),
        (undescribed, "neither winner nor runner-up"),
        (nothing_left, "no prototypes"),
        (one_hot, "no prototypes"),
    ]:
        assert explanation.parts["attributes"] == []
        assert explanation.to_frame("attributes").shape == (0, 9)
        assert reason in explanation.notes["attributes"]
        assert f"Attributes: none; {explanation.notes['attributes'][6:]}" in explanation.table()
        _drawn(explanation)
    total = sum(column(by_values, "seen_classes", "pull_winner").values())
    center = center_of(fitted(kernel="linear"), by_values.label)
    assert total == pytest.approx(2 * ROW @ center, abs=1e-9)


def test_rejected_samples():
    model = fitted(reject_below=0.999)
    explanation = model.explain(ROW)
    assert model.predict([ROW])[0] == explanation.answer == "unknown"
    assert explanation.rejected
    assert explanation.label == fitted().predict([ROW])[0]
    assert "rejected:  the answer is unknown" in explanation.table()
    assert "rejected" in repr(explanation)
    assert explanation.to_dict()["rejected"] is True
    assert not fitted(reject_below=0.001).explain(ROW).rejected


def test_what_the_penalty_did():
    free = fitted(seen_penalty=0.0)
    changed = 0
    for x in X_NEW:
        explanation = fitted(seen_penalty=6.0).explain(x)
        penalty = explanation.penalty
        for label, end in both(explanation):
            n, n0 = COUNTS[label], GIVEN["worth"] if label in PROTOTYPES else 0
            assert penalty[end] == pytest.approx(6.0 * n / (n + n0) if n else 0.0)
        assert penalty["label_without"] == free.predict([x])[0]
        line = explanation.table().split("\n")[2]
        if penalty["label_without"] != explanation.label:
            changed += 1
            assert line.endswith(f"without penalties, {penalty['label_without']} would win")
    assert 0 < changed < len(X_NEW)
    assert "penalty:" not in free.explain(ROW).table()


# The paper's models.

P = linear_problem(noise=1.0)


def _paper(**parameters):
    given = {"candidates": "all", "seen_penalty": 0.7, "random_state": 0}
    return ZeroShotClassifier(P.prototypes, **(given | parameters)).fit(P.X, P.y)


MODELS = {
    "both": lambda: _paper(),
    "forward": lambda: _paper(direction="forward"),
    "reverse": lambda: _paper(direction="reverse"),
    "few-shot": lambda: few_shot(candidates="all", seen_penalty=0.4).fit(P.X_new, P.y_new),
}


@pytest.mark.parametrize("name", MODELS)
def test_effects_and_seen_classes_in_models_with_a_projection(name):
    model = MODELS[name]()
    x = P.X_new[3]
    explanation = model.explain(x)
    mean = np.mean([*P.prototypes.values()], axis=0)
    for label, end in both(explanation):
        own = model.with_candidates([label]).decision_function([x])[0, 0]
        own += explanation.penalty[end]
        effects = column(explanation, "attributes", f"effect_{end}")
        for a, value in enumerate(mean):
            changed = P.prototypes[label].copy()
            changed[a] = value
            other = model.with_classes({"changed": changed}).with_candidates(["changed"])
            expected = own - other.decision_function([x])[0, 0]
            assert effects[a] == pytest.approx(expected, abs=1e-9)
    values = column(explanation, "attributes", "sample")
    embedded = model.embed([x])[0]
    assert [values[a] for a in range(5)] == pytest.approx(embedded.tolist())
    assert {row["probability"] for row in explanation.parts["classes"]} == {None}
    assert {row["n_samples"] for row in explanation.parts["classes"]} == {None}
    assert explanation.parts["samples"] == []
    assert "keeps no samples" in explanation.table()
    rows = explanation.parts["seen_classes"]
    assert {row["label"] for row in rows} == set(P.seen)
    for row in rows:
        y = P.prototypes[row["label"]]
        for label, end in both(explanation):
            expected = np.linalg.norm(y - P.prototypes[label])
            assert row[f"prototype_distance_{end}"] == pytest.approx(expected)
        away = embedded - y if name == "forward" else x - model.project([y])[0]
        assert row["distance"] == pytest.approx(np.linalg.norm(away))
    apart = [row["prototype_distance_winner"] for row in rows]
    assert apart == sorted(apart)


def test_kinds_and_penalties_in_models_with_a_projection():
    explanation = MODELS["few-shot"]().explain(P.X_new[3], k=12)
    novel = set(P.y_new.tolist())
    for row in explanation.parts["classes"]:
        is_seen = row["label"] in P.seen
        expected = "seen" if is_seen else "novel" if row["label"] in novel else "unseen"
        assert row["kind"] == expected
        assert row["penalty"] == (0.4 if is_seen else 0.0)
    free = few_shot(candidates="all").fit(P.X_new, P.y_new)
    assert explanation.penalty["label_without"] == free.predict(P.X_new[[3]])[0]
    no_base = few_shot(base=None, prototypes=P.prototypes).fit(P.X_new, P.y_new)
    explanation = no_base.explain(P.X_new[3])
    assert "none; the model has none" in explanation.table()
    _drawn(explanation)


# What goes in.


def test_a_sample_may_be_a_vector_a_row_or_named():
    expected = fitted().explain(ROW)
    for x in (ROW.tolist(), ROW[None], [ROW.tolist()], pd.Series(ROW)):
        assert fitted().explain(x) == expected
    names = [f"f{i}" for i in range(6)]
    model = fitted(pd.DataFrame(X, columns=names))
    frame = pd.DataFrame([ROW], columns=names)
    for x in (frame, frame.iloc[0]):  # no warning about names
        assert model.explain(x) == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((X_NEW[:2],), r"`x` must be one sample.*got shape \(2, 6\)"),
        ((3.0,), r"got shape \(\)"),
        ((X_NEW[None, :1],), r"got shape \(1, 1, 6\)"),
        ((ROW, 0), "`k` must be an integer of at least 1; got 0"),
        ((ROW[:3],), "3 features"),
        ((ROW * np.nan,), "NaN"),
    ],
)
def test_bad_input_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        fitted().explain(*arguments)


def test_pipelines_are_explained_in_their_own_space():
    scaler = StandardScaler().fit(X)
    model = fitted(scaler.transform(X))
    pipeline = make_pipeline(StandardScaler(), AnyShotClassifier(PROTOTYPES, **GIVEN)).fit(X, Y)
    expected = model.explain(scaler.transform([ROW]))
    assert zonkey.explain(pipeline, ROW) == expected
    assert (
        zonkey.explain(model, scaler.transform([ROW])[0], 3).parts["classes"][:3]
        == (expected.parts["classes"][:3])
    )
    assert zonkey.explain(make_pipeline(model), scaler.transform([ROW])) == expected
    paper = make_pipeline(StandardScaler(), ZeroShotClassifier(P.prototypes, random_state=0))
    paper.fit(P.X, P.y)
    assert zonkey.explain(paper, P.X_new[0]).label == paper.predict(P.X_new[:1])[0]
    with pytest.raises(TypeError, match="pipeline that ends with one; got LogisticRegression"):
        zonkey.explain(LogisticRegression().fit(X, Y), ROW)


def test_float32_and_whole_numbers_as_labels():
    numbers = {label: 10 * j for j, label in enumerate(sorted(COUNTS))}
    prototypes = {numbers[label]: vector for label, vector in PROTOTYPES.items()}
    y = np.array([numbers[label] for label in Y])
    expected = kept().explain(ROW).to_dict()
    model = fitted(X.astype(np.float32), y, prototypes=prototypes, adapt_weight="auto")
    found = model.explain(ROW.astype(np.float32)).to_dict()
    assert found["label"] == numbers[expected["label"]]
    assert type(found["label"]) is int
    for part in ("classes", "seen_classes", "samples", "attributes"):
        assert len(found[part]) == len(expected[part])
    for part, name in [("seen_classes", "pull_winner"), ("classes", "score")]:
        wanted = {numbers[row["label"]]: row[name] for row in expected[part]}
        got = {row["label"]: row[name] for row in found[part]}
        assert got == pytest.approx(wanted, abs=1e-4)


@in_every_library
def test_arrays_of_other_libraries_are_explained_on_the_host(library):
    y = np.searchsorted(sorted(COUNTS), Y)
    prototypes = {sorted(COUNTS).index(label): v for label, v in PROTOTYPES.items()}
    numbered = dict(enumerate(P.prototypes.values()))
    paper = ZeroShotClassifier(numbered, random_state=0)
    fits = [
        (lambda place: fitted(place(X), place(y), prototypes=prototypes, adapt_weight="auto"), ROW),
        (lambda place: fitted(place(X), place(y), prototypes=prototypes).adapt(place(BATCH)), ROW),
        (
            lambda place: paper.fit(place(P.X), place(np.searchsorted([*P.prototypes], P.y))),
            P.X_new[0],
        ),
    ]
    for fit, x in fits:
        expected = fit(np.asarray).explain(x)
        assert_same(fit(library).explain(library(x)), expected)


def assert_same(found, expected):
    found, expected = found.to_dict(), expected.to_dict()
    assert json.dumps(found, allow_nan=False)
    for part in ("classes", "seen_classes", "samples", "attributes"):
        for one, other in zip(found[part], expected[part], strict=True):
            assert [*one] == [*other]
            for value, wanted in zip(one.values(), other.values(), strict=True):
                is_close = isinstance(wanted, float)
                assert value == (pytest.approx(wanted, rel=1e-5, abs=1e-6) if is_close else wanted)
    assert found["label"] == expected["label"]


# What comes out.


def test_the_answer_is_plain_and_its_own():
    for model in (kept(), fitted().adapt(BATCH), fitted(candidates=["bee"])):
        explanation = model.explain(ROW)
        content = explanation.to_dict()
        assert json.loads(json.dumps(content, allow_nan=False)) == content
    content["classes"].clear()
    content["penalty"].clear()
    assert explanation.parts["classes"]
    assert explanation.penalty
    explanation = fitted().explain(ROW)
    pattern = rf"Explanation\({explanation.label}, probability [01]\.\d\d, before \w+ by [\d.]+\)"
    assert re.fullmatch(pattern, repr(explanation))


def test_frames(monkeypatch):
    explanation = kept().explain(ROW)
    for part in ("classes", "seen_classes", "samples", "attributes"):
        frame = explanation.to_frame(part)
        rows = explanation.to_dict()[part]
        assert frame.to_dict("records") == rows
        empty = explain_module.Explanation(*[None] * 5, {part: []}, {}).to_frame(part)
        assert [*empty.columns] == [*rows[0]]
    with pytest.raises(ValueError, match="`part` must be one of 'classes'"):
        explanation.to_frame("everything")
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"Explanation.to_frame needs pandas.*zonkey\[data\]"):
        explanation.to_frame("classes")


ODD = {
    "ant": "bell\a \x1b[31mred",
    "bee": "two\nlines",
    "cow": "\u202eright to left",
    "elk": "縞馬と馬",
    "fox": "a name that is much longer than any table could show in one line",
    "gnu": "$\\frac{1}{0}$ [bold]",
    "hen": "q\u0301",
    "jay": "\ud800",
}


def _odd():
    names = [f"dim\t{a} $" for a in range(4)]
    prototypes = Prototypes([ODD[j] for j in PROTOTYPES], [*PROTOTYPES.values()], names)
    y = np.array([ODD.get(label, label) for label in Y])
    return fitted(X, y, prototypes=prototypes, adapt_weight="auto")


def test_text_is_safe_and_aligned():
    model = _odd()
    text = "\n".join(model.explain(x, k=9).table() for x in X_NEW)
    assert all(c == "\n" or c.isprintable() for c in text)
    text.encode()  # no lone surrogate
    for shown in (r"bell\x07 \x1b[31mred", r"two\nlines", r"\u202eright", r"\ud800", r"dim\t0 $"):
        assert shown in text
    assert "[bold]" in text
    assert "a name that is much longer th..." in text
    assert max(map(len, text.split("\n"))) < 140
    lines = model.explain(ROW, k=9).table().split("\n\n")[1].split("\n")
    assert len(lines) == 11
    wide = next(line for line in lines if "縞馬" in line)
    accent = next(line for line in lines if "q\u0301" in line)
    # Four characters take two columns each; an accent takes none.
    assert len(wide) + 4 == len(accent) - 1 == len(lines[1])


def test_numbers_of_any_size_are_readable():
    for scale in (1e-9, 1e-3, 1e3, 1e9):
        model = fitted(scale * X, seen_penalty=0.6 * scale**2, temperature=scale**2)
        text = model.explain(scale * ROW).table()
        assert max(map(len, text.split("\n"))) < 120
        score_column = [line.split()[3] for line in text.split("\n\n")[1].split("\n")[2:]]
        assert len(set(score_column)) > 1


def test_text_shows_the_numbers():
    explanation = fitted(candidates=["bee", "fox"]).explain(ROW)
    text = explanation.table()
    for row in explanation.parts["seen_classes"][:5]:
        line = next(
            line for line in text.split("\n\n")[2].split("\n") if line.split()[0] == row["label"]
        )
        values = [float(word) for word in line.split()[2:]]
        names = ("share_winner", "share_runner_up", "pull_winner", "pull_runner_up", "difference")
        assert values == pytest.approx([row[name] for name in names], abs=6e-3)
    assert text.startswith(f"winner:    {explanation.label}, probability")
    assert f"runner-up: {explanation.runner_up}, behind by {explanation.margin:.2f}" in text


def _drawn(explanation):
    """Draw to a file and return the panels."""
    figure = explanation.plot()
    figure.savefig(io.BytesIO(), format="png", dpi=40)
    return figure.axes


def test_pictures():
    explanation = kept(seen_penalty=1.0).explain(ROW)
    classes, seen, attributes = _drawn(explanation)
    rows = explanation.parts["classes"]
    assert [text.get_text() for text in classes.get_yticklabels()] == [row["label"] for row in rows]
    widths = [bar.get_width() for bar in classes.patches]
    assert widths == pytest.approx([row["probability"] for row in rows])
    for axis, part in ((seen, "seen_classes"), (attributes, "attributes")):
        expected = [row["difference"] for row in explanation.parts[part][:8]]
        assert [bar.get_width() for bar in axis.patches] == pytest.approx(expected)
    colors = {bar.get_width() > 0: bar.get_facecolor() for bar in seen.patches}
    assert colors[True] == classes.patches[0].get_facecolor()
    assert colors[False] == classes.patches[1].get_facecolor()
    assert "Winner" in explanation.plot().get_suptitle()
    assert "Rejected" in fitted(reject_below=0.999).explain(ROW).plot().get_suptitle()


def test_pictures_of_models_without_probabilities():
    explanation = _paper().explain(P.X_new[3])
    classes, seen, _ = _drawn(explanation)
    margins = [-row["margin"] for row in explanation.parts["classes"]]
    assert [bar.get_width() for bar in classes.patches] == pytest.approx(margins)
    expected = [
        row[f"prototype_distance_{end}"]
        for end in ENDS
        for row in explanation.parts["seen_classes"][:8]
    ]
    assert [bar.get_width() for bar in seen.patches] == pytest.approx(expected)
