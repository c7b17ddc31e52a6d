//! The objects for which a program asks without a wait. Their news is news for its polling threads.

use std::collections::BTreeMap;

/// Most empty polls beside news of objects. A program that polls more often waits for something
/// else.
const POLLS_MAX: u32 = 4096;

#[derive(Clone, Copy, Debug)]
struct Question {
    interest: u32,
    /// Set if the object has changed since the program last asked.
    has_news: bool,
}

/// Objects with the last question for each.
#[derive(Debug, Default)]
pub(crate) struct Awaited {
    questions: BTreeMap<u32, Question>,
    /// Empty polls beside news since the last question.
    polls: u32,
}

impl Awaited {
    /// Notes that the program asks for an object. It then knows all news of the object.
    pub(super) fn ask(&mut self, object: u32, interest: u32) {
        self.questions.insert(object, Question { interest, has_news: false });
        self.polls = 0;
    }

    /// Notes that the program has taken something from an object.
    pub(super) fn take(&mut self, object: u32) {
        if let Some(question) = self.questions.get_mut(&object) {
            question.has_news = false;
        }
    }

    /// Notes that the program waits for an object or has closed it.
    pub(super) fn remove(&mut self, object: u32) {
        self.questions.remove(&object);
    }

    /// Returns the interest in an object, if the program asks for it without a wait.
    pub(crate) fn interest(&self, object: u32) -> Option<u32> {
        self.questions.get(&object).map(|question| question.interest)
    }

    /// Notes that an object has become ready.
    pub(super) fn note_news(&mut self, object: u32) {
        if let Some(question) = self.questions.get_mut(&object) {
            question.has_news = true;
        }
    }

    /// Returns whether an object has news, at an empty poll of a completion queue.
    pub(super) fn has_news(&mut self) -> bool {
        let found = self.polls < POLLS_MAX && self.questions.values().any(|question| question.has_news);
        self.polls += u32::from(found);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn news_of_an_object_counts_until_the_program_asks_again() {
        let mut awaited = Awaited::default();
        awaited.note_news(3);
        assert!(!awaited.has_news(), "the program has not asked");
        awaited.ask(3, 1);
        assert!(!awaited.has_news());
        awaited.note_news(3);
        assert!(awaited.has_news());
        awaited.ask(3, 1);
        assert!(!awaited.has_news());
    }

    #[test]
    fn a_program_that_never_asks_again_polls_a_limited_number_of_times() {
        let mut awaited = Awaited::default();
        awaited.ask(3, 1);
        awaited.note_news(3);
        assert_eq!((0..10_000).filter(|_| awaited.has_news()).count(), POLLS_MAX as usize);
    }
}
