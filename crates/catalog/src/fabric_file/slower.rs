//! Links that train below the capability of a port, and the reason.

use std::fmt::Display;
use std::ops::Range;

use super::train::{End, best, list};
use crate::diagnostic::{Findings, Label};

/// Everything that determines one quality of a link: its width, its speed, or its Ethernet rate.
pub(super) struct Limits<'a, T> {
    pub(super) ends: [End<'a, &'a [T]>; 2],
    /// Name and place of the cable, and its rating.
    pub(super) cable: (&'a str, &'a Range<usize>, T),
    /// Cap from the file.
    pub(super) cap: Option<T>,
}

/// Notes a link that trains below the capability of a port, unless the file asked for it.
pub(super) fn note<T: Copy + Ord + Display>(trained: T, limits: &Limits<'_, T>, findings: &mut Findings) {
    let mut lessened = limits.ends.iter().filter(|(.., can)| most(can) > Some(trained));
    let (Some((name, span, can)), false) = (lessened.next(), limits.cap == Some(trained)) else { return };
    let reasons = limits.reasons(trained);
    let why: Vec<String> = reasons.iter().map(|(why, _)| why.clone()).collect();
    let mut labels: Vec<Label> = reasons.into_iter().filter_map(|(_, label)| label).collect();
    // If both ends can do more, they are the reasons themselves.
    if labels.iter().all(|(place, _)| place != *span) {
        labels.push(((*span).clone(), format!("{} port", most(can).unwrap_or(trained))));
    }
    findings.note(format!("the link of `{name}` trains to {trained}: {}", why.join(", ")), labels, None);
}

impl<T: Copy + Ord + Display> Limits<'_, T> {
    /// Returns the ends and the cable that limit the link. If none limits it alone, returns the
    /// capabilities of all, whose combination is the limit.
    fn reasons(&self, trained: T) -> Vec<(String, Option<Label>)> {
        let (cable, cable_span, rated) = self.cable;
        let of_cable = || (format!("cable `{cable}` is rated for {rated}"), Some((cable_span.clone(), format!("rated for {rated}"))));
        let slow_ends = self.ends.iter().filter(|(.., can)| most(can) == Some(trained));
        let mut reasons: Vec<_> =
            slow_ends.map(|(name, span, _)| (format!("`{name}` is {trained}"), Some(((*span).clone(), format!("{trained} port"))))).collect();
        let [(.., a), (.., b)] = self.ends;
        let without_cable = best(a, b, |_| true);
        if rated == trained && (!reasons.is_empty() || without_cable > Some(trained)) {
            reasons.push(of_cable());
        }
        if !reasons.is_empty() {
            return reasons;
        }
        for (name, span, can) in &self.ends {
            let port = most(can).map(|most| ((*span).clone(), format!("{most} port")));
            reasons.push((format!("`{name}` does {}", list(can)), port));
        }
        if Some(rated) < most(a).min(most(b)) {
            reasons.push(of_cable());
        }
        if let Some(cap) = self.cap.filter(|cap| without_cable > Some(*cap)) {
            reasons.push((format!("`rate` allows up to {cap}"), None));
        }
        reasons
    }
}

fn most<T: Copy + Ord>(can: &[T]) -> Option<T> {
    can.iter().copied().max()
}
