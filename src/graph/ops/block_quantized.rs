//! Products with weights of a few bits, which are quantized in blocks. WebNN says them as `dequantizeLinear` before a product, whose
//! weights would be expanded to float numbers first.

use crate::error::{Error, Result};
use crate::graph::attribute::enumeration;
use crate::graph::data_type::{DataType, DataTypes, FLOAT};
use crate::graph::operator::Types::{Of, SameAs};
use crate::graph::operator::{Outputs, Rule, at_least, one, operators, rank};
use crate::graph::shape::check_shape;
use crate::graph::{Descriptor, OperandId, Operands};

/// The numbers of bits that an integer weight may have.
pub const BITS: [u32; 4] = [2, 3, 4, 8];
/// Those of a weight that is a float16 number.
pub const FLOAT16_BITS: u32 = 16;

enumeration! {
    /// Which integers the bits of a weight stand for.
    "WeightCoding" WeightCoding {
        Unsigned "unsigned",
        /// Relative to the middle of the range: 4 bits from -8 to 7.
        Offset "offset",
        /// In two's complement.
        Signed "signed",
        /// None: 16 bits are a float16 number.
        Float16 "float16",
    }
}

operators! {
    /// A product with weights of a few bits.
    pub struct BlockQuantizedMatmul: "MLOperatorOptions" in "" {
        a: OperandId,
        /// The bits of a row for each column of the product, whose blocks begin with whole bytes; or, `by_depth`, a row for each
        /// step in depth. Of the weights in a byte the first one has the lowest bits.
        weights: OperandId,
        /// Of each block, by columns of the product and blocks, or, `by_depth`, by blocks and columns.
        scales: OperandId,
        bits: u32,
        /// Weights of a block, along the depth. The last block may be longer than what is left of it.
        block_size: u32,
    } options {
        /// What is taken off the integers of a block before they are scaled: numbers that lie as the scales do, or integers that are
        /// packed and coded as the weights, each row from a whole byte on.
        zero_points: Option<OperandId> = None,
        /// What the bits stand for instead of integers.
        code_book: Option<OperandId> = None,
        /// A row that is added.
        bias: Option<OperandId> = None,
        coding: WeightCoding = WeightCoding::Unsigned,
        by_depth: bool = false,
        /// Whether the first one of two weights of 4 bits has the high bits of their byte.
        high_first: bool = false,
        /// Whether the numbers of `a` may be rounded to 8 bits, in each block to as many parts of the greatest of them.
        approximate: bool = false,
    }
    [
        ("a", Of(FLOAT), at_least(2)),
        ("weights", Of(DataTypes::of(&[DataType::Uint8])), rank(2)),
        ("scales", Of(FLOAT), rank(2)),
        ("zero_points", Of(DataTypes::of(&[DataType::Uint8, DataType::Float32, DataType::Float16])), rank(2)),
        ("code_book", Of(DataTypes::of(&[DataType::Float32])), rank(1)),
        ("bias", SameAs("a"), rank(1)),
    ] -> One [("output", SameAs("a"), at_least(2))] {
        /// Multiplies matrices, of which the right one is made of a few bits for each element:
        /// `(integer - zero point) * scale`, or `(number of the code book - zero point) * scale`.
        "blockQuantizedMatmul"
    }
}

/// The sizes of a product, and how its weights lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    pub depth: usize,
    pub columns: usize,
    pub blocks: usize,
    /// Bytes of a row of the weights, and of one of packed zero points.
    pub row: usize,
    pub zero_row: usize,
}

impl BlockQuantizedMatmul {
    /// The bytes of so many numbers of its bits.
    fn bytes(&self, count: u64) -> u64 {
        (count * u64::from(self.bits)).div_ceil(8)
    }

    /// Of a valid product.
    pub fn sizes(&self, depth: usize, scales: &[usize]) -> Sizes {
        let [columns, blocks] = if self.by_depth { [scales[1], scales[0]] } else { [scales[0], scales[1]] };
        let bytes = |count: usize| self.bytes(count as u64) as usize;
        let row = if self.by_depth { bytes(columns) } else { blocks * bytes(self.block_size as usize) };
        Sizes { depth, columns, blocks, row, zero_row: bytes(if self.by_depth { columns } else { blocks }) }
    }

