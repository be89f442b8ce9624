//! Constants of a model: initializers, attributes, and what folding computes.

use super::element::ElementType;
use super::file::Model;
use super::protobuf::{EXTERNAL, SparseTensorProto, TensorProto};
use super::structure::malformed;
use crate::error::{Error, Kind, Result};
use crate::graph::{ConstantBytes, DataType, Descriptor};
use crate::looks::Looking;
use crate::memory::{self, Data};
use bytes::Bytes;
use half::{bf16, f16};

/// A dense tensor. Unlike an operand it may have dimensions of size 0, and element types that WebNN lacks.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    pub element: ElementType,
    pub shape: Vec<usize>,
    /// The elements in row-major order, little endian; of 4-bit elements the earlier one is in the low half of a byte.
    pub bytes: Data,
}

/// Nanoseconds that an element takes which is converted.
const COST: usize = 4;

impl Tensor {
    /// The elements as an operand would hold them: doubles as float32, truth values as uint8.
    ///
    /// # Errors
    /// `NotSupportedError` for elements that no operand holds.
    pub fn held(&self) -> Result<(DataType, Data)> {
        let refuse = || Error::new(Kind::NotSupported, format!("elements of {}", self.element));
        let data_type = self.element.held_by().ok_or_else(refuse)?;
        let held = if self.element == data_type.into() { self.clone() } else { self.cast(data_type.into()) };
        Ok((data_type, held.bytes))
    }

    /// # Errors
    /// `TypeError` when the message is no valid tensor, `OperationError` when its external data cannot be read.
    pub fn from_proto(proto: &TensorProto, model: &Model) -> Result<Tensor> {
        let fail = |what: String| malformed(format!("tensor {:?}: {what}", proto.name));
        let element = ElementType::from_number(proto.data_type.into()).map_err(|found| {
            Error::new(Kind::NotSupported, format!("tensor {:?}: found {found}, which is not supported", proto.name))
        })?;
        if proto.segment.is_some() {
            return Err(fail("it is divided into segments".into()));
        }
        let (shape, count) = sizes(&proto.dims).ok_or_else(|| fail(format!("impossible dimensions {:?}", proto.dims)))?;
        let length = element.byte_length(count).ok_or_else(|| fail(format!("impossible dimensions {:?}", proto.dims)))?;
        let bytes = if proto.data_location == EXTERNAL {
            external_data(proto, model, length).map_err(|error| error.of("tensor", &proto.name))?
        } else if let Some(raw) = proto.raw_data.as_ref().filter(|raw| !raw.is_empty()) {
            raw.clone()
        } else {
            let lists = [&proto.float_data, &proto.int32_data, &proto.int64_data, &proto.double_data, &proto.uint64_data];
            let there = lists.into_iter().flatten().map(Bytes::len).fold(0, usize::saturating_add);
            memory::require(length.min(there.saturating_mul(8)))?;
            typed_data(proto, element, count).map_err(fail)?
        };
        if bytes.len() != length {
            let found = bytes.len();
            return Err(fail(format!("{found} bytes of data instead of the {length} of {element}{shape:?}")));
        }
        Ok(Tensor { element, shape, bytes: bytes.into() })
    }

