// Functions that kernels may call. Only those that a kernel mentions are part of its shader; functions are told apart by the
// empty lines between them.

fn f32_from_bits(bits: u32) -> f32 {
  return bitcast<f32>(bits);
}

fn is_nan(x: f32) -> bool {
  return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}

fn is_infinite(x: f32) -> bool {
  return (bitcast<u32>(x) & 0x7fffffffu) == 0x7f800000u;
}

fn nan() -> f32 {
  return f32_from_bits(0x7fc00000u);
}

fn infinity() -> f32 {
  return f32_from_bits(0x7f800000u);
}

// The bits of the nearest float16, halves to even.
fn half_from_f32(x: f32) -> u32 {
  let bits = bitcast<u32>(x);
  let sign = (bits >> 16u) & 0x8000u;
  let magnitude = bits & 0x7fffffffu;
  if magnitude > 0x7f800000u {
    return sign | 0x7e00u;
  }
  if magnitude >= 0x477ff000u {
    return sign | 0x7c00u;
  }
  if magnitude < 0x38800000u {
    // Subnormal: an integer number of 2^-24.
    if magnitude < 0x33000000u {
      return sign;
    }
    let shift = 126u - (magnitude >> 23u);
    let digits = (magnitude & 0x7fffffu) | 0x800000u;
    let whole = digits >> shift;
    let rest = digits & ((1u << shift) - 1u);
    let middle = 1u << (shift - 1u);
    return sign | (whole + select(0u, 1u, rest > middle || (rest == middle && (whole & 1u) == 1u)));
  }
  let rounded = magnitude + 0xfffu + ((magnitude >> 13u) & 1u);
  return sign | ((rounded - 0x38000000u) >> 13u);
}

fn f32_from_half(bits: u32) -> f32 {
  let sign = (bits & 0x8000u) << 16u;
  let magnitude = bits & 0x7fffu;
  if magnitude >= 0x7c00u {
    return bitcast<f32>(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13u));
  }
  if magnitude < 0x400u {
    // A multiple of 2^-24.
    return bitcast<f32>(sign | bitcast<u32>(f32(magnitude) * 5.9604644775390625e-8f));
  }
  return bitcast<f32>(sign | ((magnitude << 13u) + 0x38000000u));
}

fn round_half(x: f32) -> f32 {
  return f32_from_half(half_from_f32(x));
}

fn div_f32(a: f32, b: f32) -> f32 {
  // The reciprocal of such a divisor is no normal number, and some GPUs make the quotient 0. A power of two changes no digit.
  if abs_f32(b) > 0x1p126f {
    return (a * 0x1p-24f) / (b * 0x1p-24f);
  }
  return a / b;
}

// a / b * c for b of a root's range, where the quotient c / b alone is too great or too small as well.
fn quotient_times(a: f32, b: f32, c: f32) -> f32 {
  let factor = c / b;
  let magnitude = abs_f32(factor);
  if (magnitude >= 0x1p-126f && magnitude <= 0x1p126f) || b == 0.0f || c == 0.0f || is_infinite(c) || is_nan(factor) {
    return factor * a;
  }
  if magnitude < 1.0f {
    return (c * 0x1p100f / b) * (a * 0x1p-100f);
  }
  return (c * 0x1p-100f / b) * (a * 0x1p100f);
}

// x divided by two to the power of n, by its bits where that can be: of a sum of products with one number compilers make the
// product of the sum, which overflows where the quotients are there to prevent it.
fn divided_by_power(x: f32, n: u32) -> f32 {
  let bits = bitcast<u32>(x);
  let exponent = (bits >> 23u) & 255u;
  if exponent > n && exponent < 255u {
    return f32_from_bits(bits - (n << 23u));
  }
  return x * f32_from_bits((127u - n) << 23u);
}

// The power of two that brings values up to largest near 1, at most most. Ordinary values are left as they are.
fn row_scale(largest: f32, most: f32) -> f32 {
  if largest >= 0x1p-30f && largest <= 0x1p40f {
    return 1.0f;
  }
  let exponent = i32(bitcast<u32>(largest) >> 23u);
  return min(f32_from_bits(u32(clamp(254 - exponent, 1, 253)) << 23u), most);
}

fn div_i32(a: i32, b: i32) -> i32 {
  if b == 0 {
    return 0;
  }
  if b == -1 {
    return -a;
  }
  return a / b;
}

fn div_u32(a: u32, b: u32) -> u32 {
  if b == 0u {
    return 0u;
  }
  return a / b;
}

