//! cuBLASLt's descriptors, each freed by its owner.

use std::ffi::c_void;

use cudarc::cublaslt::{result, sys};

use super::{Result, failed};

/// Types that own a handle and free it when dropped.
macro_rules! owners {
    ($($(#[$doc:meta])* $name:ident($raw:ty), $destroy:path;)*) => {$(
        $(#[$doc])*
        pub(super) struct $name($raw);

        impl $name {
            pub(super) fn raw(&self) -> $raw {
                self.0
            }
        }

        impl Drop for $name {
            fn drop(&mut self) {
                // SAFETY: made by the constructor, destroyed once; a failure leaves nothing to do.
                let _ = unsafe { $destroy(self.0) };
            }
        }
    )*};
}

owners! {
    /// How one matrix lies.
    Layout(sys::cublasLtMatrixLayout_t), result::destroy_matrix_layout;
    /// What is computed.
    Description(sys::cublasLtMatmulDesc_t), result::destroy_matmul_desc;
    /// What an algorithm may use.
    Preference(sys::cublasLtMatmulPreference_t), result::destroy_matmul_pref;
}

/// The address and the size of a value, in the form in which attributes are passed.
fn bytes_of<T>(value: &T) -> (*const c_void, usize) {
    (std::ptr::from_ref(value).cast(), size_of::<T>())
}

impl Layout {
    /// The layout of `batch` matrices, one after the other, each `rows` × `columns` and
    /// column-major without gaps.
    pub(super) fn new(
        dtype: sys::cudaDataType,
        rows: usize,
        columns: usize,
        batch: usize,
    ) -> Result<Self> {
        let layout =
            result::create_matrix_layout(dtype, rows as u64, columns as u64, rows.max(1) as i64)
                .map(Self)
                .map_err(failed("cublasLtMatrixLayoutCreate"))?;
        use sys::cublasLtMatrixLayoutAttribute_t as Attribute;
        layout.set(Attribute::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, batch as i32)?;
        layout.set(
            Attribute::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
            (rows * columns) as i64,
        )?;
        Ok(layout)
    }

    fn set<T>(&self, attribute: sys::cublasLtMatrixLayoutAttribute_t, value: T) -> Result<()> {
        let (address, bytes) = bytes_of(&value);
        // SAFETY: the layout is live, and the library copies `bytes` bytes from `address`.
        unsafe { result::set_matrix_layout_attribute(self.0, attribute, address, bytes) }
            .map_err(failed("cublasLtMatrixLayoutSetAttribute"))
    }
}

impl Description {
    /// A GEMM with compute type `compute`, scaled in `scale`.
    pub(super) fn new(compute: sys::cublasComputeType_t, scale: sys::cudaDataType) -> Result<Self> {
        result::create_matmul_desc(compute, scale)
            .map(Self)
            .map_err(failed("cublasLtMatmulDescCreate"))
    }

    /// `value` has the type that the library documents for the attribute.
    pub(super) fn set<T>(
        &self,
        attribute: sys::cublasLtMatmulDescAttributes_t,
        value: T,
    ) -> Result<()> {
        let (address, bytes) = bytes_of(&value);
        // SAFETY: the description is live, and the library copies `bytes` bytes from `address`; it
        // refuses a size other than that of the attribute.
        unsafe { result::set_matmul_desc_attribute(self.0, attribute, address, bytes) }
            .map_err(failed("cublasLtMatmulDescSetAttribute"))
    }
}

impl Preference {
    /// Allows up to `workspace_bytes` of scratch memory.
    pub(super) fn new(workspace_bytes: usize) -> Result<Self> {
        let preference = result::create_matmul_pref()
            .map(Self)
            .map_err(failed("cublasLtMatmulPreferenceCreate"))?;
        use sys::cublasLtMatmulPreferenceAttributes_t::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
        let (address, bytes) = bytes_of(&workspace_bytes);
        // SAFETY: the preference is live, and the library copies a u64 from `address`.
        unsafe {
            result::set_matmul_pref_attribute(
                preference.0,
                CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                address,
                bytes,
            )
        }
        .map_err(failed("cublasLtMatmulPreferenceSetAttribute"))?;
        Ok(preference)
    }
}
