//! The objects and descriptors of the kernel for which a program asks without a wait. Their news is
//! news for its polling threads.

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
    /// Number of questions to the kernel at the last write to a descriptor of the kernel. The engine
    /// does not know the descriptor, so each later question counts as the one for it.
    kernel_news: Option<u32>,
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

    /// Notes a write to a descriptor of the kernel, after so many questions to the kernel.
    pub(super) fn note_kernel_news(&mut self, questions: u32) {
        self.kernel_news = (questions != 0).then_some(questions);
        self.polls = 0;
    }

    /// Returns whether an object or the kernel has news, at an empty poll of a completion queue.
    /// `kernel_questions` is the number of questions to the kernel so far.
    pub(super) fn has_news(&mut self, kernel_questions: u32) -> bool {
        let has_kernel_news = self.kernel_news == Some(kernel_questions);
        let found = self.polls < POLLS_MAX && (has_kernel_news || self.questions.values().any(|question| question.has_news));
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
        assert!(!awaited.has_news(0), "the program has not asked");
        awaited.ask(3, 1);
        assert!(!awaited.has_news(0));
        awaited.note_news(3);
        assert!(awaited.has_news(0));
        awaited.ask(3, 1);
        assert!(!awaited.has_news(0));
    }

    #[test]
    fn a_write_to_the_kernel_counts_until_the_program_asks_the_kernel_again() {
        let mut awaited = Awaited::default();
        awaited.note_kernel_news(0);
        assert!(!awaited.has_news(0), "the program has never asked");
        awaited.note_kernel_news(7);
        assert!(awaited.has_news(7));
        assert!(!awaited.has_news(8), "it has asked since");
        assert_eq!((0..10_000).filter(|_| awaited.has_news(7)).count(), POLLS_MAX as usize - 1);
        awaited.note_kernel_news(7);
        assert!(awaited.has_news(7), "another write begins the count anew");
    }

    #[test]
    fn a_program_that_never_asks_again_polls_a_limited_number_of_times() {
        let mut awaited = Awaited::default();
        awaited.ask(3, 1);
        awaited.note_news(3);
        assert_eq!((0..10_000).filter(|_| awaited.has_news(0)).count(), POLLS_MAX as usize);
    }
}