    /// A tensor of which the file has only what is not 0, as a whole one; `affords` says whether there may be so many bytes.
    ///
    /// # Errors
    /// Those of its parts, and `TypeError` when these do not fit together.
    pub fn from_sparse(proto: &SparseTensorProto, model: &Model, affords: impl FnOnce(usize) -> bool) -> Result<Tensor> {
        let values = proto.values.as_ref().ok_or_else(|| malformed("a sparse tensor without values"))?;
        let fail = |what: String| malformed(format!("sparse tensor {:?}: {what}", values.name));
        let indices = proto.indices.as_ref().ok_or_else(|| fail("it has no indices".into()))?;
        let (values, indices) = (Tensor::from_proto(values, model)?, Tensor::from_proto(indices, model)?);
        let impossible = || fail(format!("impossible dimensions {:?}", proto.dims));
        let (shape, count) = sizes(&proto.dims).ok_or_else(impossible)?;
        let length = values.element.byte_length(count).ok_or_else(impossible)?;
        let found = values.count();
        let places: Option<Vec<usize>> = match indices.shape[..] {
            _ if values.shape.len() != 1 || indices.element != ElementType::Int64 => None,
            // One number for each, in row-major order, or its coordinates.
            [number] if number == found => {
                indices.integers().iter().map(|&place| usize::try_from(place).ok().filter(|&place| place < count)).collect()
            }
            [number, rank] if number == found && rank == shape.len() && rank > 0 => {
                let place = |coordinates: &[i64]| {
                    coordinates.iter().zip(&shape).try_fold(0, |place, (&at, &size)| {
                        usize::try_from(at).ok().filter(|&at| at < size).map(|at| place * size + at)
                    })
                };
                indices.integers().chunks(rank).map(place).collect()
            }
            _ => None,
        };
        let places = places.filter(|places| places.is_sorted_by(|a, b| a < b));
        let places = places.ok_or_else(|| fail("its indices are not those of its values, in ascending order".into()))?;
        if !affords(length) {
            return Err(fail(format!("{length} bytes are too many to make at import")));
        }
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(length).map_err(|_| fail(format!("no memory for {length} bytes")))?;
        bytes.resize(length, 0);
        if values.element.bits() == 4 {
            for (place, number) in places.into_iter().zip(values.integers()) {
                bytes[place / 2] |= ((number & 15) as u8) << (place % 2 * 4);
            }
        } else {
            let width = values.element.bits() / 8;
            for (place, element) in places.into_iter().zip(values.bytes.chunks(width)) {
                bytes[place * width..(place + 1) * width].copy_from_slice(element);
            }
        }
        Ok(Tensor { element: values.element, shape, bytes: bytes.into() })
    }

    /// A tensor of integers or truth values; each keeps the low bits of its number.
    pub fn from_integers(element: ElementType, shape: Vec<usize>, numbers: &[i64]) -> Tensor {
        debug_assert_eq!(shape.iter().product::<usize>(), numbers.len());
        let bytes: Vec<u8> = match element.bits() {
            4 => numbers
                .chunks(2)
                .looking(COST)
                .map(|pair| (pair[0] & 15) as u8 | (pair.get(1).map_or(0, |n| n & 15) << 4) as u8)
                .collect(),
            bits => numbers.iter().looking(COST).flat_map(|number| number.to_le_bytes().into_iter().take(bits / 8)).collect(),
        };
        Tensor { element, shape, bytes: bytes.into() }
    }

    /// Whole numbers as elements of any type that holds numbers.
    pub fn from_numbers(element: ElementType, shape: Vec<usize>, numbers: &[i64]) -> Tensor {
        Tensor::from_integers(ElementType::Int64, shape, numbers).cast(element)
    }

    /// The same for numbers beyond 64 bits.
    pub fn from_wholes(element: ElementType, shape: Vec<usize>, numbers: &[i128]) -> Tensor {
        Tensor::from_integers(element, shape, &numbers.iter().looking(COST).map(|&number| number as i64).collect::<Vec<i64>>())
    }

    /// A tensor of floating-point numbers, each rounded to the element type.
    pub fn from_floats(element: ElementType, shape: Vec<usize>, numbers: &[f64]) -> Tensor {
        debug_assert_eq!(shape.iter().product::<usize>(), numbers.len());
        let bytes: Vec<u8> = match element {
            ElementType::Double => numbers.iter().looking(COST).flat_map(|x| x.to_le_bytes()).collect(),
            ElementType::Float16 => {
                numbers.iter().looking(COST).flat_map(|&x| crate::graph::number::f16_from_f64(x).to_le_bytes()).collect()
            }
            ElementType::BFloat16 => numbers.iter().looking(COST).flat_map(|&x| bf16::from_f64(x).to_le_bytes()).collect(),
            _ => numbers.iter().looking(COST).flat_map(|&x| (x as f32).to_le_bytes()).collect(),
        };
        Tensor { element, shape, bytes: bytes.into() }
    }

