//! Bits of dropout: Philox4x32-10 of a place, and what they do to numbers. [`abi::attention::dropout::Dropout`]
//! has their definition.

fragments! {
    dropout_queries(query: u32) -> u32 = (query >> 4 << 3) | (query & 7);
    dropout_keys(key: u32) -> u32 = (key >> 4 << 2) | (key >> 1 & 3);
    dropout_head(batch: u32, head: u32, heads: u32) -> u32 =
        batch.wrapping_mul(heads).wrapping_add(head);
    philox_product(x: u32, multiplier: u32) -> u64 =
        u64::from(x).wrapping_mul(u64::from(multiplier));
    philox_mix(product: u64, other: u32, key: u32) -> u32 = (product >> 32) as u32 ^ other ^ key;
    philox_low(product: u64) -> u32 = product as u32;
    dropout_word(a: u32, b: u32, c: u32, d: u32, query: u32, key: u32) -> u32 = {
        let of_first = if key & 8 == 0 { a } else { b };
        let of_second = if key & 8 == 0 { c } else { d };
        if query & 8 == 0 { of_first } else { of_second }
    };
    dropout_half(word: u32, key: u32) -> u32 = if key & 1 == 0 { word << 16 } else { word };
    dropout_bit(bits: u32, half: u32, threshold: u32, bit: u32) -> u32 =
        if half >= threshold { bits | bit } else { bits };
    dropout_low(x: f32, word: u32, threshold: u32) -> f32 =
        if word << 16 >= threshold { x } else { 0.0 };
    dropout_high(x: f32, word: u32, threshold: u32) -> f32 =
        if word >= threshold { x } else { 0.0 };
    dropout_kept(x: f32, bits: u32, bit: u32, factor: f32) -> f32 =
        if bits & bit != 0 { x * factor } else { 0.0 };
}