// What a division rounded towards zero leaves, exactly: a long division of the digits, 8 binary places at a time.
fn rem_f32(a: f32, b: f32) -> f32 {
  let sign = bitcast<u32>(a) & 0x80000000u;
  let x = bitcast<u32>(a) & 0x7fffffffu;
  let y = bitcast<u32>(b) & 0x7fffffffu;
  if x >= 0x7f800000u || y > 0x7f800000u || y == 0u {
    return nan();
  }
  if x < y {
    return a;
  }
  // Digits and exponents, of subnormal numbers too; the quotient of the digits is that of the numbers but for a power of 2.
  let divisor = select((y & 0x7fffffu) | 0x800000u, y, y < 0x800000u);
  let exponent = max(y >> 23u, 1u);
  var rest = select((x & 0x7fffffu) | 0x800000u, x, x < 0x800000u) % divisor;
  for (var left = max(x >> 23u, 1u) - exponent; left > 0u && rest > 0u;) {
    let places = min(left, 8u);
    rest = (rest << places) % divisor;
    left -= places;
  }
  if rest == 0u {
    return f32_from_bits(sign);
  }
  let shift = min(countLeadingZeros(rest) - 8u, exponent - 1u);
  return f32_from_bits(sign | (((exponent - shift - 1u) << 23u) + (rest << shift)));
}

fn rem_i32(a: i32, b: i32) -> i32 {
  return a - div_i32(a, b) * b;
}

fn rem_u32(a: u32, b: u32) -> u32 {
  return a - div_u32(a, b) * b;
}

fn rem_i64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  return sub_64(a, mul_64(div_i64(a, b), b));
}

fn rem_u64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  return sub_64(a, mul_64(div_u64(a, b), b));
}

// What a division rounded down leaves: its sign is the divisor's.
fn floored_rem_f32(a: f32, b: f32) -> f32 {
  let rest = rem_f32(a, b);
  let bits = bitcast<u32>(rest);
  let sign = bitcast<u32>(b) & 0x80000000u;
  if (bits & 0x7fffffffu) == 0u {
    return f32_from_bits(sign);
  }
  if (bits & 0x80000000u) != sign && !is_nan(rest) {
    return rest + b;
  }
  return rest;
}

fn floored_rem_i32(a: i32, b: i32) -> i32 {
  let rest = rem_i32(a, b);
  return select(rest, rest + b, rest != 0 && b != 0 && (rest < 0) != (b < 0));
}

fn floored_rem_i64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  let rest = rem_i64(a, b);
  let corrects = any(rest != vec2<u32>(0u)) && any(b != vec2<u32>(0u)) && ((rest.y ^ b.y) >> 31u) == 1u;
  return select(rest, add_64(rest, b), corrects);
}

// IEEE 754's maximum: NaN if either is, and 0 is above -0.
fn max_f32(a: f32, b: f32) -> f32 {
  if is_nan(a) || is_nan(b) {
    return nan();
  }
  if a == b {
    return f32_from_bits(bitcast<u32>(a) & bitcast<u32>(b));
  }
  return max(a, b);
}

fn min_f32(a: f32, b: f32) -> f32 {
  if is_nan(a) || is_nan(b) {
    return nan();
  }
  if a == b {
    return f32_from_bits(bitcast<u32>(a) | bitcast<u32>(b));
  }
  return min(a, b);
}

fn max_i32(a: i32, b: i32) -> i32 {
  return max(a, b);
}

fn min_i32(a: i32, b: i32) -> i32 {
  return min(a, b);
}

fn max_u32(a: u32, b: u32) -> u32 {
  return max(a, b);
}

fn min_u32(a: u32, b: u32) -> u32 {
  return min(a, b);
}

fn max_i64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  return select(a, b, lt_i64(a, b));
}

fn min_i64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  return select(b, a, lt_i64(a, b));
}

fn max_u64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  return select(a, b, lt_u64(a, b));
}

fn min_u64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  return select(b, a, lt_u64(a, b));
}

fn lt_u64(a: vec2<u32>, b: vec2<u32>) -> bool {
  return a.y < b.y || (a.y == b.y && a.x < b.x);
}

fn lt_i64(a: vec2<u32>, b: vec2<u32>) -> bool {
  return bitcast<i32>(a.y) < bitcast<i32>(b.y) || (a.y == b.y && a.x < b.x);
}

fn add_64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  let low = a.x + b.x;
  return vec2<u32>(low, a.y + b.y + select(0u, 1u, low < a.x));
}

fn neg_64(a: vec2<u32>) -> vec2<u32> {
  return add_64(~a, vec2<u32>(1u, 0u));
}

fn sub_64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  return vec2<u32>(a.x - b.x, a.y - b.y - select(0u, 1u, a.x < b.x));
}

// The whole product of two words.
fn mul_words(a: u32, b: u32) -> vec2<u32> {
  let low = (a & 0xffffu) * (b & 0xffffu);
  let first = (a >> 16u) * (b & 0xffffu) + (low >> 16u);
  let second = (a & 0xffffu) * (b >> 16u) + (first & 0xffffu);
  return vec2<u32>((second << 16u) | (low & 0xffffu), (a >> 16u) * (b >> 16u) + (first >> 16u) + (second >> 16u));
}

fn mul_64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  let low = mul_words(a.x, b.x);
  return vec2<u32>(low.x, low.y + a.x * b.y + a.y * b.x);
}

