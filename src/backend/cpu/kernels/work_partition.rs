//! Into which blocks a product is divided, for threads and for caches.

/// What a product reads, and the most blocks it may be divided into.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// Bytes of all rows, which every block of columns reads.
    pub rows: usize,
    /// Bytes of the weights of all columns, which every block of rows reads.
    pub columns: usize,
    /// Blocks of rows: so many that one stays in the cache, and no more than there are.
    pub least_down: usize,
    pub most_down: usize,
    /// Blocks of columns, at most.
    pub most_across: usize,
}

/// How many blocks of rows, and how many of columns: about so many jobs, or as many as there can be, that read the least
/// together.
pub fn divide(jobs: usize, extent: &Extent) -> [usize; 2] {
    let Extent { rows, columns, least_down, most_down, most_across } = *extent;
    let down = (1..=jobs).filter(|down| jobs.is_multiple_of(*down)).chain([least_down]);
    let divisions = down.filter(|&down| down >= least_down).map(|down| {
        let down = down.min(most_down).max(1);
        [down, jobs.div_ceil(down).clamp(1, most_across.max(1))]
    });
    let missing = |[down, across]: [usize; 2]| jobs.saturating_sub(down * across);
    let read = |[down, across]: [usize; 2]| down.saturating_mul(columns).saturating_add(across.saturating_mul(rows));
    divisions.min_by_key(|&division| (missing(division), read(division))).expect("at least one division")
}

/// Sizes of blocks of so many: all are equal, but the last.
fn blocks(count: usize, of_block: usize) -> impl Iterator<Item = usize> + Clone {
    (0..count).step_by(of_block).map(move |first| of_block.min(count - first))
}

/// How many panels of so many columns a block has, so that threads are done at the same time: as many as there are in one of `across`
/// blocks of about the same size, or down to half of them. There are so many rows in blocks of `of_block` beside them.
pub fn even([columns, of_panel]: [usize; 2], across: usize, [rows, of_block]: [usize; 2], threads: usize) -> usize {
    let most = columns.div_ceil(of_panel).div_ceil(across.max(1)).max(1);
    // Who is free takes the next job.
    let time = |panels: usize| {
        let mut busy = vec![0; threads.max(1)];
        for height in blocks(rows, of_block.max(1)) {
            for width in blocks(columns, panels * of_panel) {
                *busy.iter_mut().min().expect("there is a thread") += height * width;
            }
        }
        busy.into_iter().max()
    };
    (most.div_ceil(2)..=most).rev().min_by_key(|&panels| time(panels)).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_done_at_the_same_time() {
        // In nine jobs of 4 panels one of two threads would have five.
        assert_eq!(even([36, 1], 8, [4, 4], 2), 3);
        // Two blocks of columns do for seven of rows, and one where there is an even number of these.
        assert_eq!(even([15 * 32, 32], 2, [14, 2], 2), 8);
        assert_eq!(even([3 * 16, 16], 1, [16, 2], 2), 3);
        assert_eq!(even([3 * 16, 16], 1, [14, 2], 2), 2);
        // The last panel may be narrower.
        assert_eq!(even([80, 32], 2, [14, 2], 2), 1);
        // One thread has all of it, and nobody anything of nothing.
        assert_eq!(even([36, 1], 1, [4, 4], 1), 36);
        assert_eq!(even([0, 8], 1, [0, 1], 2), 1);
        assert_eq!(even([1, 8], 3, [5, 1], 2), 1);
    }

    #[test]
    fn the_least_is_read() {
        let extent = |rows, columns| Extent { rows, columns, least_down: 1, most_down: 14, most_across: 64 };
        // Large weights are read once, a large image is, and of two of one size both are read a few times.
        assert_eq!(divide(8, &extent(200, 8000)), [1, 8]);
        assert_eq!(divide(8, &extent(8000, 200)), [8, 1]);
        assert_eq!(divide(8, &extent(1000, 1000)), [2, 4]);
        assert_eq!(divide(1, &extent(1000, 1000)), [1, 1]);
    }

    #[test]
    fn a_block_of_rows_stays_in_the_cache() {
        let extent = |least_down| Extent { rows: 200, columns: 8000, least_down, most_down: 14, most_across: 64 };
        assert_eq!(divide(1, &extent(5)), [5, 1]);
        assert_eq!(divide(8, &extent(3)), [3, 3]);
        assert_eq!(divide(8, &extent(14)), [14, 1]);
    }

    #[test]
    fn there_are_as_many_jobs_as_there_can_be() {
        let extent = |most_down, most_across| Extent { rows: 200, columns: 8000, least_down: 1, most_down, most_across };
        assert_eq!(divide(8, &extent(14, 2)), [4, 2]);
        assert_eq!(divide(64, &extent(4, 3)), [4, 3]);
        assert_eq!(divide(8, &extent(1, 1)), [1, 1]);
        assert_eq!(divide(8, &extent(0, 0)), [1, 1]);
    }
}
