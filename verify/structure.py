"""The structure of the Rust sources, read as text: functions, types with their methods and fields, and which module
names which.

Comments and literals are blanked first, then braces are matched. Test code is left out: items under `#[cfg(test)]`,
the files that they declare, and folders named tests, benches and examples. It reads this project's formatted code, not
every Rust program: macros are not expanded.
"""
import pathlib
import re

WORD = r'[A-Za-z_][A-Za-z0-9_]*'
LITERAL = re.compile(
    r'//[^\n]*'
    r'|/\*.*?\*/'
    r'|b?r(?P<fence>#*)".*?"(?P=fence)'
    r'|[bc]?"(?:[^"\\]|\\.)*"'
    r"|b?'(?:[^'\\\n]|\\(?:u\{[^}]*\}|x..|.))'",
    re.S,
)
FUNCTION = re.compile(r'\bfn\s+(' + WORD + r')')
IMPL = re.compile(r'^[ \t]*(?:unsafe\s+)?impl\b', re.M)
STRUCT = re.compile(r'\bstruct\s+(' + WORD + r')')
TEST_ITEM = re.compile(r'#\[cfg\(test\)\]')
FIELD = re.compile(r'\s*(?:pub(?:\([^)]*\))?\s+)?' + WORD + r'\s*:(?!:)')


def blank(text):
    """The text with comments and literals as spaces of the same length."""
    return LITERAL.sub(lambda m: re.sub(r'[^\n]', ' ', m.group()), text)


def closing(text, at, pair='{}'):
    """The place after the bracket that closes the one at `at`."""
    depth = 0
    for place in range(at, len(text)):
        if text[place] == pair[0]:
            depth += 1
        elif text[place] == pair[1]:
            depth -= 1
            if depth == 0:
                return place + 1
    return len(text)


def end_of_field(text, at):
    """The place of the comma or bracket that ends the field that begins at `at`."""
    depth = 0
    for place in range(at, len(text)):
        char = text[place]
        if depth == 0 and char in ',}':
            return place
        if char in '([{' or char == '<':
            depth += 1
        elif char in ')]}' or char == '>' and text[place - 1] not in '-=':
            depth -= 1
    return len(text)


def without_tests(text):
    """The text without items under `#[cfg(test)]`, and the names of the modules that those declare."""
    declared = set()
    while (found := TEST_ITEM.search(text)) is not None:
        body, end = text.find('{', found.end()), text.find(';', found.end())
        if FIELD.match(text, found.end()):
            stop = end_of_field(text, found.end())
        elif body < 0 or 0 <= end < body:
            stop = end + 1 if end >= 0 else len(text)
            declared.update(re.findall(r'\bmod\s+(' + WORD + r')\s*;', text[found.end():stop]))
        else:
            stop = closing(text, body)
        text = text[:found.start()] + re.sub(r'[^\n]', ' ', text[found.start():stop]) + text[stop:]
    return text, declared


def generics(text, at):
    """The place after the generic parameters that begin at `at`, if there are any."""
    if at >= len(text) or text[at] != '<':
        return at
    depth = 0
    for place in range(at, len(text)):
        if text[place] == '<':
            depth += 1
        elif text[place] == '>' and text[place - 1] not in '-=':
            depth -= 1
            if depth == 0:
                return place + 1
    return len(text)


def parts(text):
    """The parts between the commas of a list that stand outside all brackets."""
    depth, last, found = 0, 0, []
    for place, char in enumerate(text):
        if char in '([{' or char == '<':
            depth += 1
        elif char in ')]}' or char == '>' and text[place - 1] not in '-=':
            depth -= 1
        elif char == ',' and depth == 0:
            found.append(text[last:place])
            last = place + 1
    return [part.strip() for part in found + [text[last:]] if part.strip()]


