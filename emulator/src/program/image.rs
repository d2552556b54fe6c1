//! Operations on textures and surfaces.

use super::Reg;
use crate::exec::registers::Slot;

/// An operation on the image behind a handle.
#[derive(Clone, Debug)]
pub(crate) struct ImageOp {
    pub(crate) handle: Slot,
    pub(crate) shape: Shape,
    /// The layer, for shapes that have them.
    pub(crate) layer: Option<Slot>,
    pub(crate) action: ImageAction,
}

/// What an instruction takes an image for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// An image of one to three dimensions.
    Flat(usize),
    Cube,
}

impl Shape {
    /// Number of coordinates, without the layer.
    pub(crate) fn coordinates(self) -> usize {
        match self {
            Self::Flat(axes) => axes,
            Self::Cube => 3,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) enum ImageAction {
    /// `tex` and `tld4`
    Fetch(Fetch),
    /// `suld`
    Load(Raw),
    /// `sust`
    Store(Raw),
    /// `txq` and `suq`
    Query { d: Reg, what: Property },
}

#[derive(Clone, Debug)]
pub(crate) struct Fetch {
    pub(crate) d: [Option<Reg>; 4],
    /// The predicate that says whether the texels are there, which they always are.
    pub(crate) resident: Option<Slot>,
    pub(crate) coordinates: Coordinates,
    /// Of `tld4`, the channel that it takes of four texels.
    pub(crate) gathers: Option<usize>,
}

/// Coordinates of a fetch; axes that the shape lacks are 0.
#[derive(Clone, Debug)]
pub(crate) enum Coordinates {
    Float(Box<[Slot]>),
    Integer(Box<[Slot]>),
}

/// A load or store of the bytes of a surface.
#[derive(Clone, Debug)]
pub(crate) struct Raw {
    /// Destinations or sources, one for each element.
    pub(crate) regs: Box<[Option<Reg>]>,
    /// Bytes of one element: 1, 2, 4 or 8.
    pub(crate) element: usize,
    /// x in bytes, the others in texels.
    pub(crate) coordinates: Box<[Slot]>,
    pub(crate) outside: Outside,
}

/// What an access outside of a surface does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outside {
    Traps,
    /// It goes to the edge.
    Clamps,
    /// Loads give zeros, and stores do nothing.
    Zeros,
}

/// What can be asked of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Property {
    Width,
    Height,
    Depth,
    Layers,
    Normalized,
    Levels,
    Samples,
}
