"""Read the HTML pages that the library writes."""

from collections import Counter
from html.parser import HTMLParser


class Page(HTMLParser):
    """Collects the text, the tags, the addresses, and the names of the emoji of a page."""

    def __init__(self, path):
        super().__init__()
        self.html = path.read_text("utf-8")
        self.tags, self.addresses, self.words, self.emoji = Counter(), [], [], []
        self.feed(self.html)

    def handle_starttag(self, tag, attrs):
        self.tags[tag] += 1
        given = dict(attrs)
        self.addresses += [given[name] for name in ("src", "href") if name in given]
        if given.get("class") == "e":
            self.emoji.append(given["aria-label"])

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())

    def assert_loads_nothing(self):
        """Check that everything is inside the page, and that nothing is a program."""
        assert self.addresses
        assert all(address.startswith(("data:", "#")) for address in self.addresses)
        assert "url(http" not in self.html
        assert not self.tags["script"]
