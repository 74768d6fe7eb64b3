//! Bits of the float formats: their layout, and rounding to nearest even as a GPU converts.

use crate::vocab::Dtype;

/// Layout of a float format; sign, exponent, fraction from the top bit down.
#[derive(Clone, Copy, Debug)]
pub(super) struct Format {
    /// Fraction bits, without the hidden one.
    pub(super) mantissa: u32,
    /// Exponent field of 1.0.
    pub(super) bias: i64,
    /// Bits of the largest finite value.
    pub(super) max: u64,
    /// Bits of what is beyond it: infinity, or the largest finite value where the conversion saturates (FP8).
    pub(super) beyond: u64,
}

impl Format {
    /// The format of a float type; of an integer type that of `double`, which no caller asks for.
    pub(super) const fn of(dtype: Dtype) -> Self {
        match dtype {
            Dtype::Half => Self { mantissa: 10, bias: 15, max: 0x7bff, beyond: 0x7c00 },
            Dtype::Bfloat16 => Self { mantissa: 7, bias: 127, max: 0x7f7f, beyond: 0x7f80 },
            Dtype::Float => Self { mantissa: 23, bias: 127, max: 0x7f7f_ffff, beyond: 0x7f80_0000 },
            Dtype::F8e4m3 => Self { mantissa: 3, bias: 7, max: 0x7e, beyond: 0x7e },
            Dtype::F8e5m2 => Self { mantissa: 2, bias: 15, max: 0x7b, beyond: 0x7b },
            _ => Self { mantissa: 52, bias: 1023, max: 0x7fef_ffff_ffff_ffff, beyond: 0x7ff0_0000_0000_0000 },
        }
    }

    /// Bits of 1.0.
    pub(super) const fn one(self) -> u64 {
        (self.bias as u64) << self.mantissa
    }

    /// Bits of `value` rounded to nearest even, without its sign.
    fn magnitude(self, value: f64) -> u64 {
        let value = value.abs();
        if value == 0.0 {
            return 0;
        }
        let exponent = ((value.to_bits() >> 52).cast_signed() - 1023).max(1 - self.bias);
        let unit = exponent - i64::from(self.mantissa);
        // Dividing by a power of two in two steps: neither factor leaves the range of an f64.
        let scaled = (value * power_of_two(-unit / 2) * power_of_two(-unit - -unit / 2)).round_ties_even();
        let field = (exponent + self.bias) as u64;
        // A significand that rounds up to the next power of two carries into the exponent field; one below the
        // hidden bit leaves that field 0, a subnormal number.
        let bits = ((field - 1) << self.mantissa) + scaled as u64;
        if bits > self.max { self.beyond } else { bits }
    }

    /// The value of a finite pattern, without its sign.
    fn value(self, magnitude: u64) -> f64 {
        let field = (magnitude >> self.mantissa).cast_signed();
        let fraction = magnitude & ((1 << self.mantissa) - 1);
        let significand = if field == 0 { fraction } else { fraction | (1 << self.mantissa) };
        significand as f64 * power_of_two(field.max(1) - self.bias - i64::from(self.mantissa))
    }
}

/// 2 to the power of `exponent`, which lies within the normal range of an f64.
fn power_of_two(exponent: i64) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

/// Bits of `value`, rounded to nearest even in a float type.
pub(crate) fn encode(dtype: Dtype, value: f64) -> u64 {
    match dtype {
        Dtype::Double => value.to_bits(),
        Dtype::Float => u64::from((value as f32).to_bits()),
        _ => {
            let sign = u64::from(value.is_sign_negative()) << (8 * dtype.bytes() - 1);
            Format::of(dtype).magnitude(value) | sign
        }
    }
}

/// The value of a finite pattern of a float type.
pub(crate) fn decode(dtype: Dtype, bits: u64) -> f64 {
    match dtype {
        Dtype::Double => f64::from_bits(bits),
        Dtype::Float => f64::from(f32::from_bits(bits as u32)),
        _ => {
            let sign = 1 << (8 * dtype.bytes() - 1);
            let value = Format::of(dtype).value(bits & (sign - 1));
            if bits & sign == 0 { value } else { -value }
        }
    }
}

/// `value` rounded to a float type.
pub(crate) fn round(dtype: Dtype, value: f64) -> f64 {
    decode(dtype, encode(dtype, value))
}
