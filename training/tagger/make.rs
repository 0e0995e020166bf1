//! Sentences from templates and lists, with the places of what was put into them.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::Path;

use portcullis::scan::tagger::chain::Tag;
use serde::Deserialize;

use crate::chance::Chance;
use crate::lists::List;
use crate::lists::Lists;
use crate::sample::Sample;

/// How deep slots stand within slots at most.
const DEPTH_MAX: usize = 5;
/// The share of sentences that are forms, in percent of those of their group.
const FORMS_PERCENT: usize = 22;
/// Locales whose names are written family name first, without a space.
const UNSPACED: [&str; 4] = ["zh_CN", "zh_TW", "ja_JP", "ko_KR"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    name: String,
    labels: String,
    count: usize,
    locales: Vec<String>,
    /// The share of names and places from other countries.
    #[serde(default)]
    guests: f64,
    #[serde(default)]
    slots: BTreeMap<String, Vec<String>>,
    templates: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Groups {
    group: Vec<Group>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Forms {
    layouts: Vec<String>,
    labels: BTreeMap<String, BTreeMap<String, Vec<String>>>,
}

#[derive(Deserialize)]
struct AddressForm {
    first: Vec<String>,
    rest: Vec<String>,
    unit: Vec<String>,
    zip: Vec<String>,
}

#[derive(Deserialize)]
struct Firms {
    heads: Vec<String>,
    middles: Vec<String>,
    tails: Vec<String>,
    whole: Vec<String>,
}

/// Makes sentences.
pub struct Maker<'a> {
    lists: &'a Lists,
    groups: Vec<Group>,
    forms: Forms,
    firms: Firms,
    addresses: BTreeMap<String, AddressForm>,
    /// Of which form a locale's addresses are.
    families: BTreeMap<String, String>,
}

/// A part of a sentence.
type Part = (String, Option<Tag>);

impl<'a> Maker<'a> {
    /// Reads the templates of a folder.
    pub fn read(folder: &Path, lists: &'a Lists) -> Result<Self, Box<dyn Error>> {
        let text = |name: &str| fs::read_to_string(folder.join(name));
        let mut groups = Vec::new();
        for name in ["english.toml", "languages.toml", "stories.toml", "without.toml"] {
            groups.extend(toml::from_str::<Groups>(&text(name)?)?.group);
        }
        let mut addresses: toml::Table = toml::from_str(&text("addresses.toml")?)?;
        let families: BTreeMap<String, Vec<String>> =
            addresses.remove("families").ok_or("no families of addresses")?.try_into()?;
        let families = families
            .into_iter()
            .flat_map(|(form, locales)| locales.into_iter().map(move |locale| (locale, form.clone())));
        Ok(Self {
            lists,
            groups,
            forms: toml::from_str(&text("forms.toml")?)?,
            firms: toml::from_str(&text("firms.toml")?)?,
            addresses: toml::Value::Table(addresses).try_into()?,
            families: families.collect(),
        })
    }

    /// Returns the words of all templates, which count as themselves.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        let groups =
            self.groups.iter().flat_map(|group| group.templates.iter().chain(group.slots.values().flatten()));
        let labels = self.forms.labels.values().flat_map(|labels| labels.values().flatten());
        let addresses =
            self.addresses.values().flat_map(|form| form.first.iter().chain(&form.rest).chain(&form.unit));
        let firms = self.firms.heads.iter().chain(&self.firms.middles).chain(&self.firms.tails);
        groups.chain(labels).chain(addresses).chain(firms).map(String::as_str)
    }

    /// Makes all sentences.
    pub fn samples(&self) -> Vec<Sample> {
        let mut samples = Vec::new();
        for group in &self.groups {
            let mut chance = Chance::of(&group.name);
            for _ in 0..group.count {
                let is_form = chance.below(100) < FORMS_PERCENT
                    && group.templates.iter().any(|it| it.contains("{person}"));
                let template = if is_form {
                    pick(&self.forms.layouts, &mut chance)
                } else {
                    pick(&group.templates, &mut chance)
                };
                let mut parts = Vec::new();
                let mut filler = Filler { maker: self, group, chance: &mut chance };
                filler.fill(template, &mut parts, DEPTH_MAX);
                // Some sentences stand in a longer text.
                if !is_form && chance.below(6) == 0 {
                    parts.push((" ".to_owned(), None));
                    let next = pick(&group.templates, &mut chance);
                    Filler { maker: self, group, chance: &mut chance }.fill(next, &mut parts, DEPTH_MAX);
                }
                samples.push(sample(noisy(quoted(parts, &mut chance), &mut chance)));
            }
        }
        samples
    }

    /// Returns somebody's name in a locale with Latin letters.
    pub fn guest(&self, chance: &mut Chance) -> String {
        person(self.lists, guest_locale(self.lists, chance), chance)
    }
}

