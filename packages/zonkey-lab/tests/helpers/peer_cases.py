"""Every peer with parameters that learn something of small problems, or do it in no time."""

import torch
from trained import made

from zonkey.testing import shots_problem
from zonkey_lab.peers import fsl, zsl

# The networks are small: threads would wait for each other for longer than they work.
torch.set_num_threads(1)
CPU = {"device": "cpu"}
ALL_EPOCHS = {"n_iter_no_change": None, **CPU}

# Zero-shot peers. The features of the linear problem are three times as long as its prototypes;
# defaults are for equal lengths.
CLOSED_FORM = [zsl.ESZSL(), zsl.ExemplarRegression(), zsl.SAE(), zsl.SAE(reduction=0.5)]
CLOSED_FORM_FITTING = [
    zsl.ESZSL(),
    zsl.SAE(lam=100.0),
    zsl.SAE(direction="semantic-to-feature", lam=0.01),
    zsl.SAE(direction="semantic-to-feature", reduction=5.0),
    zsl.ExemplarRegression(gamma=0.1, ridge=0.01),
    zsl.ExemplarRegression(kernel="linear"),
]
MIXTURES = [
    zsl.DAP(ridge=0.4),
    zsl.ConSE(ridge=30.0, n_top=7),
    zsl.SSE(gamma=0.2, n_samples=8),
    zsl.SynC(sigma=2.0, lam=10.0),
    zsl.EXEM(gamma=0.4, C=100.0),
    zsl.DIPL(),
]
# Two held-out classes of the small problem say little about the number of epochs.
RANKING = [
    made(zsl.ALE, max_iter=15),
    made(zsl.DeViSE, max_iter=15),
    made(zsl.LATEM, max_iter=15, n_iter_no_change=None),
    made(zsl.SJE, max_iter=15, n_iter_no_change=None),
]
_FEW = {"max_iter": 3, **CPU}
EMBEDDING_QUICK = [
    made(zsl.CMT, n_hidden=8, **_FEW),
    made(zsl.DEM, n_hidden=8, **_FEW),
    made(zsl.VZSL, n_hidden=8, n_latent=4, **_FEW),
    made(zsl.SPAEN, n_hidden=8, **_FEW),
]
_WIDE = {"n_hidden": 32, "learning_rate": 0.02, "max_iter": 15, "batch_size": 24, **ALL_EPOCHS}
EMBEDDING = [
    made(zsl.CMT, **_WIDE),
    made(zsl.DEM, **{**_WIDE, "n_hidden": 48, "max_iter": 25}),
    made(zsl.VZSL, n_latent=6, **_WIDE),
    made(zsl.SPAEN, margin=1.0, **_WIDE),
]
_SOON = {"n_hidden": 16, "max_iter": 8, "batch_size": 60, "learning_rate": 0.03, **CPU}
EMBEDDING_ON_BLOBS = [  # scikit-learn asks for a good fit of three blobs
    made(zsl.CMT, **_SOON),
    made(zsl.DEM, **_SOON),
    made(zsl.VZSL, n_latent=4, **_SOON),
    made(zsl.SPAEN, adversarial=0.1, **_SOON),
]
# Accuracy does not matter.
_ONCE = {"max_iter": 1, "min_steps": 1, "n_hidden": 4, "n_synthetic": 5, **CPU}
GENERATIVE_QUICK = [
    made(kind, **_ONCE) for kind in (zsl.CVAE, zsl.FCLSWGAN, zsl.CADAVAE, zsl.TFVAEGAN)
]
_FEW_STEPS = {"min_steps": 1, "max_iter": 10, "batch_size": 36, **ALL_EPOCHS}
_MORE = {"n_hidden": 32, "n_synthetic": 10, **_FEW_STEPS}
GENERATIVE = [
    made(zsl.CVAE, n_latent=2, **{**_MORE, "learning_rate": 0.03, "max_iter": 20}),
    made(zsl.FCLSWGAN, learning_rate=0.02, **_MORE),
    made(
        zsl.CADAVAE,
        n_latent=8,
        beta=0.01,
        delta=1.0,
        learning_rate=0.02,
        **{**_MORE, "n_hidden": 64, "max_iter": 30, "min_steps": 3},
    ),
    made(zsl.TFVAEGAN, learning_rate=0.02, **{**_MORE, "min_steps": 6}),
]
# It classifies in a latent space, which must say something of the two features of some checks.
_LATENT = {**_ONCE, "max_iter": 12, "n_hidden": 32, "n_synthetic": 60, "batch_size": 32}
GENERATIVE_ON_BLOBS = [
    *GENERATIVE_QUICK[:2],
    made(zsl.FCLSWGAN, classifier="softmax", **_ONCE),
    made(zsl.CADAVAE, beta=0.01, delta=0.05, learning_rate=0.02, **_LATENT),
    GENERATIVE_QUICK[3],
]