fn shift_right_64(a: vec2<u32>, by: u32) -> vec2<u32> {
  if by == 0u {
    return a;
  }
  if by >= 32u {
    return vec2<u32>(a.y >> (by - 32u), 0u);
  }
  return vec2<u32>((a.x >> by) | (a.y << (32u - by)), a.y >> by);
}

fn shift_left_64(a: vec2<u32>, by: u32) -> vec2<u32> {
  if by == 0u {
    return a;
  }
  if by >= 32u {
    return vec2<u32>(0u, a.x << (by - 32u));
  }
  return vec2<u32>(a.x << by, (a.y << by) | (a.x >> (32u - by)));
}

fn div_u64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  if all(b == vec2<u32>(0u)) {
    return vec2<u32>(0u);
  }
  var quotient = vec2<u32>(0u);
  var rest = vec2<u32>(0u);
  for (var bit = 64u; bit > 0u; bit -= 1u) {
    let overflows = (rest.y >> 31u) == 1u;
    rest = shift_left_64(rest, 1u) | vec2<u32>(shift_right_64(a, bit - 1u).x & 1u, 0u);
    quotient = shift_left_64(quotient, 1u);
    if overflows || !lt_u64(rest, b) {
      rest = sub_64(rest, b);
      quotient.x |= 1u;
    }
  }
  return quotient;
}

fn div_i64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  let quotient = div_u64(abs_i64(a), abs_i64(b));
  return select(quotient, neg_64(quotient), ((a.y ^ b.y) >> 31u) == 1u);
}

fn abs_f32(x: f32) -> f32 {
  return f32_from_bits(bitcast<u32>(x) & 0x7fffffffu);
}

fn abs_i32(x: i32) -> i32 {
  return select(x, -x, x < 0);
}

fn abs_i64(x: vec2<u32>) -> vec2<u32> {
  return select(x, neg_64(x), (x.y >> 31u) == 1u);
}

fn neg_f32(x: f32) -> f32 {
  return f32_from_bits(bitcast<u32>(x) ^ 0x80000000u);
}

fn neg_i32(x: i32) -> i32 {
  return -x;
}

fn neg_i64(x: vec2<u32>) -> vec2<u32> {
  return neg_64(x);
}

fn sign_f32(x: f32) -> f32 {
  if is_nan(x) {
    return x;
  }
  // By integers: drivers make something else of nested selections, which may give -0.
  return f32(i32(x > 0.0f) - i32(x < 0.0f));
}

fn sign_i32(x: i32) -> i32 {
  return sign(x);
}

fn sign_i64(x: vec2<u32>) -> vec2<u32> {
  if (x.y >> 31u) == 1u {
    return vec2<u32>(0xffffffffu);
  }
  return vec2<u32>(select(0u, 1u, any(x != vec2<u32>(0u))), 0u);
}

fn pow_u32(base: u32, exponent: u32) -> u32 {
  var power = 1u;
  var square = base;
  for (var rest = exponent; rest > 0u; rest >>= 1u) {
    if (rest & 1u) == 1u {
      power *= square;
    }
    square *= square;
  }
  return power;
}

fn pow_i32(base: i32, exponent: i32) -> i32 {
  if exponent < 0 {
    let inverse = div_i32(1, base);
    return select(inverse, inverse * inverse, (exponent & 1) == 0);
  }
  return bitcast<i32>(pow_u32(bitcast<u32>(base), bitcast<u32>(exponent)));
}

fn pow_u64(base: vec2<u32>, exponent: vec2<u32>) -> vec2<u32> {
  var power = vec2<u32>(1u, 0u);
  var square = base;
  for (var rest = exponent; any(rest != vec2<u32>(0u)); rest = shift_right_64(rest, 1u)) {
    if (rest.x & 1u) == 1u {
      power = mul_64(power, square);
    }
    square = mul_64(square, square);
  }
  return power;
}

fn pow_i64(base: vec2<u32>, exponent: vec2<u32>) -> vec2<u32> {
  if (exponent.y >> 31u) == 1u {
    let inverse = div_i64(vec2<u32>(1u, 0u), base);
    return select(inverse, mul_64(inverse, inverse), (exponent.x & 1u) == 0u);
  }
  return pow_u64(base, exponent);
}

// As C's pow().
fn pow_f32(base: f32, exponent: f32) -> f32 {
  if exponent == 0.0f || base == 1.0f {
    return 1.0f;
  }
  if is_nan(base) || is_nan(exponent) {
    return nan();
  }
  let magnitude = abs_f32(base);
  let huge = is_infinite(exponent) || abs_f32(exponent) >= 16777216.0f;
  let whole = huge || floor(exponent) == exponent;
  let odd = whole && !huge && (i32(exponent) & 1) == 1;
  if base < 0.0f && !whole && !is_infinite(base) {
    return nan();
  }
  var result = 0.0f;
  if magnitude == 1.0f {
    result = 1.0f;
  } else if magnitude == 0.0f || is_infinite(base) || is_infinite(exponent) {
    result = select(0.0f, infinity(), (magnitude > 1.0f) == (exponent > 0.0f));
  } else if whole && abs_f32(exponent) <= 64.0f {
    let times = bitcast<u32>(i32(abs_f32(exponent)));
    result = 1.0f;
    var square = magnitude;
    for (var rest = times; rest > 0u; rest >>= 1u) {
      if (rest & 1u) == 1u {
        result *= square;
      }
      square *= square;
    }
    if exponent < 0.0f {
      // Where the product is no normal number, its quotient with 1 may well be one.
      let is_normal = result > 1e-30f && result < 1e30f;
      result = select(exp_of_product(magnitude, exponent), 1.0f / result, is_normal);
    }
  } else {
    result = exp_of_product(magnitude, exponent);
  }
  let negative = odd && (bitcast<u32>(base) >> 31u) == 1u;
  return select(result, neg_f32(result), negative);
}

