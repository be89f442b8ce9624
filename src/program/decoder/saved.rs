//! What calls keep for each other, in a file.
//!
//! The file has a key of the model's content and options, and is checked as a whole before anything of it is looked at
//! ([`crate::disk_cache::read_whole`]). Then it is read as if anybody had written it: each length is held against what is left of it. Numbers
//! of caches may be any: nothing follows an index in them.
//!
//! ```text
//! the type of the caches: 0 for the model's, 1 for int8
//! how many sequences; of each:
//!   how many tokens, and caches
//!   the tokens, 4 bytes each
//!   the bytes of a row of each cache
//!   the rows of each cache
//! ```
//! All numbers but tokens have 8 bytes.

use super::features::FIRST;
use super::inputs::Extent;
use super::prefixes::Prefixes;
use super::sequence::Sequence;
use super::{CacheType, Decoder};
use crate::disk_cache::{read_whole, write_whole};
use crate::error::{Error, Kind, Result};
use crate::graph::Descriptor;
use crate::program::caches::{Allocator, Output, Rows, Span, refused};
use crate::program::timeline_handle::Failures;
use std::io::{self, Write};
use std::path::Path;

/// The number of the form of the file.
const FORM: usize = 2;

/// Beside rows: tokens, and the sizes of caches.
const MOST_BESIDE: u64 = 64 << 20;

impl Decoder {
    /// # Errors
    /// `NotSupportedError` for a model whose caches cannot be saved.
    fn require_saving(&self) -> Result<()> {
        if self.has_states() {
            return Err(refused("found a model with states, allowed one with caches of keys and values alone"));
        }
        if self.program.timeline.has_own_memory() {
            return Err(refused("found caches on a device with memory of its own, allowed those of the CPU"));
        }
        Ok(())
    }

    /// What tells the model and its options from others.
    fn key(&self) -> Result<u128> {
        // Other forms of files have other keys.
        let options = format!("{} {:?} {FORM}", env!("CARGO_PKG_VERSION"), self.program.fp_math);
        self.key.get_or_init(|| self.program.loaded.fingerprint(&options)).clone()
    }

    /// Saves what calls have kept, but for calls with values of further inputs.
    ///
    /// # Errors
    /// `NotSupportedError` for models whose caches cannot be saved, and those of writing a file.
    pub fn save(&self, prefixes: &Prefixes, path: &Path) -> Result<()> {
        self.require_saving()?;
        let key = self.key()?;
        let all: Vec<(Sequence, Vec<Rows>)> = prefixes.all().into_iter().filter_map(whole).collect();
        write_whole(path, key, |file| write(file, self.cache_type, &all))
    }

    /// Keeps what was saved.
    ///
    /// # Errors
    /// `OperationError` for a file that is damaged, or of another model; `QuotaExceededError` where it is more than may be kept.
    pub fn load(&self, prefixes: &Prefixes, path: &Path) -> Result<()> {
        self.require_saving()?;
        let most = (prefixes.most() as u64).saturating_add(MOST_BESIDE);
        let bytes = read_whole(path, self.key()?, most)?;
        let parsed = saved_sequences(&bytes)
            .ok_or_else(|| Error::new(Kind::Operation, "found a file of another form (internal error)"))?;
        let (cache_type, saved) = parsed;
        if cache_type != self.cache_type {
            let [found, allowed] = [cache_type, self.cache_type].map(|cache_type| match cache_type {
                CacheType::Model => "'model'",
                CacheType::Int8 => "'int8'",
            });
            return Err(Error::new(Kind::Operation, format!("found a file with the cacheType {found}, allowed {allowed}")));
        }
        if saved.is_empty() {
            return Ok(());
        }
        let likes = self.rows_of_caches()?;
        let failures = Failures::default();
        let allocator = Allocator { timeline: &self.program.timeline, usage: self.program.weights.usage(), failures: &failures };
        for Saved { tokens, caches } in saved {
            let had = tokens.len();
            if caches.len() != likes.len() || caches.iter().zip(&likes).any(|((row, _), like)| *row != row_of(like)) {
                return Err(Error::new(Kind::Operation, "found caches of other sizes, allowed those of the model"));
            }
            let span = Span { padding: 0, had, new: 1 };
            let rows = |(&(_, bytes), like): (&(usize, &[u8]), &Descriptor)| {
                Rows::filled(like, &span, allocator, |to| to.copy_from_slice(bytes)).map(Some)
            };
            let rows = caches.iter().zip(&likes).map(rows).collect::<Result<Vec<Option<Rows>>>>()?;
            prefixes.keep(&mut None, &Sequence::of_rows(tokens, rows));
        }
        Ok(())
    }

    /// The values of a plan that are the caches, whose rows come first.
    fn rows_of_caches(&self) -> Result<Vec<Descriptor>> {
        let form = Extent { tokens: 1, uses_cache: true, ..Extent::default() };
        if !self.others().is_empty() {
            return Err(refused("found a model with further inputs, allowed one without"));
        }
        let (_, plan) = self.plan_for(&form, 1)?;
        let of = |number: usize| {
            plan.outputs.iter().find(|(output, _)| *output == Output::Cache(number)).map(|(_, like)| like.clone())
        };
        let all = (0..self.kept.rows.len()).map(of).collect::<Option<Vec<Descriptor>>>();
        all.ok_or_else(|| refused("found a cache that no step appends to"))
    }
}

