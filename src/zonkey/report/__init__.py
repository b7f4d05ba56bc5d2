"""Pages for people, made of what was computed elsewhere."""

from .html import Page, figure_html, table_html

__all__ = ["Page", "figure_html", "table_html"]
