//! What kernels read, which may still be on its way.

use crate::host_memory::HostBuffer;
use std::ops::Range;

/// Bytes that are there, or script's, which may be being copied while kernels already work with the first of them.
#[derive(Clone, Copy, Debug)]
pub enum Incoming<'a> {
    There(&'a [u8]),
    Arriving(&'a HostBuffer),
}

impl<'a> From<&'a [u8]> for Incoming<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Incoming::There(bytes)
    }
}

impl<'a> Incoming<'a> {
    pub fn len(&self) -> usize {
        match self {
            Incoming::There(bytes) => bytes.len(),
            Incoming::Arriving(buffer) => buffer.len(),
        }
    }

    /// Whether they lie, or will lie, in an output of the graph, where nobody needs to copy them to any more.
    pub fn is_in_output(&self) -> bool {
        matches!(self, Incoming::Arriving(buffer) if buffer.is_in_output())
    }

    /// All of them, once they are there.
    pub fn all(&self) -> &'a [u8] {
        match self {
            Incoming::There(bytes) => bytes,
            Incoming::Arriving(buffer) => buffer.as_slice(),
        }
    }

    /// Whether so many of them are there.
    #[inline]
    pub fn is_there(&self, length: usize) -> bool {
        match self {
            Incoming::There(_) => true,
            Incoming::Arriving(buffer) => buffer.is_there(length),
        }
    }

    /// Some of them, once these are there.
    ///
    /// # Panics
    /// When there are fewer.
    #[inline]
    pub fn part(&self, range: Range<usize>) -> &'a [u8] {
        match self {
            Incoming::There(bytes) => &bytes[range],
            Incoming::Arriving(buffer) => buffer.part(range),
        }
    }
}

/// Elements of a float32 operand: from one of them on, to the last.
#[derive(Clone, Copy, Debug)]
pub struct Elements<'a> {
    bytes: Incoming<'a>,
    first: usize,
}

impl<'a> From<&'a [f32]> for Elements<'a> {
    fn from(elements: &'a [f32]) -> Self {
        Elements::new(Incoming::There(bytemuck::cast_slice(elements)))
    }
}

impl<'a> Elements<'a> {
    /// All elements. The bytes are aligned to them.
    pub fn new(bytes: Incoming<'a>) -> Self {
        Elements { bytes, first: 0 }
    }

    pub fn len(&self) -> usize {
        self.bytes.len() / size_of::<f32>() - self.first
    }

    /// The elements from a later one on.
    ///
    /// # Panics
    /// When there are fewer.
    pub fn skip(self, first: usize) -> Self {
        assert!(first <= self.len());
        Elements { first: self.first + first, ..self }
    }

    /// Where one of them is, or will be; for one after the last, any address.
    pub fn address(&self, element: usize) -> *const f32 {
        let start = match &self.bytes {
            Incoming::There(bytes) => bytes.as_ptr(),
            Incoming::Arriving(buffer) => buffer.address().cast_const(),
        };
        start.cast::<f32>().wrapping_add(self.first + element)
    }

    /// Whether those before this one are there.
    #[inline]
    pub fn is_there(&self, end: usize) -> bool {
        self.bytes.is_there((self.first + end) * size_of::<f32>())
    }

    /// Some of them, once these are there.
    ///
    /// # Panics
    /// When there are fewer.
    #[inline]
    pub fn part(&self, range: Range<usize>) -> &'a [f32] {
        let place = |element: usize| (self.first + element) * size_of::<f32>();
        bytemuck::cast_slice(self.bytes.part(place(range.start)..place(range.end)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host_memory::while_arriving;

    fn check(bytes: Incoming<'_>, expected: &[f32]) {
        let elements = Elements::new(bytes);
        assert_eq!(elements.len(), expected.len());
        // Of what arrives nobody has copied anything yet.
        let is_there = matches!(bytes, Incoming::There(_));
        assert_eq!((elements.is_there(100), elements.is_there(0)), (is_there, true));
        for range in [0..1, 100..5000, 70..70, 19_990..20_000, 4096..8192] {
            assert_eq!(elements.part(range.clone()), &expected[range.clone()]);
            assert_eq!(elements.address(range.start), elements.part(range.clone()).as_ptr());
            assert!(elements.is_there(range.end));
        }
        let later = elements.skip(15_000).skip(1);
        assert!(later.is_there(4999));
        assert_eq!((later.len(), later.part(0..4999)), (4999, &expected[15_001..]));
        assert_eq!(later.address(7), elements.address(15_008));
        assert_eq!(bytes.all(), bytemuck::cast_slice::<_, u8>(expected));
    }

    #[test]
    fn elements_are_those_of_the_bytes() {
        let expected: Vec<f32> = (0..20_000).map(|number| number as f32).collect();
        check(Incoming::There(bytemuck::cast_slice(&expected)), &expected);
        while_arriving(bytemuck::cast_slice(&expected), |buffer| check(Incoming::Arriving(buffer), &expected));
    }

    #[test]
    fn there_are_no_others() {
        let few = [1f32; 8];
        let beyond = |bytes: Incoming<'_>| {
            let elements = Elements::new(bytes);
            let panics = |body: &dyn Fn()| std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).is_err();
            assert!(panics(&|| drop(elements.part(7..9).to_vec())) && panics(&|| _ = elements.skip(9)));
        };
        beyond(Incoming::There(bytemuck::cast_slice(&few)));
        while_arriving(bytemuck::cast_slice(&few), |buffer| beyond(Incoming::Arriving(buffer)));
    }
}
