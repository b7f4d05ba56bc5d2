import base64
import io
import re
from html import unescape
from html.parser import HTMLParser

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from zonkey.report import Page, figure_html, table_html
from zonkey.report.html import data_address, paragraph

NASTY = "<script>alert('1 & 2')</script> \"x\" > y"
VOID = {"meta", "link", "img"}


class Elements(HTMLParser):
    """Lists the elements of a page with their attributes and text, and that each is closed."""

    def __init__(self, html):
        super().__init__()
        self.found, self.open = [], []
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.found.append({"tag": tag, "text": "", **dict(attributes)})
        if tag not in VOID:
            self.open.append(self.found[-1])

    def handle_endtag(self, tag):
        assert self.open.pop()["tag"] == tag

    def handle_data(self, text):
        if self.open:
            self.open[-1]["text"] += text

    def of(self, tag):
        return [element for element in self.found if element["tag"] == tag]

    def texts(self, tag):
        return [element["text"] for element in self.of(tag)]


def drawing():
    figure = Figure(figsize=(2, 1))
    figure.subplots().plot([0, 1], [0, 1], color="black")
    return figure


def full_page():
    return (
        Page(NASTY)
        .add("Table & text", paragraph(NASTY), table_html(["model", NASTY], [[NASTY, 1.5]]))
        .add(f"Figure {NASTY}", figure_html(drawing(), NASTY), paragraph("plain", dim=True))
    )


def test_text_is_escaped_wherever_it_stands():
    html = full_page().html()
    assert "<script" not in html
    page = Elements(html)
    assert page.texts("title") == page.texts("h1") == [NASTY]
    headings = ["Table & text", f"Figure {NASTY}"]
    assert page.texts("h2") == page.texts("a") == headings
    assert page.texts("p") == [NASTY, "plain"]
    assert page.texts("th") == ["model", NASTY]
    assert page.texts("td") == [NASTY, "1.5"]
    assert page.texts("figcaption") == [NASTY]
    assert page.of("img")[0]["alt"] == NASTY


@pytest.mark.parametrize(
    ("character", "written"),
    [("<", "&lt;"), (">", "&gt;"), ("&", "&amp;"), ('"', "&quot;"), ("'", "&#x27;")],
)
def test_every_special_character_is_escaped(character, written):
    assert paragraph(character) == f"<p>{written}</p>"
    assert f"<td>{written}</td>" in table_html(["x"], [[character]])
    assert f'alt="{written}"' in figure_html(drawing(), character)
    assert f"<title>{written}</title>" in Page(character).html()


def test_text_that_is_escaped_already_is_shown_as_it_was_given():
    assert paragraph("&lt;") == "<p>&amp;lt;</p>"


def test_a_page_fetches_nothing_from_outside():
    html = full_page().html()
    page = Elements(html)
    addresses = [
        element[name] for element in page.found for name in ("src", "href") if name in element
    ]
    assert len(addresses) == 4  # icon, two sections, one picture
    assert all(address.startswith(("#", "data:")) for address in addresses)
    assert not re.search(r"https?://|@import|url\(", html)


def test_navigation_leads_to_every_section_once():
    page = Elements(full_page().html())
    targets = [f"#{element['id']}" for element in page.of("h2")]
    assert [element["href"] for element in page.of("a")] == targets
    assert len(set(targets)) == 2
    assert len(page.of("section")) == 2


def test_sections_of_one_heading_have_ids_of_their_own():
    page = Elements(Page("x").add("Same").add("Same").html())
    assert len({element["id"] for element in page.of("h2")}) == 2


def test_a_page_without_sections_is_a_page():
    page = Elements(Page("Empty").html())
    assert page.of("html")[0]["lang"] == "en"
    assert page.of("meta")[0]["charset"] == "utf-8"
    assert not page.of("section")


def test_rules_of_a_page_follow_those_of_every_page():
    (style,) = Elements(Page("x", ".card { color: red; }").html()).texts("style")
    common = Elements(Page("x").html()).texts("style")[0]
    assert style == common + ".card { color: red; }"


@pytest.mark.parametrize("numbers_from", [0, 1, 2, 3])
def test_numbers_are_set_to_the_right_from_a_column_on(numbers_from):
    html = table_html(["a", "b", "c"], [[1, 2, 3], [4, 5, 6]], numbers_from=numbers_from)
    table = Elements(html)
    expected = [None] * numbers_from + ["number"] * (3 - numbers_from)
    assert [cell.get("class") for cell in table.of("th")] == expected
    assert [cell.get("class") for cell in table.of("td")] == expected * 2
    assert table.texts("td") == [*"123456"]
    assert len(table.of("tr")) == 3


def test_the_first_column_alone_is_text_unless_told_otherwise():
    assert table_html(["a", "b"], [[1, 2]]) == table_html(["a", "b"], [[1, 2]], numbers_from=1)


def test_a_table_without_rows_has_its_headings():
    table = Elements(table_html(["a"], []))
    assert (table.texts("th"), table.texts("td")) == (["a"], [])


def test_a_dim_paragraph_says_so():
    assert Elements(paragraph("x", dim=True)).of("p")[0]["class"] == "dim"
    assert "class" not in Elements(paragraph("x")).of("p")[0]


def test_data_come_back_from_their_address():
    data = bytes(range(256))
    head, body = data_address("image/webp", data).split(",")
    assert head == "data:image/webp;base64"
    assert base64.b64decode(body, validate=True) == data


def test_a_figure_is_a_png_inside_the_page():
    element = Elements(figure_html(drawing(), "A line.")).of("img")[0]
    head, body = element["src"].split(",")
    assert head == "data:image/png;base64"
    with Image.open(io.BytesIO(base64.b64decode(body))) as picture:
        assert picture.format == "PNG"
        assert picture.size == (300, 150)  # 2 x 1 inches
        pixels = np.asarray(picture.convert("L"))
    assert pixels.min() < 50 < 250 < pixels.max()
    assert element["alt"] == "A line."


def test_a_page_is_written_whole_and_nothing_beside_it(tmp_path):
    path = tmp_path / "index.html"
    path.write_text("old")
    page = Page("Zonkey \N{ZEBRA FACE} \N{LATIN SMALL LETTER E WITH ACUTE}").add("One")
    assert page.write(path) == path
    assert path.read_text(encoding="utf-8") == page.html()
    assert "\N{ZEBRA FACE}" in unescape(page.html())
    assert list(tmp_path.iterdir()) == [path]


def test_a_page_that_cannot_be_made_leaves_the_old_one(tmp_path, monkeypatch):
    path = tmp_path / "index.html"
    path.write_text("old")
    page = Page("x").add("One")
    monkeypatch.setattr(page, "html", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        page.write(path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_text_that_cannot_be_written_leaves_no_half_page(tmp_path):
    Page("x\udcff").write(tmp_path / "a.html")
    assert [path.name for path in tmp_path.iterdir()] == ["a.html"]
    assert "x?" in (tmp_path / "a.html").read_text("utf-8")


def test_numbers_are_set_to_the_right_in_any_columns():
    table = Elements(table_html(["a", "b", "c", "d"], [[1, 2, 3, 4]], numbers={1, 3}))
    assert [cell.get("class") for cell in table.of("td")] == [None, "number", None, "number"]
