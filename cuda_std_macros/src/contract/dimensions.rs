//! What the witnesses of a kernel require of grid and block.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};

use super::Requirement;
use crate::metadata::Text;

/// How many dimensions grid and block of a launch have at most.
#[derive(Clone, Copy)]
pub(crate) struct Dimensions {
    pub(crate) grid: usize,
    pub(crate) block: usize,
}

impl Default for Dimensions {
    fn default() -> Self {
        Self::ANY
    }
}

impl Dimensions {
    /// No limit.
    pub(crate) const ANY: Self = Self { grid: 3, block: 3 };

    /// Those that another limit allows too.
    pub(crate) fn at_most(&mut self, other: Self) {
        self.grid = self.grid.min(other.grid);
        self.block = self.block.min(other.block);
    }

    /// The requirement of a launch, and the same on the device: further extents are 1.
    pub(super) fn requirement(self) -> Option<(Requirement, Vec<TokenStream>)> {
        let axes = [("grid", self.grid), ("block", self.block)];
        let further: Vec<String> = axes
            .iter()
            .flat_map(|(of, most)| {
                ["x", "y", "z"][*most..]
                    .iter()
                    .map(move |axis| format!("{of}.{axis}"))
            })
            .collect();
        let (first, others) = further.split_first()?;
        let mut code = format!("${first}");
        for other in others {
            code += &format!(" ${other} max");
        }
        code += " 1 ==";
        let dimensions = |count: usize| match count {
            1 => "one dimension",
            _ => "two dimensions",
        };
        let text = match (self.grid, self.block) {
            (grid, 3) => format!("a grid of {}", dimensions(grid)),
            (grid, block) if grid == block => {
                format!("a grid and a block of {}", dimensions(grid))
            }
            (3, block) => format!("a block of {}", dimensions(block)),
            (grid, block) => format!(
                "a grid of {} and a block of {}",
                dimensions(grid),
                dimensions(block)
            ),
        };
        let on_device = further.iter().map(|extent| {
            let register = format_ident!("{}", extent.replace('.', "_dim_"));
            quote!((::cuda_std::thread::#register() == 1))
        });
        Some((
            Requirement {
                text,
                code: Text::of(&code),
            },
            on_device.collect(),
        ))
    }
}
