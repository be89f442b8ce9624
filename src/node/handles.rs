//! Integer handles for native objects.
//!
//! A handle names a slot and the generation of its occupant, so that one which is stale never means another object. It
//! fits into a JavaScript number: 25 bits of slot, 28 bits of generation.

/// What `lib/` knows of a native object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle {
    slot: u32,
    generation: u32,
}

const SLOT_BITS: u32 = 25;
const GENERATION_BITS: u32 = 53 - SLOT_BITS;
const SLOTS: usize = 1 << SLOT_BITS;
const LAST_GENERATION: u32 = (1 << GENERATION_BITS) - 1;

impl Handle {
    /// Any number is a handle; those that were never given out name nothing.
    pub fn from_number(number: f64) -> Handle {
        // `as` saturates, and no occupant has generation 0.
        let bits = number as u64;
        Handle { slot: (bits & (SLOTS as u64 - 1)) as u32, generation: (bits >> SLOT_BITS).min(u32::MAX.into()) as u32 }
    }

    pub fn to_number(self) -> f64 {
        (u64::from(self.generation) << SLOT_BITS | u64::from(self.slot)) as f64
    }
}

/// Objects by handle.
#[derive(Debug)]
pub struct Slab<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Slot<T> {
    /// Of the present occupant, or of the last one.
    generation: u32,
    occupant: Option<T>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    pub fn insert(&mut self, occupant: T) -> Handle {
        let handle = self.reserve();
        self.occupy(handle, occupant);
        handle
    }

    /// A handle whose object comes later, or never: then it is to be removed.
    pub fn reserve(&mut self) -> Handle {
        let slot = self.free.pop().unwrap_or_else(|| {
            // Each takes memory of its own long before.
            assert!(self.slots.len() < SLOTS, "too many objects");
            self.slots.push(Slot { generation: 0, occupant: None });
            self.slots.len() as u32 - 1
        });
        let entry = &mut self.slots[slot as usize];
        entry.generation += 1;
        Handle { slot, generation: entry.generation }
    }

    pub fn occupy(&mut self, handle: Handle, occupant: T) {
        debug_assert!(self.slot(handle).is_some_and(|slot| slot.occupant.is_none()));
        self.slots[handle.slot as usize].occupant = Some(occupant);
    }

    fn slot(&self, handle: Handle) -> Option<&Slot<T>> {
        self.slots.get(handle.slot as usize).filter(|slot| slot.generation == handle.generation)
    }

    pub fn get(&self, handle: Handle) -> Option<&T> {
        self.slot(handle)?.occupant.as_ref()
    }

    pub fn get_mut(&mut self, handle: Handle) -> Option<&mut T> {
        self.slot(handle)?;
        self.slots[handle.slot as usize].occupant.as_mut()
    }

    pub fn remove(&mut self, handle: Handle) -> Option<T> {
        self.slot(handle)?;
        let slot = &mut self.slots[handle.slot as usize];
        let occupant = slot.occupant.take()?;
        // A slot whose generations are used up stays empty.
        if slot.generation < LAST_GENERATION {
            self.free.push(handle.slot);
        }
        Some(occupant)
    }

    /// Removes the objects that are not to be kept.
    pub fn retain(&mut self, keep: impl Fn(&T) -> bool) {
        for (index, slot) in self.slots.iter_mut().enumerate() {
            if slot.occupant.as_ref().is_some_and(|occupant| !keep(occupant)) {
                slot.occupant = None;
                if slot.generation < LAST_GENERATION {
                    self.free.push(index as u32);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stale_and_foreign_handles_name_nothing() {
        let mut slab = Slab::default();
        let first = slab.insert("first");
        assert_eq!(slab.remove(first), Some("first"));
        assert_eq!(slab.remove(first), None);
        let second = slab.insert("second");
        assert_eq!(slab.get(first), None);
        let kept = slab.insert("kept");
        let dropped = slab.insert("dropped");
        slab.retain(|&occupant| occupant != "dropped");
        assert_eq!((slab.get(kept), slab.get(dropped)), (Some(&"kept"), None));
        assert_eq!(slab.get_mut(second), Some(&mut "second"));
        for number in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e300, 0.5] {
            assert_eq!(slab.get(Handle::from_number(number)), None);
        }
    }

    #[test]
    fn a_handle_survives_being_a_number() {
        let last = Handle { slot: SLOTS as u32 - 1, generation: LAST_GENERATION };
        assert!(last.to_number() < 2f64.powi(53));
        assert_eq!(Handle::from_number(last.to_number()), last);
    }
}
