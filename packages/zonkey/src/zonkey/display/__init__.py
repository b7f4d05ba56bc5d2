"""Figures in one style and self-contained HTML pages."""