/// Fills one template.
struct Filler<'m, 'c> {
    maker: &'m Maker<'m>,
    group: &'m Group,
    chance: &'c mut Chance,
}

impl Filler<'_, '_> {
    fn fill(&mut self, template: &str, parts: &mut Vec<Part>, depth: usize) {
        let mut rest = template;
        while let Some((before, behind)) = rest.split_once('{') {
            let is_name = |slot: &str| {
                !slot.is_empty() && slot.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            };
            match behind.split_once('}').filter(|(slot, _)| is_name(slot)) {
                Some((slot, after)) => {
                    parts.push((before.to_owned(), None));
                    self.slot(slot, parts, depth);
                    rest = after;
                }
                None => {
                    parts.push((format!("{before}{{"), None));
                    rest = behind;
                }
            }
        }
        parts.push((rest.to_owned(), None));
    }

    fn slot(&mut self, slot: &str, parts: &mut Vec<Part>, depth: usize) {
        let slot = slot.trim_end_matches(|letter: char| letter.is_ascii_digit());
        if let Some(fillers) = self.group.slots.get(slot).filter(|_| depth > 0) {
            let filler = pick(fillers, self.chance);
            self.fill(filler, parts, depth - 1);
            return;
        }
        let lists = self.maker.lists;
        let guests = (self.group.guests * 100.0) as usize;
        let locale = pick(&self.group.locales, self.chance).as_str();
        let locale = if self.chance.below(100) < guests { guest_locale(lists, self.chance) } else { locale };
        let part = match slot {
            "person" => (person(lists, locale, self.chance), Some(Tag::Person)),
            "given" => (of(&lists.given, locale, self.chance), Some(Tag::Person)),
            "family" => (of(&lists.family, locale, self.chance), Some(Tag::Person)),
            "address" => (self.address(locale, true), Some(Tag::Address)),
            "street" => (self.address(locale, false), Some(Tag::Address)),
            "town" => (town(lists, locale, self.chance), Some(Tag::Location)),
            "region" => (of(&lists.regions, locale, self.chance), Some(Tag::Location)),
            "land" => (of(&lists.countries, &self.group.labels, self.chance), Some(Tag::Location)),
            "firm" => (self.firm(locale), Some(Tag::Organization)),
            _ => (self.plain(slot), None),
        };
        parts.push(part);
    }

    /// Returns what stands in a slot that is no finding.
    fn plain(&mut self, slot: &str) -> String {
        if let Some(kind) = slot.strip_prefix("l_") {
            let labels = self.maker.forms.labels.get(&self.group.labels).and_then(|labels| labels.get(kind));
            return labels.map_or_else(|| kind.to_owned(), |labels| pick(labels, self.chance).clone());
        }
        let chance = &mut *self.chance;
        let mut digits = |form: &str| drawn(form, chance);
        let forms: &[&str] = match slot {
            "date" => &[
                "##/##/19##",
                "19##-0#-1#",
                "1#.0#.20##",
                "1# May 20##",
                "March #, 19##",
                "0#-1#-19##",
                "20##/0#/2#",
                "#. 8. 20##",
            ],
            "time" => &["#:## pm", "1#:##", "0#:##", "#am", "1#h##"],
            "phone" => &[
                "###-###-####",
                "(###) ###-####",
                "+## ### #######",
                "0## ### ## ##",
                "+1 ### ### ####",
                "0#### ######",
                "########",
            ],
            "number" => &["#", "##", "###", "####", "1#", "2#"],
            "id" => &["########", "@@######", "####-####", "####################", "@##-####", "@@@-#####"],
            "amount" => {
                &["$###", "$#,###.##", "## EUR", "€##.##", "### dollars", "£##", "#,##0", "#### kr", "¥####"]
            }
            "email" => &[
                "@@@@@.@@@@@&example.com",
                "info&example.org",
                "@@@@##&mail.example",
                "@.@@@@@@&example.net",
            ],
            "url" => &[
                "https://www.example.com/@@@@/##",
                "http://@@@@@@.example.org",
                "https://docs.example.net/@@@/@@@@.html",
            ],
            _ => &["thing"],
        };
        let form = forms[digits("###").parse::<usize>().unwrap_or_default() % forms.len()];
        match slot {
            "email" | "url" => digits(form).to_lowercase(),
            _ => digits(form),
        }
    }