// A positive number to a power, by logarithms in two parts each, so that large powers keep their digits.
fn exp_of_product(base: f32, exponent: f32) -> f32 {
  let bits = bitcast<u32>(base);
  var scale = i32(bits >> 23u) - 127;
  var digits = bitcast<f32>((bits & 0x7fffffu) | 0x3f800000u);
  if scale == -127 {
    let normal = bitcast<u32>(base * 16777216.0f);
    scale = i32(normal >> 23u) - 151;
    digits = bitcast<f32>((normal & 0x7fffffu) | 0x3f800000u);
  }
  if digits > 1.41421356f {
    digits *= 0.5f;
    scale += 1;
  }
  // log2(digits) = 2/ln(2) * artanh(s), s = (digits - 1) / (digits + 1), with what the division leaves.
  let d = digits - 1.0f;
  let sum = digits + 1.0f;
  let s = d / sum;
  // (Without `fma`, which need not round once.)
  let back = rounded_product(s, sum);
  let left = ((d - back) - product_rest(s, sum, back) - s * (digits - (sum - 1.0f))) / sum;
  let q = s * s;
  let series = q * s * (0.333333333f + q * (0.2f + q * (0.142857143f + q * (0.111111111f + q * 0.0909090909f))));
  // In parts: 2/ln(2) = 2.88539004 + 4.0e-8.
  let high = rounded_product(s, 2.88539004f);
  let low = product_rest(s, 2.88539004f, high) + s * 3.2591e-8f + (left + series) * 2.88539004f;
  let whole = f32(scale);
  let log_high = whole + high;
  let log_low = (high - (log_high - whole)) + low;
  let product = rounded_product(exponent, log_high);
  let rest = product_rest(exponent, log_high, product) + exponent * log_low;
  if product > 200.0f {
    return infinity();
  }
  if product < -200.0f {
    return 0.0f;
  }
  // The rest may be nearly half: without it the power would be one of too large a number for its polynomial.
  let n = round(product + rest);
  return exp2_scaled((product - n) + rest, i32(n));
}

// 2^(x + n) for a small x.
fn exp2_scaled(x: f32, n: i32) -> f32 {
  let y = x * 0.693147181f;
  let power = 1.0f + y * (1.0f + y * (0.5f + y * (0.166666667f + y * (0.0416666667f + y * (0.00833333333f + y * (0.00138888889f + y * 0.000198412698f))))));
  let first = clamp(n, -126, 127);
  let second = clamp(n - first, -126, 127);
  return power * f32_from_bits(u32(first + 127) << 23u) * f32_from_bits(u32(second + 127) << 23u);
}

// Rounded here: of a number that float32 has not, conversions of the language may give either neighbour, and SwiftShader's round twice from
// 2^31 on.
fn f32_from_u64(x: vec2<u32>) -> f32 {
  if x.y == 0u && x.x < (1u << 24u) {
    return f32(x.x);
  }
  let zeros = select(countLeadingZeros(x.y), 32u + countLeadingZeros(x.x), x.y == 0u);
  // The highest bit first; the last of the upper word tells whether anything is after it.
  let shifted = shift_left_64(x, zeros);
  let top = shifted.y | select(0u, 1u, shifted.x != 0u);
  let kept = top >> 8u;
  let rest = top & 255u;
  let up = rest > 128u || (rest == 128u && (kept & 1u) == 1u);
  return f32(kept + select(0u, 1u, up)) * f32_from_bits((127u + 40u - zeros) << 23u);
}

fn f32_from_i64(x: vec2<u32>) -> f32 {
  let magnitude = f32_from_u64(abs_i64(x));
  return select(magnitude, -magnitude, (x.y >> 31u) == 1u);
}

fn i32_from_f32(x: f32) -> i32 {
  if is_nan(x) {
    return 0;
  }
  if x >= 2147483648.0f {
    return 2147483647;
  }
  if x <= -2147483648.0f {
    return i32(-2147483648);
  }
  return i32(x);
}

fn u32_from_f32(x: f32) -> u32 {
  if is_nan(x) || x <= 0.0f {
    return 0u;
  }
  if x >= 4294967296.0f {
    return 4294967295u;
  }
  return u32(x);
}

