//! What a page, or a form on it, shows: its text in the order in which it is drawn, whatever it looks like.
//!
//! Where signs stand tells words and lines: what stands right behind the text before it goes on with its word.

use std::collections::HashMap;
use std::rc::Rc;

use super::file::File;
use super::font::Font;
use super::object::Dict;
use super::object::Lexer;
use super::object::Object;
use super::object::is_blank;
use super::strings;
use crate::attachment::Reader;
use crate::attachment::Unread;

/// How deep forms may lie in one another.
const FORMS_MAX: usize = 8;
/// How many states may be kept at once.
const STATES_MAX: usize = 256;
/// The most operands of one operator.
const OPERANDS_MAX: usize = 1 << 12;
/// How many operators are read between two looks at the time.
const OPERATORS_A_LOOK: usize = 256;
/// Across how much of its size a sign stands in another line, and along how much its text goes on elsewhere.
const LINE: f64 = 0.5;
const BACK: f64 = -1.0;
/// Along how much of its size a sign stands in another word, and in another column.
const GAP: f64 = 0.2;
const COLUMN: f64 = 2.0;
/// How many signs in a row may stand for nothing known, as bullets and ornaments do; more are words.
const UNKNOWN_IN_A_ROW_MAX: usize = 7;

/// A matrix of a transformation.
type Matrix = [f64; 6];
const IDENTITY: Matrix = [1.0, 0.0, 0.0, 1.0, 0.0, 0.0];

/// The fonts and forms that names stand for.
#[derive(Clone, Default)]
pub(super) struct Resources {
    pub(super) fonts: HashMap<Vec<u8>, Rc<Font>>,
    forms: HashMap<Vec<u8>, u32>,
}

/// Every font that was read, by its number.
#[derive(Default)]
pub(super) struct Fonts {
    known: HashMap<u32, Rc<Font>>,
    /// The last font of each name, for what comes without resources of its own.
    pub(super) named: HashMap<Vec<u8>, Rc<Font>>,
}

/// What is shown.
#[derive(Default)]
pub(super) struct Shown {
    pub(super) text: String,
    /// What is told instead of what is drawn.
    pub(super) aside: String,
    /// The forms that were drawn, by their places among all objects.
    pub(super) forms: Vec<usize>,
    /// Whether the font of some of its words does not tell what they say.
    pub(super) is_unreadable: bool,
    unknown_in_a_row: usize,
    /// Where the text ends, in the plane of the page.
    end: Option<(f64, f64)>,
}

#[derive(Clone)]
struct State {
    plane: Matrix,
    font: Option<Rc<Font>>,
    size: f64,
    sign_space: f64,
    word_space: f64,
    scale: f64,
    leading: f64,
    rise: f64,
}

impl Resources {
    /// Reads resources.
    pub(super) fn read(
        file: &File<'_>,
        dict: &Dict,
        fonts: &mut Fonts,
        reader: &mut Reader<'_>,
    ) -> Result<Self, Unread> {
        let mut resources = Self::default();
        for (name, value) in file.dict(dict.get("Font"), reader)?.0 {
            if let Some(font) = fonts.font(file, &value, reader)? {
                fonts.named.insert(name.clone(), Rc::clone(&font));
                resources.fonts.insert(name, font);
            }
        }
        for (name, value) in file.dict(dict.get("XObject"), reader)?.0 {
            if let Object::Ref(number) = value {
                resources.forms.insert(name, number);
            }
        }
        Ok(resources)
    }
}

impl Fonts {
    fn font(
        &mut self,
        file: &File<'_>,
        value: &Object,
        reader: &mut Reader<'_>,
    ) -> Result<Option<Rc<Font>>, Unread> {
        if let Object::Ref(number) = value
            && let Some(known) = self.known.get(number)
        {
            return Ok(Some(Rc::clone(known)));
        }
        let Some(Object::Dict(dict)) = file.value(Some(value), reader)? else { return Ok(None) };
        let font = Rc::new(Font::read(file, &dict, reader)?);
        if let Object::Ref(number) = value {
            self.known.insert(*number, Rc::clone(&font));
        }
        Ok(Some(font))
    }
}

/// Reads what some content shows.
pub(super) struct Painter<'f, 'a, 'r, 'b> {
    pub(super) file: &'f File<'a>,
    pub(super) fonts: &'f mut Fonts,
    pub(super) reader: &'r mut Reader<'b>,
    pub(super) shown: Shown,
}

/// Where a text is drawn.
struct Pen {
    state: State,
    kept: Vec<State>,
    line: Matrix,
    at: Matrix,
}

impl Painter<'_, '_, '_, '_> {
    /// Draws content with its resources.
    pub(super) fn draw(&mut self, content: &[u8], resources: &Resources) -> Result<(), Unread> {
        self.draw_in(content, resources, (IDENTITY, 0))
    }

