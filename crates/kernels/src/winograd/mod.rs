//! Winograd's algorithm for convolutions with windows of 3 x 3, as Lavin and Gray use it ("Fast Algorithms for Convolutional Neural
//! Networks", 2015): the transforms of the input, the filter and the output.
#![allow(unsafe_code)]

pub mod blocks;
pub mod filter;
pub mod input;
pub mod output;
pub mod transform;

use crate::isa::Isa;
use crate::simd::vector::with_vectors;
use filter::FilterRows;
use input::ToFrequencies;
use output::FromFrequencies;
use transform::{Transform, Transform2, Transform4};

/// Numbers of a vector, at most.
pub const LONGEST: usize = 16;
/// Numbers between frequencies, so that they do not compete for the same places in the cache.
const APART: usize = 16;

/// Numbers from one frequency to the next.
pub fn distance(blocks: usize, numbers: usize) -> usize {
    blocks * numbers + APART
}

/// A transform whose loops are compiled in this crate.
pub trait Compiled: Transform + Sized {
    /// # Safety
    /// Nobody else may access the transformed numbers of these channels meanwhile.
    unsafe fn to_frequencies(isa: &Isa, work: ToFrequencies<'_, Self>);

    /// # Safety
    /// Nobody may write the products meanwhile, and nobody else access these channels of the blocks' output.
    unsafe fn from_frequencies(isa: &Isa, work: FromFrequencies<'_, Self>);

    fn filter_rows(isa: &Isa, work: FilterRows<'_, Self>);
}

macro_rules! compiled {
    ($($transform:ty),*) => { $(
        impl Compiled for $transform {
            unsafe fn to_frequencies(isa: &Isa, work: ToFrequencies<'_, Self>) {
                with_vectors(isa, work);
            }

            unsafe fn from_frequencies(isa: &Isa, work: FromFrequencies<'_, Self>) {
                with_vectors(isa, work);
            }

            fn filter_rows(isa: &Isa, work: FilterRows<'_, Self>) {
                isa.run_loop(work);
            }
        }
    )* };
}

compiled!(Transform2, Transform4);