fn u64_from_f32(x: f32) -> vec2<u32> {
  if is_nan(x) || x < 1.0f {
    return vec2<u32>(0u);
  }
  if x >= 18446744073709551616.0f {
    return vec2<u32>(0xffffffffu);
  }
  let bits = bitcast<u32>(x);
  let digits = vec2<u32>((bits & 0x7fffffu) | 0x800000u, 0u);
  let exponent = bits >> 23u;
  if exponent < 150u {
    return shift_right_64(digits, 150u - exponent);
  }
  return shift_left_64(digits, exponent - 150u);
}

fn i64_from_f32(x: f32) -> vec2<u32> {
  if x >= 9223372036854775808.0f {
    return vec2<u32>(0xffffffffu, 0x7fffffffu);
  }
  if x <= -9223372036854775808.0f {
    return vec2<u32>(0u, 0x80000000u);
  }
  let magnitude = u64_from_f32(abs_f32(x));
  return select(magnitude, neg_64(magnitude), x < 0.0f);
}

fn i64_from_i32(x: i32) -> vec2<u32> {
  return vec2<u32>(bitcast<u32>(x), bitcast<u32>(x >> 31u));
}

fn u64_from_i32(x: i32) -> vec2<u32> {
  return i64_from_i32(x);
}

// 2.5 units in the last place at most: by powers of two and a polynomial.
fn exp_f32(x: f32) -> f32 {
  return exp_of_sum(x, 0.0f);
}

// exp(x + rest) for a rest that is small beside x.
fn exp_of_sum(x: f32, rest: f32) -> f32 {
  if is_nan(x) {
    return x;
  }
  if x > 89.0f {
    return infinity();
  }
  if x < -105.0f {
    return 0.0f;
  }
  let n = round(x * 1.44269504f);
  let y = (fma(n, -0.693145752f, x) - n * 1.42860677e-6f) + rest;
  let power = 1.0f + (y + y * y * (0.5f + y * (0.166666667f + y * (0.0416666667f + y * (0.00833333333f + y * (0.00138888889f + y * 0.000198412698f))))));
  let first = clamp(i32(n), -126, 127);
  let second = clamp(i32(n) - first, -126, 127);
  return power * f32_from_bits(u32(first + 127) << 23u) * f32_from_bits(u32(second + 127) << 23u);
}

// exp(x) - 1.
fn expm1_f32(x: f32) -> f32 {
  if is_nan(x) {
    return x;
  }
  if x < -18.0f || x > 80.0f {
    return exp_f32(x) - 1.0f;
  }
  let n = round(x * 1.44269504f);
  let y = fma(n, -0.693145752f, x) - n * 1.42860677e-6f;
  let above = y + y * y * (0.5f + y * (0.166666667f + y * (0.0416666667f + y * (0.00833333333f + y * (0.00138888889f + y * 0.000198412698f)))));
  let power = f32_from_bits(u32(i32(n) + 127) << 23u);
  return above * power + (power - 1.0f);
}

// x times two to the power of n, for n from -250 to 250.
fn times_two_to_the(x: f32, n: i32) -> f32 {
  let half = n / 2;
  return x * f32_from_bits(u32(half + 127) << 23u) * f32_from_bits(u32(n - half + 127) << 23u);
}

// x times two to the power of n, with a first part whose product with another is a normal number.
fn with_power(x: f32, n: f32) -> vec2<f32> {
  let magnitude = abs_f32(x);
  if magnitude > 0x1p60f {
    return vec2<f32>(x * 0x1p-96f, n + 96.0f);
  }
  if magnitude < 0x1p-60f && magnitude != 0.0f {
    return vec2<f32>(x * 0x1p96f, n - 96.0f);
  }
  return vec2<f32>(x, n);
}

// A number times exp(y + rest), for y from -194 to -60: in two parts, since the power may be 0 where the product is not.
fn times_far_power(x: f32, y: f32, rest: f32) -> f32 {
  let n = round(y * 1.44269504f);
  let z = (fma(n, -0.693145752f, y) - n * 1.42860677e-6f) + rest;
  let power = 1.0f + (z + z * z * (0.5f + z * (0.166666667f + z * (0.0416666667f + z * (0.00833333333f + z * (0.00138888889f + z * 0.000198412698f))))));
  let most = f32_from_bits(0x7f7fffffu);
  // Times 2^-40: then the halves of all exponents are those of normal numbers.
  return times_two_to_the(clamp(x, -most, most) * 9.09494702e-13f * power, i32(n) + 40);
}

// x / (1 + exp(-y)), and 0 where that is infinity by infinity. There is more of y than its number: rest.
fn gated(x: f32, y: f32, rest: f32) -> f32 {
  if y < -60.0f {
    return times_far_power(x, max(y, -194.0f), rest);
  }
  return x / (1.0f + exp_of_sum(-y, -rest));
}

// What is lost when a product is rounded to whole.
fn product_rest(a: f32, b: f32, whole: f32) -> f32 {
  let c = f32_from_bits(bitcast<u32>(a) & 0xfffff000u);
  let d = f32_from_bits(bitcast<u32>(b) & 0xfffff000u);
  return (((c * d - whole) + c * (b - d)) + (a - c) * d) + (a - c) * (b - d);
}

