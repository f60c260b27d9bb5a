#!/usr/bin/env python3
"""What `structure.py` reads in a small crate, and that it is not misled by literals, comments, generics and tests."""
import pathlib
import tempfile
import unittest

import structure

LIB = r'''
mod a;
mod b;
mod c;
pub use c::Seen;
#[cfg(test)]
mod tests;
/// Not `fn documented(a, b)` {
pub struct Big<T: Fn(u8) -> u8> { one: Vec<(u8, T)>, #[doc = "x: y"] two: &'static str, }
impl<T: Fn(u8) -> u8> Big<T> {
    pub fn set(&mut self, a: u8, b: (u8, u8), c: impl Fn(u8, u8) -> u8) -> char { '{' }
    fn text(&self) -> &str { "fn not_one(a: u8) { \" }" }
    fn raw() -> &'static str { r#"}" fn nor_this() {"# }
}
impl<T> core::fmt::Debug for Big<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result { Ok(()) }
}
'''
A = 'use crate::b::{self, B};\npub fn f(_: B) {\n    b::g();\n}\n#[cfg(test)]\nmod tests {\n    use crate::c::C;\n}\n'
B = 'use crate::Seen;\npub struct B;\npub fn g() {}\nfn seen(_: Seen) {}\n'
C = 'pub struct C;\npub struct Seen;\nfn back() { super::a::f(crate::b::B); }\n'


class Reading(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        source = pathlib.Path(self.folder.name) / 'src'
        source.mkdir()
        for name, text in (('lib', LIB), ('a', A), ('b', B), ('c', C), ('tests', 'use crate::a;\nfn of_a_test() {}\n')):
            (source / f'{name}.rs').write_text(text)
        self.crate = structure.Crate(self.folder.name)

    def tearDown(self):
        self.folder.cleanup()

    def test_functions_have_their_parameters_owners_and_lines(self):
        functions = {f.name: f for f in self.crate.functions()}
        self.assertEqual(set(functions), {'set', 'text', 'raw', 'fmt', 'f', 'g', 'seen', 'back'})
        self.assertEqual((functions['set'].parameters, functions['set'].owner), (3, 'Big'))
        self.assertTrue(functions['set'].mutates and not functions['text'].mutates)
        self.assertEqual((functions['fmt'].owner, functions['f'].lines), (None, 3))
        self.assertEqual(len(self.crate.methods()['Big']), 3)

    def test_fields_are_counted(self):
        self.assertEqual(self.crate.structs()['Big'][0], 2)

    def test_circles_are_found_through_what_is_handed_on(self):
        self.assertEqual(self.crate.circles(), [[('a',), ('b',), ('c',)]])

    def test_names_of_tests_make_no_circle(self):
        (pathlib.Path(self.folder.name) / 'src' / 'c.rs').write_text('pub struct C;\npub struct Seen;\n')
        self.assertEqual(structure.Crate(self.folder.name).circles(), [])


if __name__ == '__main__':
    unittest.main()