    pub fn int64s(numbers: &[i64]) -> Tensor {
        Tensor::from_integers(ElementType::Int64, vec![numbers.len()], numbers)
    }

    /// A tensor of a shape with a 0.
    pub fn without_elements(element: ElementType, shape: Vec<usize>) -> Tensor {
        debug_assert!(shape.contains(&0), "{shape:?}");
        Tensor { element, shape, bytes: Default::default() }
    }

    pub fn count(&self) -> usize {
        self.shape.iter().product()
    }

    pub fn is_empty(&self) -> bool {
        self.shape.contains(&0)
    }

    /// The elements as integers, floats truncated; `uint64` above the range of `int64` wraps around.
    pub fn integers(&self) -> Vec<i64> {
        let bytes = &self.bytes[..];
        match self.element {
            ElementType::Int64 | ElementType::Uint64 => numbers(bytes, i64::from_le_bytes),
            ElementType::Int32 => numbers(bytes, |b| i32::from_le_bytes(b).into()),
            ElementType::Uint32 => numbers(bytes, |b| u32::from_le_bytes(b).into()),
            ElementType::Int16 => numbers(bytes, |b| i16::from_le_bytes(b).into()),
            ElementType::Uint16 => numbers(bytes, |b| u16::from_le_bytes(b).into()),
            ElementType::Int8 => numbers(bytes, |b| i8::from_le_bytes(b).into()),
            ElementType::Uint8 => numbers(bytes, |b| u8::from_le_bytes(b).into()),
            ElementType::Bool => numbers(bytes, |[b]| (b != 0).into()),
            ElementType::Int4 => self.halves().map(|half| (half << 60) >> 60).collect(),
            ElementType::Uint4 => self.halves().collect(),
            _ => self.floats().into_iter().looking(COST).map(|x| x as i64).collect(),
        }
    }

    /// The elements of a tensor of integers or truth values, as they are.
    pub fn wholes(&self) -> Vec<i128> {
        match self.element {
            ElementType::Uint64 => numbers(&self.bytes, |b| u64::from_le_bytes(b).into()),
            _ => self.integers().into_iter().looking(COST).map(i128::from).collect(),
        }
    }

    /// The elements as floating-point numbers.
    pub fn floats(&self) -> Vec<f64> {
        let bytes = &self.bytes[..];
        match self.element {
            ElementType::Float => numbers(bytes, |b| f32::from_le_bytes(b).into()),
            ElementType::Double => numbers(bytes, f64::from_le_bytes),
            ElementType::Float16 => numbers(bytes, |b| f16::from_le_bytes(b).to_f64()),
            ElementType::BFloat16 => numbers(bytes, |b| bf16::from_le_bytes(b).to_f64()),
            ElementType::Uint64 => numbers(bytes, |b| u64::from_le_bytes(b) as f64),
            _ => self.integers().into_iter().looking(COST).map(|x| x as f64).collect(),
        }
    }

    fn halves(&self) -> impl Iterator<Item = i64> {
        self.bytes.iter().looking(COST).flat_map(|byte| [(byte & 15).into(), (byte >> 4).into()]).take(self.count())
    }

    pub fn reshaped(&self, shape: Vec<usize>) -> Tensor {
        debug_assert_eq!(self.count(), shape.iter().product::<usize>());
        Tensor { shape, ..self.clone() }
    }

