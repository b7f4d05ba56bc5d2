"""What an Evaluation shows: tables against loops, JSON, plots, and a page of its own."""

import builtins
import io
import json
import re
from collections import Counter
from html import unescape

import numpy as np
import pytest
from evaluated import IS_SEEN, LABELS, PROTOTYPES, SEEN, UNSEEN, X_TRAIN, Y_TRAIN, X, Y, fitted
from evaluated import dataset as made_up
from html_page import Page
from numpy.testing import assert_allclose

import zonkey
from zonkey import Prototypes, ZeroShotClassifier, evaluate
from zonkey.display.drawing import file_bytes

NASTY = "\udc80 \n <script>alert('1 & 2')</script> $x$ \"q\" " + "long " * 40


@pytest.fixture(scope="module")
def model():
    return fitted(reject_below=0.3)


@pytest.fixture(scope="module")
def result(model):
    return evaluate(model, X, Y, baselines=["ridge", "logistic"], training=(X_TRAIN, Y_TRAIN))


def answers(model, among):
    rows = {"all": IS_SEEN | True, "seen": IS_SEEN, "unseen": ~IS_SEEN}[among]
    chosen = {"all": LABELS, "seen": SEEN, "unseen": UNSEEN}[among]
    best = model.with_candidates(chosen)
    return Y[rows].tolist(), best.predict_top(X[rows], 1)[:, 0].tolist(), best, X[rows]


def test_one_row_per_model_and_figure(result):
    frame = result.to_frame()
    assert frame.columns.tolist() == ["model", "measure", "value", "low", "high", "n"]
    own = frame[frame["model"] == "AnyShotClassifier"].set_index("measure")
    assert own["value"].to_dict() == result.scores
    assert {name: (row["low"], row["high"]) for name, row in own.iterrows()} == result.intervals
    n_of = {"unseen": (~IS_SEEN).sum(), "seen": IS_SEEN.sum(), "all": len(Y)}
    kinds = {"acc_u": "unseen", "acc_s": "seen", "hm": "all", "ausuc": "all"}
    for name in result.scores:
        among = kinds.get(name, name.rpartition("_")[2])
        expected = n_of[among]
        if name.startswith("selective"):  # only samples that are not rejected
            expected = round(expected * (1 - result.scores[f"rejected_{among}"]))
        assert own["n"][name] == expected
    assert len(frame) == sum(len(one.scores) for one in result.models)


def test_the_table_of_classes(model, result):
    frame = result.per_class().set_index("class")
    assert sorted(frame.index) == sorted(set(Y))
    assert frame["kind"].tolist() == sorted(frame["kind"], reverse=True)  # unseen first
    truth, predicted, among_all, samples = answers(model, "all")
    P = among_all.predict_proba(samples)
    for label, row in frame.iterrows():
        kind = "seen" if label in SEEN else "unseen"
        own_truth, own_predicted, *_ = answers(model, kind)
        pairs = [p == label for t, p in zip(own_truth, own_predicted, strict=True) if t == label]
        of_class = [i for i, t in enumerate(truth) if t == label]
        right = [predicted[i] == label for i in of_class]
        wrong = Counter(sorted(predicted[i] for i in of_class if predicted[i] != label))
        assert row["kind"] == kind
        assert row["n"] == len(of_class)
        assert_allclose(row["accuracy_among_kind"], np.mean(pairs))
        assert_allclose(row["accuracy_among_all"], np.mean(right))
        expected = wrong.most_common(1)[0] if wrong else (None, 0)
        assert (row["wrong_answer"], row["wrong_count"]) == expected
        assert_allclose(
            row["truth_probability"], np.mean([P[i, LABELS.index(label)] for i in of_class])
        )


@pytest.mark.parametrize("among", ["all", "seen", "unseen", None])
def test_confusions(model, result, among):
    truth, predicted, *_ = answers(model, among or "all")
    wrong = Counter(sorted((t, p) for t, p in zip(truth, predicted, strict=True) if t != p))
    expected = [
        [t, p, n, n / truth.count(t)]
        for (t, p), n in sorted(wrong.items(), key=lambda item: (-item[1], item[0]))
    ]
    frame = result.confusions(None, among=among)
    assert frame.columns.tolist() == ["true", "predicted", "count", "share"]
    assert frame.to_numpy().tolist() == expected
    assert result.confusions(3, among=among).to_numpy().tolist() == expected[:3]


def test_refused_options(result):
    with pytest.raises(ValueError, match="`most` must be an integer of at least 1; got 0"):
        result.confusions(0)
    with pytest.raises(ValueError, match="`among` must be one of 'unseen', 'seen', 'all'"):
        result.confusions(among="novel")
    few = evaluate(fitted(candidates=UNSEEN), X[~IS_SEEN], Y[~IS_SEEN])
    with pytest.raises(ValueError, match="`among` must be one of 'unseen', 'all'"):
        few.plot_confusions(among="seen")