// A product, finite where it is negative. Compilers would make a fused multiply-add of a sum with the product itself, and what
// the rounding loses would not be found.
fn rounded_product(a: f32, b: f32) -> f32 {
  return max(a * b, f32_from_bits(0xff7fffffu));
}

// x sigmoid(alpha x); 0 where that is infinity times 0.
fn swish_f32(x: f32, alpha: f32) -> f32 {
  if is_nan(x) {
    return x;
  }
  if alpha == 0.0f {
    return 0.5f * x;
  }
  let y = rounded_product(x, alpha);
  if abs(y) < 194.0f {
    return gated(x, y, product_rest(x, alpha, y));
  }
  return gated(x, y, 0.0f);
}

// x tanh(log(1 + exp(x))), which is x n / (n + 2) with n = exp(x) (exp(x) + 2); 0 at minus infinity.
fn mish_f32(x: f32) -> f32 {
  if is_nan(x) {
    return x;
  }
  if x < -60.0f {
    return times_far_power(x, max(x, -194.0f), 0.0f);
  }
  // From the bound on the factor is 1.
  let power = exp_f32(min(x, 20.0f));
  let n = power * (power + 2.0f);
  return x * (n / (n + 2.0f));
}

// 0.5 x (1 + tanh(z)) with z = sqrt(2 / pi) (x + 0.044715 x^3), which is x sigmoid(2 z).
fn tanh_gelu_f32(x: f32) -> f32 {
  if is_nan(x) {
    return x;
  }
  // Beyond the bounds the factor is 0 or 1. The sum is taken in two parts, as a power makes much of what it loses.
  let y = clamp(x, -14.0f, 14.0f);
  let square = rounded_product(y, y);
  let cube = rounded_product(square, 0.044715f);
  // The sum with the first half of the digits is exact. (What the whole sum loses is nothing to compilers that take a + b - a for b.)
  let coarse = f32_from_bits(bitcast<u32>(cube) & 0xfffff000u);
  let whole = 1.0f + coarse;
  let lost = cube - coarse;
  let rest = (product_rest(square, 0.044715f, cube) + square * 1.5461444e-9f + product_rest(y, y, square) * 0.044715f) + lost;
  let inner = rounded_product(y, whole);
  let outer = rounded_product(inner, 1.5957692f);
  let more = product_rest(inner, 1.5957692f, outer) - inner * 4.534068e-8f;
  return gated(x, outer, more + (product_rest(y, whole, inner) + y * rest) * 1.5957692f);
}

fn log_f32(x: f32) -> f32 {
  if is_nan(x) || x < 0.0f {
    return nan();
  }
  if x == 0.0f {
    return -infinity();
  }
  if is_infinite(x) {
    return x;
  }
  var digits = x;
  var scale = 0.0f;
  if digits < 1.17549435e-38f {
    digits *= 16777216.0f;
    scale = -24.0f;
  }
  let bits = bitcast<u32>(digits);
  scale += f32(i32(bits >> 23u) - 127);
  digits = f32_from_bits((bits & 0x7fffffu) | 0x3f800000u);
  if digits > 1.41421356f {
    digits *= 0.5f;
    scale += 1.0f;
  }
  let d = digits - 1.0f;
  let s = d / (2.0f + d);
  let q = s * s;
  let series = q * (0.666666667f + q * (0.4f + q * (0.285714286f + q * (0.222222222f + q * 0.181818182f))));
  let half_square = 0.5f * d * d;
  return scale * 0.693145752f + (d - (half_square - (s * (half_square + series) + scale * 1.42860677e-6f)));
}

// log(1 + x) for x from 0 to 1.
fn log1p_f32(x: f32) -> f32 {
  let s = x / (2.0f + x);
  let q = s * s;
  return 2.0f * s + s * q * (0.666666667f + q * (0.4f + q * (0.285714286f + q * (0.222222222f + q * (0.181818182f + q * 0.153846154f)))));
}

fn tanh_f32(x: f32) -> f32 {
  if is_nan(x) {
    return x;
  }
  let y = abs(x);
  if y > 10.0f {
    return sign(x);
  }
  let e = expm1_f32(2.0f * y);
  let t = e / (e + 2.0f);
  return select(t, -t, x < 0.0f);
}

fn sigmoid_f32(x: f32) -> f32 {
  if is_nan(x) {
    return x;
  }
  // The power of what is far below may be infinite where the result is not 0.
  if x < -80.0f {
    return exp_f32(x);
  }
  return 1.0f / (1.0f + exp_f32(-x));
}

fn softplus_f32(x: f32) -> f32 {
  if is_nan(x) {
    return x;
  }
  return max(x, 0.0f) + log1p_f32(exp_f32(-abs_f32(x)));
}

// The rest of an angle after quarter turns, and their number modulo 4.
struct ReducedAngle {
  rest: f32,
  quarters: u32,
}

