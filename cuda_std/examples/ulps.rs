//! Measures the largest error of functions of `cuda_std::math` over every f32. `-- 64` takes every
//! 64th f32 only; names after the number select functions: `-- 64 silu`. Build with
//! `-Ctarget-feature=+fma` in RUSTFLAGS, or it takes hours.

use cuda_std::math;

/// The name, the function, and the same function in f64.
type Case = (&'static str, fn(f32) -> f32, fn(f64) -> f64);

fn ulps(got: f32, want: f64) -> f64 {
    if want.is_nan() || got.is_nan() || got.is_infinite() || want.abs() > 3.402_823_5e38 {
        return 0.0;
    }
    let exponent = ((want.to_bits() >> 52 & 0x7ff) as i32 - 1023).max(-126);
    (f64::from(got) - want).abs() * f64::from_bits(((23 - exponent + 1023) as u64) << 52)
}

fn gate(x: f64, v: f64) -> f64 {
    if v < 0.0 {
        x.max(f64::MIN) * v.exp() / (1.0 + v.exp())
    } else {
        x / (1.0 + (-v).exp())
    }
}

fn main() {
    let step: usize = std::env::args()
        .nth(1)
        .map_or(1, |n| n.parse().expect("a number of steps"));
    let cases: [Case; 15] = [
        ("exp", math::exp, f64::exp),
        ("exp2", math::exp2, f64::exp2),
        ("log", math::log, f64::ln),
        ("log2", math::log2, f64::log2),
        ("rsqrt", math::rsqrt, |x| 1.0 / x.sqrt()),
        ("rcp", math::rcp, |x| 1.0 / x),
        ("tanh", math::tanh, f64::tanh),
        ("sin", math::sin, f64::sin),
        ("cos", math::cos, f64::cos),
        ("erf", math::erf, libm::erf),
        ("erfc", math::erfc, libm::erfc),
        ("sigmoid", math::sigmoid, |x| gate(1.0, x)),
        ("silu", math::silu, |x| gate(x, x)),
        ("gelu", math::gelu, |x| {
            0.5 * x.max(f64::MIN) * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2)
        }),
        ("gelu_tanh", math::gelu_tanh, |x| {
            let slope = 2.0 * std::f64::consts::FRAC_2_PI.sqrt();
            gate(x, slope * (x + 0.044_715 * x * x * x))
        }),
    ];
    println!("{:>10}  {:>8}  at", "function", "ulp");
    let named: Vec<String> = std::env::args().skip(2).collect();
    for (name, function, truth) in cases {
        if !named.is_empty() && !named.iter().any(|wanted| wanted == name) {
            continue;
        }
        let worst = (0..=u32::MAX)
            .step_by(step)
            .map(f32::from_bits)
            .map(|x| (ulps(function(x), truth(f64::from(x))), x))
            .fold((0.0, 0.0), |a, b| if b.0 > a.0 { b } else { a });
        println!("{name:>10}  {:>8.4}  {:e}", worst.0, worst.1);
    }
}