    /// What becomes an operand: its descriptor and bytes. Nothing is copied where WebNN has the element type.
    ///
    /// # Errors
    /// `TypeError` for dimensions of size 0 and for elements of 16-bit integers.
    pub fn to_operand(&self) -> Result<(Descriptor, ConstantBytes)> {
        let data_type = self.element.data_type().ok_or_else(|| {
            Error::new(Kind::Type, format!("a constant of {} elements, a type that WebNN does not have", self.element))
        })?;
        let sizes = self.shape.iter().map(|&size| u32::try_from(size));
        let shape = sizes.collect::<Result<Vec<u32>, _>>().map_err(|_| Error::new(Kind::Type, "a constant that is too large"))?;
        let descriptor = Descriptor::new(data_type, shape);
        descriptor.check("constant")?;
        let bytes = match self.element {
            ElementType::Double | ElementType::BFloat16 => {
                memory::require(self.bytes.len().saturating_mul(6))?;
                Tensor::from_floats(ElementType::Float, self.shape.clone(), &self.floats()).bytes
            }
            // Any byte but 0 is true, and kernels count on 1.
            ElementType::Bool if self.bytes.iter().any(|&byte| byte > 1) => {
                memory::require(self.bytes.len())?;
                self.bytes.iter().looking(COST).map(|&byte| (byte != 0).into()).collect::<Vec<u8>>().into()
            }
            _ => self.bytes.clone(),
        };
        Ok((descriptor, ConstantBytes::of_data(bytes)))
    }

    /// The same numbers in another element type, as the graph's cast converts them: floats out of an integer's range become
    /// its smallest or greatest number, and NaN becomes 0.
    pub fn cast(&self, element: ElementType) -> Tensor {
        let shape = self.shape.clone();
        match (self.element.is_float(), element) {
            _ if self.element == element => self.clone(),
            (true, ElementType::Bool) => {
                let truths: Vec<i64> = self.floats().iter().looking(COST).map(|&x| (x != 0.0).into()).collect();
                Tensor::from_integers(element, shape, &truths)
            }
            (false, ElementType::Bool) => {
                let truths: Vec<i64> = self.integers().iter().looking(COST).map(|&x| (x != 0).into()).collect();
                Tensor::from_integers(element, shape, &truths)
            }
            (true, _) if element.is_float() => Tensor::from_floats(element, shape, &self.floats()),
            // As onnxruntime does it: rounded, of two to the one that is farther from 0, of which the low bits stay.
            (true, ElementType::Int4 | ElementType::Uint4) => {
                let numbers: Vec<i64> = self.floats().iter().looking(COST).map(|x| i64::from(x.round() as i32)).collect();
                Tensor::from_integers(element, shape, &numbers)
            }
            (true, _) => {
                let (low, high) = element.range();
                let numbers: Vec<i128> = self.floats().iter().looking(COST).map(|&x| (x as i128).clamp(low, high)).collect();
                Tensor::from_wholes(element, shape, &numbers)
            }
            // Rounded once.
            (false, ElementType::Float) => {
                let numbers: Vec<f64> = self.wholes().iter().looking(COST).map(|&x| f64::from(x as f32)).collect();
                Tensor::from_floats(element, shape, &numbers)
            }
            (false, _) if element.is_float() => Tensor::from_floats(element, shape, &self.floats()),
            (false, _) => Tensor::from_wholes(element, shape, &self.wholes()),
        }
    }
}

fn numbers<const WIDTH: usize, T>(bytes: &[u8], number: impl Fn([u8; WIDTH]) -> T) -> Vec<T> {
    bytes.as_chunks::<WIDTH>().0.iter().looking(COST).map(|&chunk| number(chunk)).collect()
}

/// Dimensions as sizes, with their product; nothing when one is negative or the product is absurd.
pub fn sizes(dims: &[i64]) -> Option<(Vec<usize>, usize)> {
    let shape = dims.iter().map(|&size| usize::try_from(size).ok()).collect::<Option<Vec<usize>>>()?;
    // The product without the zeros must be sane too: arithmetic on shapes multiplies parts of them.
    let product = shape.iter().filter(|&&size| size != 0).try_fold(1usize, |count, &size| count.checked_mul(size))?;
    let count = if shape.contains(&0) { 0 } else { product };
    (product <= 1 << 48).then_some((shape, count))
}