    fn draw_in(
        &mut self,
        content: &[u8],
        resources: &Resources,
        (plane, depth): (Matrix, usize),
    ) -> Result<(), Unread> {
        let mut lexer = Lexer::new(content, 0);
        let mut pen = Pen::new(plane);
        let (mut operands, mut operators) = (Vec::new(), 0);
        loop {
            lexer.pass_blanks();
            match lexer.object() {
                Some(Object::Word(word)) if word == b"ID" => pass_picture(&mut lexer),
                Some(Object::Word(word)) if word == b"Do" => {
                    self.form(&operands, resources, (&pen, depth))?
                }
                Some(Object::Word(word)) => self.operate(&word, &operands, resources, &mut pen),
                Some(operand) => {
                    if operands.len() < OPERANDS_MAX {
                        operands.push(operand);
                    }
                    continue;
                }
                None if lexer.rest().is_empty() => return Ok(()),
                None => lexer.pass(1),
            }
            operands.clear();
            operators += 1;
            if operators % OPERATORS_A_LOOK == 0 {
                self.reader.check()?;
            }
            if self.shown.text.len() + self.shown.aside.len() > self.reader.text_left {
                return Err(Unread::TooLarge);
            }
        }
    }

    /// Draws a form.
    fn form(
        &mut self,
        operands: &[Object],
        resources: &Resources,
        (pen, depth): (&Pen, usize),
    ) -> Result<(), Unread> {
        let Some(Object::Name(name)) = operands.last() else { return Ok(()) };
        let index = resources.forms.get(name).and_then(|number| self.file.index(*number));
        let Some(index) = index.filter(|_| depth < FORMS_MAX) else { return Ok(()) };
        let Some(found) = self.file.at(index, self.reader)? else { return Ok(()) };
        let Object::Dict(dict) = &found.object else { return Ok(()) };
        if dict.is("Subtype", "Image") {
            return Ok(());
        }
        let Some(content) = self.file.unfold(&found, self.reader)? else { return Ok(()) };
        let own = match dict.has("Resources") {
            true => {
                let own = self.file.dict(dict.get("Resources"), self.reader)?;
                Some(Resources::read(self.file, &own, self.fonts, self.reader)?)
            }
            false => None,
        };
        let matrix = match dict.get("Matrix") {
            Some(Object::Array(numbers)) => matrix(numbers),
            _ => IDENTITY,
        };
        self.shown.forms.push(index);
        self.draw_in(
            &content,
            own.as_ref().unwrap_or(resources),
            (product(matrix, pen.state.plane), depth + 1),
        )
    }

    fn operate(&mut self, operator: &[u8], operands: &[Object], resources: &Resources, pen: &mut Pen) {
        let number = |at: usize| operands.get(at).and_then(Object::number).unwrap_or(0.0);
        match operator {
            b"q" => pen.keep(),
            b"Q" => pen.back(),
            b"cm" => pen.state.plane = product(matrix(operands), pen.state.plane),
            b"BT" => (pen.line, pen.at) = (IDENTITY, IDENTITY),
            b"Tf" => {
                let name = operands.first().map(|name| match name {
                    Object::Name(name) => name.as_slice(),
                    _ => &[],
                });
                pen.state.font = name.and_then(|name| resources.fonts.get(name)).cloned();
                pen.state.size = number(1);
            }
            b"Tc" => pen.state.sign_space = number(0),
            b"Tw" => pen.state.word_space = number(0),
            b"Tz" => pen.state.scale = number(0) / 100.0,
            b"TL" => pen.state.leading = number(0),
            b"Ts" => pen.state.rise = number(0),
            b"Td" => pen.go(number(0), number(1)),
            b"TD" => {
                pen.state.leading = -number(1);
                pen.go(number(0), number(1));
            }
            b"Tm" => {
                pen.line = matrix(operands);
                pen.at = pen.line;
            }
            b"T*" => pen.go(0.0, -pen.state.leading),
            b"Tj" => self.show(operands.last(), pen),
            b"'" => {
                pen.go(0.0, -pen.state.leading);
                self.show(operands.last(), pen);
            }
            b"\"" => {
                (pen.state.word_space, pen.state.sign_space) = (number(0), number(1));
                pen.go(0.0, -pen.state.leading);
                self.show(operands.last(), pen);
            }
            b"TJ" => {
                let Some(Object::Array(items)) = operands.last() else { return };
                for item in items {
                    match item {
                        Object::Number(back) => {
                            pen.advance(-back / 1000.0 * pen.state.size * pen.state.scale)
                        }
                        text => self.show(Some(text), pen),
                    }
                }
            }
            b"BDC" | b"DP" => {
                if let Some(Object::Dict(told)) = operands.last() {
                    strings::gather(&Object::Dict(told.clone()), &mut self.shown.aside);
                }
            }
            _ => {}
        }
    }

