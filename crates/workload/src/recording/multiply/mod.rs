//! More ranks than a recording has, by the rule that its ranks form a grid (weak scaling).
//!
//! Each new rank takes the role of a recorded one by its position. It makes the same calls, with
//! partners at the same offsets, and its collectives have the new ranks. Computation and sizes of
//! messages stay, so the whole problem grows with the ranks.

mod check;
mod grid;

use super::line::{Call, Communicator, Line};
use super::{Recording, RecordingError};
use grid::Grid;
pub use grid::{Rule, Size};

/// Remedy for a recording that is no grid.
const GRID: &str = "a rule fits a program whose ranks form a grid and exchange data with near ones: name the recorded grid, or another rule";

/// Returns the recording with more ranks.
///
/// # Errors
/// A call that the rule cannot translate, or that no call of another rank matches, with its rank and
/// number.
pub fn multiply(recording: &Recording, rule: &Rule, size: &Size) -> Result<Recording, RecordingError> {
    let grid = Grid::new(recording.ranks.len() as u32, rule, size)?;
    let ranks = (0..grid.ranks()).map(|rank| NewRank::new(&grid, rank).write(recording)).collect::<Result<_, _>>()?;
    let multiplied = Recording { ranks, ..recording.clone() };
    check::check(&multiplied)?;
    Ok(multiplied)
}

/// Communicator of a recorded rank.
struct Group {
    /// Members of the recorded communicator.
    recorded: Vec<i64>,
    /// New members.
    wanted: Vec<u32>,
}

struct NewRank<'a> {
    grid: &'a Grid,
    rank: u32,
    place: Vec<u32>,
    role: Vec<u32>,
    groups: Vec<Group>,
}

impl<'a> NewRank<'a> {
    fn new(grid: &'a Grid, rank: u32) -> Self {
        let place = grid.wanted_place(rank);
        let role = grid.role(&place);
        Self { grid, rank, place, role, groups: Vec::new() }
    }

    fn write(mut self, recording: &Recording) -> Result<Vec<Line>, RecordingError> {
        let role = self.grid.recorded_rank(&self.role);
        let mut number = 0;
        let mut lines = Vec::new();
        for line in &recording.ranks[role as usize] {
            let made = match line {
                Line::Communicator(communicator) => self.communicator(communicator).map(Line::Communicator),
                Line::Call(call) => self.call(call).map(|call| Line::Call(Box::new(call))),
            };
            let at = |reason: String| RecordingError { message: format!("rank {role}, call {number}: {reason}"), help: GRID.into() };
            lines.push(made.map_err(at)?);
            number += usize::from(line.call().is_some_and(|call| !call.is_poll()));
        }
        Ok(lines)
    }

    /// Returns the new members of a communicator: the ranks along the same axes.
    fn communicator(&mut self, recorded: &Communicator) -> Result<Communicator, String> {
        let own = self.grid.recorded_rank(&self.role);
        let members = match self.grid.grows() {
            false => recorded.members.iter().map(|member| *member as u32).collect(),
            true if recorded.inter == 1 => return Err("an intercommunicator has no place in a grid".into()),
            true => {
                let sets = (0..1u32 << self.grid.axes()).map(|axes| (self.along(&self.role, axes, false), self.along(&self.place, axes, true)));
                let is_it = |(ranks, _): &(Vec<u32>, Vec<u32>)| ranks.iter().map(|rank| i64::from(*rank)).eq(recorded.members.iter().copied());
                match sets.into_iter().find(is_it) {
                    Some((_, wanted)) => wanted,
                    None => {
                        return Err(format!(
                            "the members of its communicator {} are no row, plane or whole of the grid (as rank {own})",
                            recorded.comm
                        ));
                    }
                }
            }
        };
        let made = Communicator { members: members.iter().map(|member| i64::from(*member)).collect(), ..recorded.clone() };
        self.groups.push(Group { recorded: recorded.members.clone(), wanted: members });
        Ok(made)
    }

    /// Returns the ranks that differ from a place only on these axes, in order.
    fn along(&self, place: &[u32], axes: u32, is_new: bool) -> Vec<u32> {
        let mut places = vec![Vec::new()];
        for (number, (recorded, wanted)) in self.grid.lengths().into_iter().enumerate() {
            let length = if is_new { wanted } else { recorded };
            let choices = if axes >> number & 1 == 1 { 0..length } else { place[number]..place[number] + 1 };
            places = places.into_iter().flat_map(|start: Vec<u32>| choices.clone().map(move |next| [start.clone(), vec![next]].concat())).collect();
        }
        let rank = |place: &Vec<u32>| if is_new { self.grid.wanted_rank(place) } else { self.grid.recorded_rank(place) };
        places.iter().map(rank).collect()
    }

    fn partner(&self, recorded: i64) -> Result<i64, String> {
        let Ok(rank) = u32::try_from(recorded) else { return Ok(recorded) };
        self.grid.partner(&self.place, &self.grid.recorded_place(rank)).map(|place| i64::from(self.grid.wanted_rank(&place)))
    }

    fn call(&self, recorded: &Call) -> Result<Call, String> {
        let mut call = recorded.clone();
        let named = |reason: String| format!("{}: {reason}", recorded.name);
        for rank in [&mut call.to, &mut call.from].into_iter().flatten() {
            *rank = self.partner(*rank).map_err(named)?;
        }
        if let Some(got) = &mut call.got {
            got[0] = self.partner(got[0]).map_err(named)?;
        }
        for done in call.done.iter_mut().flatten() {
            if let [_, from, ..] = done.as_mut_slice() {
                *from = self.partner(*from).map_err(named)?;
            }
        }
        if let Some(root) = recorded.root.and_then(|root| u32::try_from(root).ok()) {
            let wanted = self.grid.wanted_rank(&self.grid.root(&self.grid.recorded_place(root)));
            call.root = Some(i64::from(wanted));
            let lists_all = recorded.sizes.is_some() || recorded.receive_sizes.is_some();
            if lists_all && root == self.grid.recorded_rank(&self.role) && wanted != self.rank {
                return Err(named(format!("rank {} would take the role of the root, which only one rank can", self.rank)));
            }
        }
        for sizes in [&mut call.sizes, &mut call.receive_sizes].into_iter().flatten() {
            *sizes = self.sizes(recorded, sizes)?;
        }
        Ok(call)
    }

    /// Returns the sizes for or from each new member: those of its role.
    fn sizes(&self, call: &Call, recorded: &[u64]) -> Result<Vec<u64>, String> {
        if recorded.is_empty() {
            return Ok(Vec::new());
        }
        let Some(group) = call.comm.and_then(|comm| self.groups.get(comm as usize)) else { return Err(format!("{} has no communicator", call.name)) };
        let size = |member: &u32| {
            let role = i64::from(self.grid.recorded_rank(&self.grid.role(&self.grid.wanted_place(*member))));
            let place = group.recorded.iter().position(|other| *other == role)?;
            recorded.get(place).copied()
        };
        group.wanted.iter().map(|member| size(member).ok_or_else(|| format!("{} has no size for a member", call.name))).collect()
    }
}

#[cfg(test)]
mod tests;