    /// Returns an address: all of it, or its first line.
    fn address(&mut self, locale: &str, is_whole: bool) -> String {
        let maker = self.maker;
        let known = maker.families.get(locale).map(|_| locale);
        let any: Vec<&str> = maker.families.keys().map(String::as_str).filter(|it| is_latin(it)).collect();
        let locale = known.unwrap_or_else(|| any[self.chance.below(any.len())]);
        let Some(form) = maker.families.get(locale).and_then(|form| maker.addresses.get(form)) else {
            return String::new();
        };
        let chance = &mut *self.chance;
        let separator = [", ", ", ", "\n", " "][chance.below(4)];
        let first = pick(&form.first, chance).clone();
        let mut text = if is_whole { pick(&form.rest, chance).replace("{first}", &first) } else { first };
        // Whatever country a street is in, texts put any town behind it.
        for (slot, value) in [
            ("{unit}", pick(&form.unit, chance).clone()),
            ("{zip}", drawn(&form.zip[chance.below(form.zip.len())], chance).to_uppercase()),
        ] {
            text = text.replace(slot, &value);
        }
        text = text.replace(';', if separator == ", " { "," } else { separator.trim_end_matches(' ') });
        let mut filled = String::new();
        let mut rest = text.as_str();
        while let Some((before, behind)) = rest.split_once('{') {
            let (slot, after) = behind.split_once('}').unwrap_or((behind, ""));
            filled.push_str(before);
            filled.push_str(&match slot {
                "n" => drawn(["#", "##", "##", "###", "####"][chance.below(5)], chance),
                "letter" => char::from(b'A' + chance.below(6) as u8).to_string(),
                "ab" => drawn("@@", chance).to_uppercase(),
                "street" => of(&maker.lists.streets, locale, chance),
                "town" => town(maker.lists, locale, chance),
                "region" => of(&maker.lists.regions, locale, chance),
                _ => of(&maker.lists.countries, "en", chance),
            });
            rest = after;
        }
        filled.push_str(rest);
        filled
    }

    fn firm(&mut self, locale: &str) -> String {
        let (firms, chance) = (&self.maker.firms, &mut *self.chance);
        let made = is_latin(locale) && chance.below(2) == 0;
        match (made, chance.below(5)) {
            (false, _) => of(&self.maker.lists.firms, locale, chance),
            (true, 0) => pick(&firms.whole, chance).clone(),
            (true, 1) => format!("{} {}", pick(&firms.heads, chance), pick(&firms.tails, chance)),
            (true, 2) => {
                format!("{} {}", of(&self.maker.lists.family, locale, chance), pick(&firms.tails, chance))
            }
            (true, 3) => format!("{} {}", pick(&firms.middles, chance), pick(&firms.tails, chance)),
            (true, _) => format!(
                "{} {} {}",
                pick(&firms.heads, chance),
                pick(&firms.middles, chance),
                pick(&firms.tails, chance)
            ),
        }
    }
}

/// Returns a name of a locale in one of its forms.
fn person(lists: &Lists, locale: &str, chance: &mut Chance) -> String {
    let given = of(&lists.given, locale, chance);
    let family = of(&lists.family, locale, chance);
    let initial = |name: &str| name.chars().next().map(String::from).unwrap_or_default();
    let other = of(&lists.family, locale, chance);
    let middle = of(&lists.given, locale, chance);
    if UNSPACED.contains(&locale) {
        let space =
            if locale == "ja_JP" && chance.below(3) == 0 { [" ", "\u{3000}"][chance.below(2)] } else { "" };
        return if chance.below(12) == 0 { given } else { format!("{family}{space}{given}") };
    }
    match chance.below(100) {
        _ if locale == "hu_HU" && chance.below(2) == 0 => format!("{family} {given}"),
        _ if matches!(locale, "es_ES" | "es_MX" | "pt_PT" | "pt_BR") && chance.below(4) == 0 => {
            format!("{given} {family} {other}")
        }
        _ if matches!(locale, "ru_RU" | "uk_UA" | "bg_BG") && chance.below(4) == 0 => {
            format!("{family} {given}")
        }
        0..58 => format!("{given} {family}"),
        58..64 => format!("{given} {}. {family}", initial(&middle)),
        64..69 => format!("{given} {middle} {family}"),
        69..74 => format!("{given} {family}-{other}"),
        74..78 => format!("{family}, {given}"),
        78..82 => format!("{}. {family}", initial(&given)),
        82..84 => format!("{}.{}. {family}", initial(&given), initial(&middle)),
        84..86 => format!("{given} {}.", initial(&family)),
        86..88 => format!(
            "{given} {} {family}",
            ["van", "de", "von", "da", "al", "bin", "van der", "di", "O'"][chance.below(9)]
        )
        .replace("' ", "'"),
        88..96 => given,
        _ => family,
    }
}

