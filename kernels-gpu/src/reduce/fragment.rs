//! Where the elements of an item are, and which of them a thread has.

use abi::reduce::{ROWS_ANY, ReduceParams};

use super::fold::Indices;
use super::load::Load;

/// A thread's place in the block's items.
#[derive(Clone, Copy)]
pub(super) struct Role {
    /// Index of its item among the block's.
    pub(super) group: u32,
    /// Its index along the axis.
    pub(super) y: u32,
    /// Its index along `inner`.
    pub(super) x: u32,
    /// Number of items of the block.
    pub(super) groups: u32,
}

/// The items of a launch.
#[derive(Clone, Copy)]
pub(super) struct Items {
    /// Outputs, or tiles of outputs, along `inner`.
    pub(super) columns: u64,
    /// Parts of an output's axis.
    pub(super) parts: u64,
    /// Number of items.
    pub(super) count: u64,
}

impl Items {
    #[inline(always)]
    pub(super) fn of(params: &ReduceParams, lanes: u64) -> Self {
        let view = &params.view;
        let columns = if params.is_across == 0 {
            view.inner
        } else {
            // The number of lanes is a power of two.
            let width_log2 = params.across_log2 + lanes.trailing_zeros();
            (view.inner + (1 << width_log2) - 1) >> width_log2
        };
        let parts = view.segments * params.chunks;
        Self {
            columns,
            parts,
            count: view.outer * columns * parts,
        }
    }
}

/// Coordinates of an item.
#[derive(Clone, Copy)]
pub(super) struct Item {
    pub(super) outer: u64,
    pub(super) column: u64,
    pub(super) part: u64,
}

impl Item {
    /// Item number `item`. Items are ordered by `inner` first, so that blocks that run at the same
    /// time read neighbours.
    #[inline(always)]
    pub(super) fn number(item: u64, items: &Items) -> Self {
        let (rest, column) = divide(item, items.columns);
        let (outer, part) = divide(rest, items.parts);
        Self {
            outer,
            column,
            part,
        }
    }

    /// Number of the output, or tile of outputs, that it belongs to.
    #[inline(always)]
    pub(super) fn group(&self, items: &Items) -> u64 {
        self.outer * items.columns + self.column
    }
}

/// The elements of an item that one thread has.
#[derive(Clone, Copy)]
pub(super) struct Fragment {
    /// Address of its first vector.
    pub(super) at: *const u8,
    /// Number of its vectors.
    pub(super) count: u32,
    /// Bytes between its vectors.
    pub(super) step: i64,
    /// Whether each vector is one aligned access.
    pub(super) is_vector: bool,
    /// Bytes between the lanes of a vector.
    pub(super) lane_step: i64,
    /// Lanes that exist.
    pub(super) valid: u32,
    /// Index along the axis of its first element.
    pub(super) first: u64,
    /// Elements before and after the whole vectors, which all threads of the item share.
    pub(super) singles: Singles,
}

/// Elements that are not in whole vectors.
#[derive(Clone, Copy)]
pub(super) struct Singles {
    /// Address of the first element along the axis here, and its index.
    pub(super) at: *const u8,
    pub(super) first: u64,
    /// Bytes between neighbours.
    pub(super) step: i64,
    /// Number of elements before the vectors.
    pub(super) head: u64,
    /// Number of elements in vectors.
    pub(super) body: u64,
    /// Number of elements before and after the vectors.
    pub(super) count: u64,
}

impl Fragment {
    /// Where its elements are along the axis, for vectors of `lanes` elements.
    #[inline(always)]
    pub(super) fn indices(&self, params: &ReduceParams, lanes: usize) -> Indices {
        let (step, lane) = match params.is_across {
            0 => (lanes as u64, 1),
            _ => (1, 0),
        };
        Indices {
            first: self.first,
            step: step << params.along_log2,
            lane,
        }
    }

    /// A place without elements.
    #[inline(always)]
    pub(super) fn nothing(x: *const u8) -> Self {
        Self {
            at: x,
            count: 0,
            step: 0,
            is_vector: true,
            lane_step: 0,
            valid: 1,
            first: 0,
            singles: Singles {
                at: x,
                first: 0,
                step: 0,
                head: 0,
                body: 0,
                count: 0,
            },
        }
    }

