//! The categories of what one entry tells.

use crate::scan::threat::Category;

/// What stands between categories where they are written as one text.
const BETWEEN: char = ',';

/// Some categories.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Categories(u8);

impl Categories {
    /// Returns those of an entry's findings; none where nothing of it counts as found.
    pub(super) fn of(gravest: Option<Category>, others: impl Iterator<Item = Category>) -> Self {
        let Some(gravest) = gravest else { return Self::default() };
        let mut all = Self::default();
        std::iter::once(gravest).chain(others).for_each(|category| all.0 |= bit(category));
        all
    }

    /// Tells whether one is among them.
    pub(super) fn has(self, category: Category) -> bool {
        self.0 & bit(category) != 0
    }

    /// Tells whether there are none.
    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns them as one text, always in the same order.
    pub(super) fn written(self) -> String {
        let mut text = String::new();
        for category in self.iter() {
            if !text.is_empty() {
                text.push(BETWEEN);
            }
            text.push_str(category.as_str());
        }
        text
    }

    /// Returns those that a text names.
    pub(super) fn read(text: &str) -> Self {
        let named = text.split(BETWEEN).filter_map(|name| name.parse().ok());
        Self(named.fold(0, |all, category| all | bit(category)))
    }

    /// Returns each of them.
    pub(super) fn iter(self) -> impl Iterator<Item = Category> {
        Category::ALL.into_iter().filter(move |category| self.has(*category))
    }
}

fn bit(category: Category) -> u8 {
    match category {
        Category::Secrets => 1,
        Category::Pii => 1 << 1,
        Category::Injection => 1 << 2,
        Category::Exfiltration => 1 << 3,
        Category::Custom => 1 << 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for number in 0..1u8 << Category::ALL.len() {
            let all = Categories(number);
            assert_eq!(Categories::read(&all.written()), all);
        }
        let some = Categories::of(Some(Category::Pii), [Category::Secrets, Category::Pii].into_iter());
        assert_eq!(some.written(), "secrets,pii");
        assert!(Categories::of(None, [Category::Pii].into_iter()).is_empty());
    }
}