/// The bytes of a row of a value whose rows come first.
fn row_of(like: &Descriptor) -> usize {
    like.byte_length() / like.shape.first().copied().unwrap_or(1).max(1) as usize
}

/// A sequence with the rows of its caches, if nothing else is needed to go on from it.
fn whole(sequence: Sequence) -> Option<(Sequence, Vec<Rows>)> {
    let rows = sequence.all_rows().filter(|_| sequence.given.is_empty() && !sequence.tokens.iter().any(|id| *id >= FIRST))?;
    Some((sequence, rows))
}

fn write(file: &mut dyn Write, cache_type: CacheType, all: &[(Sequence, Vec<Rows>)]) -> io::Result<()> {
    fn number(file: &mut dyn Write, number: usize) -> io::Result<()> {
        file.write_all(&(number as u64).to_le_bytes())
    }
    number(file, usize::from(cache_type == CacheType::Int8))?;
    number(file, all.len())?;
    for (sequence, caches) in all {
        number(file, sequence.tokens.len())?;
        number(file, caches.len())?;
        for token in &sequence.tokens {
            file.write_all(&token.to_le_bytes())?;
        }
        for rows in caches {
            number(file, rows.row())?;
        }
        for rows in caches {
            let length = sequence.tokens.len() * rows.row();
            let written = rows.read(0, |bytes| bytes.get(..length).map(|bytes| file.write_all(bytes)));
            written
                .map_err(io::Error::other)?
                .unwrap_or_else(|| Err(io::Error::other("there are not as many rows as tokens")))?;
        }
    }
    Ok(())
}

/// A sequence of a file: the bytes of a row, and all rows, of each cache.
#[derive(Debug, PartialEq)]
pub struct Saved<'a> {
    pub tokens: Vec<u32>,
    pub caches: Vec<(usize, &'a [u8])>,
}

/// What bytes say; nothing where they are of another form.
pub fn saved_sequences(mut rest: &[u8]) -> Option<(CacheType, Vec<Saved<'_>>)> {
    fn part<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
        let (part, after) = rest.split_at_checked(length)?;
        *rest = after;
        Some(part)
    }
    fn number(rest: &mut &[u8]) -> Option<usize> {
        let (bytes, after) = rest.split_first_chunk()?;
        *rest = after;
        u64::from_le_bytes(*bytes).try_into().ok()
    }
    let cache_type = match number(&mut rest)? {
        0 => CacheType::Model,
        1 => CacheType::Int8,
        _ => return None,
    };
    let count = number(&mut rest)?;
    let mut all = Vec::new();
    for _ in 0..count {
        let [tokens, caches] = [number(&mut rest)?, number(&mut rest)?];
        let (ids, _) = part(&mut rest, tokens.checked_mul(4)?)?.as_chunks::<4>();
        let ids: Vec<u32> = ids.iter().map(|id| u32::from_le_bytes(*id)).collect();
        let (sizes, _) = part(&mut rest, caches.checked_mul(8)?)?.as_chunks::<8>();
        let mut of_caches = Vec::with_capacity(caches);
        for size in sizes {
            let row = usize::try_from(u64::from_le_bytes(*size)).ok()?;
            of_caches.push((row, part(&mut rest, row.checked_mul(tokens)?)?));
        }
        // Numbers of features mean something in the process that made them.
        if ids.is_empty() || ids.iter().any(|id| *id >= FIRST) {
            return None;
        }
        all.push(Saved { tokens: ids, caches: of_caches });
    }
    rest.is_empty().then_some((cache_type, all))
}

#[cfg(test)]
mod tests {
    use super::saved_sequences as parsed;
    use super::*;

    fn number(number: u64) -> [u8; 8] {
        number.to_le_bytes()
    }

    /// Two tokens, and caches with rows of 3 bytes and of none.
    fn file() -> Vec<u8> {
        let numbers = [number(1), number(1), number(2), number(2)].concat();
        [&numbers[..], &[7, 0, 0, 0, 8, 1, 0, 0], &number(3), &number(0), &[1, 2, 3, 4, 5, 6]].concat()
    }

    #[test]
    fn files_of_any_bytes_are_read_or_refused() {
        let rows: &[u8] = &[1, 2, 3, 4, 5, 6];
        let saved = Saved { tokens: vec![7, 264], caches: vec![(3, rows), (0, &[])] };
        assert_eq!(parsed(&file()), Some((CacheType::Int8, vec![saved])));
        assert_eq!(parsed(&[number(0), number(0)].concat()), Some((CacheType::Model, vec![])));
        assert_eq!(parsed(&[number(2), number(0)].concat()), None);
        for length in 0..file().len() {
            assert_eq!(parsed(&file()[..length]), None, "cut to {length}");
        }
        assert_eq!(parsed(&[&file()[..], &[0]].concat()), None);
        // Numbers that are too large for anything.
        for place in (0..32).chain(40..56) {
            for value in [0x7F, 0xFF] {
                let mut file = file();
                file[place] = value;
                assert_eq!(parsed(&file), None, "{value} at {place}");
            }
        }
        assert_eq!(parsed(&[number(0), number(u64::MAX), number(u64::MAX), number(u64::MAX)].concat()), None);
        // A row of features.
        let mut features = file();
        features[35] = 0x80;
        assert_eq!(parsed(&features), None);
        // A sequence of nothing.
        assert_eq!(parsed(&[number(0), number(1), number(0), number(0)].concat()), None);
    }
}
