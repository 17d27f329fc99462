"""Rules about names and sentences that a program can check. Each function yields what breaks its rule.

What broke a rule when the rule was made is listed here. These lists only ever get smaller: mend one, and take it out.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from scripts.source_rules import Source

SENTENCE_MAX_WORDS = 30

# A class name, and how many classes have it.
REPEATED_CLASSES: Mapping[str, int] = {
    "Listed": 2,
    "Wire": 2,  # for the type checker, and for the program
}
# Files of one folder whose names say nearly the same.
ALIKE_FILES: frozenset[tuple[str, str]] = frozenset({("app", "apps")})

_ENDING = re.compile(r"(?<=\w{3})(ings?|ers?|ed|es|s|e|_?\d+)$")
_LIKEWISE = re.compile(r"\blikewise\b", re.IGNORECASE)

_FENCE = re.compile(r"^ *(```|~~~).*?^ *\1 *$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"(`+).+?\1", re.DOTALL)
_TAG = re.compile(r"</?[a-z][^>]*>")
_HEADING = re.compile(r"^#+ .*$", re.MULTILINE)
_BLOCK = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*>|#]|\d+\. ))|\|")
_SENTENCE = re.compile(r"(?<=[.!?])[\"')*_]*\s+")
_WORD = re.compile(r"\w")


def class_name_violations(sources: Iterable[Source], known: Mapping[str, int]) -> Iterator[str]:
    """A class name that stands twice in the tree. `known`: how often each name may."""
    found: dict[str, list[str]] = defaultdict(list)
    for source in sources:
        for node in source.nodes:
            if isinstance(node, ast.ClassDef):
                found[node.name].append(f"{source.path}:{node.lineno}")
    for name, places in found.items():
        if len(places) > known.get(name, 1):
            yield f"{places[-1]}: the class name {name} is taken: {', '.join(places[:-1])}"
    for name, number in known.items():
        if len(found.get(name, ())) < number:
            yield f"REPEATED_CLASSES: {name} stands {len(found.get(name, ()))} times, not {number}: mend the list"


def file_name_violations(paths: Iterable[Path], known: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Two files or folders in one folder whose names differ by a number or an ending only, as `table` and `tables`."""
    alike: dict[tuple[Path, str], set[str]] = defaultdict(set)
    for path in paths:
        for each in (path, *path.parents):
            alike[each.parent, _ENDING.sub("", each.stem)].add(each.stem)
    pairs = {(names[0], names[1]): folder for (folder, _), found in alike.items() if len(names := sorted(found)) > 1}
    for pair in pairs.keys() - set(known):
        yield f"{pairs[pair]}: the names {' and '.join(pair)} differ by their endings only"
    for pair in set(known) - pairs.keys():
        yield f"ALIKE_FILES: {' and '.join(pair)} are not there any more: mend the list"


def likewise_violations(sources: Iterable[Source], documents: Iterable[Path]) -> Iterator[str]:
    """The word in a docstring or a document: it says nothing without the text above."""
    for source in sources:
        for node in source.nodes:
            if (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Constant)
                and _LIKEWISE.search(str(node.value.value))
            ):
                yield f'{source.path}:{node.lineno}: say what it does in place of "likewise"'
    for path in documents:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            if _LIKEWISE.search(line):
                yield f'{path}:{number}: say it in place of "likewise"'


def long_sentences(text: str) -> list[str]:
    """The sentences of a Markdown document that have more than `SENTENCE_MAX_WORDS` words.

    Code in a line counts as one word, blocks of code and HTML tags as none. A heading, an item of a list and a cell of
    a table end their sentences.
    """
    text = _TAG.sub(" ", _CODE.sub("code", _FENCE.sub("\n\n", text)))
    text = _HEADING.sub(r"\g<0>\n", text)
    sentences = [each for block in _BLOCK.split(text) for each in _SENTENCE.split(block)]
    return [each for each in sentences if sum(1 for word in each.split() if _WORD.search(word)) > SENTENCE_MAX_WORDS]


def sentence_violations(documents: Iterable[Path]) -> Iterator[str]:
    """Each sentence of the documents that has more than `SENTENCE_MAX_WORDS` words."""
    for path in documents:
        for sentence in long_sentences(path.read_text(encoding="utf-8")):
            words = sentence.split()
            yield f"{path}: more than {SENTENCE_MAX_WORDS} words: {' '.join(words[:10])} …"
