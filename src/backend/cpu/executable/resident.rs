//! Constants that steps read where they lie, once in the process: tables of embeddings, and what was computed from constants.

use crate::error::Result;
use crate::graph::ConstantBytes;
use crate::memory::{Bytes, Lending, Once, Place, Usage, Use, is_immutable, is_mapped};
use std::sync::{Arc, LazyLock};

/// Smaller ones are not worth an entry.
const WORTH_SHARING: usize = 4 << 10;

static BY_IDENTITY: LazyLock<Once<u128, ConstantBytes>> = LazyLock::new(Once::default);
/// By where they are.
static CHARGES: LazyLock<Once<Place, Arc<Lending>>> = LazyLock::new(Once::default);

/// Replaces a constant by the same bytes of another graph, if one has them where they suit this one, or by a copy if its own do not suit.
/// Bytes that another graph has are not read.
///
/// # Errors
/// `UnknownError` when there is no memory for a copy.
pub fn share(constant: &mut ConstantBytes, fits: impl Fn(&ConstantBytes) -> bool) -> Result<()> {
    let own_fit = fits(constant);
    let is_small = constant.len() < WORTH_SHARING;
    // What lies in a model's file is there once however many graphs read it.
    if own_fit && (is_small || is_immutable(constant.place())) {
        return Ok(());
    }
    let brief = constant.briefly();
    let identity = if is_small { None } else { Some(brief.identity()) };
    let found = identity.and_then(|identity| BY_IDENTITY.find(&identity).filter(&fits));
    *constant = match found {
        Some(found) => found,
        None if own_fit => constant.clone(),
        None => ConstantBytes::new(Bytes::copy_of(brief.as_slice())?),
    };
    if let Some(identity) = identity {
        // Another thread may have been faster.
        *constant = BY_IDENTITY.keep(identity, constant.clone(), fits);
    }
    Ok(())
}

/// What counts these bytes for as long as a graph has them, once however many graphs do; nothing for few.
///
/// # Errors
/// `QuotaExceededError` where the context or the model may not hold so many.
pub fn charge(place: Place, usage: &Arc<Usage>) -> Result<Option<Arc<Lending>>> {
    if place.length < WORTH_SHARING {
        return Ok(None);
    }
    let kind = if is_mapped(place) { Use::Mapped } else { Use::Constants };
    CHARGES.find_or_make(place, || usage.reserve(kind, place.length).map(Lending::from).map(Arc::new)).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_bytes_are_there_once() {
        let bytes = |with: u8| ConstantBytes::new(vec![with; 2 * WORTH_SHARING]);
        let place = |constant: &ConstantBytes| constant.as_slice().as_ptr();
        let (mut one, mut same, mut other) = (bytes(201), bytes(201), bytes(202));
        let (before, own) = (place(&one), place(&other));
        [&mut one, &mut same, &mut other].into_iter().for_each(|constant| share(constant, |_| true).unwrap());
        assert_eq!((place(&one), place(&same), place(&other)), (before, before, own));
        // Where another one's do not suit, its own stay.
        let mut own_suit = bytes(201);
        let unchanged = place(&own_suit);
        share(&mut own_suit, |constant| place(constant) == unchanged).unwrap();
        assert_eq!(place(&own_suit), unchanged);
        // Where its own do not suit either, it is copied, once.
        let copies = [0, 0].map(|_| {
            let mut unaligned = bytes(203).part(1..WORTH_SHARING + 1);
            let unchanged = place(&unaligned);
            share(&mut unaligned, |constant| place(constant) != unchanged).unwrap();
            assert!(place(&unaligned) != unchanged && *unaligned.as_slice() == [203; WORTH_SHARING]);
            unaligned
        });
        assert_eq!(place(&copies[0]), place(&copies[1]));
        let usage = Arc::new(Usage::default());
        let charges = [&one, &same].map(|constant| charge(constant.place(), &usage).unwrap().unwrap());
        assert!(Arc::ptr_eq(&charges[0], &charges[1]) && charges[0].lend(&usage).is_empty());
        assert!(charge(Place::of(&[0; 100]), &usage).unwrap().is_none());
        assert_eq!(usage.numbers().constants, 2 * WORTH_SHARING);
        drop(charges);
        assert_eq!(usage.numbers().constants, 0);
    }
}
