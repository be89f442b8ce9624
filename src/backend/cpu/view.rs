//! Tensors as kernels see them: a data type, a shape, and bytes that belong to somebody else, dense and row-major.

use super::element::Element;
use super::incoming::{Elements, Incoming};
use crate::backend::cpu::scratch;
use crate::graph::{DataType, OperandId};
use crate::looks;
use bytemuck::Pod;
use half::f16;
use half::slice::HalfFloatSliceExt;
use ndarray::{ArrayViewD, ArrayViewMutD, IxDyn};
use std::borrow::Cow;
use webnn_kernels::bf16::narrow::Stored;
use webnn_kernels::output::{SharedOutput, StoredOutput};

/// A tensor that a kernel reads.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    pub data_type: DataType,
    pub shape: &'a [usize],
    bytes: Incoming<'a>,
}

/// A tensor that a kernel writes.
#[derive(Debug)]
pub struct ViewMut<'a> {
    pub data_type: DataType,
    pub shape: &'a [usize],
    pub bytes: &'a mut [u8],
}

impl<'a> View<'a> {
    pub fn new(data_type: DataType, shape: &'a [usize], bytes: &'a [u8]) -> Self {
        View::of(data_type, shape, bytes.into())
    }

    /// A tensor whose bytes may still be on their way.
    pub fn of(data_type: DataType, shape: &'a [usize], bytes: Incoming<'a>) -> Self {
        View { data_type, shape, bytes }
    }

    /// See [`Incoming::is_in_output`].
    pub fn is_in_output(&self) -> bool {
        self.bytes.is_in_output()
    }

    /// The bytes, once they are there.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes.all()
    }

    /// The elements of a float32 tensor, of which a kernel may take those that are there.
    ///
    /// # Panics
    /// For another data type.
    pub fn incoming(&self) -> Elements<'a> {
        assert_eq!(DataType::Float32, self.data_type);
        debug_assert!(!self.is_narrow());
        Elements::new(self.bytes)
    }

    /// Whether it is float32 that lies in memory as bfloat16 (see [`Kernel::storage`](super::kernels::Kernel::storage)).
    pub fn is_narrow(&self) -> bool {
        is_narrow(self.data_type, self.shape, self.bytes.len())
    }

    /// Two elements in each 32 bits, of a tensor that [is narrow](View::is_narrow).
    ///
    /// # Panics
    /// For another tensor.
    pub fn pairs(&self) -> &'a [f32] {
        assert!(self.is_narrow());
        bytemuck::cast_slice(self.bytes())
    }

    /// The elements of a float32 tensor, as they lie in memory.
    ///
    /// # Panics
    /// For another data type.
    pub fn stored(&self) -> Stored<'a> {
        match self.is_narrow() {
            true => Stored::Bf16(bytemuck::cast_slice(self.bytes())),
            false => Stored::Float32(self.elements()),
        }
    }

    pub fn element_count(&self) -> usize {
        self.shape.iter().product()
    }

    /// The elements.
    ///
    /// # Panics
    /// When `T` is not the Rust type of the data type.
    pub fn elements<T: Element>(&self) -> &'a [T] {
        assert_eq!(T::DATA_TYPE, self.data_type);
        debug_assert!(!self.is_narrow());
        bytemuck::cast_slice(self.bytes())
    }

    /// The elements as unsigned integers of their size (see [`with_unit!`](super::copy::with_unit)).
    ///
    /// # Panics
    /// When `T` is not as wide as an element.
    pub fn units<T: Pod>(&self) -> &'a [T] {
        assert_eq!(size_of::<T>() * 8, self.data_type.bits());
        bytemuck::cast_slice(self.bytes())
    }

    /// The elements of a floating-point tensor as `f32`: converted where they are float16.
    pub fn to_f32(&self) -> Cow<'a, [f32]> {
        match self.data_type {
            DataType::Float32 => Cow::Borrowed(self.elements()),
            _ => {
                let elements = self.elements::<f16>();
                let mut converted = scratch::zeroed(elements.len());
                for part in looks::parts(elements.len()) {
                    elements[part.clone()].convert_to_f32_slice(&mut converted[part]);
                }
                Cow::Owned(converted)
            }
        }
    }

    pub fn array<T: Element>(&self) -> ArrayViewD<'a, T> {
        ArrayViewD::from_shape(IxDyn(self.shape), self.elements()).expect("a view's bytes are those of its shape")
    }
}

