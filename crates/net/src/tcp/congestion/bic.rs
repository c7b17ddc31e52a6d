//! BIC: binary search between the windows before and after the last loss (Xu, Harfoush, Rhee 2004),
//! with the constants that Linux 2.6 documents.

/// Window after a loss, in 1024ths of the window before it.
const BETA: u32 = 819;
/// Below this window BIC is Reno.
const LOW_WINDOW: u32 = 14;
/// Most segments a round trip.
const INCREMENT_MAX: u32 = 16;
/// Part of the distance that a round trip covers.
const SEARCH: u32 = 4;
/// Round trips of the last approach, for each segment.
const SMOOTH: u32 = 20;
/// Arrivals for a segment of growth at most, while no loss has given a target.
const PER_SEGMENT_UNKNOWN_MAX: u32 = 20;

#[derive(Clone, Debug, Default)]
pub(super) struct Bic {
    /// Window before the last loss, or 0.
    target: u32,
}

impl Bic {
    /// Returns the window after a loss.
    pub(super) fn reduced(&mut self, window: u32) -> u32 {
        // A window that shrinks from loss to loss makes room for other connections.
        self.target = if window < self.target { scaled(window, 1_024 + BETA) / 2 } else { window };
        if window <= LOW_WINDOW { window / 2 } else { scaled(window, BETA) }
    }

    /// Returns the arrivals that grow the window by a segment.
    pub(super) fn per_segment(&self, window: u32) -> u32 {
        if window <= LOW_WINDOW {
            return window;
        }
        let arrivals = if window < self.target {
            match (self.target - window) / SEARCH {
                0 | 1 => window * SMOOTH / SEARCH,
                distance => window / distance.min(INCREMENT_MAX),
            }
        } else {
            match window - self.target {
                0..SEARCH => window * SMOOTH / SEARCH,
                beyond if beyond < INCREMENT_MAX * (SEARCH - 1) => window * (SEARCH - 1) / beyond,
                _ => window / INCREMENT_MAX,
            }
        };
        if self.target == 0 { arrivals.min(PER_SEGMENT_UNKNOWN_MAX) } else { arrivals }
    }
}

fn scaled(window: u32, share: u32) -> u32 {
    (u64::from(window) * u64::from(share) / 1_024) as u32
}
