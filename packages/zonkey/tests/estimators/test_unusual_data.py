"""Data of every kind: degenerate, of extreme size, with gaps; each works or is told in one line."""

import re
import unicodedata
import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch
from any_shot_cases import GIVEN
from numpy.testing import assert_allclose, assert_array_equal
from refusals import refused
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_score
from transfers import counted_transfers

from zonkey import AnyShotClassifier, FewShotClassifier, NearestSupport, ZeroShotClassifier
from zonkey.model_selection import ClassKFold
from zonkey.testing import linear_problem

P = linear_problem()


def prepared(**parameters):
    return P.make_clone(ZeroShotClassifier(), **parameters)


@pytest.fixture(scope="module")
def fitted():
    return prepared().fit(P.X, P.y)


# Data that cannot be learned from

EVERY_MODEL = [
    AnyShotClassifier(**GIVEN),
    ZeroShotClassifier(candidates="all", random_state=0),
    FewShotClassifier(candidates="all", n_episodes=1, random_state=0),
]
each_model = pytest.mark.parametrize("model", EVERY_MODEL, ids=lambda model: type(model).__name__)


@each_model
@pytest.mark.parametrize("factor", [1e-200, 1e200])
def test_scales_at_which_products_vanish_or_overflow(model, factor):
    model = clone(model).set_params(prototypes=P.prototypes)
    with refused(ValueError, "X must have values of a usual size", "e-75", "e+75", "Scale them"):
        model.fit(P.X * factor, P.y)
    with refused(ValueError, "X must have values of a usual size", "float32", "Scale them"):
        model.fit((P.X * factor**0.1).astype(np.float32), P.y)
    scaled = {label: vector * factor for label, vector in P.prototypes.items()}
    with refused(ValueError, "Prototypes must have values of a usual size", "row 0", "Scale all"):
        model.set_params(prototypes=scaled).fit(P.X, P.y)


@each_model
@pytest.mark.parametrize("factor", [1e-12, 1e12])
def test_scales_that_are_merely_unusual_are_accepted(model, factor):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of ill-conditioned systems
        model = clone(model).set_params(prototypes=P.prototypes).fit(P.X * factor, P.y)
    assert np.isfinite(model.decision_function(P.X * factor)).all()


@each_model
def test_equal_prototypes_are_told(model):
    twins = {**P.prototypes, P.unseen[0]: P.prototypes[P.seen[0]]}
    with pytest.warns(UserWarning, match=f"those of '{P.seen[0]}' and '{P.unseen[0]}' are equal"):
        clone(model).set_params(prototypes=twins).fit(P.X, P.y)


@each_model
def test_zero_prototypes_are_told(model):
    zero = {**P.prototypes, P.unseen[0]: -0.0 * P.prototypes[P.seen[0]]}
    with pytest.warns(UserWarning, match=rf"all zeros; those of '{P.unseen[0]}' are\. Check that"):
        clone(model).set_params(prototypes=zero).fit(P.X, P.y)


@each_model
@pytest.mark.filterwarnings("ignore:Classes should have different centers")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_one_class_with_samples_is_told(model):
    one = P.y == P.seen[0]
    expected = f"At least two classes with samples.*got samples of '{P.seen[0]}' only"
    with pytest.warns(UserWarning, match=expected):
        clone(model).set_params(prototypes=P.prototypes).fit(P.X[one], P.y[one])


@each_model
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_samples_that_are_all_zero_are_told(model):
    model = clone(model).set_params(prototypes=P.prototypes)
    with pytest.warns(UserWarning, match="Classes should have different centers; all are the same"):
        model.fit(0 * P.X, P.y)


def test_new_classes_are_compared_with_the_known_ones(fitted):
    twin = {"class new": P.prototypes[P.unseen[0]]}
    with pytest.warns(UserWarning, match=f"'{P.unseen[0]}' and 'class new' are equal"):
        fitted.with_classes(twin)
    some_shots = AnyShotClassifier(P.prototypes).fit(P.X, P.y)
    with pytest.warns(UserWarning, match=f"'{P.unseen[0]}' and 'class new' are equal"):
        some_shots.with_classes(twin)


def test_a_model_that_is_not_finite_in_the_dtype_of_its_samples():
    huge = {label: 1e40 * vector for label, vector in P.prototypes.items()}
    model = ZeroShotClassifier(huge, direction="forward", candidates="all")
    with refused(ValueError, "Centers of classes must be finite", "float32", "fit on float64"):
        model.fit(P.X.astype(np.float32), P.y)
    assert np.isfinite(model.fit(P.X, P.y).decision_function(P.X)).all()


# Samples too large to predict

TOO_LARGE = np.full((3, P.X.shape[1]), 3e38, np.float32) * np.sign(P.X[:3]).astype(np.float32)


