#!/usr/bin/env python3
"""Check documents, comments and test names by the rules of style that a program can hold.

    verify/prose.py [--list RULE] [--write]

Rules, each counted in every file:

- sentence: more than 40 words, in Markdown outside code and tables, and in comments
- column: a line of Markdown outside tables and code over 120 columns, a comment over 110
- phrase: a phrase that has a plainer word
- numerals: more than 20 in a page outside tables, code, docs/figures.md, docs/performance, docs/reference
- test: a name of a test over 60 characters
- size: a document over its size by more than a fifth

verify/prose.txt lists what is still over, by rule, file and count. A count may fall, and no line may be added. --write
writes that file anew; --list prints each place of a rule.
"""
import argparse
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
KNOWN = ROOT / 'verify' / 'prose.txt'
WORDS, MARKDOWN, COMMENT, NUMERALS, NAME = 40, 120, 110, 20, 60
SIZES = [
    (r'README\.md', 8_000), (r'docs/guide/.*\.md', 6_000), (r'docs/design/.*\.md', 6_000),
    (r'docs/performance/.*\.md|docs/figures\.md', 10_000), (r'ARCHITECTURE\.md', 20_000), (r'CHANGELOG\.md', 8_000),
]
FREE_OF_NUMERALS = re.compile(r'docs/(figures\.md|performance|reference|rfc-coverage)|CHANGELOG')
PHRASES = re.compile(
    r'\b(what is had|to be had|be had|told of|for want of|in turns|so many|of the sort|to the letter|at hand|of late'
    r'|calls? for help|somebody|whom|whoever|as nearly every one)\b', re.I)
# Reference pages are compared with the program by tests; records are as their runs wrote them.
SKIPPED = re.compile(r'^(docs/rfc-coverage\.md|docs/reference/configuration\.md|docs/reference/metrics\.md|lab/record/.*)$')


def sentences(text):
    """The sentences of a paragraph, without links and code."""
    text = re.sub(r'`[^`]*`', 'Code', text)
    text = re.sub(r'\]\([^)]*\)', ']', text)
    return re.split(r'(?<=[.!?])["”)*\]]*\s+(?=["“(*\[]*[A-Z])', text)


def paragraphs(lines):
    """Paragraphs as (line, text) out of numbered lines; a list item begins a new one."""
    first, words = None, []
    for number, line in lines:
        text = line.strip()
        if not text or re.match(r'([-*]|\d+\.|#+|>)\s', text):
            if words:
                yield first, ' '.join(words)
            first, words = None, []
        if text:
            first = first or number
            words.append(re.sub(r'^([-*]|\d+\.|#+|>)\s+', '', text))
    if words:
        yield first, ' '.join(words)


def prose_of(path, text):
    """The lines of a file that are prose, by blocks."""
    lines = list(enumerate(text.splitlines(), 1))
    if path.suffix == '.md':
        block, code = [], False
        for number, line in lines:
            if line.lstrip().startswith('```'):
                code = not code
                line = ''
            elif code or line.lstrip().startswith('|') or line.startswith('    '):
                line = ''
            block.append((number, line))
        yield block
        return
    block, code = [], False
    for number, line in lines:
        found = re.match(r'\s*//[/!]?(?: (.*)|$)', line) if path.suffix == '.rs' else None
        if found is None:
            if block:
                yield block
            block, code = [], False
            continue
        body = found.group(1) or ''
        if body.lstrip().startswith('```'):
            code = not code
            body = ''
        if code or body.lstrip().startswith('|') or body.startswith('    '):
            body = ''
        block.append((number, body))
    if block:
        yield block


def findings(path):
    """What is found in a file: rule, line, and what it says."""
    text = path.read_text(errors='replace')
    name = path.relative_to(ROOT).as_posix()
    markdown = path.suffix == '.md'
    if SKIPPED.match(name):
        return
    numerals = 0
    for block in prose_of(path, text):
        for line, paragraph in paragraphs(block):
            for sentence in sentences(paragraph):
                if len(sentence.split()) > WORDS:
                    yield 'sentence', line, sentence
            for found in PHRASES.finditer(paragraph):
                yield 'phrase', line, found.group()
            if markdown:
                numerals += len(re.findall(r'(?<![\w.])\d[\d,.]*', paragraph))
        for line, words in block:
            if markdown and len(words) > MARKDOWN:
                yield 'column', line, words
    if markdown and numerals > NUMERALS and not FREE_OF_NUMERALS.match(name):
        yield 'numerals', 1, f'{numerals} numerals'
    if path.suffix == '.rs':
        for line, words in enumerate(text.splitlines(), 1):
            if re.match(r'\s*//', words) and len(words) > COMMENT:
                yield 'column', line, words
        for found in re.finditer(r'#\[test\]\s*(?:#\[[^\]]*\]\s*)*(?:async )?fn (\w+)', text):
            if len(found.group(1)) > NAME:
                yield 'test', text.count('\n', 0, found.start(1)) + 1, found.group(1)
    for pattern, size in SIZES:
        if re.fullmatch(pattern, name) and len(text.encode()) > size * 6 // 5:
            yield 'size', 1, f'{len(text.encode())} bytes, {size} are the goal'


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--list', metavar='RULE', help='print each place of a rule')
    parser.add_argument('--write', action='store_true', help='write verify/prose.txt anew')
    args = parser.parse_args()
    listed = subprocess.run(['git', 'ls-files', '-co', '--exclude-standard', '*.md', '*.rs'],
                            cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.split()
    counts, sizes = {}, {}
    for name in sorted(listed):
        path = ROOT / name
        if not path.exists():
            continue
        for rule, line, what in findings(path):
            key = (rule, name)
            counts[key] = counts.get(key, 0) + 1
            if rule in ('size', 'numerals'):
                counts[key] = int(re.search(r'\d+', what).group())
            if rule == args.list:
                print(f'{name}:{line}: {what}')
    if args.write:
        body = ''.join(f'{rule} {name} {count}\n' for (rule, name), count in sorted(counts.items()))
        KNOWN.write_text('# What verify/prose.py still finds, by rule, file and count. A count may fall; no line is added.\n' + body)
        return 0
    known = {}
    for line in KNOWN.read_text().splitlines():
        if line and not line.startswith('#'):
            rule, name, count = line.split()
            known[rule, name] = int(count)
    bad = [f'{name}: {rule}: {count}' + (f', {known[rule, name]} allowed' if (rule, name) in known else '')
           for (rule, name), count in sorted(counts.items()) if count > known.get((rule, name), 0)]
    for line in bad:
        print('prose:', line, '(verify/prose.py --list', line.split(': ')[1] + ')')
    left = sum(1 for key in known if counts.get(key, 0) > 0)
    print(f'prose: {len(bad)} findings, {left} known ones left')
    return 1 if bad else 0


if __name__ == '__main__':
    sys.exit(main())
