//! A grid of recorded ranks, and the larger grid that takes its place.

use crate::recording::{RecordingError, fail};
use std::fmt;

/// Most axes of a grid.
const AXES_MAX: usize = 3;
/// Most ranks, as in a recording.
const RANKS_MAX: u64 = 1 << 20;

/// Rule that multiplies the ranks of a recording: its ranks form a grid in the order of
/// `MPI_Cart_create`, the last axis fastest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Whether the ends of each axis are neighbours.
    is_periodic: bool,
    axes: usize,
    /// Lengths of the recorded grid, if the user states them.
    lengths: Option<Vec<u32>>,
}

impl Rule {
    /// Reads a rule such as `open-2d` or `periodic-3d:2x3x4`.
    ///
    /// # Errors
    /// The forms of a rule.
    pub fn parse(text: &str) -> Result<Self, String> {
        let error =
            || "write open-1d, open-2d, open-3d, periodic-1d, periodic-2d or periodic-3d, with :4x3 behind it for another recorded grid".to_owned();
        let (shape, lengths) = text.split_once(':').map_or((text, None), |(shape, lengths)| (shape, Some(lengths)));
        let (ends, axes) = shape.split_once('-').ok_or_else(error)?;
        let is_periodic = match ends {
            "open" => false,
            "periodic" => true,
            _ => return Err(error()),
        };
        let axes = axes.strip_suffix('d').and_then(|axes| axes.parse().ok()).filter(|axes| (1..=AXES_MAX).contains(axes)).ok_or_else(error)?;
        let lengths = lengths.map(Size::parse).transpose()?.map(|size| size.0);
        if lengths.as_ref().is_some_and(|lengths| lengths.len() != axes) {
            return Err(error());
        }
        Ok(Self { is_periodic, axes, lengths })
    }
}

/// Number of ranks, or lengths of a grid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Size(Vec<u32>);

impl Size {
    /// Reads `64` or `8x8`.
    ///
    /// # Errors
    /// The forms of a size.
    pub fn parse(text: &str) -> Result<Self, String> {
        let lengths: Option<Vec<u32>> = text.split('x').map(|length| length.parse().ok().filter(|length| *length > 0)).collect();
        let fits = |lengths: &Vec<u32>| lengths.len() <= AXES_MAX && lengths.iter().map(|length| u64::from(*length)).product::<u64>() <= RANKS_MAX;
        lengths
            .filter(fits)
            .map(Self)
            .ok_or_else(|| format!("write a number of ranks such as 64, or the lengths of a grid such as 8x8 (at most {RANKS_MAX} ranks)"))
    }

    /// Returns the lengths of a grid of this size. A number of ranks becomes a balanced grid, the
    /// longest axis first, as `MPI_Dims_create` makes it.
    fn lengths(&self, axes: usize) -> Result<Vec<u32>, RecordingError> {
        match self.0.as_slice() {
            [ranks] => Ok(balanced(*ranks, axes)),
            lengths if lengths.len() == axes => Ok(lengths.to_vec()),
            lengths => fail(
                format!("--ranks names {} axes, and the rule has {axes}", lengths.len()),
                "name a length for each axis of the rule, or only the number of ranks",
            ),
        }
    }
}

/// Splits a number into factors that differ as little as possible, the largest first.
fn balanced(ranks: u32, axes: usize) -> Vec<u32> {
    if axes == 1 {
        return vec![ranks];
    }
    for first in 1..=ranks {
        let is_large = u64::from(first).pow(axes as u32) >= u64::from(ranks);
        if is_large && ranks.is_multiple_of(first) {
            let rest = balanced(ranks / first, axes - 1);
            if rest[0] <= first {
                return [vec![first], rest].concat();
            }
        }
    }
    vec![1; axes]
}

/// An axis of both grids.
#[derive(Clone, Copy, Debug)]
struct Axis {
    recorded: u32,
    wanted: u32,
}

/// Both grids: the recorded one, and the wanted one.
#[derive(Clone, Debug)]
pub(super) struct Grid {
    is_periodic: bool,
    axes: Vec<Axis>,
}

impl fmt::Display for Grid {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = |of: fn(&Axis) -> u32| self.axes.iter().map(|axis| of(axis).to_string()).collect::<Vec<_>>().join("x");
        write!(to, "{} ranks to {}", words(|axis| axis.recorded), words(|axis| axis.wanted))
    }
}

/// Place of a rank in a grid.
type Place = Vec<u32>;

impl Grid {
    pub(super) fn new(ranks: u32, rule: &Rule, size: &Size) -> Result<Self, RecordingError> {
        let recorded = rule.lengths.clone().unwrap_or_else(|| balanced(ranks, rule.axes));
        if recorded.iter().map(|length| u64::from(*length)).product::<u64>() != u64::from(ranks) {
            return fail(
                format!("the rule's grid does not have the {ranks} ranks of the recording"),
                "state the recorded grid behind the rule, such as open-2d:4x2",
            );
        }
        let wanted = size.lengths(rule.axes)?;
        let axes: Vec<Axis> = recorded.into_iter().zip(wanted).map(|(recorded, wanted)| Axis { recorded, wanted }).collect();
        let grid = Self { is_periodic: rule.is_periodic, axes };
        for (number, axis) in grid.axes.iter().enumerate() {
            if axis.wanted < axis.recorded {
                return fail(
                    format!("axis {number} of the grid shrinks from {} to {} ({grid})", axis.recorded, axis.wanted),
                    "a rule only adds ranks: name the lengths of the grid, such as --ranks 8x8",
                );
            }
            if axis.wanted > axis.recorded && axis.recorded < 3 {
                let lack = if grid.is_periodic { "its two neighbours are one rank" } else { "no rank has two neighbours" };
                return fail(
                    format!("axis {number} of the recorded grid has {} of the 3 ranks that a rule needs: {lack} ({grid})", axis.recorded),
                    "record with more ranks, or state another grid, such as periodic-2d:4x4 with --ranks 8x8",
                );
            }
        }
        Ok(grid)
    }