class Function:
    """A function with a body: its name, file and line, parameters besides self, lines, and the type it belongs to."""

    def __init__(self, name, file, line, parameters, lines, owner, mutates):
        self.name, self.file, self.line = name, file, line
        self.parameters, self.lines = parameters, lines
        self.owner, self.mutates = owner, mutates


class File:
    """A file of production code."""

    def __init__(self, path, text):
        self.path = path
        self.text, self.test_modules = without_tests(blank(text))
        self.functions = list(self._functions())
        self.structs = {name: fields for name, fields in self._structs()}

    def _line(self, at):
        return self.text.count('\n', 0, at) + 1

    def _impls(self):
        """Inherent implementations: type, begin and end."""
        for found in IMPL.finditer(self.text):
            at = found.end()
            while at < len(self.text) and self.text[at].isspace():
                at += 1
            at = generics(self.text, at)
            body = self.text.find('{', at)
            head = self.text[at:body].split(' where ')[0]
            if re.search(r'\bfor\s', head):
                continue
            name = re.match(r'\s*(?:&\s*)?(?:' + WORD + r'::)*(' + WORD + ')', head)
            if name:
                yield name.group(1), body, closing(self.text, body)

    def _functions(self):
        impls = list(self._impls())
        for found in FUNCTION.finditer(self.text):
            at = generics(self.text, found.end())
            if at >= len(self.text) or self.text[at] != '(':
                continue
            end = closing(self.text, at, '()')
            listed = parts(self.text[at + 1:end - 1])
            itself = [p for p in listed if re.fullmatch(r"(?:&\s*(?:'\w+\s+)?)?(?:mut\s+)?self(?:\s*:.*)?", p, re.S)]
            body = re.search(r'[{;]', self.text[end:])
            if body is None or body.group() == ';':
                continue
            start = end + body.start()
            stop = closing(self.text, start)
            owner = next((name for name, first, last in impls if first < found.start() < last), None)
            yield Function(
                found.group(1), self.path, self._line(found.start()), len(listed) - len(itself),
                self.text.count('\n', found.start(), stop) + 1, owner,
                any('mut' in p and '&' in p for p in itself),
            )

    def _structs(self):
        for found in STRUCT.finditer(self.text):
            at = generics(self.text, found.end())
            rest = re.match(r'[^;{(]*', self.text[at:])
            at += rest.end()
            if at < len(self.text) and self.text[at] == '{':
                body = self.text[at + 1:closing(self.text, at) - 1]
                yield found.group(1), len([p for p in parts(re.sub(r'#\[[^\]]*\]', '', body)) if ':' in p])