/// Of a tensor with so many bytes.
fn is_narrow(data_type: DataType, shape: &[usize], bytes: usize) -> bool {
    data_type == DataType::Float32 && bytes > 0 && bytes == shape.iter().product::<usize>() * NARROW
}

/// Bytes of a bfloat16.
pub const NARROW: usize = 2;

impl ViewMut<'_> {
    /// See [`View::is_narrow`].
    pub fn is_narrow(&self) -> bool {
        is_narrow(self.data_type, self.shape, self.bytes.len())
    }

    /// The elements of a float32 tensor, as they lie in memory, to be written by several threads.
    ///
    /// # Panics
    /// For another data type.
    pub fn stored(&mut self) -> StoredOutput<'_> {
        match self.is_narrow() {
            true => StoredOutput::Bf16(SharedOutput::new(self.halves())),
            false => StoredOutput::Float32(SharedOutput::new(self.elements())),
        }
    }

    /// The bits of bfloat16, of a tensor that [is narrow](View::is_narrow).
    ///
    /// # Panics
    /// For another tensor.
    pub fn halves(&mut self) -> &mut [u16] {
        assert!(self.is_narrow());
        bytemuck::cast_slice_mut(self.bytes)
    }

    /// See [`View::pairs`].
    ///
    /// # Panics
    /// For another tensor.
    pub fn pairs(&mut self) -> &mut [f32] {
        assert!(self.is_narrow());
        bytemuck::cast_slice_mut(self.bytes)
    }

    pub fn element_count(&self) -> usize {
        self.shape.iter().product()
    }

    /// The elements.
    ///
    /// # Panics
    /// When `T` is not the Rust type of the data type.
    pub fn elements<T: Element>(&mut self) -> &mut [T] {
        assert_eq!(T::DATA_TYPE, self.data_type);
        debug_assert!(!self.is_narrow());
        bytemuck::cast_slice_mut(self.bytes)
    }

    /// The elements as unsigned integers of their size (see [`with_unit!`](super::copy::with_unit)).
    ///
    /// # Panics
    /// When `T` is not as wide as an element.
    pub fn units<T: Pod>(&mut self) -> &mut [T] {
        assert_eq!(size_of::<T>() * 8, self.data_type.bits());
        bytemuck::cast_slice_mut(self.bytes)
    }

    /// Has the elements of a floating-point tensor computed as `f32`, and rounds them once where they are float16.
    /// What the slice holds at first is not specified.
    pub fn fill_f32(&mut self, compute: impl FnOnce(&mut [f32])) {
        match self.data_type {
            DataType::Float32 => compute(self.elements()),
            _ => {
                let elements = self.elements::<f16>();
                let mut computed = scratch::zeroed(elements.len());
                compute(&mut computed);
                for part in looks::parts(elements.len()) {
                    elements[part.clone()].convert_from_f32_slice(&computed[part]);
                }
            }
        }
    }

    pub fn array<T: Element>(&mut self) -> ArrayViewMutD<'_, T> {
        let shape = IxDyn(self.shape);
        ArrayViewMutD::from_shape(shape, self.elements()).expect("a view's bytes are those of its shape")
    }
}

/// What a kernel is given: the operands of its node, by their position among the node's operands (to which the compiler
/// has renumbered the ids in the node), and the outputs.
pub struct Arguments<'a, 'b> {
    inputs: &'b [View<'a>],
    outputs: &'b mut [ViewMut<'a>],
    overwritten: Option<usize>,
}

impl<'a, 'b> Arguments<'a, 'b> {
    pub fn new(inputs: &'b [View<'a>], outputs: &'b mut [ViewMut<'a>]) -> Self {
        Arguments { inputs, outputs, overwritten: None }
    }

    /// The same where an operand lies in the output, in which a kernel that [`overwrites`] it finds it; its view has no bytes.
    ///
    /// [`overwrites`]: super::kernels::Kernel::overwrites
    pub fn overwriting(self, position: Option<usize>) -> Self {
        Arguments { overwritten: position, ..self }
    }

    /// Whether an operand lies in the output.
    pub fn is_overwritten(&self, id: OperandId) -> bool {
        self.overwritten == Some(id.0 as usize)
    }

    /// The operand that a field of the node names.
    pub fn input(&self, id: OperandId) -> View<'a> {
        self.inputs[id.0 as usize]
    }

    pub fn output(&mut self) -> &mut ViewMut<'a> {
        &mut self.outputs[0]
    }

    pub fn outputs(&mut self) -> &mut [ViewMut<'a>] {
        self.outputs
    }
}