    pub(super) fn ranks(&self) -> u32 {
        self.axes.iter().map(|axis| axis.wanted).product()
    }

    pub(super) fn axes(&self) -> usize {
        self.axes.len()
    }

    pub(super) fn grows(&self) -> bool {
        self.axes.iter().any(|axis| axis.wanted > axis.recorded)
    }

    fn place(&self, mut rank: u32, length: fn(&Axis) -> u32) -> Place {
        let mut place = vec![0; self.axes.len()];
        for (coordinate, axis) in place.iter_mut().zip(&self.axes).rev() {
            *coordinate = rank % length(axis);
            rank /= length(axis);
        }
        place
    }

    fn rank(&self, place: &[u32], length: fn(&Axis) -> u32) -> u32 {
        place.iter().zip(&self.axes).fold(0, |rank, (coordinate, axis)| rank * length(axis) + coordinate)
    }

    pub(super) fn recorded_place(&self, rank: u32) -> Place {
        self.place(rank, |axis| axis.recorded)
    }

    pub(super) fn wanted_place(&self, rank: u32) -> Place {
        self.place(rank, |axis| axis.wanted)
    }

    pub(super) fn recorded_rank(&self, place: &[u32]) -> u32 {
        self.rank(place, |axis| axis.recorded)
    }

    pub(super) fn wanted_rank(&self, place: &[u32]) -> u32 {
        self.rank(place, |axis| axis.wanted)
    }

    pub(super) fn lengths(&self) -> Vec<(u32, u32)> {
        self.axes.iter().map(|axis| (axis.recorded, axis.wanted)).collect()
    }

    /// Returns the recorded place whose role a place takes. On an open axis both ends keep their
    /// roles, and the ranks between take those between in turn. On a periodic axis all are alike but
    /// the first, which often has more to do.
    pub(super) fn role(&self, place: &[u32]) -> Place {
        let role = |(coordinate, axis): (&u32, &Axis)| match *coordinate {
            same if axis.wanted == axis.recorded => same,
            0 => 0,
            inner if self.is_periodic => 1 + (inner - 1) % (axis.recorded - 1),
            last if last + 1 == axis.wanted => axis.recorded - 1,
            inner => 1 + (inner - 1) % (axis.recorded - 2),
        };
        place.iter().zip(&self.axes).map(role).collect()
    }

    /// Returns the partner of the rank at `own`, whose recorded role has the partner `recorded`.
    ///
    /// # Errors
    /// The reason why there is none.
    pub(super) fn partner(&self, own: &[u32], recorded: &[u32]) -> Result<Place, String> {
        let role = self.role(own);
        let mut partner = Vec::new();
        for (number, axis) in self.axes.iter().enumerate() {
            let (from, to) = (i64::from(role[number]), i64::from(recorded[number]));
            let (length, wanted) = (i64::from(axis.recorded), i64::from(axis.wanted));
            if length == wanted {
                partner.push(recorded[number]);
                continue;
            }
            let mut offset = to - from;
            if self.is_periodic {
                offset = offset.rem_euclid(length);
                if offset * 2 == length {
                    return Err(format!("its partner is half the grid away on axis {number}, so it lies on both sides"));
                }
                offset -= if offset * 2 > length { length } else { 0 };
            }
            let coordinate = i64::from(own[number]) + offset;
            let coordinate = if self.is_periodic { coordinate.rem_euclid(wanted) } else { coordinate };
            if !(0..wanted).contains(&coordinate) {
                return Err(format!("its partner is {offset:+} ranks away on axis {number}, outside the grid"));
            }
            partner.push(coordinate as u32);
        }
        Ok(partner)
    }

    /// Returns the root that takes the place of a recorded root: both ends of an axis stay its ends.
    pub(super) fn root(&self, recorded: &[u32]) -> Place {
        let root = |(coordinate, axis): (&u32, &Axis)| match *coordinate {
            last if last + 1 == axis.recorded && !self.is_periodic => axis.wanted - 1,
            other => other,
        };
        recorded.iter().zip(&self.axes).map(root).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_become_balanced_grids_as_of_mpi_dims_create() {
        assert_eq!(balanced(16, 2), [4, 4]);
        assert_eq!(balanced(12, 2), [4, 3]);
        assert_eq!(balanced(7, 2), [7, 1]);
        assert_eq!(balanced(64, 3), [4, 4, 4]);
        assert_eq!(balanced(24, 3), [4, 3, 2]);
    }

    #[test]
    fn rules_and_sizes_of_other_forms_are_refused() {
        for text in ["open", "open-4d", "closed-2d", "open-2d:4", "open-2d:4x0", "periodic-"] {
            assert!(Rule::parse(text).is_err(), "{text}");
        }
        for text in ["", "0", "2xx", "1x2x3x4", "2000000"] {
            assert!(Size::parse(text).is_err(), "{text}");
        }
    }
}