@pytest.mark.filterwarnings("ignore:invalid value encountered in reduce")  # of scikit-learn
@pytest.mark.parametrize("to_array", [np.asarray, torch.tensor], ids=["numpy", "torch"])
@pytest.mark.parametrize(
    "large",
    [
        AnyShotClassifier(**GIVEN),
        AnyShotClassifier(**GIVEN, reject_below=0.5),
        ZeroShotClassifier(candidates="all", direction="reverse", beta=0.0),
        NearestSupport(),
    ],
    ids=["any-shot", "rejecting", "zero-shot", "nearest"],
)
def test_samples_whose_scores_are_not_finite(large, to_array):
    model = clone(large)
    if not isinstance(model, NearestSupport):
        model.set_params(prototypes=P.prototypes)
    model.fit(1e3 * P.X.astype(np.float32), P.y)
    X = to_array(TOO_LARGE)
    methods = ["predict", "predict_top", "decision_function"]
    if hasattr(model, "predict_proba"):
        methods += ["predict_proba", "uncertainty", "novelty"]
    for name in methods:
        with refused(ValueError, "Scores of samples must be finite", "3e+38", "Scale X"):
            getattr(model, name)(X)


def test_sums_of_scores_may_overflow_if_the_scores_do_not():
    model = AnyShotClassifier(P.prototypes, **GIVEN)
    model.fit(P.X.astype(np.float32), P.y)
    X = np.repeat(P.X[:1], 5000, axis=0).astype(np.float32) * np.float32(1e36)
    assert np.isfinite(model.decision_function(X)).all()


@pytest.mark.parametrize("factor", [1e-200, 1e200])
def test_unlabeled_samples_of_an_unusual_size(factor):
    rule = "Unlabeled samples must have values of a usual size"
    with refused(ValueError, rule, "Scale them"):
        AnyShotClassifier(P.prototypes).fit(P.X, P.y).adapt(P.X_new * factor)
    with refused(ValueError, rule, "Scale them"):
        prepared().fit_transductive(P.X, P.y, P.X_new * factor)


# Scores of samples of other classes


@each_model
def test_labels_that_are_partly_no_candidates_are_told(model):
    model = clone(model).set_params(prototypes=P.prototypes).fit(P.X, P.y)
    some = model.with_candidates([P.seen[0], P.unseen[0]])
    X, y = np.concatenate([P.X, P.X_new]), np.concatenate([P.y, P.y_new])
    expected = 'should be candidates; 10 of 12 classes are not.*Use candidates="all".*ClassKFold'
    with pytest.warns(UserWarning, match=expected) as told:
        score = some.score(X, y)
    assert told[0].filename == __file__
    own = np.isin(y, some.classes_)
    assert score == pytest.approx(some.score(X[own], y[own]) * 2 / 12)


@pytest.mark.parametrize("make", [AnyShotClassifier, ZeroShotClassifier], ids=lambda m: m.__name__)
def test_folds_of_samples_say_what_to_use_instead(make):
    make = partial(make, candidates="unseen")
    seen_only = {label: P.prototypes[label] for label in P.seen}
    remedy = r'candidates=\\?"all\\?".*cv=ClassKFold\(\)'
    with pytest.warns(UserWarning, match=f"(?s)None of the labels to score.*{remedy}"):
        scores = cross_val_score(make(P.prototypes, random_state=0), P.X, P.y, cv=KFold(2))
    assert np.isnan(scores).all()
    with pytest.raises(ValueError, match=f"(?s)needs a class that has a prototype.*{remedy}"):
        cross_val_score(make(seen_only, random_state=0), P.X, P.y, cv=KFold(2))
    for model, cv in (
        (make(P.prototypes, random_state=0, candidates="all"), StratifiedKFold(2)),
        (make(P.prototypes, random_state=0), ClassKFold(2)),
    ):
        assert np.isfinite(cross_val_score(model, P.X, P.y, cv=cv)).all()


# Arrays and tables of other kinds

TENSOR = torch.tensor(P.X)
FRAME = pd.DataFrame(P.X, columns=[f"f{j}" for j in range(P.X.shape[1])])
HOLES = np.ma.masked_array(P.X, mask=P.X > 3)


@each_model
@pytest.mark.parametrize(
    ("X", "parts"),
    [
        (TENSOR.to_sparse(), ("layout torch.sparse_coo", ".to_dense()")),
        (HOLES, (f"{HOLES.mask.sum()} masked entries", "Drop those rows")),
        (csr_array(P.X), ("csr_array, which is sparse", ".toarray()")),
        (P.X.astype("datetime64[s]"), ("must be numbers; got datetime64[s]", "Convert")),
        (FRAME.set_axis(["f"] * 10, axis=1), ("different names; 'f' came", "Rename")),
        ([[1.0, 2.0], [3.0]], ("rows of different lengths", "same features")),
    ],
    ids=["sparse tensor", "masked", "sparse", "dates", "repeated columns", "ragged"],
)
def test_samples_of_other_kinds_are_refused(model, X, parts):
    model = clone(model).set_params(prototypes=P.prototypes)
    with pytest.raises((TypeError, ValueError), match="(?s)" + ".*".join(map(re.escape, parts))):
        model.fit(X, P.y)
    model.fit(P.X, P.y)
    with pytest.raises((TypeError, ValueError), match="(?s)" + ".*".join(map(re.escape, parts))):
        model.predict(X)