# Few-shot peers
P = shots_problem()
BASE = fsl.BaseSamples(P.X_base, P.y_base)
_META = {"n_query": 4, "n_episodes": 6, "max_iter": 2, **ALL_EPOCHS}


def meta_peers(base=None, **changed):
    """Return peers that are trained on episodes by steps or sequences."""
    settings = [
        {"kind": fsl.MAML, "n_hidden": 3, "n_steps": 3, "inner_learning_rate": 0.03}
        | {"batch_size": 3},
        {"kind": fsl.MAML, "n_hidden": 5, "n_steps": 2, "first_order": True}
        | {"learning_rate": 0.01},
        {"kind": fsl.MetaLearnerLSTM, "n_hidden": 3, "n_steps": 4, "learning_rate": 0.01}
        | {"batch_size": 3},
        {"kind": fsl.SNAIL, "n_hidden": 6, "n_filters": 3, "learning_rate": 2e-3}
        | {"batch_size": 3},
    ]
    return [made(base=base, **{**each, **_META, **changed}) for each in settings]


METRIC_LEARNING = {"n_episodes": 6, "max_iter": 3, "batch_size": 3, "learning_rate": 3e-3, **CPU}


def metric_peers(base=None, **changed):
    """Return peers that are trained on episodes to compare samples."""
    settings = {**METRIC_LEARNING, **changed}
    return [
        made(fsl.PrototypicalNetwork, base, **settings),
        made(fsl.MatchingNetwork, base, n_steps=2, **settings),
        made(fsl.MatchingNetwork, base, full_context=False, **settings),
        made(fsl.RelationNetwork, base, n_hidden=30, **settings),
    ]


TINY = {"n_clusters": 3, "n_hidden": 8, **CPU}
SHOTS = [
    made(fsl.LSL, BASE, max_iter=2, random_state=0, **TINY),
    made(fsl.PPA, BASE, max_iter=3, n_iter_no_change=2, **CPU),
    made(fsl.MAPSSVM, BASE, n_episodes=6, max_iter=3, n_iter_no_change=2, **CPU),
]
SHOTS_ON_BLOBS = [  # scikit-learn has no base samples
    made(fsl.LSL, max_iter=1, **TINY),
    made(fsl.PPA, max_iter=1, **CPU),
    made(fsl.MAPSSVM, n_episodes=2, max_iter=1, n_query=3, **CPU),
]
TEXTS = [
    fsl.GaussianDiscriminant(P.prototypes, BASE, alpha=0.4, shrinkage=0.3),
    fsl.LPPlusPlus(P.prototypes, BASE, text_scale=7.0, n_steps=23),
    fsl.TipAdapter(P.prototypes, BASE, alpha=40.0, beta=2.0),
]
WITH_TEXTS = [fsl.DistributionCalibration(BASE, n_neighbors=3, n_samples=20), *TEXTS]
TRANSDUCTIVE = [
    fsl.BDCSPN(BASE, temperature=2.0),
    fsl.LaplacianShot(BASE, n_neighbors=3, smoothness=0.4, n_steps=5),
    fsl.PTMAP(BASE, power=0.7, sharpness=4.0, step_size=0.3, n_steps=5),
    fsl.PTMAP(normalization="unit", priors=[1, 2, 2, 1], n_steps=3),
    fsl.TIM(BASE, temperature=8.0, n_steps=20, learning_rate=1e-3),
    fsl.TIM(BASE, metric="cosine", conditional_weight=0.3, n_steps=20),
    fsl.TIM(BASE, alpha=3.0, support_weight=0.5, conditional_weight=0.2, n_steps=20),
    fsl.TIM(solver="adm", support_weight=0.3, conditional_weight=0.4, n_steps=7),
]
