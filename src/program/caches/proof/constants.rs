//! Constants that importing may have computed from sizes.

use super::{Front, PaddingAnalysis, Refusal, State};
use crate::graph::ops::elementwise::BinaryKind;
use crate::graph::{ConstantBytes, DataType, Op, OperandId};
use crate::program::caches::padding::{PaddingInput, Slopes};

/// The elements of a constant for the bucket beside those for shorter lengths.
struct Elements<'a> {
    data_type: DataType,
    /// The bytes of an element.
    width: usize,
    bytes: &'a [u8],
    /// With how many rows they have less.
    others: [(&'a [u8], usize); 2],
    /// Elements from one place of the grown axis to the next, and those of the whole axis; nothing where it is of one size.
    grown: Option<(usize, usize)>,
}

impl<'a> Elements<'a> {
    /// Where the element of a shorter one is in this one, after what is in front.
    fn place(&self, element: usize, fewer: usize) -> usize {
        match self.grown {
            None => element,
            Some((inner, long)) => {
                let short = long - fewer * inner;
                element / short * long + element % short + fewer * inner
            }
        }
    }

    /// Each element of the shorter ones: by how many rows that is shorter, the element's place in this one, and its bytes.
    fn pairs(&self) -> impl Iterator<Item = (usize, usize, &'a [u8])> {
        self.others.iter().flat_map(move |&(other, fewer)| {
            let elements = other.chunks_exact(self.width).enumerate();
            elements.map(move |(element, bytes)| (fewer, self.place(element, fewer), bytes))
        })
    }

    /// The bytes along the grown axis of the shorter ones, beside those that they have to be the same as in this one.
    fn rows(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        self.others.iter().flat_map(move |&(other, fewer)| {
            let (inner, long) = self.grown.unwrap_or((0, self.bytes.len() / self.width));
            let front = fewer * inner * self.width;
            // Nothing has size 0 that is a constant of a graph, so no row does.
            let rows = self.bytes.chunks_exact(long * self.width).map(move |row| &row[front..]);
            rows.zip(other.chunks_exact(long * self.width - front))
        })
    }

    fn at(&self, element: usize) -> &'a [u8] {
        &self.bytes[element * self.width..][..self.width]
    }

    /// Whether the shorter ones have the same elements, the signs of zeros aside, and whether the signs are the same.
    fn is_same(&self) -> (bool, bool) {
        // Exporters multiply the lowest number with 0 for what a mask leaves alone: the signs of such zeros are chance.
        let (mut is_like, mut has_same_signs) = (true, true);
        for (here, there) in self.rows() {
            if here == there {
                continue;
            }
            let differ = here.chunks_exact(self.width).zip(there.chunks_exact(self.width)).filter(|(here, there)| here != there);
            for (here, there) in differ {
                is_like &= is_zero(self.data_type, here) && is_zero(self.data_type, there);
                has_same_signs = false;
            }
        }
        (is_like, has_same_signs)
    }

    fn is_finite(&self) -> bool {
        !self.data_type.is_float() || self.bytes.chunks_exact(self.width).all(|bytes| is_finite(self.data_type, bytes))
    }

    /// Whole numbers that grow with the length.
    fn counts(&self) -> Result<PaddingInput, Refusal> {
        let refusal = || Refusal::from("numbers that depend on the length otherwise than as a multiple");
        let number = |bytes: &[u8]| integer(self.data_type, bytes).ok_or_else(refusal);
        let count = self.bytes.len() / self.width;
        let numbers: Vec<i64> = (0..count).map(|element| number(self.at(element))).collect::<Result<_, _>>()?;
        let (inner, long) = self.grown.unwrap_or((1, 1));
        let mut slopes = Slopes { list: crate::memory::filled(0, count / long * inner).map_err(|_| refusal())?, inner, long };
        let mut known: Vec<Option<i64>> = slopes.list.iter().map(|_| None).collect();
        for (fewer, here, there) in self.pairs() {
            let difference = numbers[here] - number(there)?;
            let slope = &mut known[slopes.place(here)];
            if difference % fewer as i64 != 0 || slope.is_some_and(|slope| slope * fewer as i64 != difference) {
                return Err(refusal());
            }
            *slope = Some(difference / fewer as i64);
        }
        slopes.list = known.into_iter().map(Option::unwrap_or_default).collect();
        Ok(PaddingInput::Counts { data_type: self.data_type, numbers, slopes })
    }
}

