//! The lists beside this file, and what the model knows of the words in them.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::Path;

use portcullis::scan::tagger::Words;
use portcullis::scan::tagger::feature::Look;
use portcullis::scan::tagger::feature::Vocabulary;
use portcullis::scan::tagger::feature::list;
use portcullis::scan::tagger::feature::pair;
use portcullis::scan::tagger::token::Cutter;
use portcullis::scan::tagger::token::Token;

/// In how many entries of a list a word has to stand to be one that makes a street or a firm.
const MAKERS_MIN: usize = 3;

/// Entries by locale or language.
pub type List = BTreeMap<String, Vec<String>>;

/// All lists.
pub struct Lists {
    pub given: List,
    pub family: List,
    pub streets: List,
    pub firms: List,
    pub towns: List,
    pub regions: List,
    pub countries: List,
    pub calendar: List,
}

/// A vocabulary of nothing.
struct Nothing;

impl Vocabulary for Nothing {
    fn lists(&self, _: u32) -> u8 {
        0
    }
}

impl Lists {
    /// Reads the lists of a folder.
    pub fn read(folder: &Path) -> Result<Self, Box<dyn Error>> {
        let read = |name: &str| -> Result<List, Box<dyn Error>> {
            let text = fs::read_to_string(folder.join(name))?;
            let line = |line: &str| {
                let (key, values) = line.split_once('\t')?;
                Some((key.to_owned(), values.split('|').map(str::to_owned).collect()))
            };
            Ok(text.lines().filter_map(line).collect())
        };
        Ok(Self {
            given: read("given.txt")?,
            family: read("family.txt")?,
            streets: read("streets.txt")?,
            firms: read("firms.txt")?,
            towns: read("towns.txt")?,
            regions: read("regions.txt")?,
            countries: read("countries.txt")?,
            calendar: read("calendar.txt")?,
        })
    }

    /// Returns the words of all lists; `known` are those that count as themselves.
    pub fn words(&self, known: impl IntoIterator<Item = u32>) -> Words {
        let mut entries: Vec<(u32, u8)> = known.into_iter().map(|hash| (hash, list::KNOWN)).collect();
        let sorts = [
            (&self.given, list::GIVEN),
            (&self.family, list::FAMILY),
            (&self.towns, list::TOWN),
            (&self.regions, list::LAND),
            (&self.countries, list::LAND),
            (&self.calendar, list::CALENDAR),
        ];
        for (from, bit) in sorts {
            for entry in from.values().flatten() {
                // Of a name of several words only the pair is one: `new` alone is no town.
                match hashes(entry)[..] {
                    [only] => entries.push((only, bit)),
                    [first, second] => entries.push((pair(first, second), bit)),
                    [first, second, third] => {
                        entries.extend([(pair(first, second), bit), (pair(second, third), bit)]);
                    }
                    _ => {}
                }
            }
        }
        for (from, bit) in [(&self.streets, list::STREET), (&self.firms, list::FIRM)] {
            let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
            from.values()
                .flatten()
                .flat_map(|entry| hashes(entry))
                .for_each(|hash| *counts.entry(hash).or_default() += 1);
            let makers = counts.into_iter().filter(|(_, count)| *count >= MAKERS_MIN);
            entries.extend(makers.map(|(hash, _)| (hash, bit | list::KNOWN)));
        }
        Words::new(entries).expect("hashes of words fall anywhere")
    }
}

/// Returns the tokens of a text.
pub fn tokens(text: &str) -> Vec<Token> {
    let (mut cutter, mut tokens) = (Cutter::default(), Vec::new());
    cutter.push(text.as_bytes(), |token| tokens.push(token));
    cutter.finish(|token| tokens.push(token));
    tokens
}

/// Returns the hashes of a text's tokens.
pub fn hashes(text: &str) -> Vec<u32> {
    tokens(text).iter().map(|token| Look::of(token, &Nothing).hash()).collect()
}
