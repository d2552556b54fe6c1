//! Kernels that call crates which know nothing of GPUs.
#![cfg_attr(target_arch = "nvptx64", no_std, feature(abi_ptx))]

use cuda_std::prelude::*;
use glam::{Quat, Vec3};
use sha2::{Digest, Sha256, Sha512};

/// SHA-256 of each text.
#[kernel(allow_local, requires = "texts.len() == digests.len()", grid = "digests")]
pub fn sha256_of_each(texts: &[[u8; 100]], mut digests: Disjoint<'_, [u8; 32], Index1>) {
    let i = Index1::here();
    if let Some(digest) = digests.get_mut(&i) {
        *digest = Sha256::digest(texts[i.get()]).into();
    }
}

/// SHA-512 of each text, in two parts.
#[kernel(allow_local, requires = "texts.len() == digests.len()", grid = "digests")]
pub fn sha512_of_each(texts: &[[u8; 100]], mut digests: Disjoint<'_, [u8; 64], Index1>) {
    let i = Index1::here();
    if let Some(digest) = digests.get_mut(&i) {
        let (first, second) = texts[i.get()].split_at(37);
        let hash = Sha512::new().chain_update(first).chain_update(second);
        *digest = hash.finalize().into();
    }
}

/// Each point, turned about the z axis, and moved to the sphere of radius 1. Of half the angle, these are
/// sine and cosine.
#[kernel(requires = "points.len() == turned.len()", grid = "turned")]
pub fn turn_each(
    sine: f32,
    cosine: f32,
    points: &[[f32; 3]],
    mut turned: Disjoint<'_, [f32; 3], Index1>,
) {
    let i = Index1::here();
    if let Some(turned) = turned.get_mut(&i) {
        let turn = Quat::from_xyzw(0.0, 0.0, sine, cosine);
        let point = turn * Vec3::from_array(points[i.get()]);
        *turned = point.normalize().to_array();
    }
}
