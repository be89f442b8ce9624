//! What convolutions and pools say about their windows: strides, dilations, padding.

use crate::graph::OperandId;
use crate::onnx::emit::Emit;
use crate::onnx::node::{Node, size};
use crate::onnx::refusal::Mapped;
use std::ops::Range;

/// How a window moves over the two spatial dimensions. Of one dimension, the first of the two is 1.
#[derive(Clone, Debug)]
pub struct Window {
    pub kernel: [u32; 2],
    pub strides: [u32; 2],
    pub dilations: [u32; 2],
    pub auto_pad: AutoPad,
    /// Before and after each dimension.
    pub pads: [(u32, u32); 2],
    /// Whether there is one spatial dimension only.
    pub flat: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AutoPad {
    NotSet,
    SameUpper,
    SameLower,
    Valid,
}

/// A number within the range of sizes, so that no sum of products of two of them overflows.
fn bounded(number: i64) -> Mapped<u32> {
    i32::try_from(number)
        .ok()
        .and_then(|number| u32::try_from(number).ok())
        .ok_or_else(|| format!("{number}, allowed a size").into())
}

impl Window {
    /// Reads the attributes for an input of that rank; the kernel's sizes may come from elsewhere.
    pub fn of(node: &Node<'_>, rank: usize, kernel: Option<&[u32]>) -> Mapped<Window> {
        let spatial = match rank {
            3 => 1,
            4 => 2,
            _ => return Err(format!("an input of rank {rank}; one or two spatial dimensions are supported").into()),
        };
        Ok(Window::along(node, kernel, spatial)?.pop().ok_or("no spatial dimensions")?)
    }

    /// The window of three spatial dimensions: along the depth, as the second of two, and over the planes.
    pub fn of_volume(node: &Node<'_>, kernel: Option<&[u32]>) -> Mapped<(Window, Window)> {
        let mut both = Window::along(node, kernel, 3)?.into_iter();
        both.next().zip(both.next()).ok_or_else(|| "no spatial dimensions".into())
    }

    /// The windows of one to three spatial dimensions, each with those of its two that there are.
    pub fn all(node: &Node<'_>, rank: usize) -> Mapped<Vec<(Window, Range<usize>)>> {
        let spatial = rank.checked_sub(2).filter(|spatial| (1..=3).contains(spatial));
        let spatial = spatial.ok_or_else(|| format!("an input of rank {rank}; one to three spatial dimensions are supported"))?;
        let windows = Window::along(node, None, spatial)?.into_iter().enumerate();
        Ok(windows.map(|(i, window)| (window, usize::from(i == 0 && spatial != 2)..2)).collect())
    }

    /// The attributes of so many spatial dimensions: the last two in the last window, and a first one in one of its own.
    fn along(node: &Node<'_>, kernel: Option<&[u32]>, spatial: usize) -> Mapped<Vec<Window>> {
        let list = |name: &str, count: usize, default: u32| -> Mapped<Vec<u32>> {
            let Some(list) = node.ints(name)?.filter(|list| !list.is_empty()) else { return Ok(vec![default; count]) };
            if list.len() != count {
                return Err(format!("attribute {name} has {} numbers instead of {count}", list.len()).into());
            }
            list.into_iter().map(bounded).collect()
        };
        let own =
            node.ints("kernel_shape")?.map(|list| list.into_iter().map(bounded).collect::<Mapped<Vec<u32>>>()).transpose()?;
        let kernel = match (own, kernel) {
            (Some(own), Some(kernel)) if own != kernel => {
                return Err(format!("attribute kernel_shape is {own:?}, but the filter has {kernel:?}").into());
            }
            (Some(own), _) => own,
            (None, Some(kernel)) => kernel.to_vec(),
            (None, None) => return Err("the attribute kernel_shape is missing".into()),
        };
        if kernel.len() != spatial || kernel.contains(&0) {
            return Err(format!("a kernel of {kernel:?} for {spatial} spatial dimensions").into());
        }
        let (strides, dilations) = (list("strides", spatial, 1)?, list("dilations", spatial, 1)?);
        if strides.contains(&0) || dilations.contains(&0) {
            return Err("strides or dilations of 0".into());
        }
        let auto_pad = match node.string("auto_pad", "NOTSET")?.as_str() {
            "NOTSET" | "" => AutoPad::NotSet,
            "SAME_UPPER" => AutoPad::SameUpper,
            "SAME_LOWER" => AutoPad::SameLower,
            "VALID" => AutoPad::Valid,
            other => return Err(format!("attribute auto_pad is {other:?}").into()),
        };
        let pads = if auto_pad == AutoPad::NotSet { list("pads", 2 * spatial, 0)? } else { vec![0; 2 * spatial] };
        let window = |dimensions: [Option<usize>; 2]| {
            let pair = |list: &[u32]| dimensions.map(|dimension| dimension.map_or(1, |dimension| list[dimension]));
            Window {
                kernel: pair(&kernel),
                strides: pair(&strides),
                dilations: pair(&dilations),
                auto_pad,
                pads: dimensions.map(|dimension| dimension.map_or((0, 0), |i| (pads[i], pads[i + spatial]))),
                flat: spatial == 1,
            }
        };
        Ok(match spatial {
            1 => vec![window([None, Some(0)])],
            2 => vec![window([Some(0), Some(1)])],
            _ => vec![window([None, Some(0)]), window([Some(1), Some(2)])],
        })
    }

