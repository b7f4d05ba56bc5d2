"""The list of all systems, in Python and on the command line."""

import json

from typer.testing import CliRunner

import zonkey
from zonkey.cli.application import app
from zonkey_lab.peers import fsl, list_methods, zsl


def test_every_classifier_is_listed_once_with_its_publication():
    infos = list_methods()
    classifiers = [
        name
        for package in (zsl, fsl)
        for name in package.__all__
        if hasattr(getattr(package, name), "fit")
    ]
    own = {"AnyShotClassifier", "FewShotClassifier", "NearestSupport", "ZeroShotClassifier"}
    assert sorted(info.name for info in infos) == sorted([*classifiers, *own])
    for info in infos:
        if info.module != "zonkey":
            assert info.cited, info.name
            assert info.cited.split()[0] in info.reference
            assert 1990 < int(info.cited.split()[-1]) < 2030
        assert info.summary
        assert len(info.summary) < 100


def test_settings_and_extras():
    infos = {info.name: info for info in list_methods()}
    assert infos["DIPL"].setting == "zero-shot, transductive"
    assert infos["SimpleShot"].setting == "few-shot"
    assert infos["AnyShotClassifier"].setting == "any shot"
    assert infos["CVAE"].extra == "torch"
    assert infos["SAE"].extra == ""
    assert infos["CVAE"].cited == "Mishra 2018"
    assert infos["SimpleShot"].cited == "Wang 2019"  # not the number of a preprint


def test_command_prints_all():
    found = CliRunner().invoke(app, ["methods"])
    assert found.exit_code == 0
    rows = found.output.splitlines()
    assert any(row.startswith("ESZSL") and "Romera-Paredes 2015" in row for row in rows)
    found = CliRunner().invoke(app, ["methods", "--json"])
    listed = json.loads(found.output)
    assert [info.name for info in list_methods()] == [each["name"] for each in listed]
    modules = {"zonkey": zonkey, "zonkey_lab.peers.zsl": zsl, "zonkey_lab.peers.fsl": fsl}
    for each in listed:
        module = modules[each["module"]]
        assert hasattr(module, each["name"])