fn reduce_angle(x: f32) -> ReducedAngle {
  if abs(x) < 8192.0f {
    let n = round(x * 0.636619772f);
    // A quarter turn in parts, of which all but the last have exact products with n: 1e-7 is left of numbers that are near to a multiple
    // of it, and must have all its digits.
    let y = (((x - n * 1.5703125f) - n * 4.837512969970703125e-4f) - n * 7.549533620476723e-8f) - n * 2.563344e-12f;
    return ReducedAngle(y, bitcast<u32>(i32(n)) & 3u);
  }
  return reduce_large_angle(x);
}

// For large angles: the digits of 2/pi that matter, as integers (Payne and Hanek).
fn reduce_large_angle(x: f32) -> ReducedAngle {
  var digits = array<u32, 7>(0x00000000u, 0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u, 0xdb629599u, 0x3c439041u);
  let bits = bitcast<u32>(x);
  let exponent = ((bits >> 23u) & 255u) - 127u;
  let mantissa = (bits & 0x7fffffu) | 0x800000u;
  // The product's binary point: x = mantissa * 2^(exponent - 23).
  let skipped = exponent - 23u + 32u - 2u;
  let word = skipped >> 5u;
  let by = skipped & 31u;
  var window = array<u32, 3>(0u, 0u, 0u);
  for (var k = 0u; k < 3u; k += 1u) {
    let high = digits[word + k];
    var low = 0u;
    if word + k + 1u < 7u {
      low = digits[word + k + 1u];
    }
    window[k] = select((high << by) | (low >> (32u - by)), high, by == 0u);
  }
  // The lowest 64 bits of mantissa * window / 2^32: two bits for the quarter, then the fraction.
  let first = mantissa * window[0];
  let second = mul_words(mantissa, window[1]);
  let third = mul_words(mantissa, window[2]);
  let product = add_64(vec2<u32>(second.x, second.y + first), vec2<u32>(third.y, 0u));
  var quarters = product.y >> 30u;
  var fraction = shift_left_64(product, 2u);
  var negative = false;
  if (fraction.y >> 31u) == 1u {
    quarters += 1u;
    fraction = neg_64(fraction);
    negative = true;
  }
  var rest = f32_from_u64(fraction) * 8.51530398e-20f;
  if negative {
    rest = -rest;
  }
  if x < 0.0f {
    return ReducedAngle(-rest, (4u - quarters) & 3u);
  }
  return ReducedAngle(rest, quarters & 3u);
}

fn sin_small(x: f32) -> f32 {
  let q = x * x;
  return x + x * q * (-0.166666667f + q * (0.00833333333f + q * (-0.000198412698f + q * (2.75573192e-6f - q * 2.50521084e-8f))));
}

fn cos_small(x: f32) -> f32 {
  let q = x * x;
  return 1.0f + q * (-0.5f + q * (0.0416666667f + q * (-0.00138888889f + q * (2.48015873e-5f + q * (-2.75573192e-7f + q * 2.0876757e-9f)))));
}

fn sin_f32(x: f32) -> f32 {
  if is_nan(x) || is_infinite(x) {
    return nan();
  }
  let t = reduce_angle(x);
  let value = select(sin_small(t.rest), cos_small(t.rest), (t.quarters & 1u) == 1u);
  return select(value, -value, t.quarters >= 2u);
}

fn cos_f32(x: f32) -> f32 {
  if is_nan(x) || is_infinite(x) {
    return nan();
  }
  let t = reduce_angle(x);
  let value = select(cos_small(t.rest), sin_small(t.rest), (t.quarters & 1u) == 1u);
  return select(value, -value, t.quarters == 1u || t.quarters == 2u);
}

fn tan_f32(x: f32) -> f32 {
  if is_nan(x) || is_infinite(x) {
    return nan();
  }
  let t = reduce_angle(x);
  let s = sin_small(t.rest);
  let c = cos_small(t.rest);
  return select(s / c, -c / s, (t.quarters & 1u) == 1u);
}

// By its series, and by a continued fraction far from 0.
fn erf_f32(x: f32) -> f32 {
  if is_nan(x) {
    return x;
  }
  let y = abs(x);
  if y > 4.0f {
    return sign(x);
  }
  let q = y * y;
  if y < 1.0f {
    let series = 1.0f + q * (-0.333333333f + q * (0.1f + q * (-0.0238095238f + q * (0.00462962963f + q * (-0.000757575758f + q * (0.000106837607f + q * (-1.32275132e-5f + q * (1.45891690e-6f - q * 1.45038522e-7f))))))));
    return x * 1.12837917f * series;
  }
  var fraction = y;
  for (var k = 40; k > 0; k -= 1) {
    fraction = y + f32(k) * 0.5f / fraction;
  }
  let value = 1.0f - exp_f32(-q) * 0.564189584f / fraction;
  return select(value, -value, x < 0.0f);
}

