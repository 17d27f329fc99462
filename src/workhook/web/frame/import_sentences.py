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
    "line %(line)s: more than %(most)s lines are not read; part the file into several": text(
        "Line %(line)s: more than %(most)s lines are not read. Part the file into several."
    ),
    "line %(line)s: more than %(most)s values are not read; part the file into several": text(
        "Line %(line)s: more than %(most)s values can't be imported at once. Split the file."
    ),
    "it has more than %(most)s values; part it into several files": text(
        "This file has more than %(most)s values. Split it into several files."
    ),
    "%(name)s has %(number)s entries; at most %(most)s are read": text(
        "%(name)s has %(number)s entries. At most %(most)s can be imported at once. Split the file."
    ),
    "it takes too long to read; part the file into several": text(
        "This file takes too long to read. Split it into several files."
    ),
    "line %(line)s: it is not CSV": text("Line %(line)s: this is not CSV."),
    "line %(line)s, column %(column)s: the quotation mark that opens here is not closed": text(
        "Line %(line)s, column %(column)s: the quotation mark that opens here is not closed."
    ),
    "line %(line)s, column %(column)s: %(value)s stands behind a quotation mark; within a text write it twice": (
        text(
            "Line %(line)s, column %(column)s: %(value)s stands behind a quotation mark. Within a text write it twice."
        )
    ),
    "line %(line)s, column %(column)s: the field that begins here has more than %(most)s characters": text(
        "Line %(line)s, column %(column)s: the field that begins here has more than %(most)s characters."
    ),
    "line %(line)s, column %(column)s: the field that begins here has more than %(most)s characters; perhaps its "
    "quotation mark is not closed": text(
        "Line %(line)s, column %(column)s: the field that begins here has more than %(most)s characters. Perhaps its "
        "quotation mark is not closed."
    ),
    "line %(line)s, column %(column)s: it has a NUL character; save the file as CSV in UTF-8": text(
        "Line %(line)s, column %(column)s: this is a NUL character. Save the file as CSV in UTF-8."
    ),
    "it is not UTF-8 and was read as Windows-1252: %(words)s": text(
        "The file is not UTF-8 and was read as Windows-1252: %(words)s"
    ),
    "it is an Excel file: save it as CSV (UTF-8) and import that": text(
        "This is an Excel file: save it as CSV (UTF-8) and import that."
    ),
    "it is an OpenDocument file: save it as CSV (UTF-8) and import that": text(
        "This is an OpenDocument file: save it as CSV (UTF-8) and import that."
    ),
    "it is a Numbers file: save it as CSV (UTF-8) and import that": text(
        "This is a Numbers file: export it as CSV (UTF-8) and import that."
    ),
    "it is a packed file (ZIP): unpack it and import what is in it": text(
        "This is a packed file (ZIP). Unpack it and import what is in it."
    ),
    "it is a PDF, and no table: export CSV or JSON from the program that made it": text(
        "This is a PDF and no table. Export CSV or JSON from the program that made it."
    ),
    "it is nested too deeply": text("Its parts are nested too deeply."),
    "it has a number of more than %(most)s digits": text("It has a number of more than %(most)s digits."),
    "it is neither UTF-8 nor UTF-16 or -32; save the file in UTF-8": text("This is not UTF-8. Save the file in UTF-8."),
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
    "line %(line)s, field %(name)s: %(value)s is no date; write 2026-11-20, 20.11.2026 or 2026-11-20T17:00:00Z": text(
        "Line %(line)s, %(name)s: %(value)s is no date. Write 2026-11-20, 20.11.2026 or 2026-11-20T17:00:00Z."
    ),
    "line %(line)s, field %(name)s: %(value)s is neither yes nor no nor a date such as 2026-11-20 or 20.11.2026": text(
        "Line %(line)s, %(name)s: %(value)s is neither yes nor no nor a date such as 2026-11-20 or 20.11.2026."
    ),
    "line %(line)s, field %(name)s: %(value)s is no time that a task may take; write 1h 30m or 1:30": text(
        "Line %(line)s, %(name)s: %(value)s is no duration. Write 1h 30m or 1:30."
    ),
}