fn external_data(proto: &TensorProto, model: &Model, length: usize) -> Result<Bytes> {
    let entry = |key: &str| proto.external_data.iter().find(|entry| entry.key == key).map(|entry| entry.value.as_str());
    let number = |key: &str| match entry(key) {
        None => Ok(None),
        Some(text) => match text.trim().parse::<usize>() {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(malformed(format!("{key} {text:?} of external data"))),
        },
    };
    let location = entry("location").ok_or_else(|| malformed("external data without a location"))?;
    let offset = number("offset")?.unwrap_or(0);
    if let Some(found) = number("length")?.filter(|&found| found != length) {
        return Err(malformed(format!("{found} bytes of external data instead of {length}")));
    }
    let file = model.external(location)?;
    match offset.checked_add(length) {
        Some(end) if end <= file.len() => Ok(file.slice(offset..end)),
        _ => {
            let size = file.len();
            Err(malformed(format!("{length} bytes at {offset} of {location:?}, which has {size} bytes")))
        }
    }
}

/// Elements from the lists of numbers of a message, where there is no `raw_data`.
fn typed_data(proto: &TensorProto, element: ElementType, count: usize) -> Result<Bytes, String> {
    use ElementType::*;
    match element {
        Float => Ok(joined(&proto.float_data)),
        Double => Ok(joined(&proto.double_data)),
        Int64 => integers(&proto.int64_data, 64, count),
        Uint32 | Uint64 => integers(&proto.uint64_data, element.bits(), count),
        // Two elements of 4 bits are one number here.
        Uint4 | Int4 => integers(&proto.int32_data, 8, count.div_ceil(2)),
        _ => integers(&proto.int32_data, element.bits(), count),
    }
}

fn joined(pieces: &[Bytes]) -> Bytes {
    match pieces {
        [piece] => piece.clone(),
        pieces => pieces.concat().into(),
    }
}

/// Variable-length integers, of which each keeps its low bits.
fn integers(pieces: &[Bytes], bits: usize, count: usize) -> Result<Bytes, String> {
    // Each takes a byte at least, so the count is known to be sane before memory is asked for.
    let available: usize = pieces.iter().map(Bytes::len).sum();
    let fail = |found: usize| format!("{found} elements of data instead of {count}");
    if available < count {
        return Err(fail(available));
    }
    let mut bytes = Vec::with_capacity(count * (bits / 8));
    let mut found = 0;
    for piece in pieces {
        let mut rest = &piece[..];
        while !rest.is_empty() {
            let number = prost::decode_length_delimiter(&mut rest).map_err(|_| "a number that is none".to_owned())?;
            found += 1;
            if found > count {
                return Err(format!("more than {count} elements of data"));
            }
            bytes.extend_from_slice(&(number as u64).to_le_bytes()[..bits / 8]);
        }
    }
    if found != count {
        return Err(fail(found));
    }
    Ok(bytes.into())
}