// 0.5 x (1 + erf(x / sqrt(2))): x times what is left of 1 where x is negative, which the sum would lose.
fn gelu_f32(x: f32) -> f32 {
  if is_nan(x) || x == infinity() {
    return x;
  }
  if x < -14.8f {
    return neg_f32(0.0f);
  }
  let tail = normal_tail(min(abs(x), 14.8f));
  // The power last: half of erfc is a subnormal number sooner than the result.
  return select(x * (1.0f - tail.x * tail.y), x * tail.y * tail.x, x < 0.0f);
}

// The factors of half of erfc(x / sqrt(2)) for x from 0 to 14.8: exp(-x^2 / 2) and a quotient of polynomials that was fitted to
// within 6.2e-9.
fn normal_tail(x: f32) -> vec2<f32> {
  // A square that is exact, and the power of what is missing in it.
  let coarse = f32_from_bits(bitcast<u32>(x) & 0xfffff000u);
  let m = -0.5f * (x - coarse) * (x + coarse);
  let missing = 1.0f + m * (1.0f + m * (0.5f + m * (0.166666667f + m * 0.0416666667f)));
  let above = 0.5f + x * (0.43889546f + x * (0.18368067f + x * (0.04078359f + x * 0.004138671f)));
  let below = 1.0f + x * (1.6756759f + x * (1.2043524f + x * (0.4706469f + x * (0.10223555f + x * 0.010373994f))));
  return vec2<f32>(exp_f32(-0.5f * coarse * coarse) * missing, above / below);
}

fn hard_swish_f32(x: f32) -> f32 {
  if is_nan(x) {
    return x;
  }
  // The gate is divided, since the product may be greater than all numbers.
  let y = max(x, -3.0f);
  return y * (min(y + 3.0f, 6.0f) / 6.0f);
}

fn softsign_f32(x: f32) -> f32 {
  // From here on the quotient rounds to 1; divisors above 2^126 may make it 0 on GPUs.
  if abs_f32(x) >= 0x1p26f {
    return sign(x);
  }
  return x / (1.0f + abs_f32(x));
}

fn elu_f32(x: f32, alpha: f32) -> f32 {
  if x <= 0.0f {
    return alpha * expm1_f32(x);
  }
  return x;
}

fn hard_sigmoid_f32(x: f32, alpha: f32, beta: f32) -> f32 {
  let line = alpha * x + beta;
  if is_nan(line) {
    return line;
  }
  return clamp(line, 0.0f, 1.0f);
}

fn prelu_f32(x: f32, slope: f32) -> f32 {
  if x < 0.0f {
    return slope * x;
  }
  return x;
}

fn prelu_i32(x: i32, slope: i32) -> i32 {
  return select(x, slope * x, x < 0);
}

fn prelu_i64(x: vec2<u32>, slope: vec2<u32>) -> vec2<u32> {
  return select(x, mul_64(slope, x), (x.y >> 31u) == 1u);
}

fn dequantize_i32(x: i32, scale: f32, zero_point: i32) -> f32 {
  return (f32(x) - f32(zero_point)) * scale;
}

fn dequantize_u32(x: u32, scale: f32, zero_point: u32) -> f32 {
  return (f32(x) - f32(zero_point)) * scale;
}

fn quantize_i32(x: f32, scale: f32, zero_point: i32, least: i32, most: i32) -> i32 {
  return clamp(i32_from_f32(round(x / scale) + f32(zero_point)), least, most);
}

fn quantize_u32(x: f32, scale: f32, zero_point: u32, least: u32, most: u32) -> u32 {
  return clamp(u32_from_f32(round(x / scale) + f32(zero_point)), least, most);
}

// Whether an index is one of a dimension.
fn is_within_i32(x: i32, size: u32, from_end: bool) -> bool {
  if x < 0 {
    return from_end && bitcast<u32>(-(x + 1)) < size;
  }
  return bitcast<u32>(x) < size;
}

fn is_within_u32(x: u32, size: u32, from_end: bool) -> bool {
  return x < size;
}

fn is_within_i64(x: vec2<u32>, size: u32, from_end: bool) -> bool {
  if (x.y >> 31u) == 1u {
    return from_end && x.y == 0xffffffffu && ~x.x < size;
  }
  return x.y == 0u && x.x < size;
}

fn is_within_u64(x: vec2<u32>, size: u32, from_end: bool) -> bool {
  return x.y == 0u && x.x < size;
}

// An index into a dimension: a negative one counts from the end, and what is out of range is clamped.
fn index_i32(x: i32, size: u32) -> u32 {
  if x < 0 {
    return select(0u, bitcast<u32>(x) + size, bitcast<u32>(-(x + 1)) < size);
  }
  return min(bitcast<u32>(x), size - 1u);
}

fn index_u32(x: u32, size: u32) -> u32 {
  return min(x, size - 1u);
}

fn index_i64(x: vec2<u32>, size: u32) -> u32 {
  if (x.y >> 31u) == 1u {
    return select(0u, x.x + size, x.y == 0xffffffffu && ~x.x < size);
  }
  return select(min(x.x, size - 1u), size - 1u, x.y != 0u);
}
