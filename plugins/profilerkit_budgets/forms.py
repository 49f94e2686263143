"""The results of a budget as text for a terminal, Markdown for a pull request, and JUnit XML for a CI server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from xml.etree import ElementTree as ET

from profilerkit.count_text import format_count
from profilerkit.foreign_text import visible
from profilerkit.piping.quantity import format_number
from profilerkit.render.grids import Grid

from .findings import Finding, Verdict

_MARKS = {Verdict.PASSED: "ok", Verdict.FAILED: "FAILED", Verdict.UNCERTAIN: "uncertain"}
#: The verdicts that break a budget, the worst first, as verbs of a limit.
_BROKEN = {Verdict.FAILED: "failed", Verdict.UNCERTAIN: "is uncertain"}


def summarize(findings: Sequence[Finding]) -> str:
    """Return in a sentence how many limits passed, failed or are uncertain."""
    counts = {verdict: sum(finding.verdict is verdict for finding in findings) for verdict in Verdict}
    parts = [f"{count} {verdict.value}" for verdict, count in counts.items() if count]
    return f"{format_count(len(findings), 'limit')}: {', '.join(parts)}"


def format_headline(findings: Sequence[Finding]) -> str:
    """Return in a line which limit failed, by how much and in which layer; an empty text if none failed.

    The first limit that failed, or else the first that is uncertain, and how many others there are.
    """
    broken = [finding for verdict in _BROKEN for finding in findings if finding.verdict is verdict]
    if not broken:
        return ""
    first = broken[0]
    text = f"{name_finding(first)} {_BROKEN[first.verdict]}{_write_excess(first)}: {visible(first.detail)}"
    if first.responsible:
        text += f"; the largest part in layer {visible(first.responsible[0])}"
    return text + (f"; and {len(broken) - 1} more" if len(broken) > 1 else "")


def _write_excess(finding: Finding) -> str:
    """Return by how much a limit failed; an empty text for a limit of 0, and without a value."""
    if finding.excess is None or not finding.excess or finding.verdict is not Verdict.FAILED:
        return ""
    if finding.excess > 1:
        return f", {format_number(1 + finding.excess)} times the limit"
    side = "over" if finding.excess > 0 else "under"
    return f", {format_number(100 * abs(finding.excess))} % {side} the limit"


def format_text(findings: Sequence[Finding], name: str) -> str:
    """Return the headline, and a line for each finding, with the layers responsible below broken limits."""
    lines = [*filter(None, [format_headline(findings)]), visible(f"Budget of {name}")]
    width = max(len(name_finding(finding)) for finding in findings)
    for finding in findings:
        lines.append(f"  {_MARKS[finding.verdict]:<10} {name_finding(finding):<{width}}  {visible(finding.detail)}")
        lines += [f"  {'':<10}   {visible(text)}" for text in _list_remarks(finding)]
    return "\n".join([*lines, summarize(findings)])


def format_markdown(findings: Sequence[Finding], name: str) -> str:
    """Return the headline, and a table of the findings, with the layers responsible in its last column."""
    from profilerkit.render.markdown import escape, table

    rows = tuple(
        (_MARKS[finding.verdict], name_finding(finding), finding.detail, "; ".join(_list_remarks(finding)))
        for finding in findings
    )
    grid = Grid(f"Budget of {name}", ("Verdict", "Limit", "Value", "Responsible"), rows)
    headline = format_headline(findings)
    first = f"{escape(headline)}\n\n" if headline else ""
    return f"### {escape(grid.title)}\n\n{first}{table(grid)}\n\n{summarize(findings)}\n"


def format_junit(findings: Sequence[Finding], name: str) -> str:
    """Return a JUnit test suite with a case for each finding; an uncertain finding is skipped, with its detail."""
    return format_junit_suites({name: findings})


def format_junit_suites(findings_by_name: Mapping[str, Sequence[Finding]]) -> str:
    """Return a JUnit test suite for each model, by its name, like `format_junit`."""
    kinds = {Verdict.FAILED: "failure", Verdict.UNCERTAIN: "skipped"}
    suites = ET.Element("testsuites", _count_junit([*chain.from_iterable(findings_by_name.values())]))
    for name, findings in findings_by_name.items():
        title = visible(f"profilerkit budget of {name}")
        suite = ET.SubElement(suites, "testsuite", {"name": title, **_count_junit(findings)})
        for finding in findings:
            case = ET.SubElement(suite, "testcase", classname=visible(name), name=name_finding(finding))
            text = "\n".join(map(visible, (finding.detail, *_list_remarks(finding))))
            if finding.verdict is Verdict.PASSED:
                ET.SubElement(case, "system-out").text = text
            else:
                ET.SubElement(case, kinds[finding.verdict], message=visible(finding.detail)).text = text
    ET.indent(suites)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(suites, encoding="unicode")}\n'


def _count_junit(findings: Sequence[Finding]) -> dict[str, str]:
    """Return the attributes of a suite that count its cases."""
    counts = Counter(finding.verdict for finding in findings)
    failures, skipped = counts[Verdict.FAILED], counts[Verdict.UNCERTAIN]
    return {"tests": str(len(findings)), "failures": str(failures), "errors": "0", "skipped": str(skipped)}


def _list_remarks(finding: Finding) -> tuple[str, ...]:
    """Return the remarks below a finding: the layers responsible, and the note on the value."""
    return (*finding.responsible, *filter(None, [finding.note]))


def name_finding(finding: Finding) -> str:
    """Return the limit as text, for a layer with the path that it was checked for in place of its pattern."""
    limit = finding.limit
    return visible(str(limit) if limit.pattern is None else f"{finding.subject}: {limit.condition}")


#: The forms by name, for the command line.
FORMS: dict[str, Callable[[Sequence[Finding], str], str]] = {
    "console": format_text,
    "markdown": format_markdown,
    "junit": format_junit,
}