class Crate:
    """The production code of a crate, by modules."""

    def __init__(self, root):
        self.root = pathlib.Path(root)
        source = self.root / 'src'
        files = {path: File(path, path.read_text()) for path in sorted(source.rglob('*.rs'))}
        tests = set()
        for path, file in files.items():
            folder = path.parent if path.stem in ('lib', 'main', 'mod') else path.parent / path.stem
            for name in file.test_modules:
                tests.update(p for p in files if p == folder / f'{name}.rs' or (folder / name) in p.parents)
        skipped = {'tests', 'benches', 'examples', 'bin'}
        self.files = {
            self._module(path.relative_to(source)): file for path, file in files.items()
            if path not in tests and not skipped & set(path.relative_to(source).parts)
        }

    @staticmethod
    def _module(path):
        names = list(path.with_suffix('').parts)
        if names[-1] in ('lib', 'main', 'mod'):
            names.pop()
        return tuple(names)

    def functions(self):
        return [f for file in self.files.values() for f in file.functions]

    def methods(self):
        """The inherent methods of each type."""
        found = {}
        for function in self.functions():
            if function.owner:
                found.setdefault(function.owner, []).append(function)
        return found

    def structs(self):
        return {name: (fields, file) for file in self.files.values() for name, fields in file.structs.items()}

    def circles(self):
        """Sets of modules that name each other, each in order."""
        return strongly_connected({name: self._named(name) for name in self.files})

    def _named(self, module):
        """The modules that a module names by paths, with what `pub use` hands on followed to where it is defined."""
        named = set()
        for path in self._paths(module):
            target = self._resolve(path)
            if target is not None and target != module:
                named.add(target)
        return named

    def _paths(self, module):
        """Paths from the root of the crate that stand in a module, as tuples of names."""
        text = self.files[module].text
        uses = []
        for found in re.finditer(r'(?<!pub )(?<!pub\(crate\) )\buse\s+([^;]+);', text):
            uses += expand(re.sub(r'\s+', ' ', found.group(1)))
        plain = re.sub(r'\buse\s+[^;]+;', '', text)
        uses += [tuple(p.split('::')) for p in re.findall(r'\b((?:crate|super|self)(?:::' + WORD + r')+)', plain)]
        # What begins with a child's name.
        children = {m[-1] for m in self.files if m[:-1] == module and m}
        uses += [
            ('self', *p.split('::')) for p in re.findall(r'(?<![:\w])(' + WORD + r'(?:::' + WORD + r')+)', plain)
            if p.split('::')[0] in children
        ]
        for path in uses:
            names, base = list(path), None
            if names[0] == 'crate':
                base, names = (), names[1:]
            elif names[0] == 'self':
                base, names = module, names[1:]
            elif names[0] == 'super':
                base = module
                while names and names[0] == 'super':
                    base, names = base[:-1], names[1:]
            elif names[0] in children:
                base = module
            if base is not None:
                yield base + tuple(names)

    def _resolve(self, path, depth=0):
        """The module whose item a path names."""
        module = ()
        for count in range(len(path), -1, -1):
            if path[:count] in self.files:
                module = path[:count]
                break
        rest = path[len(module):]
        if not rest or depth > 4:
            return module
        # Handed on from somewhere else?
        text = self.files[module].text
        for found in re.finditer(r'\bpub(?:\([^)]*\))?\s+use\s+([^;]+);', text):
            for handed in expand(re.sub(r'\s+', ' ', found.group(1))):
                if handed[-1] == rest[0]:
                    names = list(handed)
                    base = module
                    if names[0] == 'crate':
                        base, names = (), names[1:]
                    elif names[0] == 'self':
                        names = names[1:]
                    elif names[0] == 'super':
                        base, names = base[:-1], names[1:]
                    if base + tuple(names[:1]) in self.files:
                        return self._resolve(base + tuple(names), depth + 1)
        return module


def expand(tree):
    """The paths of a `use` tree."""
    tree = tree.strip()
    found = re.match(r'((?:' + WORD + r'::)*)\{(.*)\}$', tree)
    if not found:
        tree = tree.split(' as ')[0].strip()
        names = tuple(tree.split('::'))
        return [names[:-1] if names[-1] in ('self', '*') and len(names) > 1 else names]
    prefix = tuple(p for p in found.group(1).split('::') if p)
    return [prefix + rest if rest != ('self',) else prefix for part in parts(found.group(2)) for rest in expand(part)]


def strongly_connected(graph):
    """The circles of a graph (Tarjan), each as a sorted list."""
    index, low, stack, circles = {}, {}, [], []

    def visit(start):
        work = [(start, iter(sorted(graph.get(start, ()))))]
        index[start] = low[start] = len(index)
        stack.append(start)
        while work:
            node, nexts = work[-1]
            for other in nexts:
                if other not in graph:
                    continue
                if other not in index:
                    index[other] = low[other] = len(index)
                    stack.append(other)
                    work.append((other, iter(sorted(graph.get(other, ())))))
                    break
                if other in stack:
                    low[node] = min(low[node], index[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    members = []
                    while True:
                        members.append(stack.pop())
                        if members[-1] == node:
                            break
                    if len(members) > 1:
                        circles.append(sorted(members))

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return circles