    /// The place of a thread in an item.
    #[inline(always)]
    pub(super) fn of<T: Load<V>, const V: usize>(
        x: *const u8,
        item: &Item,
        role: &Role,
        params: &ReduceParams,
    ) -> Self {
        let view = &params.view;
        if params.rows != ROWS_ANY && x.addr().is_multiple_of(16) {
            return Self::whole::<T, V>(x, item, role, params);
        }
        let (segment, chunk) = divide(item.part, params.chunks);
        let first = chunk * params.chunk_len;
        let len = params.chunk_len.min(view.n - first);
        let index = segment * view.n + first;
        let before = (item.outer as i64)
            .wrapping_mul(view.outer_stride)
            .wrapping_add((segment as i64).wrapping_mul(view.segment_stride))
            .wrapping_add((first as i64).wrapping_mul(view.axis_stride));
        if params.is_across == 0 {
            let elements =
                before.wrapping_add((item.column as i64).wrapping_mul(view.inner_stride));
            Self::along::<T, V>(x, elements, len, index, role, params)
        } else {
            Self::across::<T, V>(x, before, len, index, item.column, role, params)
        }
    }

    /// For rows of whole vectors. This has its own path because it is most of what small inputs
    /// wait for.
    #[inline(always)]
    fn whole<T: Load<V>, const V: usize>(
        x: *const u8,
        item: &Item,
        role: &Role,
        params: &ReduceParams,
    ) -> Self {
        let view = &params.view;
        let size = T::bytes(params.mask);
        let first = item.part * params.chunk_len;
        let before = first + u64::from(role.y) * V as u64;
        let element = (item.outer as i64)
            .wrapping_mul(view.outer_stride)
            .wrapping_add(before as i64);
        let vectors = params.chunk_len.min(view.n - first) / V as u64;
        Self {
            at: x.wrapping_offset(element.wrapping_mul(size) as isize),
            count: share(vectors, role.y, params.along_log2),
            step: (V as i64 * size) << params.along_log2,
            first: before,
            ..Self::nothing(x)
        }
    }

    /// With lanes along the axis. Elements before the first whole vector and after the last are
    /// singles.
    #[inline(always)]
    fn along<T: Load<V>, const V: usize>(
        x: *const u8,
        elements: i64,
        len: u64,
        index: u64,
        role: &Role,
        params: &ReduceParams,
    ) -> Self {
        let size = T::bytes(params.mask);
        let stride = params.view.axis_stride.wrapping_mul(size);
        let at = x.wrapping_offset(elements.wrapping_mul(size) as isize);
        let is_vector = params.view.axis_stride == 1 && params.to_y % 16 == 0;
        let head = match is_vector {
            true => ((at.addr() as u64).wrapping_neg() % 16 / size as u64).min(len),
            false => 0,
        };
        let vectors = (len - head) / V as u64;
        let (y, along) = (u64::from(role.y), 1_u64 << params.along_log2);
        let before = head + y * V as u64;
        Self {
            at: at.wrapping_offset((before as i64).wrapping_mul(stride) as isize),
            count: share(vectors, role.y, params.along_log2),
            step: (along as i64 * V as i64).wrapping_mul(stride),
            is_vector,
            lane_step: stride,
            valid: V as u32,
            first: index + before,
            singles: Singles {
                at,
                first: index,
                step: stride,
                head,
                body: vectors * V as u64,
                count: len - vectors * V as u64,
            },
        }
    }

    /// With lanes along `inner`.
    #[inline(always)]
    fn across<T: Load<V>, const V: usize>(
        x: *const u8,
        elements: i64,
        len: u64,
        index: u64,
        column: u64,
        role: &Role,
        params: &ReduceParams,
    ) -> Self {
        let view = &params.view;
        let size = T::bytes(params.mask);
        let inner = ((column << params.across_log2) + u64::from(role.x)) * V as u64;
        if inner >= view.inner {
            return Self::nothing(x);
        }
        let stride = view.axis_stride.wrapping_mul(size);
        let elements = elements
            .wrapping_add((inner as i64).wrapping_mul(view.inner_stride))
            .wrapping_add(i64::from(role.y).wrapping_mul(view.axis_stride));
        let at = x.wrapping_offset(elements.wrapping_mul(size) as isize);
        let valid = (view.inner - inner).min(V as u64) as u32;
        Self {
            at,
            count: share(len, role.y, params.along_log2),
            step: stride << params.along_log2,
            is_vector: view.inner_stride == 1
                && valid == V as u32
                && at.addr().is_multiple_of(16)
                && (stride | params.to_y) % 16 == 0,
            lane_step: view.inner_stride.wrapping_mul(size),
            valid,
            first: index + u64::from(role.y),
            ..Self::nothing(x)
        }
    }
}

/// How many of `0..all` are `own`, `own + of`, `own + 2 of`, .., for `of = 1 << of_log2`.
#[inline(always)]
pub(super) fn share(all: u64, own: u32, of_log2: u32) -> u32 {
    ((all + (1 << of_log2) - 1 - u64::from(own)) >> of_log2) as u32
}

/// Quotient and remainder; fast for a divisor of 1, which most are.
#[inline(always)]
pub(super) fn divide(x: u64, by: u64) -> (u64, u64) {
    if by <= 1 {
        return (x, 0);
    }
    let quotient = x / by;
    (quotient, x - quotient * by)
}