    /// The number of windows. Rounded up, one that would begin after the input and the padding before it does not count.
    pub fn output_size(&self, sizes: [u32; 2], dimension: usize, up: bool) -> Mapped<u32> {
        let (before, after) = (u64::from(self.pads[dimension].0), u64::from(self.pads[dimension].1));
        let (length, stride) = (u64::from(sizes[dimension]), u64::from(self.strides[dimension]));
        let room = (length + before + after).checked_sub(self.extent(dimension)).ok_or("a window larger than the input")?;
        let count = if up { room.div_ceil(stride) + 1 } else { room / stride + 1 };
        let last_begins_after = up && (count - 1) * stride >= length + before;
        size(count - u64::from(last_begins_after))
    }

    /// How far the last window reaches beyond the padded input.
    pub fn excess(&self, sizes: [u32; 2], output_sizes: [u32; 2], dimension: usize) -> Mapped<u32> {
        let last = u64::from(output_sizes[dimension]).checked_sub(1).ok_or("a pool without windows")?;
        let reach = last * u64::from(self.strides[dimension]) + self.extent(dimension);
        let (before, after) = self.pads[dimension];
        let have = u64::from(sizes[dimension]) + u64::from(before) + u64::from(after);
        size(reach.saturating_sub(have))
    }

    /// Lets the padding reach to the end of the last windows.
    pub fn reach(&mut self, sizes: [u32; 2], output_sizes: [u32; 2]) -> Mapped<()> {
        for dimension in 0..2 {
            let missing = self.excess(sizes, output_sizes, dimension)?;
            let after = &mut self.pads[dimension].1;
            *after = after.checked_add(missing).ok_or("too much padding")?;
        }
        Ok(())
    }

    /// The width of the window with its gaps.
    pub fn extent(&self, dimension: usize) -> u64 {
        (u64::from(self.kernel[dimension]) - 1) * u64::from(self.dilations[dimension]) + 1
    }

    /// Makes SAME padding explicit, for an input of these sizes.
    pub fn fix_padding(&mut self, sizes: [u32; 2]) -> Mapped<()> {
        if !matches!(self.auto_pad, AutoPad::SameUpper | AutoPad::SameLower) {
            return Ok(());
        }
        for (dimension, &length) in sizes.iter().enumerate() {
            let stride = u64::from(self.strides[dimension]);
            let windows = u64::from(length).div_ceil(stride);
            let total = ((windows - 1) * stride + self.extent(dimension)).saturating_sub(length.into());
            self.pads[dimension] = self.divide(total)?;
        }
        Ok(())
    }

    /// Padding before and after, of a total: the odd one goes after, or before for SAME_LOWER.
    pub fn divide(&self, total: u64) -> Mapped<(u32, u32)> {
        let (less, more) = (size(total / 2)?, size(total - total / 2)?);
        Ok(if self.auto_pad == AutoPad::SameLower { (more, less) } else { (less, more) })
    }

    /// The padding as WebNN orders it.
    pub fn padding(&self) -> [u32; 4] {
        [self.pads[0].0, self.pads[0].1, self.pads[1].0, self.pads[1].1]
    }

    /// Inserts the dimension of size 1 that makes one spatial dimension two.
    pub fn with_images(&self, input: OperandId, emit: &mut Emit<'_>) -> Mapped<OperandId> {
        if !self.flat {
            return Ok(input);
        }
        let mut shape = emit.shape(input);
        shape.insert(2, 1);
        emit.reshape(input, &shape)
    }

    /// Takes that dimension out again.
    pub fn without_images(&self, output: OperandId, emit: &mut Emit<'_>) -> Mapped<OperandId> {
        if !self.flat {
            return Ok(output);
        }
        let mut shape = emit.shape(output);
        shape.remove(2);
        emit.reshape(output, &shape)
    }
}
