//! The objects and descriptors of the kernel for which a program asks without a wait. Their news is
//! news for its polling threads.

use std::collections::BTreeMap;

/// Most empty polls beside news of objects: before there is evidence, at least, and at most. A
/// program that polls more often waits for something else.
const POLLS_FIRST: u32 = 256;
const POLLS_MIN: u32 = 16;
const POLLS_MAX: u32 = 4096;
/// Factor for a limit that was reached in vain, and for the polls before a question.
const POLLS_FACTOR: u32 = 4;

#[derive(Clone, Copy, Debug)]
struct Question {
    interest: u32,
    /// Set if the object has changed since the program last asked.
    has_news: bool,
}

/// Objects with the last question for each.
///
/// The engine learns after how many empty polls the program asks. Many programs leave some news to
/// other threads, or look at them rarely.
#[derive(Debug)]
pub(crate) struct Awaited {
    questions: BTreeMap<u32, Question>,
    /// Number of questions to the kernel at the last write to a descriptor of the kernel. The engine
    /// does not know the descriptor, so each later question counts as the one for it.
    kernel_news: Option<u32>,
    /// Empty polls beside news since the last question.
    polls: u32,
    limit: u32,
}

impl Default for Awaited {
    fn default() -> Self {
        Self { questions: BTreeMap::new(), kernel_news: None, polls: 0, limit: POLLS_FIRST }
    }
}

impl Awaited {
    /// Notes that the program asks for an object. It then knows all news of the object.
    pub(super) fn ask(&mut self, object: u32, interest: u32) {
        let former = self.questions.insert(object, Question { interest, has_news: false });
        if former.is_some_and(|question| question.has_news) {
            self.learn();
        }
        self.polls = 0;
    }

    /// Adapts the limit to the polls before a question that finds news. No limit covers too many
    /// polls.
    fn learn(&mut self) {
        if self.polls <= POLLS_MAX {
            self.limit = self.limit.max(self.polls.saturating_mul(POLLS_FACTOR).min(POLLS_MAX));
        }
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
        if self.kernel_news.is_some_and(|questions| questions != kernel_questions) {
            self.kernel_news = None;
            self.learn();
            self.polls = 0;
        }
        if self.kernel_news.is_none() && !self.questions.values().any(|question| question.has_news) {
            return false;
        }
        self.polls = self.polls.saturating_add(1);
        let is_within = self.polls <= self.limit;
        if self.polls == self.limit + 1 {
            self.limit = (self.limit / POLLS_FACTOR).max(POLLS_MIN);
        }
        is_within
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Polls in vain. Returns the number of polls that found news.
    fn vain_polls(awaited: &mut Awaited, kernel_questions: u32) -> u32 {
        (0..10_000).map(|_| u32::from(awaited.has_news(kernel_questions))).sum()
    }

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
        awaited.note_kernel_news(7);
        assert_eq!(vain_polls(&mut awaited, 7), POLLS_FIRST);
        awaited.note_kernel_news(7);
        assert!(awaited.has_news(7), "another write begins the count anew");
    }

    #[test]
    fn a_program_that_never_asks_again_polls_less_and_less() {
        let mut awaited = Awaited::default();
        awaited.ask(3, 1);
        awaited.note_news(3);
        assert_eq!(vain_polls(&mut awaited, 0), POLLS_FIRST);
        for expected in [64, 16, 16] {
            awaited.note_kernel_news(7);
            assert_eq!(vain_polls(&mut awaited, 7), expected);
        }
    }

    #[test]
    fn a_question_after_many_polls_raises_the_limit() {
        let mut awaited = Awaited::default();
        for questions in 1..4 {
            awaited.note_kernel_news(questions);
            vain_polls(&mut awaited, questions);
        }
        for (questions, polls) in [(4, 100), (5, 2_000)] {
            awaited.note_kernel_news(questions);
            for _ in 0..polls {
                awaited.has_news(questions);
            }
            assert!(!awaited.has_news(questions + 1), "the program has asked");
        }
        awaited.note_kernel_news(8);
        assert_eq!(vain_polls(&mut awaited, 8), POLLS_MAX);
    }
}
