//! What kernels know of the caches that a core has to itself: as build time decides how work is divided and what is copied
//! together, so a processor with larger ones has less of both.

use std::sync::OnceLock;

/// The caches of data of a core.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Caches {
    /// How many lines at addresses that compete for the same place the first-level cache holds.
    pub ways: usize,
    /// Bytes of the second-level cache.
    pub second: usize,
}

impl Caches {
    /// Where nothing is known, and at least.
    pub const USUAL: Caches = Caches { ways: 8, second: 1 << 20 };
    /// What several cores share counts as no more.
    pub const LARGE: Caches = Caches { ways: 12, second: 2 << 20 };

    /// Those of this processor.
    pub fn of_this_machine() -> Caches {
        static HERE: OnceLock<Caches> = OnceLock::new();
        *HERE.get_or_init(|| {
            let (ways, second) = ask();
            let within = |found: usize, least: usize, most: usize| found.clamp(least, most);
            Caches {
                ways: within(ways, Caches::USUAL.ways, Caches::LARGE.ways),
                second: within(second, Caches::USUAL.second, Caches::LARGE.second),
            }
        })
    }
}

/// The cores that a set of tiles is for, by their caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheClass {
    /// All.
    Usual,
    /// Those whose second-level cache is a [large](Caches::LARGE) one: panels, and the rows that they pass over, stay there.
    LargeSecond,
}

impl CacheClass {
    /// Whether a core with these caches is one of them.
    pub fn includes(self, caches: Caches) -> bool {
        match self {
            CacheClass::Usual => true,
            CacheClass::LargeSecond => caches.second >= Caches::LARGE.second,
        }
    }
}

/// The ways of the first-level cache and the bytes of the second-level one; 0 where the processor does not say.
#[cfg(target_arch = "x86_64")]
fn ask() -> (usize, usize) {
    use raw_cpuid::{CacheType, CpuId};
    let mut found = (0, 0);
    for cache in CpuId::new().get_cache_parameters().into_iter().flatten() {
        match (cache.level(), cache.cache_type()) {
            (1, CacheType::Data | CacheType::Unified) => found.0 = cache.associativity(),
            (2, CacheType::Data | CacheType::Unified) => {
                found.1 = cache.sets() * cache.associativity() * cache.physical_line_partitions() * cache.coherency_line_size();
            }
            _ => (),
        }
    }
    found
}

#[cfg(not(target_arch = "x86_64"))]
fn ask() -> (usize, usize) {
    (0, 0)
}

#[cfg(all(test, target_os = "linux", target_arch = "x86_64"))]
mod tests {
    use super::*;

    /// What Linux says of one of the first core's caches of data.
    fn said(level: &str, what: &str) -> Option<usize> {
        (0..8).find_map(|index| {
            let read = |what: &str| {
                let text = std::fs::read_to_string(format!("/sys/devices/system/cpu/cpu0/cache/index{index}/{what}"));
                text.map(|text| text.trim().to_owned()).unwrap_or_default()
            };
            let is_it = read("level") == level && read("type") != "Instruction";
            is_it.then(|| read(what).trim_end_matches('K').parse().ok()).flatten()
        })
    }

    #[test]
    fn are_those_that_the_system_knows() {
        let (ways, second) = ask();
        // A virtual machine may say nothing, there and here.
        if let Some(expected) = said("1", "ways_of_associativity") {
            assert_eq!(ways, expected);
        }
        if let Some(expected) = said("2", "size") {
            assert_eq!(second, expected << 10);
        }
        let Caches { ways, second } = Caches::of_this_machine();
        assert!((8..=12).contains(&ways) && (1 << 20..=2 << 20).contains(&second));
    }
}
