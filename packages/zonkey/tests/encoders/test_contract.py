"""Encoders are transformers: scikit-learn's checks that need no numbers, the others on real data.

scikit-learn tests no estimator that takes something else than a matrix. Its checks without data run
here one by one; what the others are about is checked with pictures and texts.
"""

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_checks as checks
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

import zonkey
from zonkey import presets
from zonkey.encoders import ImageEncoder, TextEncoder

for package in ("onnxruntime", "tokenizers"):
    pytest.importorskip(package, reason="the embedded encoders need it")
Image = pytest.importorskip("PIL.Image")

WITHOUT_DATA = [
    checks.check_do_not_raise_errors_in_init_or_set_params,
    checks.check_estimator_cloneable,
    checks.check_estimator_repr,
    checks.check_estimator_tags_renamed,
    checks.check_get_params_invariance,
    checks.check_mixin_order,
    checks.check_n_features_in_after_fitting,
    checks.check_no_attributes_set_in_init,
    checks.check_parameters_default_constructible,
    checks.check_set_params,
    checks.check_transformer_n_iter,
    checks.check_valid_tag_types,
]
RNG = np.random.default_rng(0)
COLORS = {"red": (210, 30, 40), "green": (30, 180, 50), "blue": (20, 60, 220)}
Y = np.repeat([*COLORS], 4)
PICTURES = [
    np.clip(COLORS[label] + RNG.normal(0, 30, (32, 40, 3)), 0, 255).astype(np.uint8) for label in Y
]
TEXTS = ["a horse", "a zebra with stripes", "{}", "ein Esel \N{HORSE FACE}", "x" * 3000]
ENCODERS = {
    "pictures": (ImageEncoder(batch_size=5), PICTURES),
    "texts": (TextEncoder(batch_size=4, templates=["{}", "a photo of {}"]), TEXTS),
}


@pytest.mark.parametrize("encoder", [ImageEncoder(), TextEncoder()], ids=repr)
@pytest.mark.parametrize("check", WITHOUT_DATA)
def test_scikit_learn_contract(encoder, check):
    check(type(encoder).__name__, encoder)


def test_tags_say_what_encoders_take():
    for encoder, is_text in ((ImageEncoder(), False), (TextEncoder(), True)):
        tags = get_tags(encoder)
        assert (tags.requires_fit, tags.no_validation) == (False, True)
        assert tags.transformer_tags.preserves_dtype == []
        takes = tags.input_tags
        assert (takes.two_d_array, takes.one_d_array, takes.string) == (False, is_text, is_text)


@pytest.fixture(params=ENCODERS)
def case(request):
    encoder, data = ENCODERS[request.param]
    return clone(encoder), data


def test_a_row_depends_on_nothing_but_its_sample(case):
    encoder, data = case
    X = encoder.transform(data)
    assert X.dtype == np.float32
    assert np.isfinite(X).all()
    order = RNG.permutation(len(data))
    assert_allclose(encoder.transform([data[i] for i in order]), X[order], atol=1e-5)
    single = np.concatenate([encoder.transform([sample]) for sample in data])
    assert_allclose(single, X, atol=1e-5)
    assert_array_equal(encoder.transform(data), X)


def test_nothing_is_learned_or_changed(case):
    encoder, data = case
    before, X = repr(vars(encoder)), clone(encoder).transform(data)
    copies = pickle.dumps(data)
    assert_array_equal(encoder.fit(data[:1]).transform(data), X)
    assert_array_equal(encoder.fit_transform(data), X)
    assert encoder.fit(data, Y) is encoder
    assert repr(vars(encoder)) == before
    assert pickle.dumps(data) == copies
    check_is_fitted(encoder)


def test_threads_share_an_encoder(case):
    encoder, data = case
    X = encoder.transform(data)
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(encoder.transform, [data] * 6):
            assert_allclose(found, X, atol=1e-5)


def test_names_and_frames(case):
    encoder, data = case
    pytest.importorskip("pandas")
    X = encoder.transform(data)
    names = encoder.get_feature_names_out()
    assert len(names) == X.shape[1] == encoder.spec_["dimension"]
    assert names[0] == f"{type(encoder).__name__.lower()}0"
    frame = encoder.set_output(transform="pandas").transform(data)
    assert frame.columns.tolist() == names.tolist()
    assert_array_equal(frame.to_numpy(), X)


@pytest.fixture
def paths(tmp_path):
    found = [tmp_path / f"{i} Zèbre \N{ZEBRA FACE}.png" for i in range(len(PICTURES))]
    for path, pixels in zip(found, PICTURES, strict=True):
        Image.fromarray(pixels).save(path)
    return [str(path) for path in found]


def test_paths_and_names_to_predictions(paths, tmp_path):
    prototypes = TextEncoder().prototypes([*COLORS, "yellow"])
    model = make_pipeline(ImageEncoder(), presets.recommended(prototypes, candidates="all"))
    model.fit(paths, Y)
    assert model.score(paths, Y) == 1
    assert_array_equal(model.predict(paths), model.predict(PICTURES))
    assert_array_equal(model.predict(iter(paths)), model.predict(PICTURES))
    assert cross_val_score(clone(model), paths, Y, cv=2).mean() > 0.5
    zonkey.save(model, tmp_path / "model.zonkey")
    loaded = zonkey.load(tmp_path / "model.zonkey")
    assert_array_equal(loaded.predict_proba(paths), model.predict_proba(paths))