def test_tables_without_pandas_name_the_extra(result, monkeypatch):
    real = builtins.__import__

    def without(name, *rest):
        if name.startswith("pandas"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    monkeypatch.setattr("importlib.import_module", lambda name: without(name))
    for table in (result.to_frame, result.per_class, result.confusions):
        with pytest.raises(ImportError, match=r"needs pandas.*zonkey\[data\]"):
            table()
    assert "HM" in result.summary()
    result.to_dict()


def test_everything_as_json(result):
    content = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert content["scores"] == result.scores
    assert content["model"] == "AnyShotClassifier"
    assert [one["model"] for one in content["baselines"]] == ["ridge", "logistic"]
    assert content["intervals"]["hm"] == list(result.intervals["hm"])
    assert [row["class"] for row in content["classes"]] == result.per_class()["class"].tolist()
    assert content["confusions"][0]["count"] == result.confusions()["count"][0]
    bins = content["calibration"]["all"]
    assert sum(bins["count"]) == len(Y)
    gaps = [
        n * abs(a - c)
        for n, a, c in zip(bins["count"], bins["accuracy"], bins["confidence"], strict=True)
        if n
    ]
    assert_allclose(sum(gaps) / len(Y), result.scores["ece_all"])
    assert_allclose(
        np.trapezoid(content["curve"]["seen"], content["curve"]["unseen"]), result.scores["ausuc"]
    )
    assert content["provenance"]["model"]["parameters"]["ridge"] == 0.3
    assert content["provenance"]["seed"] == 0
    assert content["provenance"]["versions"]["zonkey"] == zonkey.__version__


def test_a_long_curve_is_thinned():
    rng = np.random.default_rng(0)
    many = rng.choice(len(Y), 3000)
    samples = X[many] + 0.1 * rng.normal(size=(3000, X.shape[1]))
    result = evaluate(fitted(), samples, Y[many])
    curve = result.to_dict()["curve"]
    assert len(curve["seen"]) == len(curve["unseen"]) == 500
    assert (curve["seen"][-1], curve["unseen"][0]) == (0, 0)
    assert_allclose(np.trapezoid(curve["seen"], curve["unseen"]), result.curve.area, atol=0.01)


def test_the_summary_is_a_table(result):
    lines = result.summary().splitlines()
    assert lines[0] == "AnyShotClassifier: 57 samples of 10 classes (6 seen, 4 unseen)"
    assert lines[2].split() == [
        *("percent,", "95", "%", "interval"),
        *("AnyShotClassifier", "ridge", "logistic"),
    ]
    (hm,) = (line for line in lines if line.startswith("HM"))
    low, high = result.intervals["hm"]
    value = f"{100 * result.scores['hm']:.1f} [{100 * low:.1f}, {100 * high:.1f}]"
    assert value in hm
    (unseen,) = (line for line in lines if line.startswith("accuracy among unseen"))
    assert unseen.endswith(" -")
    assert repr(result) == result.summary()


def test_transductive_models_are_marked():
    adapted = fitted().with_candidates(UNSEEN).adapt(X[~IS_SEEN])
    found = evaluate(adapted, X[~IS_SEEN], Y[~IS_SEEN])
    assert "transductive" in found.summary()
    assert "transductive" not in evaluate(fitted(), X, Y).summary()


# Plots.


def texts(figure):
    words = [text.get_text() for axis in figure.axes for text in axis.texts]
    words += [tick.get_text() for axis in figure.axes for tick in axis.get_yticklabels()]
    words += [axis.get_title() for axis in figure.axes]
    words += [text.get_text() for legend in figure.legends for text in legend.get_texts()]
    return words


def test_the_curve_of_every_model(result):
    figure = result.plot_curve()
    (axis,) = figure.axes
    drawn = [line for line in axis.lines if len(line.get_xdata()) == len(result.curve.seen)]
    assert any((line.get_xdata() == 100 * result.curve.unseen).all() for line in drawn)
    words = " ".join(texts(figure))
    assert f"AnyShotClassifier: HM {100 * result.scores['hm']:.1f}" in words
    assert "logistic: HM 0.0" in words
    assert file_bytes(figure, ["png"])["png"].startswith(b"\x89PNG")


def test_calibration_by_set_of_candidates(result):
    figure = result.plot_calibration()
    titles = [title for title in texts(figure) if title.startswith("among")]
    assert [title.split(":")[0] for title in titles] == ["among unseen", "among seen", "among all"]
    assert f"ECE {100 * result.scores['ece_all']:.1f} %" in titles[2]
    assert file_bytes(figure, ["png"])


def test_risk_against_coverage(result):
    curve = result.risk_coverage()
    assert curve.area == pytest.approx(result.scores["aurc_all"])
    assert curve.risk[-1] == pytest.approx(1 - result.scores["hit@1_all"])
    shown = texts(result.plot_risk())
    assert f"AnyShotClassifier: AURC {100 * curve.area:.1f}" in shown
    assert any(text.startswith("logistic: AURC") for text in shown)
    seen = result.risk_coverage("seen")
    assert seen.area == pytest.approx(result.scores["aurc_seen"])
    content = result.to_dict()["risk_coverage"]
    assert content["risk"][-1] == curve.risk[-1]
    assert len(content["thresholds"]) == len(content["coverage"])
    paper = ZeroShotClassifier(PROTOTYPES, candidates=["c08"]).fit(X_TRAIN, Y_TRAIN)
    with pytest.raises(ValueError, match="needs a model with probabilities; ZeroShot"):
        evaluate(paper, X[Y == "c08"], Y[Y == "c08"]).risk_coverage()


def test_few_classes_have_a_bar_each_and_a_matrix(result):
    bars = texts(result.plot_classes())
    assert set(Y) <= set(bars)
    assert "57  (n = 7)" in bars
    matrix = result.plot_confusions(among="unseen")
    image = matrix.axes[0].images[0].get_array()
    assert image.shape == (5, 5)
    assert_allclose(image.sum(axis=1)[[0, 1, 2, 4]], 100)


@pytest.fixture(scope="module")
def many():
    """Evaluate 60 classes with nasty names."""
    rng = np.random.default_rng(0)
    labels = [f"{j:03d} {NASTY}" for j in range(60)]
    vectors = rng.normal(size=(60, 4))
    model = fitted(Prototypes(labels, vectors), X=vectors[:40], y=labels[:40], temperature=1.0)
    samples = np.repeat(vectors, 2, axis=0) + 0.4 * rng.normal(size=(120, 4))
    return evaluate(model, samples, np.repeat(labels, 2))


def test_many_classes_with_nasty_names(many):
    words = texts(many.plot_classes())
    assert len([word for word in words if "script" in word]) == 24
    assert {"best classes", "worst classes"} <= set(words)
    pairs = many.plot_confusions(most=7)
    names = [tick.get_text() for tick in pairs.axes[0].get_yticklabels()]
    assert len(names) == 7
    assert all(len(name) < 70 for name in names)
    for figure in (many.plot_classes(), pairs, many.plot_curve(), many.plot_calibration()):
        assert file_bytes(figure, ["png"])


def test_display_names_of_a_data_set():
    data = made_up(class_names={"c08": "okapi"})
    found = evaluate(fitted(), data)
    assert "okapi" in texts(found.plot_classes())
    assert "c08" in found.per_class()["class"].tolist()


# The page.


def test_one_page_that_needs_nothing_else(result, tmp_path):
    path = result.to_html(tmp_path / "page.html")
    assert [*tmp_path.iterdir()] == [path]
    page = Page(path)
    assert page.tags["img"] == 5
    page.assert_loads_nothing()
    assert not re.search(r"https?://|@import|url\(", page.html)
    for word in (
        *("harmonic mean of the accuracies", "area under the seen-unseen accuracy curve"),
        *("hit@k: share of samples", "expected calibration error", "0 by construction"),
        *(result.provenance["date"], result.provenance["data"]["fingerprint"], "seed 0"),
        *(f"zonkey {zonkey.__version__}", "worth 2", "57 samples of 10 classes"),
        f"{100 * result.scores['hm']:.1f}",
    ):
        assert word in page.text, word
    # Defined where they first stand.
    for term, meaning in (("HM", "harmonic mean"), ("AUSUC", "area under"), ("hit@1", "hit@k:")):
        start = page.text.index(term)
        assert meaning in page.text[start : start + 80]


def test_names_are_escaped_on_the_page(many, tmp_path):
    page = Page(many.to_html(tmp_path / "page.html"))
    assert not page.tags["script"]
    assert "<script>alert('1 & 2')" in unescape(page.html)
    assert "<script>alert" not in page.html
    assert page.tags["tr"] > 60
    assert r"001 \udc80 \n" in page.text


def test_a_page_of_a_model_without_probabilities_and_mistakes(tmp_path):
    model = ZeroShotClassifier(PROTOTYPES, candidates=["c08"]).fit(X_TRAIN, Y_TRAIN)
    found = evaluate(model, X[Y == "c08"], Y[Y == "c08"])
    page = Page(found.to_html(tmp_path / "page.html"))
    assert "Evaluation of ZeroShotClassifier" in page.text
    assert "No sample was classified wrongly" in page.text
    assert "Calibration" not in page.text
    assert "Seen against unseen" not in page.text
    assert found.plot_confusions().savefig(io.BytesIO(), format="png") is None


def test_a_page_that_cannot_be_made_leaves_nothing(result, tmp_path, monkeypatch):
    monkeypatch.setattr("zonkey.evaluation.plots.draw_classes", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        result.to_html(tmp_path / "page.html")
    assert not [*tmp_path.iterdir()]


def test_the_page_opens_in_a_browser(result, open_in_browser, tmp_path):
    shown = open_in_browser(result.to_html(tmp_path / "page.html"))
    assert "Evaluation of AnyShotClassifier" in shown
