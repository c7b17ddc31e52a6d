//! Labels on cables, placed where nothing else stands.

use super::nodes::{Half, Node, Point};

/// Candidate places of a label along a half, as shares from the port to the middle of the cable.
/// The first free place wins.
const PORT_PLACES: [f64; 5] = [0.28, 0.42, 0.56, 0.2, 0.7];
const MARK_PLACES: [f64; 7] = [0.5, 0.65, 0.35, 0.8, 0.25, 0.9, 1.0];
const KIND_PLACES: [f64; 8] = [1.0, 0.72, 0.86, 0.58, 0.44, 0.3, 0.2, 0.12];

/// Occupied areas: centres and half sizes of boxes, in pixels.
pub struct Places {
    taken: Vec<(Point, Point)>,
}

impl Places {
    /// Creates the places of a picture. Only the boxes of the nodes are taken.
    pub fn new(nodes: &[Node]) -> Self {
        Self { taken: nodes.iter().map(|node| (node.centre, (node.width / 2, node.height / 2))).collect() }
    }

    /// Takes a place of this half size, if it is free.
    fn take(&mut self, (x, y): Point, (across, down): Point) -> bool {
        let is_free = !self.taken.iter().any(|((at_x, at_y), (width, height))| (x - at_x).abs() < across + width && (y - at_y).abs() < down + height);
        if is_free {
            self.taken.push(((x, y), (across, down)));
        }
        is_free
    }

    /// Returns the place for the port number of a half. Returns `None` if all places are taken.
    pub(super) fn port(&mut self, half: &Half, letters: usize) -> Option<Point> {
        let size = (4 + 3 * letters as i64, 7);
        PORT_PLACES.into_iter().map(|share| half.at(share)).find(|at| self.take(*at, size))
    }

    /// Returns the place for the mark of a half. Returns its middle if that is free, or if all
    /// places are taken.
    pub fn mark(&mut self, half: &Half) -> Point {
        let mut places = MARK_PLACES.into_iter().map(|share| half.at(share));
        places.find(|at| self.take(*at, (9, 9))).unwrap_or_else(|| half.at(0.5))
    }

    /// Returns the place for the letter of a cable's kind. Returns `None` if all places are taken.
    pub(super) fn kind(&mut self, halves: &[Half]) -> Option<Point> {
        let places = KIND_PLACES.into_iter().flat_map(|share| halves.iter().map(move |half| half.at(share)));
        places.into_iter().find(|at| self.take(*at, (10, 10)))
    }
}
