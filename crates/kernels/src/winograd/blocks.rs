//! The blocks that an output is divided into: where they lie, how much of each is inside, and which are computed together.

use super::transform::Transform;
use crate::window::Axis;
use smallvec::SmallVec;
use std::ops::Range;

/// The most frequencies of a block.
const MOST_FREQUENCIES: usize = 36;

#[derive(Clone, Copy, Debug)]
pub struct BlockGrid {
    pub batches: usize,
    pub channels: usize,
    pub outputs: usize,
    /// `outputs` as whole vectors.
    pub padded: usize,
    pub rows: Axis,
    pub columns: Axis,
    /// Blocks of the output below each other and beside each other, of all phases. Some may lie after the end of theirs.
    pub down: usize,
    pub across: usize,
}

impl BlockGrid {
    pub fn blocks(&self) -> usize {
        self.batches * self.down * self.across
    }

    /// Image, first row and first column of a block of so many pixels' width.
    pub fn place(&self, block: usize, width: usize) -> (usize, usize, usize) {
        let (line, x) = (block / self.across, block % self.across);
        // Phase after phase.
        let first = |axis: &Axis, count: usize, number: usize| {
            let of_phase = count / axis.dilation;
            number / of_phase + number % of_phase * width * axis.dilation
        };
        (line / self.down, first(&self.rows, self.down, line % self.down), first(&self.columns, self.across, x))
    }

    /// How many rows and columns of a block are inside the output.
    pub fn inside(&self, block: usize, width: usize) -> [usize; 2] {
        let (_, top, left) = self.place(block, width);
        [(&self.rows, top), (&self.columns, left)]
            .map(|(axis, first)| axis.output.saturating_sub(first).div_ceil(axis.dilation).min(width))
    }

    /// Divides the blocks into jobs, one after the other, that have about the same number of products to compute: as many
    /// products as `jobs` says for that number of all.
    pub fn jobs<T: Transform>(&self, jobs: impl FnOnce(usize) -> usize) -> Vec<Range<usize>> {
        let products = |block: usize| products_of(self.inside(block, T::WIDTH));
        let all: usize = (0..self.blocks()).map(products).sum();
        let count = jobs(all).clamp(1, self.blocks().max(1));
        let (mut ends, mut sum) = (Vec::with_capacity(count), 0);
        for block in 0..self.blocks() {
            // A block belongs to the job that its middle falls into.
            if (2 * sum + products(block)) * count > 2 * all * (ends.len() + 1) {
                ends.push(block);
            }
            sum += products(block);
        }
        ends.push(self.blocks());
        let starts = std::iter::once(0).chain(ends.iter().copied());
        starts.zip(&ends).map(|(start, &end)| start..end).filter(|job| !job.is_empty()).collect()
    }
}

/// Products of a channel of the input and one of the output, for so many rows and columns of a block.
fn products_of([rows, columns]: [usize; 2]) -> usize {
    if rows == 0 || columns == 0 { 0 } else { (rows + 2) * (columns + 2) }
}

/// The blocks of a job, those first that are whole, and where they stand among those that have a frequency.
#[derive(Debug)]
pub struct Order {
    blocks: Vec<u32>,
    pub groups: SmallVec<[Group; 1]>,
    /// By frequency, how many blocks have it.
    pub counts: [usize; MOST_FREQUENCIES],
}

/// Blocks of which the same numbers of rows and columns are inside the output.
#[derive(Debug)]
pub struct Group {
    pub inside: [usize; 2],
    /// Among the blocks of the order.
    blocks: Range<usize>,
    /// By frequency, where the first of them stands.
    first: [usize; MOST_FREQUENCIES],
    /// After where the last one stands at any frequency.
    end: usize,
}

/// A block of a group. Of a whole one, which is among the first at every frequency, all numbers are known to the compiler.
#[derive(Clone, Copy)]
pub struct Member<'a, const WHOLE: bool> {
    group: &'a Group,
    number: usize,
}

impl<'a, const WHOLE: bool> Member<'a, WHOLE> {
    /// # Panics
    /// When there is no such block, or it does not stand below `together` at every frequency.
    #[inline(always)]
    pub fn new(group: &'a Group, number: usize, together: usize) -> Self {
        assert!(number < group.blocks.len() && group.end <= together);
        debug_assert!(!WHOLE || group.first == [0; MOST_FREQUENCIES]);
        Member { group, number }
    }

    /// Rows and columns of it that are inside the output.
    #[inline(always)]
    pub fn inside<T: Transform>(self) -> [usize; 2] {
        if WHOLE { [T::WIDTH; 2] } else { self.group.inside }
    }

