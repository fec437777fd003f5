"""The report page: parts made of SVG and HTML text, no drawing library."""

from vitalrank.report.page import check_page, make_page, results_of, summary_sentence, write_report

__all__ = ["check_page", "make_page", "results_of", "summary_sentence", "write_report"]