    /// The bit of a weight's first one, in the weights.
    pub fn place(&self, sizes: &Sizes, k: usize, column: usize) -> usize {
        let (bits, block) = (self.bits as usize, self.block_size as usize);
        let swapped = |i: usize| if self.high_first { i ^ 1 } else { i };
        if self.by_depth {
            return k * sizes.row * 8 + swapped(column) * bits;
        }
        let of_block = (block * bits).div_ceil(8) * 8;
        column * sizes.row * 8 + k / block * of_block + swapped(k % block) * bits
    }

    /// The same of a packed zero point.
    pub fn place_of_zero(&self, sizes: &Sizes, block: usize, column: usize) -> usize {
        let [row, place] = if self.by_depth { [block, column] } else { [column, block] };
        row * sizes.zero_row * 8 + place * self.bits as usize
    }

    /// The bits that begin at a place.
    pub fn code(&self, bytes: &[u8], place: usize) -> u32 {
        let low = u32::from(bytes[place / 8]);
        let high = bytes.get(place / 8 + 1).map_or(0, |&byte| u32::from(byte));
        (low | high << 8) >> (place % 8) & ((1 << self.bits) - 1)
    }

    /// What bits stand for without a code book.
    pub fn number(&self, code: u32) -> f64 {
        let half = 1 << (self.bits - 1);
        match self.coding {
            WeightCoding::Unsigned => f64::from(code),
            WeightCoding::Offset => f64::from(code as i32 - half),
            WeightCoding::Signed => f64::from((code as i32 ^ half) - half),
            WeightCoding::Float16 => half::f16::from_bits(code as u16).to_f64(),
        }
    }
}

impl Rule for BlockQuantizedMatmul {
    fn infer(&self, operands: &Operands<'_>) -> Result<Outputs> {
        let a = operands.shape(self.a);
        let (batches, &[rows, depth]) = a.split_last_chunk::<2>().expect("the row demands rank 2");
        if self.coding == WeightCoding::Float16 {
            if self.bits != FLOAT16_BITS {
                return Err(Error::argument("bits", self.bits, "16, of float16 numbers"));
            }
            if self.zero_points.is_some() || self.code_book.is_some() {
                return Err(Error::argument("coding", "float16 beside zero points or a code book", "integers beside these"));
            }
        } else if !BITS.contains(&self.bits) {
            return Err(Error::argument("bits", self.bits, "2, 3, 4 or 8"));
        }
        // Greater ones would be another way to say one block.
        if self.block_size == 0 || self.block_size > 1 << 30 {
            return Err(Error::argument("blockSize", self.block_size, "1 to 2^30"));
        }
        if self.high_first && (self.bits != 4 || self.by_depth || !self.block_size.is_multiple_of(2)) {
            let found = format!("true for {} bits in blocks of {}", self.bits, self.block_size);
            return Err(Error::argument("highFirst", found, "false but for 4 bits in rows of even blocks"));
        }
        let blocks = depth.div_ceil(self.block_size);
        let scales = operands.shape(self.scales);
        let columns = scales[if self.by_depth { 1 } else { 0 }];
        let by_order = |of_columns, of_blocks| if self.by_depth { [of_blocks, of_columns] } else { [of_columns, of_blocks] };
        check_shape("scales", scales, &by_order(columns, blocks))?;
        let size = |bytes: u64| {
            u32::try_from(bytes)
                .map_err(|_| Error::argument("blockSize", self.block_size, "blocks of fewer than 2^32 bytes in a row"))
        };
        let weights = if self.by_depth {
            [depth, size(self.bytes(columns.into()))?]
        } else {
            [columns, size(u64::from(blocks) * self.bytes(self.block_size.into()))?]
        };
        check_shape("weights", operands.shape(self.weights), &weights)?;
        if let Some(zero_points) = self.zero_points {
            let packed = |count: u32| size(self.bytes(count.into()));
            let shape = match operands.data_type(zero_points) {
                DataType::Uint8 if self.by_depth => [blocks, packed(columns)?],
                DataType::Uint8 => [columns, packed(blocks)?],
                _ => by_order(columns, blocks),
            };
            check_shape("zeroPoints", operands.shape(zero_points), &shape)?;
        }
        if let Some(code_book) = self.code_book {
            check_shape("codeBook", operands.shape(code_book), &[1 << self.bits])?;
        }
        if let Some(bias) = self.bias {
            check_shape("bias", operands.shape(bias), &[columns])?;
        }
        let shape = batches.iter().copied().chain([rows, columns]);
        one(Descriptor::new(operands.data_type(self.a), shape))
    }
}