@each_model
@pytest.mark.parametrize(
    "X",
    [
        FRAME.astype(pd.SparseDtype(float, 0.0)),
        np.ma.masked_array(P.X, mask=False),
        P.X.astype(object),
        P.X.tolist(),
    ],
    ids=["sparse columns", "nothing masked", "objects", "lists"],
)
def test_samples_of_other_kinds_that_are_complete(model, X):
    model = clone(model).set_params(prototypes=P.prototypes)
    expected = model.fit(P.X, P.y).decision_function(P.X_new)
    assert_array_equal(model.fit(X, P.y).predict(X), clone(model).fit(P.X, P.y).predict(P.X))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # X has no feature names
        assert_allclose(model.decision_function(P.X_new), expected, rtol=1e-9)


@pytest.mark.parametrize("model", EVERY_MODEL[:3], ids=lambda model: type(model).__name__)
def test_tensors_with_gradients_are_detached(model):
    codes = torch.tensor(np.unique(P.y, return_inverse=True)[1])
    numbered = dict(enumerate(P.prototypes[label] for label in P.seen))
    model = clone(model).set_params(prototypes=numbered)
    expected = model.fit(TENSOR, codes).decision_function(TENSOR)
    X, y = TENSOR.clone().requires_grad_(), codes.to(torch.float64).requires_grad_()
    found = model.fit(X, y).decision_function(X)
    assert not found.requires_grad
    assert_allclose(found.numpy(), expected.numpy())


@each_model
@pytest.mark.parametrize(
    ("y", "error", "parts"),
    [
        (P.y.astype("S"), TypeError, ("y must be all strings", "got bytes", "label.decode()")),
        ([2**70] * len(P.y), ValueError, ("y must be numbers that one 64-bit type", "text")),
        (np.ma.masked_array(P.y, mask=P.y == P.y[0]), TypeError, ("y must have", "masked")),
        (pd.Series([pd.NA, *P.y[1:]], dtype="string"), TypeError, ("got NAType, str", "Drop")),
    ],
    ids=["bytes", "large", "masked", "missing"],
)
def test_labels_of_other_kinds_are_refused(model, y, error, parts):
    model = clone(model).set_params(prototypes=P.prototypes)
    with refused(error, *parts):
        model.fit(P.X, y)
    if isinstance(model, ZeroShotClassifier):
        with refused(error, *parts):
            model.gather(P.X, y)


@each_model
def test_labels_of_other_kinds_that_are_text(model):
    model = clone(model).set_params(prototypes=P.prototypes)
    expected = model.fit(P.X, P.y).predict(P.X_new)
    y = np.array(P.y.tolist(), dtype=np.dtypes.StringDType())
    assert_array_equal(model.fit(P.X, y).predict(P.X_new), expected)


@each_model
def test_accents_of_labels_and_prototypes_have_one_spelling(model):
    whole = "\N{LATIN SMALL LETTER E WITH ACUTE}"
    apart = unicodedata.normalize("NFD", whole)
    named = {whole + label: vector for label, vector in P.prototypes.items()}
    model = clone(model).set_params(prototypes=named)
    with pytest.warns(UserWarning, match="were changed to the Unicode form NFC"):
        model.fit(P.X, np.char.add(apart, P.y))
    assert {label[0] for label in model.predict(P.X_new).tolist()} == {whole}
    with pytest.warns(UserWarning, match="were changed to the Unicode form NFC"):
        assert model.score(P.X, np.char.add(apart, P.y)) > 0.5


def test_class_names_of_megabytes_are_cut(fitted):
    name = "x" * 1_000_000
    for call in (
        lambda: prepared(candidates=[name]).fit(P.X, P.y),
        lambda: prepared(candidates=name).fit(P.X, P.y),
        lambda: AnyShotClassifier(P.prototypes, candidates=[name]).fit(P.X, P.y),
        lambda: prepared().fit(P.X[:1], [name]),
        lambda: fitted.with_classes({name: [1.0] * 4}),
        lambda: prepared(alpha=name).fit(P.X, P.y),
        lambda: prepared(prototypes={name: [1.0], "b": [1.0, 2.0]}).fit(P.X, P.y),
    ):
        with pytest.raises(ValueError, match=r"x{20}|got 4|'b' has") as caught:
            call()
        assert len(str(caught.value)) < 1000


def test_a_prediction_reads_one_truth_value_more_from_a_device(fitted):
    X = torch.tensor(P.X_new)
    numbered = dict(enumerate(P.prototypes.values()))
    codes = torch.tensor(np.searchsorted(list(P.prototypes), P.y))
    model = prepared(prototypes=numbered, candidates="all").fit(torch.tensor(P.X), codes)
    with counted_transfers() as transfers:
        model.predict(X)
    assert [size for size, _ in transfers] == [1, 1]  # samples are finite, scores are finite
