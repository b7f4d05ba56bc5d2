"""Pages: templates need their content, files are complete or absent."""

import base64

import pytest

from zonkey.display.pages import data_address, render, write_page

PNG = bytes(range(256))


def page_of(title):
    return f"<!doctype html><title>{title}</title>"


def test_data_come_back_from_their_address():
    head, body = data_address("image/webp", PNG).split(",")
    assert head == "data:image/webp;base64"
    assert base64.b64decode(body, validate=True) == PNG


def test_a_template_without_its_content_is_refused():
    with pytest.raises(Exception, match="is undefined"):
        render("zonkey.display", "base.html", title="x")


def test_a_page_is_written_whole_and_nothing_beside_it(tmp_path):
    path = tmp_path / "index.html"
    path.write_text("old")
    html = page_of("Zonkey \N{ZEBRA FACE} \N{LATIN SMALL LETTER E WITH ACUTE}")
    assert write_page(path, html) == path
    assert path.read_text(encoding="utf-8") == html
    assert "\N{ZEBRA FACE}" in html
    assert list(tmp_path.iterdir()) == [path]


def test_text_that_cannot_be_encoded_is_replaced(tmp_path):
    with pytest.raises(OSError, match="missing"):
        write_page(tmp_path / "missing" / "a.html", "")
    write_page(tmp_path / "a.html", page_of("x\udcff"))
    assert [path.name for path in tmp_path.iterdir()] == ["a.html"]
    assert "x?" in (tmp_path / "a.html").read_text("utf-8")
