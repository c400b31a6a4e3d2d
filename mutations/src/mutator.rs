//! Mutated inputs. Equal seeds give equal inputs.

use limo_trace::generate::Dice;

/// Words that many formats share, and numbers at the limits of types.
const WORDS: [&[u8]; 30] = [
    b"\n",
    b"\r\n",
    b" ",
    b",",
    b":",
    b";",
    b"=",
    b"\"",
    b"'",
    b"\\",
    b"#",
    b"{",
    b"}",
    b"[",
    b"]",
    b"<a>",
    b"</a>",
    b"&#0;",
    b"-",
    b"0",
    b".5",
    b"1e999",
    b"NaN",
    b"4294967296",
    b"9223372036854775807",
    b"-9223372036854775808",
    b"99999999999999999999",
    b"\xff",
    b"\x00",
    "é".as_bytes(),
];

/// Most bytes of an input.
const LONGEST: usize = 64 << 10;

/// Makes inputs.
#[derive(Debug)]
pub struct Mutator {
    dice: Dice,
    words: Vec<Vec<u8>>,
}

impl Mutator {
    /// Makes a mutator that also inserts `words`.
    pub fn new(seed: u64, words: &[&str]) -> Self {
        let words = words.iter().map(|word| word.as_bytes()).chain(WORDS).map(<[u8]>::to_vec).collect();
        Self { dice: Dice::of_purpose(seed, 0), words }
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.dice.unit() * limit as f64) as usize
    }

    fn word(&mut self) -> Vec<u8> {
        let index = self.below(self.words.len());
        self.words[index].clone()
    }

    /// Returns a new input, which mostly resembles one of `seeds`. There must be one.
    pub fn input(&mut self, seeds: &[Vec<u8>]) -> Vec<u8> {
        if self.below(16) == 0 {
            let count = self.below(40);
            return (0..count).flat_map(|_| self.word()).collect();
        }
        let index = self.below(seeds.len());
        self.mutated(&seeds[index], seeds)
    }

    /// Replaces up to five short parts of `seed` by words, random bytes, parts of `seeds`, or nothing.
    fn mutated(&mut self, seed: &[u8], seeds: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = seed.to_vec();
        for _ in 0..=self.below(5) {
            let from = self.below(bytes.len() + 1);
            let until = (from + self.below(12)).min(bytes.len());
            let (until, part) = match self.below(7) {
                0 => (until, Vec::new()),
                1 => (until, self.part(seeds)),
                2 => (until.min(from + 1), vec![self.below(256) as u8]),
                3 => (until, self.word()),
                4 => (from, self.word()),
                // Doubles a part.
                5 => (from, bytes[from..until].to_vec()),
                _ => (until, bytes[from..until].iter().map(|byte| byte ^ (1 << (from % 8))).collect()),
            };
            bytes.splice(from..until, part);
        }
        if self.below(10) == 0 {
            bytes.truncate(self.below(bytes.len() + 1));
        }
        bytes.truncate(LONGEST);
        bytes
    }

    fn part(&mut self, seeds: &[Vec<u8>]) -> Vec<u8> {
        let index = self.below(seeds.len());
        let from = self.below(seeds[index].len() + 1);
        let until = (from + self.below(60)).min(seeds[index].len());
        seeds[index][from..until].to_vec()
    }
}