    /// Where it stands among those that have a frequency.
    #[inline(always)]
    pub fn at(self, frequency: usize) -> usize {
        if WHOLE { self.number } else { self.group.first[frequency] + self.number }
    }
}

impl Order {
    pub fn new<T: Transform>(grid: &BlockGrid, blocks: Range<usize>) -> Order {
        let missing = |block: u32| grid.inside(block as usize, T::WIDTH).map(|pixels| T::WIDTH - pixels);
        let mut blocks: Vec<u32> = blocks.map(|block| u32::try_from(block).expect("so many blocks fit into memory")).collect();
        blocks.retain(|&block| !missing(block).contains(&T::WIDTH));
        blocks.sort_by_key(|&block| missing(block));
        let mut order = Order { blocks, groups: SmallVec::new(), counts: [0; MOST_FREQUENCIES] };
        for alike in order.blocks.chunk_by(|&a, &b| missing(a) == missing(b)) {
            let inside = missing(alike[0]).map(|pixels| T::WIDTH - pixels);
            let start = order.groups.last().map_or(0, |group: &Group| group.blocks.end);
            let end = order.counts.iter().max().copied().unwrap_or(0) + alike.len();
            order.groups.push(Group { inside, blocks: start..start + alike.len(), first: order.counts, end });
            for (frequency, count) in order.counts.iter_mut().enumerate().take(T::FREQUENCIES) {
                if T::needs(inside[0], frequency / T::REACH) && T::needs(inside[1], frequency % T::REACH) {
                    *count += alike.len();
                }
            }
        }
        order
    }

    pub fn blocks(&self) -> impl Iterator<Item = usize> {
        self.blocks.iter().map(|&block| block as usize)
    }

    pub fn of_group(&self, group: &Group) -> impl Iterator<Item = usize> {
        self.blocks[group.blocks.clone()].iter().map(|&block| block as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::winograd::transform::{Transform2, Transform4};

    fn check<T: Transform>(dilation: usize, [height, width]: [usize; 2], jobs: usize) {
        let axis = |output: usize| Axis { input: output, output, window: 3, stride: 1, dilation, padding: dilation };
        let blocks_of = |output: usize| output.div_ceil(dilation).div_ceil(T::WIDTH) * dilation;
        let (down, across) = (blocks_of(height), blocks_of(width));
        let (rows, columns) = (axis(height), axis(width));
        let grid = BlockGrid { batches: 2, channels: 8, outputs: 8, padded: 8, rows, columns, down, across };
        let divided = grid.jobs::<T>(|_| jobs);
        let orders: Vec<Order> = divided.iter().map(|job| Order::new::<T>(&grid, job.clone())).collect();
        // Every pixel belongs to one block.
        let mut pixels = vec![0; 2 * height * width];
        for block in orders.iter().flat_map(Order::blocks) {
            let (batch, top, left) = grid.place(block, T::WIDTH);
            let [down, across] = grid.inside(block, T::WIDTH);
            for i in 0..down * across {
                let (y, x) = (top + i / across * dilation, left + i % across * dilation);
                pixels[(batch * height + y) * width + x] += 1;
            }
        }
        assert!(pixels.iter().all(|&count| count == 1), "{height}x{width}, dilation {dilation}");
        // Each has as many products as its share, but for a block; none shares its place at a frequency.
        let products: Vec<usize> = orders.iter().map(|order| order.counts.iter().sum()).collect();
        let share = products.iter().sum::<usize>() as f64 / jobs as f64;
        assert!(products.iter().all(|&products| (products as f64 - share).abs() <= T::FREQUENCIES as f64), "{products:?}");
        for order in &orders {
            for frequency in 0..T::FREQUENCIES {
                let mut end = 0;
                for group in &order.groups {
                    let needed =
                        T::needs(group.inside[0], frequency / T::REACH) && T::needs(group.inside[1], frequency % T::REACH);
                    assert_eq!(group.first[frequency], end);
                    end += if needed { order.of_group(group).count() } else { 0 };
                }
                assert_eq!(order.counts[frequency], end);
            }
        }
    }

    #[test]
    fn jobs_have_the_same_number_of_products() {
        for (dilation, size, jobs) in [(1, [14, 14], 2), (1, [7, 13], 3), (1, [56, 56], 7), (2, [15, 30], 2), (3, [13, 12], 4)] {
            check::<Transform2>(dilation, size, jobs);
            check::<Transform4>(dilation, size, jobs);
        }
    }
}
