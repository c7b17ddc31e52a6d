//! Positions of nodes and cables in a picture: one layout for every drawing. Trees stand in rows,
//! tori and cubes in a grid, all other fabrics on a circle. The same fabric gives the same picture.

mod circle;
mod grid;
mod kinds;
mod labels;
mod layered;
mod levels;
mod nodes;
mod schematic;
mod show;
mod style;

pub use labels::Places;
pub use levels::Levels;
pub use nodes::{Drawing, Half, Node, Point, middle};
pub use show::draw_svg;
pub use style::{escape_xml, heading, opening, style};

use softband_spec::FabricSpec;

/// Most hosts and switches that a picture draws one by one.
pub const NODES_MAX: usize = 64;
/// Margin around the picture, in pixels.
pub const MARGIN: i64 = 28;

/// Constraints of a layout, in pixels.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    /// Room above the nodes.
    pub top: i64,
    /// Least width of the picture.
    pub width_min: i64,
}

/// Places every node and cable. Intended for at most [`NODES_MAX`] nodes.
pub fn place(spec: &FabricSpec, levels: &Levels, frame: Frame) -> Drawing {
    if levels.are_layers(spec) {
        return layered::place(spec, levels, frame);
    }
    grid::find(spec).map_or_else(|| circle::place(spec, frame), |grid| grid::place(spec, &grid, frame))
}
