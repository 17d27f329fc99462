"""What an import says is wrong with a file, and what pages say instead, as in `api_sentences`."""

from __future__ import annotations

from workhook.web.frame.texts import text

OF_IMPORTS = {
    "it is the export of one card; export the board that the card is on": text(
        "This is the export of one card. Export the board that the card is on."
    ),
    "it is no export of a board: it has neither lists nor cards": text(
        "This is no export of a board: it has neither lists nor cards."
    ),
    "it is not JSON: %(error)s": text("This is not JSON: %(error)s"),
    "it is empty: the first line has to name the fields": text(
        "The file is empty. The first line has to name the fields."
    ),
    "line %(line)s: it is not CSV: %(error)s": text("Line %(line)s: this is not CSV: %(error)s."),
    "line %(line)s: it is not UTF-8; save the file as CSV in UTF-8": text(
        "Line %(line)s: this is not UTF-8. Save the file as CSV in UTF-8."
    ),
    "line 1: no field is called Title or Name; it has %(names)s": text(
        "No field in the first line is called Title or Name. It has: %(names)s."
    ),
    "line %(line)s: it has %(number)s fields, and the first line %(first)s: %(value)s is of none": text(
        "Line %(line)s has %(number)s fields, and the first line has %(first)s: %(value)s belongs to none."
    ),
    "line %(line)s, field %(name)s: %(value)s is that of line %(first)s, too": text(
        "Line %(line)s, %(name)s: line %(first)s has %(value)s, too."
    ),
    "line %(line)s, field %(name)s: %(value)s is no date; write 2026-11-20 or 2026-11-20T17:00:00Z": text(
        "Line %(line)s, %(name)s: %(value)s is no date. Write 2026-11-20 or 2026-11-20T17:00:00Z."
    ),
    "line %(line)s, field %(name)s: %(value)s is neither yes nor no nor a date such as 2026-11-20": text(
        "Line %(line)s, %(name)s: %(value)s is neither yes nor no nor a date such as 2026-11-20."
    ),
    "line %(line)s, field %(name)s: %(value)s is no time that a task may take; write 1h 30m or 1:30": text(
        "Line %(line)s, %(name)s: %(value)s is no duration. Write 1h 30m or 1:30."
    ),
}
