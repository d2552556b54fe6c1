//! The source lines that instructions come from, as `.loc` says.

use std::collections::BTreeMap;

use crate::ast::{Function, Module, Statement};

/// The longest chain of inlined calls that is followed.
const DEPTH: usize = 64;

/// For each instruction under a `.loc`, the source lines that it comes from.
#[derive(Clone, Debug, Default)]
pub struct Origins {
    /// PTX lines in order, and the index of what they come from.
    lines: Vec<(u32, usize)>,
    places: Vec<Vec<(String, u32)>>,
}

impl Origins {
    /// Those of a module.
    pub fn of(module: &Module) -> Self {
        let mut origins = Self::default();
        for function in &module.functions {
            origins.add(function, &module.files);
        }
        origins.lines.sort_by_key(|(line, _)| *line);
        origins
    }

    /// Files and lines of the instruction in this PTX line: first that of the function in which it
    /// stands, then those of what was inlined there, the innermost last. Empty if no `.loc` names
    /// them.
    pub fn at(&self, line: u32) -> &[(String, u32)] {
        let found = self.lines.partition_point(|(at, _)| *at < line);
        let found = self.lines.get(found).filter(|(at, _)| *at == line);
        let places = found.and_then(|(_, place)| self.places.get(*place));
        places.map_or(&[], Vec::as_slice)
    }

    fn add(&mut self, function: &Function, files: &[(u32, String)]) {
        // Of each `.loc` so far, where it was inlined: what follows refers to them.
        let mut calls: BTreeMap<[u32; 3], Option<[u32; 3]>> = BTreeMap::new();
        let mut current = None;
        for statement in function.statements() {
            match statement {
                Statement::Loc {
                    file,
                    line,
                    column,
                    inlined_at,
                } => {
                    let own = [*file, *line, *column];
                    calls.insert(own, *inlined_at);
                    let next = |at: &[u32; 3]| calls.get(at).copied().flatten();
                    let chain = std::iter::successors(Some(own), next).take(DEPTH);
                    let named = chain.filter_map(|[file, line, _]| {
                        let (_, path) = files.iter().find(|(index, _)| *index == file)?;
                        Some((path.clone(), line))
                    });
                    let mut place: Vec<(String, u32)> = named.collect();
                    place.reverse();
                    self.places.push(place);
                    current = Some(self.places.len() - 1);
                }
                Statement::Instruction(instruction) => {
                    let place = current.map(|place| (instruction.line, place));
                    self.lines.extend(place);
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_the_kernel_first_and_then_what_was_inlined() {
        let text = "\
.version 7.8
.target sm_75
.address_size 64
.file 1 \"kernel.rs\"
.file 2 \"lib/mem.rs\"
.visible .entry k()
{
.reg .b32 r<3>;
mov.b32 r0,0;
.loc 1 9 3
mov.b32 r0,1;
.loc 1 5 7, function_name $L__info0, inlined_at 1 9 3
.loc 2 30 1, function_name $L__info0+4, inlined_at 1 5 7
mov.b32 r1,1;
mov.b32 r2,1;
.loc 2 8 1, function_name $L__info0, inlined_at 2 8 1
ret;
}
";
        let module = crate::parse(text).expect("valid PTX");
        let origins = Origins::of(&module);
        let at = |line| {
            let places = origins.at(line).iter();
            places
                .map(|(file, line)| format!("{file}:{line}"))
                .collect()
        };
        let none: [String; 0] = [];
        assert_eq!(at(9), none.to_vec());
        assert_eq!(at(11), ["kernel.rs:9"].map(String::from).to_vec());
        let inlined = ["kernel.rs:9", "kernel.rs:5", "lib/mem.rs:30"].map(String::from);
        assert_eq!(at(14), inlined.to_vec());
        assert_eq!(at(15), inlined.to_vec());
        let endless: Vec<String> = at(17);
        assert_eq!(endless.len(), DEPTH);
    }
}
