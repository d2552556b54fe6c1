//! Tensor maps: encoding and decoding gives the same description, and what breaks the driver's
//! rules is refused.

use warpsmith_emulator::{Fill, Im2col, Swizzle, TensorMapDesc, TensorMapError, TensorMapType};

fn good() -> TensorMapDesc {
    TensorMapDesc {
        data_type: TensorMapType::Bf16,
        address: 0x7f00_0000_1000,
        dims: vec![1000, 300],
        strides_bytes: vec![2048],
        box_dims: vec![64, 128],
        element_strides: vec![1, 1],
        swizzle: Swizzle::B128,
        fill: Fill::Zeros,
    }
}

#[test]
fn a_map_comes_back_as_it_was() {
    let mut maps = vec![good()];
    for data_type in TensorMapType::ALL {
        maps.push(TensorMapDesc {
            data_type,
            address: 0xffff_ffff_ffff_fff0,
            dims: vec![1 << 32, 1, 2, 3, 1 << 32],
            strides_bytes: vec![16, 0, (1 << 40) - 16, 32],
            box_dims: vec![16, 256, 1, 2, 3],
            element_strides: vec![8, 7, 1, 2, 3],
            swizzle: Swizzle::None,
            fill: if data_type.is_float() {
                Fill::Nan
            } else {
                Fill::Zeros
            },
        });
    }
    for map in maps {
        let bytes = map.encode().expect("a map by the rules");
        assert_eq!(TensorMapDesc::decode(&bytes), Ok((map, None)));
    }
}

#[test]
fn an_im2col_map_comes_back_as_it_was() {
    let desc = TensorMapDesc {
        dims: vec![64, 56, 56, 8],
        strides_bytes: vec![128, 7168, 401_408],
        box_dims: Vec::new(),
        element_strides: vec![1, 2, 2, 1],
        ..good()
    };
    let im2col = Im2col {
        lower_corner: vec![-1, -128],
        upper_corner: vec![127, 0],
        channels_per_pixel: 64,
        pixels_per_column: 1024,
    };
    let bytes = desc.encode_im2col(&im2col).expect("a map by the rules");
    assert_eq!(
        TensorMapDesc::decode(&bytes),
        Ok((desc.clone(), Some(im2col.clone())))
    );
    let refused = |im2col| {
        desc.encode_im2col(&im2col)
            .expect_err("against the rules")
            .to_string()
    };
    let lower = Im2col {
        lower_corner: vec![-129, 0],
        ..im2col.clone()
    };
    assert_eq!(refused(lower), "lower_corner[0]: -129, want -128 to 127");
    let pixels = Im2col {
        pixels_per_column: 1025,
        ..im2col.clone()
    };
    assert_eq!(
        refused(pixels),
        "pixels_per_column[0]: 1025, want 1 to 1024"
    );
    let channels = Im2col {
        channels_per_pixel: 72,
        ..im2col.clone()
    };
    assert_eq!(
        refused(channels),
        "box[0]: 72 elements of 2 bytes are 144 bytes, want at most the swizzle's 128"
    );
    let flat = TensorMapDesc {
        dims: vec![64, 8],
        ..good()
    };
    let error = flat.encode_im2col(&im2col).expect_err("two dimensions");
    assert_eq!(
        error.to_string(),
        "dims: a tensor of 2 dimensions, want 3 to 5"
    );
}

#[test]
fn each_rule_names_the_value_that_breaks_it() {
    type Change = fn(&mut TensorMapDesc);
    let rules: [(Change, &str); 14] = [
        (
            |m| m.dims.clear(),
            "dims: a tensor of 0 dimensions, want 1 to 5",
        ),
        (
            |m| m.dims = vec![1; 6],
            "dims: a tensor of 6 dimensions, want 1 to 5",
        ),
        (
            |m| m.address += 8,
            "address: 0x7f0000001008 is not a multiple of 16",
        ),
        (
            |m| m.strides_bytes.push(16),
            "strides_bytes: 2 values, want 1 for 2 dimensions",
        ),
        (
            |m| m.box_dims.truncate(1),
            "box: 1 values, want 2 for 2 dimensions",
        ),
        (
            |m| m.element_strides.clear(),
            "element_strides: 0 values, want 2 for 2 dimensions",
        ),
        (|m| m.dims[1] = 0, "dims[1]: 0, want 1 to 2^32"),
        (
            |m| m.dims[0] = (1 << 32) + 1,
            "dims[0]: 4294967297, want 1 to 2^32",
        ),
        (
            |m| m.strides_bytes[0] = 2004,
            "strides_bytes[0]: 2004, want a multiple of 16",
        ),
        (
            |m| m.strides_bytes[0] = 1 << 40,
            "strides_bytes[0]: 1099511627776, want less than 2^40",
        ),
        (|m| m.box_dims[1] = 257, "box[1]: 257, want 1 to 256"),
        (
            |m| m.element_strides[1] = 9,
            "element_strides[1]: 9, want 1 to 8",
        ),
        (
            |m| m.box_dims[0] = 60,
            "box[0]: 60 elements of 2 bytes are 120 bytes, want a multiple of 16",
        ),
        (
            |m| m.box_dims[0] = 128,
            "box[0]: 128 elements of 2 bytes are 256 bytes, want at most the swizzle's 128",
        ),
    ];
    for (change, want) in rules {
        let mut map = good();
        change(&mut map);
        assert_eq!(map.encode().expect_err(want).to_string(), want);
    }
    let integers = TensorMapDesc {
        data_type: TensorMapType::U16,
        fill: Fill::Nan,
        ..good()
    };
    let error = integers.encode().expect_err("integers have no NaN");
    assert_eq!(
        error,
        TensorMapError::Fill {
            got: TensorMapType::U16
        }
    );
}

#[test]
fn other_bytes_are_no_map() {
    assert_eq!(
        TensorMapDesc::decode(&[0; 128]),
        Err(TensorMapError::NotAMap)
    );
    let mut bytes = good().encode().expect("a map by the rules");
    bytes[0] ^= 1;
    assert_eq!(TensorMapDesc::decode(&bytes), Err(TensorMapError::NotAMap));
}

#[test]
fn a_box_with_element_strides_moves_fewer_elements() {
    assert_eq!(good().box_bytes(), 64 * 128 * 2);
    let strided = TensorMapDesc {
        element_strides: vec![4, 3],
        ..good()
    };
    assert_eq!(strided.box_bytes(), 64 * 43 * 2);
}
