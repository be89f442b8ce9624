//! What a thread's floating-point unit does with subnormal numbers, those of less than 2⁻¹²⁶: many CPUs take a hundred times as long
//! for a product of one.
//!
//! Flushed, an operand that is subnormal counts as zero, and a result that would be is zero, of its sign: MXCSR's DAZ and FTZ, and
//! FPCR's FZ. Conversions from and to float16 are not concerned: no float16 number is subnormal as a float32 one.
//!
//! A sum of products `Σ aᵢ bᵢ` of n terms is off by less than `2⁻¹²⁶ (Σ|aᵢ| + Σ|bᵢ| + 2n)` then: an `aᵢ` that counts as zero takes less
//! than `2⁻¹²⁶ |bᵢ|` with it, and each product and each partial sum that becomes zero less than 2⁻¹²⁶. Where `bᵢ` is infinite the product is
//! NaN, as that of zero.
#![allow(unsafe_code)]

use std::marker::PhantomData;

/// What becomes of subnormal numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subnormals {
    /// They are numbers like others.
    Exact,
    /// They are zero.
    Flushed,
}

impl Subnormals {
    /// What this thread does with them now.
    #[inline]
    pub fn here() -> Subnormals {
        if control::read() & control::FLUSHES == control::FLUSHES { Subnormals::Flushed } else { Subnormals::Exact }
    }

    /// Has this thread do that until what is returned is dropped, also by a panic.
    #[inline]
    #[must_use = "it ends when this is dropped"]
    pub fn begin(self) -> Begun {
        let before = control::read();
        let flushes = if self == Subnormals::Flushed { control::FLUSHES } else { 0 };
        let now = before & !control::FLUSHES | flushes;
        if now != before {
            control::write(now);
        }
        Begun { before: (now != before).then_some(before), _this_thread: PhantomData }
    }
}

/// See [`Subnormals::begin`].
#[derive(Debug)]
pub struct Begun {
    /// The register before, if that was another one.
    before: Option<control::Word>,
    _this_thread: PhantomData<*const ()>,
}

impl Drop for Begun {
    #[inline]
    fn drop(&mut self) {
        if let Some(before) = self.before {
            control::write(before);
        }
    }
}

// What computes between two writes reads and stores memory, which the compiler does not move across them: they may access any.
#[cfg(target_arch = "x86_64")]
mod control {
    pub type Word = u32;
    /// Flush to zero, and denormals are zeros.
    pub const FLUSHES: Word = 1 << 15 | 1 << 6;

    #[inline]
    pub fn read() -> Word {
        let mut word = 0;
        // SAFETY: it stores the register's 32 bits there.
        unsafe { std::arch::asm!("stmxcsr [{}]", in(reg) &raw mut word, options(nostack, preserves_flags)) };
        word
    }

    #[inline]
    pub fn write(word: Word) {
        // SAFETY: a word that was read, with other of the two bits, which all CPUs of the architecture that run this have: no exception
        // is unmasked.
        unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const word, options(nostack, preserves_flags)) };
    }
}

#[cfg(target_arch = "aarch64")]
mod control {
    pub type Word = u64;
    /// Flush to zero, of float32 and float64.
    pub const FLUSHES: Word = 1 << 24;

    #[inline]
    pub fn read() -> Word {
        let word;
        // SAFETY: it reads the register.
        unsafe { std::arch::asm!("mrs {}, fpcr", out(reg) word, options(nostack, preserves_flags)) };
        word
    }

    #[inline]
    pub fn write(word: Word) {
        // SAFETY: a word that was read, with another one of that bit.
        unsafe { std::arch::asm!("msr fpcr, {}", in(reg) word, options(nostack, preserves_flags)) };
    }
}

/// Where nothing is known of the register, numbers stay exact.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod control {
    pub type Word = u32;
    pub const FLUSHES: Word = 1;

    pub fn read() -> Word {
        0
    }

    pub fn write(_: Word) {}
}

#[cfg(all(test, any(target_arch = "x86_64", target_arch = "aarch64")))]
mod tests {
    use super::*;
    use std::hint::black_box;

    const SMALL: f32 = 1e-40;

    fn halved(x: f32) -> f32 {
        black_box(black_box(x) * black_box(0.5))
    }

    #[test]
    fn operands_and_results_are_flushed_until_the_end() {
        assert_eq!(Subnormals::here(), Subnormals::Exact);
        let begun = Subnormals::Flushed.begin();
        assert_eq!(Subnormals::here(), Subnormals::Flushed);
        assert_eq!([halved(SMALL), halved(f32::MIN_POSITIVE), halved(-f32::MIN_POSITIVE)].map(f32::to_bits), [0, 0, 1 << 31]);
        assert_eq!(black_box(black_box(SMALL) * black_box(1e30)), 0.0);
        // What is exact in between.
        let inner = Subnormals::Exact.begin();
        assert!(halved(SMALL) > 0.0);
        drop(inner);
        assert_eq!(halved(SMALL), 0.0);
        {
            let _same = Subnormals::Flushed.begin();
        }
        assert_eq!(halved(SMALL), 0.0);
        drop(begun);
        assert_eq!(Subnormals::here(), Subnormals::Exact);
        assert!(halved(SMALL) > 0.0 && halved(f32::MIN_POSITIVE) > 0.0);
    }

