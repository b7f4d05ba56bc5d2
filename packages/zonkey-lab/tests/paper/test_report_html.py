"""The report as HTML: content is escaped, and nothing is fetched."""

import re
from html.parser import HTMLParser

from zonkey_lab.paper.report.blocks import (
    Code,
    Document,
    Drawing,
    Part,
    Section,
    TableBlock,
    Text,
    html_text,
)

NASTY = "<script>alert('1 & 2')</script> \"x\" > y'"
VOID = {"meta", "link", "img"}
PNG = bytes(range(256))


class Elements(HTMLParser):
    """Lists the elements of a page with their attributes and text, and checks that each closes."""

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


def page_of(*blocks, title="T"):
    return html_text(Document(title, [Section("S", [Part("P", blocks)])]), {"picture": PNG})


def full_page():
    table = TableBlock(["model", NASTY], [[NASTY, "1.5"]], NASTY, {1})
    folded = TableBlock([NASTY], [[NASTY]], NASTY, is_folded=True)
    drawing = Drawing("picture", NASTY, lambda: None)
    sections = [
        Section("Table & text", [Part(NASTY, [Text(NASTY), Code(NASTY), table])], NASTY),
        Section(f"Figure {NASTY}", [Part("P", [drawing, folded, Text("plain", is_dim=True)])]),
    ]
    return html_text(Document(NASTY, sections), {"picture": PNG})


def test_text_is_escaped_everywhere():
    html = full_page()
    assert "<script" not in html
    page = Elements(html)
    assert page.texts("title") == page.texts("h1") == [NASTY]
    assert page.texts("h2") == page.texts("a") == ["Table & text", f"Figure {NASTY}"]
    assert page.texts("h3") == [NASTY, "P"]
    assert page.texts("h4") == page.texts("pre") == page.texts("figcaption") == [NASTY]
    assert page.texts("p") == [NASTY, NASTY, "plain"]
    assert page.texts("th") == ["model", NASTY, NASTY]
    assert page.texts("td") == [NASTY, "1.5", NASTY]
    assert [text.strip() for text in page.texts("summary")] == [NASTY]
    assert page.of("img")[0]["alt"] == NASTY


def test_a_page_fetches_nothing_from_outside():
    html = full_page()
    page = Elements(html)
    addresses = [
        element[name] for element in page.found for name in ("src", "href") if name in element
    ]
    assert len(addresses) == 4  # icon, two sections, one picture
    assert all(address.startswith(("#", "data:")) for address in addresses)
    assert not re.search(r"https?://|@import|url\(", html)


def test_navigation_leads_to_every_section_once():
    page = Elements(full_page())
    targets = [f"#{element['id']}" for element in page.of("h2")]
    assert [element["href"] for element in page.of("a")] == targets
    assert len(set(targets)) == 2
    assert len(page.of("section")) == 2


def test_numbers_are_right_aligned():
    page = Elements(page_of(TableBlock([*"abcd"], [[*"1234"], [*"5678"]], numbers={1, 3})))
    expected = [None, "number", None, "number"]
    assert [cell.get("class") for cell in page.of("th")] == expected
    assert [cell.get("class") for cell in page.of("td")] == expected * 2
    assert page.texts("td") == [*"12345678"]
    assert len(page.of("tr")) == 3