/// Returns a town as one writes it in texts of a locale.
fn town(lists: &Lists, locale: &str, chance: &mut Chance) -> String {
    let country = format!("@{}", locale.rsplit('_').next().unwrap_or_default());
    let world: Vec<&String> =
        lists.towns.keys().filter(|key| key.len() == 3 && key.starts_with('@')).collect();
    match chance.below(10) {
        _ if !is_latin(locale) => of(&lists.towns, locale, chance),
        0..3 => of(&lists.towns, locale, chance),
        3..7 if lists.towns.contains_key(&country) => of(&lists.towns, &country, chance),
        _ => of(&lists.towns, world[chance.below(world.len())], chance),
    }
}

fn guest_locale<'l>(lists: &'l Lists, chance: &mut Chance) -> &'l str {
    let latin: Vec<&String> = lists.given.keys().filter(|locale| is_latin(locale)).collect();
    latin[chance.below(latin.len())]
}

/// Tells whether texts of a locale are written in Latin letters.
fn is_latin(locale: &str) -> bool {
    let others = [
        "bg", "mk", "uk", "ru", "el", "th", "zh", "ja", "ko", "ar", "fa", "he", "hi", "mr", "ne", "bn", "ta",
        "ka", "hy",
    ];
    !others.iter().any(|language| locale.starts_with(language))
}

/// Returns an entry of a locale, or an English one.
fn of(list: &List, locale: &str, chance: &mut Chance) -> String {
    let entries = list.get(locale).or_else(|| list.get("en_US")).or_else(|| list.get("en"));
    entries.map(|entries| pick(entries, chance).clone()).unwrap_or_default()
}

fn pick<'l, T>(list: &'l [T], chance: &mut Chance) -> &'l T {
    &list[chance.below(list.len())]
}

/// Draws a digit for each `#` and a letter for each `@`; a `&` stands for the sign of an e-mail address.
fn drawn(form: &str, chance: &mut Chance) -> String {
    let draw = |letter: char| match letter {
        '#' => char::from(b'0' + chance.below(10) as u8),
        '@' => char::from(b'a' + chance.below(26) as u8),
        '&' => '@',
        other => other,
    };
    form.chars().map(draw).collect()
}

/// Puts the mark of a quoted mail, a list or a comment before each line of some texts of several.
fn quoted(parts: Vec<Part>, chance: &mut Chance) -> Vec<Part> {
    let lines = parts.iter().filter(|(text, _)| text.contains('\n')).count();
    if lines == 0 || chance.below(10) > 0 {
        return parts;
    }
    let mark = ["> ", ">", "> > ", "- ", "* ", "# ", "// ", "    ", "\t", "| "][chance.below(10)];
    let between = format!("\n{mark}");
    let mut quoted = vec![(mark.to_owned(), None)];
    quoted.extend(parts.into_iter().map(|(text, tag)| (text.replace('\n', &between), tag)));
    quoted
}

/// Writes some sentences as people do in haste, or who shout.
fn noisy(parts: Vec<Part>, chance: &mut Chance) -> Vec<Part> {
    let dice = chance.below(100);
    let change = |(text, tag): Part| match dice {
        0..9 => (text.to_lowercase(), tag),
        9..12 => (text.to_uppercase(), tag),
        12..17 if tag.is_some() => (text.to_uppercase(), tag),
        17..22 if tag.is_some() => (text.to_lowercase(), tag),
        22..28 if tag == Some(Tag::Address) => (shouted_end(&text), tag),
        _ => (text, tag),
    };
    parts.into_iter().map(change).collect()
}

/// Returns an address with its last words in capitals, as post offices want it.
fn shouted_end(text: &str) -> String {
    let half = (text.len() / 2..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    let (first, last) = text.split_at(half);
    let (kept, word) = first.rsplit_once(' ').unwrap_or((first, ""));
    if kept.len() == first.len() {
        text.to_owned()
    } else {
        format!("{kept} {}{}", word.to_uppercase(), last.to_uppercase())
    }
}

fn sample(parts: Vec<Part>) -> Sample {
    let (mut text, mut spans) = (String::new(), Vec::new());
    for (part, tag) in parts {
        let start = text.len();
        text.push_str(&part);
        if let Some(tag) = tag {
            spans.push((start..text.len(), tag));
        }
    }
    Sample::known(text, &spans)
}
