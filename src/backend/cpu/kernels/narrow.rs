//! Products of many rows with a constant matrix of a few columns. To a convolution the rows are pixels, and its tiles are as narrow
//! and higher.

use super::isa::isa;
use super::{Known, Selection, Site, conv};
use crate::graph::ops::conv::Conv2d;
use crate::graph::ops::layout::{Conv2dFilterOperandLayout, InputOperandLayout};
use crate::graph::{Op, OperandId};

/// Columns of the narrowest tiles.
const MOST_COLUMNS: usize = 8;
/// With fewer rows there are not enough tiles for what is made once for all.
const LEAST_ROWS: usize = 64;

/// The operands of a product: rows that lie one behind the other, the matrix and how it lies, and what is added to each row.
pub struct Operands {
    pub rows: OperandId,
    pub matrix: OperandId,
    pub is_transposed: bool,
    pub bias: Option<OperandId>,
}

/// The kernel for a product of so many rows with a matrix of so many rows and columns.
pub fn select(site: &Site<'_>, rows: usize, [depth, columns]: [usize; 2], operands: &Operands) -> Option<Selection> {
    if columns > MOST_COLUMNS || rows < LEAST_ROWS {
        return None;
    }
    let (image, output) = ([1, rows, 1, depth], [1, rows, 1, columns]);
    let (filter, filter_layout) = match operands.is_transposed {
        true => ([columns, 1, 1, depth], Conv2dFilterOperandLayout::Ohwi),
        false => ([1, 1, depth, columns], Conv2dFilterOperandLayout::Hwio),
    };
    let op = Conv2d {
        input: operands.rows,
        filter: operands.matrix,
        padding: [0; 4],
        strides: [1; 2],
        dilations: [1; 2],
        groups: 1,
        input_layout: InputOperandLayout::Nhwc,
        filter_layout,
        bias: operands.bias,
    };
    // Each operand as the convolution sees it: what is done to the products has their shape, or a number for each column, or one.
    let seen = |(position, known): (usize, &Known<'_>)| {
        let id = OperandId(position as u32);
        let count = known.shape.iter().product::<usize>();
        match id {
            _ if id == operands.rows => Some(image.as_slice()),
            _ if id == operands.matrix => Some(filter.as_slice()),
            _ if known.shape == site.output.shape => Some(output.as_slice()),
            _ if count == 1 => Some([1].as_slice()),
            _ if count == columns && known.shape.last() == Some(&columns) => Some(&output[3..]),
            _ => None,
        }
    };
    let shapes: Vec<&[usize]> = site.inputs.iter().enumerate().map(seen).collect::<Option<_>>()?;
    let inputs: Vec<Known<'_>> = site.inputs.iter().zip(shapes).map(|(known, shape)| Known { shape, ..*known }).collect();
    let as_op = Op::from(op.clone());
    let site = Site { op: &as_op, inputs: &inputs, output: Known { shape: &output, ..site.output }, ..*site };
    conv::select(&op, &site, isa()).filter(|selection| selection.fuses)
}
