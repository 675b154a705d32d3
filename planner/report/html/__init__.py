"""A result as one offline HTML page: small pure builders of its sections, filled into templates."""

from __future__ import annotations

from planner.report.html.page import report_html

__all__ = ["report_html"]
