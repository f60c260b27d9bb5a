#!/usr/bin/env python3
"""Write the messages of RFC 4475 and RFC 5118 as .dat files into this folder.

    extract.py rfc4475.txt rfc5118.txt

The files are committed, so this is needed only to show where they come from.
RFC 4475 carries its messages as a base64 archive (tar, gzip) in Appendix A.
RFC 5118 prints them as text, indented by six columns; lines between the two
allOneLine marks belong together without a line break.

The archive goes to rfc4475.b64 and the printed messages to rfc5118.txt, both
as the RFC has them. The test `torture_copies` compares every .dat file with
them.
"""
import base64
import gzip
import io
import pathlib
import re
import sys
import tarfile

HERE = pathlib.Path(__file__).resolve().parent
PAGE_FOOT = re.compile(r'^(Sparks|Gurbani), et al\.\s.*\[Page \d+\]$')
PAGE_HEAD = re.compile(r'^RFC (4475|5118)\s.*\s20\d\d$')


def lines_without_pages(path):
    """The RFC's lines without page feet and heads and the blanks around them."""
    out = []
    skip_blanks = False
    for line in pathlib.Path(path).read_text('latin-1').replace('\f', '').split('\n'):
        line = line.rstrip()
        if PAGE_FOOT.match(line):
            while out and not out[-1]:
                out.pop()
            skip_blanks = True
            continue
        if PAGE_HEAD.match(line):
            skip_blanks = True
            continue
        if skip_blanks and not line:
            continue
        skip_blanks = False
        out.append(line)
    return out


def archive_lines(path):
    """The lines of the archive between the two marks."""
    text = []
    inside = False
    for line in lines_without_pages(path):
        if '-- BEGIN MESSAGE ARCHIVE --' in line and line.strip().startswith('--'):
            inside = True
        elif '-- END MESSAGE ARCHIVE --' in line and line.strip().startswith('--'):
            inside = False
        elif inside and line.strip():
            text.append(line.strip())
    return text


def rfc4475(path):
    """The archive, unpacked: {name: bytes}."""
    archive = gzip.decompress(base64.b64decode(''.join(archive_lines(path))))
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        messages = {pathlib.Path(m.name).stem: tar.extractfile(m).read() for m in tar if m.isfile()}
    # The archive's copy lacks the empty line that ends the message in the text (section 3.1.2.15).
    messages['baddn'] += b'\r\n'
    return messages


def rfc5118_lines(path):
    """The lines that rfc5118() reads: the names, and what is indented below them."""
    out, inside = [], False
    for line in lines_without_pages(path):
        if re.match(r'^\s+Message Details: \S+$', line):
            inside = True
        elif line and not line.startswith('      '):
            inside = False
        if inside:
            out.append(line)
    return out


def true_length(message):
    """The printed bodies are not octet exact, so Content-Length is made to fit what is printed."""
    head, _, body = message.partition(b'\r\n\r\n')
    head = re.sub(rb'(?m)^(Content-Length: )\d+', rb'\g<1>%d' % len(body), head)
    return head + b'\r\n\r\n' + body


def rfc5118(path):
    """Every indented block after `Message Details: NAME`: {name: bytes}."""
    out, name, block, joined = {}, None, [], None
    for line in lines_without_pages(path) + ['end']:
        if line and not line.startswith('      ') and name:
            while block and not block[-1]:
                block.pop()
            body = '\r\n'.join(block)
            # A message without body ends with the blank line that the RFC's layout swallowed.
            out[name] = true_length((body + ('\r\n' if '\r\n\r\n' in body else '\r\n\r\n')).encode())
            name, block = None, []
        found = re.match(r'^\s+Message Details: (\S+)$', line)
        if found:
            name, block, joined = found.group(1), [], None
            continue
        if not name or (not line and not block):
            continue
        text = line[6:]
        if text.strip() == '<allOneLine>':
            joined = ''
        elif text.strip() == '</allOneLine>':
            block.append(joined)
            joined = None
        elif joined is not None:
            joined += text
        else:
            block.append(text)
    return out


def main():
    (HERE / 'rfc4475.b64').write_text('\n'.join(archive_lines(sys.argv[1])) + '\n')
    (HERE / 'rfc5118.txt').write_text('\n'.join(rfc5118_lines(sys.argv[2])) + '\n')
    for folder, messages in (('rfc4475', rfc4475(sys.argv[1])), ('rfc5118', rfc5118(sys.argv[2]))):
        (HERE / folder).mkdir(exist_ok=True)
        for name, data in sorted(messages.items()):
            (HERE / folder / (name + '.dat')).write_bytes(data)
        print(folder, len(messages), 'messages')


if __name__ == '__main__':
    main()