    /// Shows a text.
    fn show(&mut self, text: Option<&Object>, pen: &mut Pen) {
        let (Some(Object::Text(codes)), Some(font)) = (text, pen.state.font.clone()) else { return };
        let plane = pen.plane();
        let (along, up) = ((plane[0], plane[1]), (plane[2], plane[3]));
        let size = up.0.hypot(up.1) * pen.state.size.abs();
        let unit = along.0.hypot(along.1);
        let begin = (plane[4] + up.0 * pen.state.rise, plane[5] + up.1 * pen.state.rise);
        if let Some(end) = self.shown.end
            && unit > 0.0
        {
            let (far, across) = (
                ((begin.0 - end.0) * along.0 + (begin.1 - end.1) * along.1) / unit,
                ((begin.1 - end.1) * along.0 - (begin.0 - end.0) * along.1) / unit,
            );
            self.shown.part(far, across, size);
        }
        let mut width = 0.0;
        for sign in font.shown(codes) {
            self.shown.take(&sign.text);
            let space = if sign.is_space { pen.state.word_space } else { 0.0 };
            width += (sign.width / 1000.0 * pen.state.size + pen.state.sign_space + space) * pen.state.scale;
        }
        pen.advance(width);
        let plane = pen.plane();
        self.shown.end = Some((plane[4] + up.0 * pen.state.rise, plane[5] + up.1 * pen.state.rise));
    }
}

impl Shown {
    /// Takes what a sign stands for; nothing where its font does not tell.
    fn take(&mut self, sign: &str) {
        self.text.push_str(sign);
        if sign.is_empty() {
            self.unknown_in_a_row += 1;
            self.is_unreadable |= self.unknown_in_a_row > UNKNOWN_IN_A_ROW_MAX;
        } else if !sign.trim().is_empty() {
            self.unknown_in_a_row = 0;
        }
    }

    /// Parts what comes from the text before it, by how far it stands from that.
    fn part(&mut self, far: f64, across: f64, size: f64) {
        let part = match () {
            () if across.abs() > LINE * size || far < BACK * size => '\n',
            () if far > COLUMN * size => '\t',
            () if far > GAP * size => ' ',
            () => return,
        };
        if !self.text.ends_with(|sign: char| sign.is_whitespace()) && !self.text.is_empty() {
            self.text.push(part);
        } else if part == '\n' && self.text.ends_with([' ', '\t']) {
            self.text.pop();
            self.text.push(part);
        }
    }
}

impl Pen {
    fn new(plane: Matrix) -> Self {
        let state = State {
            plane,
            font: None,
            size: 1.0,
            sign_space: 0.0,
            word_space: 0.0,
            scale: 1.0,
            leading: 0.0,
            rise: 0.0,
        };
        Self { state, kept: Vec::new(), line: IDENTITY, at: IDENTITY }
    }

    fn keep(&mut self) {
        if self.kept.len() < STATES_MAX {
            self.kept.push(self.state.clone());
        }
    }

    fn back(&mut self) {
        if let Some(state) = self.kept.pop() {
            self.state = state;
        }
    }

    fn go(&mut self, x: f64, y: f64) {
        self.line = product([1.0, 0.0, 0.0, 1.0, x, y], self.line);
        self.at = self.line;
    }

    fn advance(&mut self, by: f64) {
        self.at = product([1.0, 0.0, 0.0, 1.0, by, 0.0], self.at);
    }

    /// Returns where the next sign stands on the page.
    fn plane(&self) -> Matrix {
        product(self.at, self.state.plane)
    }
}

/// Passes over the bytes of a picture within content.
fn pass_picture(lexer: &mut Lexer<'_>) {
    let mut rest = lexer.rest();
    let whole = rest.len();
    while let Some(at) = memchr::memmem::find(rest, b"EI") {
        let (before, behind) = (rest.get(at.saturating_sub(1)), rest.get(at + 2));
        let is_end = before.is_some_and(|byte| is_blank(*byte)) && behind.is_none_or(|byte| is_blank(*byte));
        rest = rest.get(at + 2..).unwrap_or_default();
        if is_end {
            return lexer.pass(whole - rest.len());
        }
    }
    lexer.pass(whole);
}

fn matrix(numbers: &[Object]) -> Matrix {
    let mut matrix = IDENTITY;
    let given = numbers.get(numbers.len().saturating_sub(6)..).unwrap_or_default();
    if given.len() == 6 {
        matrix.iter_mut().zip(given).for_each(|(to, from)| *to = from.number().unwrap_or(0.0));
    }
    matrix
}

/// Returns what the one transformation makes behind the other.
fn product(one: Matrix, two: Matrix) -> Matrix {
    [
        one[0] * two[0] + one[1] * two[2],
        one[0] * two[1] + one[1] * two[3],
        one[2] * two[0] + one[3] * two[2],
        one[2] * two[1] + one[3] * two[3],
        one[4] * two[0] + one[5] * two[2] + two[4],
        one[4] * two[1] + one[5] * two[3] + two[5],
    ]
}