/// The data type that elements of a graph input or output have.
pub fn data_type(number: i32) -> Result<DataType, String> {
    let element = ElementType::from_number(number.into()).map_err(|found| format!("{found} are not supported"))?;
    element.held_by().ok_or_else(|| format!("{element} elements, a type that WebNN does not have"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ElementType::*;

    fn proto(data_type: i32, dims: &[i64]) -> TensorProto {
        TensorProto { data_type, dims: dims.to_vec(), name: "w".into(), ..Default::default() }
    }

    fn read(proto: &TensorProto) -> Result<Tensor> {
        Tensor::from_proto(proto, &Model::from_bytes(vec![]))
    }

    #[test]
    fn typed_data_of_every_kind() {
        let with = |mut tensor: TensorProto, field: i32, bytes: &'static [u8]| {
            let bytes = vec![Bytes::from_static(bytes)];
            match field {
                4 => tensor.float_data = bytes,
                5 => tensor.int32_data = bytes,
                7 => tensor.int64_data = bytes,
                10 => tensor.double_data = bytes,
                _ => tensor.uint64_data = bytes,
            }
            read(&tensor).unwrap()
        };
        assert_eq!(with(proto(1, &[1]), 4, &[0, 0, 128, 63]).floats(), [1.0]);
        assert_eq!(with(proto(11, &[]), 10, &[0, 0, 0, 0, 0, 0, 240, 63]).floats(), [1.0]);
        assert_eq!(with(proto(10, &[2]), 5, &[0x80, 0x78, 0x80, 0xf8, 0x02]).floats(), [1.0, -1.0]);
        assert_eq!(with(proto(16, &[1]), 5, &[0x80, 0x7f]).floats(), [1.0]);
        let minus_one = &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 5];
        assert_eq!(with(proto(3, &[2]), 5, minus_one).integers(), [-1, 5]);
        assert_eq!(with(proto(6, &[2]), 5, minus_one).integers(), [-1, 5]);
        assert_eq!(with(proto(7, &[2]), 7, minus_one).integers(), [-1, 5]);
        assert_eq!(with(proto(12, &[2]), 11, &[3, 5]).integers(), [3, 5]);
        assert_eq!(with(proto(22, &[3]), 5, &[0xf1, 0x01, 0x07]).integers(), [1, -1, 7]);
        assert_eq!(with(proto(21, &[3]), 5, &[0xf1, 0x01, 0x07]).integers(), [1, 15, 7]);
        assert_eq!(with(proto(9, &[2]), 5, &[0, 1]).integers(), [0, 1]);
    }

    #[test]
    fn what_is_no_tensor_is_refused() {
        for dims in [&[-1][..], &[i64::MAX], &[1 << 40, 1 << 40], &[0, 1 << 40, 1 << 40], &[3]] {
            assert!(read(&proto(1, dims)).is_err(), "{dims:?}");
            assert!(read(&proto(7, dims)).is_err(), "{dims:?}");
        }
        assert!(read(&proto(1, &[0])).unwrap().is_empty());
        for data_type in [0, 8, 14, 17, 23, 99, -1] {
            assert!(read(&proto(data_type, &[0])).is_err(), "{data_type}");
        }
        let raw = |bytes: &'static [u8]| TensorProto { raw_data: Some(Bytes::from_static(bytes)), ..proto(1, &[1]) };
        assert!(read(&raw(&[0; 4])).is_ok());
        assert!(read(&raw(&[0; 5])).is_err());
        assert!(read(&raw(&[])).is_err());
        let mut many = proto(7, &[1]);
        many.int64_data = vec![Bytes::from_static(&[1, 2])];
        assert!(read(&many).is_err());
        many.int64_data = vec![Bytes::from_static(&[0x80])];
        assert!(read(&many).is_err());
    }

    #[test]
    fn conversions() {
        let tensor = Tensor::from_floats(Double, vec![3], &[1.5, -2.5, 0.0]);
        assert_eq!(tensor.cast(Int64).integers(), [1, -2, 0]);
        assert_eq!(tensor.cast(Bool).integers(), [1, 1, 0]);
        assert_eq!(tensor.cast(Float16).floats(), [1.5, -2.5, 0.0]);
        assert_eq!(Tensor::from_integers(Int64, vec![2], &[300, -1]).cast(Uint8).integers(), [44, 255]);
        assert_eq!(Tensor::from_integers(Int4, vec![3], &[-8, 7, -1]).integers(), [-8, 7, -1]);
        let (descriptor, bytes) = tensor.to_operand().unwrap();
        assert_eq!(descriptor.data_type, DataType::Float32);
        assert_eq!(bytes.as_slice(), [1.5f32, -2.5, 0.0].iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<_>>());
        assert!(Tensor::from_integers(Int16, vec![1], &[1]).to_operand().is_err());
        assert!(Tensor::int64s(&[]).to_operand().is_err());
    }
}