    #[test]
    fn a_panic_ends_it() {
        let result = std::panic::catch_unwind(|| {
            let _flushed = Subnormals::Flushed.begin();
            panic!("of a test");
        });
        assert!(result.is_err());
        assert_eq!(Subnormals::here(), Subnormals::Exact);
        assert!(halved(SMALL) > 0.0);
    }

    /// Operators that are done to what a kernel has made, which flushes subnormal numbers, do not: but for those that make no more of
    /// an error than there is, all results are the same to the bit.
    #[test]
    fn operators_that_follow_are_exact() {
        use crate::epilogue::post_ops::{Operation, PostOp, PostOps, With};
        use crate::functions::{Function, formulas::Formula};
        use crate::isa::Isa;
        let numbers: Vec<f32> = [1e-40f32, 3e-45, 2e-38, 1e-20, 1.0, 3e38, -92.0, -100.0].iter().flat_map(|&x| [x, -x]).collect();
        let mut post_ops: Vec<PostOp> = Function::ALL.iter().map(|&function| PostOp::Formula(Formula::Of(function))).collect();
        let others = [Formula::LeakyRelu(1e-3), Formula::Linear(1e-30, 1e-39), Formula::Swish(1.7), Formula::Clamp(-1.0, 1.0)];
        post_ops.extend(others.map(PostOp::Formula));
        for operation in [Operation::Add, Operation::Mul, Operation::Sub, Operation::Div, Operation::DivInto, Operation::Slope] {
            post_ops.extend([2e-38, 1e-40, 1e10].map(|number| PostOp::Binary(operation, With::Number(number))));
        }
        for isa in Isa::available() {
            for post_op in &post_ops {
                let apply = |mode: Subnormals| {
                    let mut found = numbers.clone();
                    let _mode = mode.begin();
                    PostOps::new(std::slice::from_ref(post_op)).apply_rows(isa, found.len(), 0, &[], &mut found);
                    found
                };
                for (exact, flushed) in apply(Subnormals::Exact).into_iter().zip(apply(Subnormals::Flushed)) {
                    let is_same = exact.to_bits() == flushed.to_bits() || exact.is_nan() && flushed.is_nan();
                    let is_near = (exact - flushed).abs() <= 2.0 * f32::MIN_POSITIVE;
                    let message = format!("{}: {post_op:?} gives {flushed:e}, not {exact:e}", isa.name);
                    assert!(is_same || post_op.may_flush() && is_near, "{message}");
                }
            }
        }
    }

    /// Powers and sigmoids that are subnormal are made without an operation that has a subnormal operand or result.
    #[cfg(target_arch = "x86_64")]
    #[test]
    fn small_powers_are_made_by_integers() {
        use crate::epilogue::post_ops::{PostOp, PostOps};
        use crate::functions::{Function, formulas::Formula};
        use crate::isa::Isa;
        /// The flags of all exceptions, of a subnormal operand and of a result that was rounded as one.
        const FLAGS: u32 = 0x3f;
        const SMALL: u32 = 1 << 1 | 1 << 4;
        for isa in Isa::available() {
            for function in [Function::Exp, Function::Sigmoid] {
                let mut numbers: Vec<f32> = (0..4000).map(|i| -80.0 - i as f32 / 150.0).collect();
                control::write(control::read() & !FLAGS);
                PostOps::new(&[PostOp::Formula(Formula::Of(function))]).apply(isa, 0..numbers.len(), 0, &[], &mut numbers);
                assert_eq!(control::read() & SMALL, 0, "{}: {function:?}", isa.name);
                assert!(numbers.iter().any(|&x| x > 0.0 && x < f32::MIN_POSITIVE), "{}: {function:?}", isa.name);
            }
        }
    }

    /// float16 numbers that are subnormal are normal as float32.
    #[test]
    fn float16_is_not_concerned() {
        use crate::functions::{Function, float16, from_float16};
        use crate::{functions::formulas::Formula, isa::Isa};
        let numbers: Vec<f32> = (0..0x400u16).map(|bits| half::f16::from_bits(bits).to_f32()).collect();
        let _flushed = Subnormals::Flushed.begin();
        for (bits, &number) in (0..).zip(&numbers) {
            assert_eq!(from_float16(black_box(bits)).to_bits(), number.to_bits(), "{bits:x}");
            assert_eq!(float16(black_box(number)).to_bits(), number.to_bits(), "{bits:x}");
        }
        for isa in Isa::available() {
            let mut found = numbers.clone();
            crate::epilogue::post_ops::PostOps::new(&[crate::epilogue::post_ops::PostOp::Formula(Formula::Of(
                Function::Float16,
            ))])
            .apply(isa, 0..numbers.len(), 0, &[], &mut found);
            assert!(found.iter().zip(&numbers).all(|(a, b)| a.to_bits() == b.to_bits()), "{}", isa.name);
        }
    }
}
