//! How the blocks of an output are divided into jobs, and the work between threads.

/// What the transformed numbers and the transformed filter take, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Demand {
    /// Of all blocks, before and after the products.
    pub numbers: usize,
    /// The same of as few blocks as are worth a pass over the filter.
    pub least: usize,
    pub filter: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Division {
    /// Parts of the blocks, each of which passes over the whole filter.
    pub jobs: usize,
    /// Whether all threads do one job after the other, in each of which they divide channels, frequencies and outputs, and so
    /// the filter. Else each does jobs of its own.
    pub divides_filter: bool,
}

/// Bytes of transformed numbers that stay in a core's second-level cache.
const KEPT: usize = 512 << 10;
/// The same of one job at most.
const MOST: usize = 4 << 20;

impl Division {
    /// What moves the fewest bytes to each thread, whose second-level cache has so many.
    pub fn new(demand: &Demand, threads: usize, cache: usize) -> Division {
        let Demand { numbers, least, filter } = *demand;
        let of_job = KEPT.max(least);
        let most = ((numbers as f64 / of_job as f64).round() as usize).max(1);
        let fewest = numbers.div_ceil(MOST).clamp(1, most);
        // Half of the cache holds what it can of the filter. Numbers that have no room are written and read again.
        let of_filter = filter.saturating_sub(cache / 2);
        let alone = [most, fewest].map(|jobs| {
            let jobs = if threads > 1 { jobs.next_multiple_of(threads) } else { jobs };
            let spilt = if numbers / jobs > of_job { numbers + numbers / 2 } else { 0 };
            (jobs.saturating_mul(of_filter).saturating_add(spilt) / threads, Division { jobs, divides_filter: false })
        });
        // Others have made most of what a thread reads then.
        let together = fewest.saturating_mul(filter).saturating_add(4 * numbers) / threads;
        let together = (threads > 1).then_some((together, Division { jobs: fewest, divides_filter: true }));
        let (_, division) = alone.into_iter().chain(together).min_by_key(|(moved, _)| *moved).expect("there are two");
        division
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A square image, by blocks of so many pixels.
    fn division(pixels: usize, channels: usize, block: usize, threads: usize) -> Division {
        let products = (pixels + 2 * pixels.div_ceil(block)).pow(2);
        let frequencies = (block + 2) * (block + 2);
        let of_product = 2 * channels * 4;
        let demand = Demand {
            numbers: products * of_product,
            least: 14 * frequencies * of_product,
            filter: channels * channels * frequencies * 4,
        };
        Division::new(&demand, threads, 1 << 20)
    }

    #[test]
    fn a_filter_that_stays_in_the_cache_is_passed_over_often() {
        assert_eq!(division(56, 48, 4, 1).jobs, 5);
        assert_eq!(division(56, 48, 4, 2), Division { jobs: 6, divides_filter: false });
    }

    #[test]
    fn a_large_one_is_passed_over_once() {
        assert_eq!(division(14, 256, 2, 1).jobs, 1);
        assert_eq!(division(28, 128, 4, 1).jobs, 1);
        // Of a large image too, as far as there is memory.
        assert_eq!(division(56, 256, 4, 1).jobs, 4);
    }

    #[test]
    fn threads_divide_a_large_one() {
        assert_eq!(division(14, 256, 4, 2), Division { jobs: 1, divides_filter: true });
        assert_eq!(division(7, 512, 2, 16), Division { jobs: 1, divides_filter: true });
        assert!(!division(28, 128, 4, 2).divides_filter);
    }

    #[test]
    fn anything_can_be_divided() {
        for threads in [1, 2, 3, 64] {
            for (numbers, filter) in [(0, 0), (1, usize::MAX), (1 << 40, 1)] {
                assert!(Division::new(&Demand { numbers, least: 0, filter }, threads, 1 << 20).jobs >= 1);
            }
        }
    }
}
