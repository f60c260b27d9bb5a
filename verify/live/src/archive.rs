//! Reads the archive of RFC 4475 Appendix A: base64, gzip (RFC 1952), tar. Plain and slow; it panics at
//! whatever it does not know.

/// The files of a tar archive in gzip in base64, with their names.
pub fn unpack(base64: &str) -> Vec<(String, Vec<u8>)> {
    untar(&gunzip(&decode(base64)))
}

fn decode(text: &str) -> Vec<u8> {
    let (mut out, mut bits, mut count) = (Vec::new(), 0u32, 0);
    for b in text.bytes().filter(|b| !b.is_ascii_whitespace() && *b != b'=') {
        let digit = match b {
            b'A'..=b'Z' => b - b'A',
            b'a'..=b'z' => b - b'a' + 26,
            b'0'..=b'9' => b - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => panic!("no base64: {b:#x}"),
        };
        (bits, count) = (bits << 6 | u32::from(digit), count + 6);
        if count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
        }
    }
    out
}

fn gunzip(bytes: &[u8]) -> Vec<u8> {
    assert_eq!(&bytes[..3], [0x1f, 0x8b, 8], "no gzip");
    assert_eq!(bytes[3], 0, "optional fields of a gzip header");
    let (body, end) = bytes[10..].split_at(bytes.len() - 18);
    let out = Inflate { bytes: body, at: 0, out: Vec::new() }.run();
    assert_eq!(&(out.len() as u32).to_le_bytes(), &end[4..], "the length in the trailer");
    out
}

/// RFC 1951.
struct Inflate<'a> {
    bytes: &'a [u8],
    /// In bits.
    at: usize,
    out: Vec<u8>,
}

/// A Huffman code: how many codes there are of each length, and the symbols in the order of their codes.
struct Code {
    counts: [u16; 16],
    symbols: Vec<u16>,
}

impl Code {
    fn new(lengths: &[u8]) -> Code {
        let mut counts = [0; 16];
        for &len in lengths.iter().filter(|&&len| len > 0) {
            counts[usize::from(len)] += 1;
        }
        let mut symbols: Vec<u16> =
            (0..lengths.len() as u16).filter(|&s| lengths[usize::from(s)] > 0).collect();
        symbols.sort_by_key(|&s| lengths[usize::from(s)]);
        Code { counts, symbols }
    }
}

impl Inflate<'_> {
    fn bits(&mut self, count: usize) -> usize {
        let bit = |at: usize| usize::from(self.bytes[at / 8] >> (at % 8) & 1);
        let value = (0..count).map(|i| bit(self.at + i) << i).sum();
        self.at += count;
        value
    }

    fn symbol(&mut self, code: &Code) -> usize {
        let (mut word, mut first, mut index) = (0, 0, 0);
        for len in 1..16 {
            word |= self.bits(1) as u16;
            let count = code.counts[len];
            if word - first < count {
                return usize::from(code.symbols[usize::from(index + word - first)]);
            }
            (index, first) = (index + count, (first + count) << 1);
            word <<= 1;
        }
        panic!("no such code");
    }

    fn run(mut self) -> Vec<u8> {
        loop {
            let last = self.bits(1) == 1;
            match self.bits(2) {
                0 => self.stored(),
                1 => {
                    let of = |s: usize| {
                        [8, 9, 7, 8][usize::from(s > 143) + usize::from(s > 255) + usize::from(s > 279)]
                    };
                    let lengths: Vec<u8> = (0..288).map(of).collect();
                    self.block(&Code::new(&lengths), &Code::new(&[5; 30]));
                }
                2 => self.dynamic(),
                _ => panic!("no such block"),
            }
            if last {
                return self.out;
            }
        }
    }

    fn stored(&mut self) {
        let start = self.at.div_ceil(8);
        let len = usize::from(u16::from_le_bytes([self.bytes[start], self.bytes[start + 1]]));
        self.out.extend_from_slice(&self.bytes[start + 4..start + 4 + len]);
        self.at = 8 * (start + 4 + len);
    }

    fn dynamic(&mut self) {
        const ORDER: [usize; 19] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];
        let (literals, distances, count) = (self.bits(5) + 257, self.bits(5) + 1, self.bits(4) + 4);
        let mut lengths = [0; 19];
        for &place in &ORDER[..count] {
            lengths[place] = self.bits(3) as u8;
        }
        let code = Code::new(&lengths);
        let mut lengths: Vec<u8> = Vec::new();
        while lengths.len() < literals + distances {
            let (value, times) = match self.symbol(&code) {
                16 => (*lengths.last().unwrap(), 3 + self.bits(2)),
                17 => (0, 3 + self.bits(3)),
                18 => (0, 11 + self.bits(7)),
                len => (len as u8, 1),
            };
            lengths.extend(std::iter::repeat_n(value, times));
        }
        let (literals, distances) = lengths.split_at(literals);
        self.block(&Code::new(literals), &Code::new(distances));
    }

    fn block(&mut self, literals: &Code, distances: &Code) {
        loop {
            match self.symbol(literals) {
                literal @ 0..256 => self.out.push(literal as u8),
                256 => return,
                length => {
                    let length = match length - 257 {
                        n @ 0..8 => n + 3,
                        28 => 258,
                        n => ((4 + n % 4) << (n / 4 - 1)) + 3 + self.bits(n / 4 - 1),
                    };
                    let distance = match self.symbol(distances) {
                        n @ 0..4 => n + 1,
                        n => ((2 + n % 2) << (n / 2 - 1)) + 1 + self.bits(n / 2 - 1),
                    };
                    for _ in 0..length {
                        self.out.push(self.out[self.out.len() - distance]);
                    }
                }
            }
        }
    }
}

/// The plain files of a tar archive.
fn untar(mut bytes: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    while bytes.len() >= 512 && bytes[0] != 0 {
        let (head, rest) = bytes.split_at(512);
        let text = |range: std::ops::Range<usize>| {
            let field = head[range].split(|&b| b == 0).next().unwrap();
            String::from_utf8(field.to_vec()).unwrap().trim().to_owned()
        };
        let size = usize::from_str_radix(&text(124..136), 8).unwrap();
        if matches!(head[156], 0 | b'0') {
            files.push((text(0..100), rest[..size].to_vec()));
        }
        bytes = rest.get(size.next_multiple_of(512)..).unwrap_or(b"");
    }
    files
}