impl PaddingAnalysis<'_> {
    /// How a constant contains those for shorter lengths.
    pub(super) fn constant(
        &mut self,
        id: OperandId,
        bytes: &ConstantBytes,
        others: [&ConstantBytes; 2],
    ) -> Result<State, Refusal> {
        let grown = self.grown(id)?;
        if grown.is_none() && others.iter().all(|other| other.place() == bytes.place()) {
            return Ok(State::Exact);
        }
        let (bytes, others) = (&bytes.briefly(), others.map(ConstantBytes::briefly));
        let bytes = bytes.as_slice();
        if grown.is_none() && others.iter().all(|other| is_same(bytes, other.as_slice())) {
            return Ok(State::Exact);
        }
        let data_type = self.graph.descriptor(id).data_type;
        let width = data_type.byte_length(1).filter(|_| data_type.bits() >= 8).ok_or("constants of less than a byte")?;
        let shape = self.shape(id);
        let strides = grown.map(|axis| {
            let inner: usize = shape[axis + 1..].iter().map(|&size| size as usize).product();
            (inner, shape[axis] as usize * inner)
        });
        let [less, least] = self.shorter.map(|(_, fewer)| fewer);
        let others = [(others[0].as_slice(), less), (others[1].as_slice(), least)];
        let elements = Elements { data_type, width, bytes, others, grown: strides };
        let state = |front| grown.map_or(State::Exact, |axis| State::Padded { axis, front });
        let (is_like, has_same_signs) = elements.is_same();
        if is_like && (has_same_signs || self.ignores_signs_of_zeros(id)) {
            return Ok(state(if elements.is_finite() { Front::Finite } else { Front::Anything }));
        }
        let counts = elements.counts()?;
        self.padding_inputs.push((id, counts));
        Ok(state(Front::Finite))
    }

    /// Whether all that is done with a value are sums, which tell zeros apart only from another zero, comparisons and choices.
    fn ignores_signs_of_zeros(&self, id: OperandId) -> bool {
        self.graph.nodes.iter().all(|node| {
            let mut uses = false;
            node.op.visit(&mut |_, input| uses |= input == id);
            !uses
                || matches!(&node.op, Op::Binary(op) if op.kind == BinaryKind::Add)
                || matches!(node.op, Op::Logical(_) | Op::Where(_))
        })
    }
}

fn is_same(a: &[u8], b: &[u8]) -> bool {
    a.as_ptr() == b.as_ptr() && a.len() == b.len() || a == b
}

fn is_finite(data_type: DataType, bytes: &[u8]) -> bool {
    match (data_type, bytes) {
        (DataType::Float32, &[a, b, c, d]) => f32::from_ne_bytes([a, b, c, d]).is_finite(),
        (DataType::Float16, &[a, b]) => half::f16::from_ne_bytes([a, b]).is_finite(),
        _ => true,
    }
}

/// Whether a float is 0 or -0.
fn is_zero(data_type: DataType, bytes: &[u8]) -> bool {
    match (data_type, bytes) {
        (DataType::Float32, &[a, b, c, d]) => f32::from_ne_bytes([a, b, c, d]) == 0.0,
        (DataType::Float16, &[a, b]) => half::f16::from_ne_bytes([a, b]) == half::f16::ZERO,
        _ => false,
    }
}

fn integer(data_type: DataType, bytes: &[u8]) -> Option<i64> {
    Some(match data_type {
        DataType::Int64 => i64::from_ne_bytes(bytes.try_into().ok()?),
        DataType::Int32 => i32::from_ne_bytes(bytes.try_into().ok()?).into(),
        DataType::Uint32 => u32::from_ne_bytes(bytes.try_into().ok()?).into(),
        _ => return None,
    })
}
