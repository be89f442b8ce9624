//! The rows of one cache: one after the other in memory with room to grow, after rows of padding (zeros).
//!
//! [`Rows`] are the first rows of such memory, and several sequences may have rows of the same memory. A step appends to them in
//! place if nobody has appended before, and else to a copy. [`Append`] is the room that one step has for that: it becomes the new rows, or
//! is given back if the step fails. So rows never change, whoever has them. [`Frozen`] rows are copied without taking memory twice.
#![allow(unsafe_code)]

use super::bucket::Bucket;
use super::memory::{Copies, HostMemory, Memory};
use super::refused;
use crate::error::Result;
use crate::graph::Descriptor;
use crate::memory::{Bytes, Template, Usage};
use crate::program::timeline_handle::{Failures, OwnedTensor, TimelineHandle};
use crate::timeline::Part;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Rows that there is room for at least.
const LEAST: usize = 256;
/// Rows of padding at least.
const LEAST_PADDING: usize = 64;
/// Whether addresses that nobody touches cost nothing: Windows counts them as memory.
const RESERVES: bool = cfg!(unix);
/// Where no cache has more bytes of rows, they are copied.
const LEAST_FROZEN: usize = 4 << 10;

/// The rows of a cache that a step works on.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// Rows of zeros in front, which do not count.
    pub padding: usize,
    /// Rows that count, and rows that the step appends.
    pub had: usize,
    pub new: usize,
}

impl Span {
    /// What the step reads.
    pub fn read(&self) -> usize {
        self.padding + self.had
    }

    pub fn all(&self) -> usize {
        self.padding + self.had + self.new
    }
}

/// The first rows of some memory.
#[derive(Debug)]
pub struct Rows {
    store: Arc<Store>,
    count: usize,
}

/// The memory of one cache.
#[derive(Debug)]
struct Store {
    /// The bytes of a row.
    row: usize,
    usage: Arc<Usage>,
    /// What its memory is a copy of.
    frozen: Option<Arc<Frozen>>,
    state: Mutex<State>,
}

/// Rows that any number of sequences go on from, with memory of which copies share what is alike: a [`Room`] where the rows are.
#[derive(Debug)]
pub struct Frozen {
    template: Arc<Template>,
    layout: Layout,
}

/// Where rows are in a template.
#[derive(Clone, Copy, Debug)]
struct Layout {
    first: usize,
    row: usize,
    /// As in a room.
    padding: usize,
    capacity: usize,
}

impl Layout {
    /// The bytes of all.
    fn bytes(&self) -> usize {
        (self.padding + self.capacity) * self.row
    }
}

impl Frozen {
    /// Room that has the rows, if it suffices for a step.
    fn room(&self, span: &Span, usage: &Arc<Usage>) -> Result<Option<Room>> {
        let Layout { first, row, padding, capacity } = self.layout;
        if span.padding > padding || span.had + span.new > capacity {
            return Ok(None);
        }
        let bytes = self.template.copy(first, self.layout.bytes())?;
        let memory = HostMemory::counted(bytes, 0, usage)?;
        let room = Room { memory: Arc::new(Memory::Host(memory)), padding, capacity, shared: span.had };
        room.count(span, row, usage)?;
        Ok(Some(room))
    }

    /// The first rows of caches in one template, from which any number of sequences go on; nothing where there is no such memory.
    ///
    /// # Errors
    /// `UnknownError` when there is no memory for them; `QuotaExceededError` where the context or the model may not hold it.
    pub fn freeze(all: &[&Rows], count: usize) -> Result<Option<Vec<Rows>>> {
        let mut layouts = Vec::with_capacity(all.len());
        let mut first = 0;
        // Copies of few bytes cost less than pages.
        if all.iter().all(|rows| count * rows.store.row < LEAST_FROZEN) {
            return Ok(None);
        }
        for rows in all {
            let Some(layout) = rows.layout(first, count) else { return Ok(None) };
            first = (first + layout.bytes()).next_multiple_of(Template::PAGE);
            layouts.push(layout);
        }
        let Some(mut template) = Template::new(first).filter(|_| !all.is_empty()) else { return Ok(None) };
        for (rows, layout) in all.iter().zip(&layouts) {
            let write = |bytes: &[u8]| template.write(layout.first + layout.padding * layout.row, &bytes[..count * layout.row]);
            rows.read(0, write)??;
        }
        let template = Arc::new(template);
        let frozen = all.iter().zip(layouts).map(|(rows, layout)| {
            let frozen = Arc::new(Frozen { template: template.clone(), layout });
            let bytes = template.copy(layout.first, layout.bytes())?;
            let memory = HostMemory::counted(bytes, count * layout.row, &rows.store.usage)?;
            let Layout { padding, capacity, .. } = layout;
            let room = Room { memory: Arc::new(Memory::Host(memory)), padding, capacity, shared: 0 };
            let state = Mutex::new(State { room, used: count, cloned: 0, as_frozen: count, spares: Spares::default() });
            let store = Arc::new(Store { row: layout.row, usage: rows.store.usage.clone(), frozen: Some(frozen), state });
            Ok(Rows { store, count })
        });
        frozen.collect::<Result<Vec<Rows>>>().map(Some)
    }
}

#[derive(Debug)]
struct State {
    room: Room,
    /// Rows that are written, or are being written.
    used: usize,
    /// The most rows that a clone was made of: nobody takes these back.
    cloned: usize,
    /// Of the first rows, those that are as in what the memory is a copy of.
    as_frozen: usize,
    spares: Spares,
}

/// Memory for rows.
#[derive(Clone, Debug)]
struct Room {
    memory: Arc<Memory>,
    /// Rows of zeros before the first one.
    padding: usize,
    /// Rows that there is memory for after these.
    capacity: usize,
    /// The first ones, which others have, too, and do not count.
    shared: usize,
}

/// Tensors of a device for steps whose rows do not begin where a graph can have them: for what is read, and for what is made.
#[derive(Debug, Default)]
struct Spares([Option<Arc<OwnedTensor>>; 2]);

/// What memory is allocated with.
#[derive(Clone, Copy, Debug)]
pub struct Allocator<'a> {
    pub timeline: &'a Arc<TimelineHandle>,
    pub usage: &'a Arc<Usage>,
    pub failures: &'a Failures,
}

impl Room {
    /// Room for the rows of a step, and more. `like` is a value whose rows come first.
    fn new(like: &Descriptor, span: &Span, allocator: Allocator<'_>) -> Result<Room> {
        let capacity = (2 * (span.had + span.new)).max(LEAST);
        let (has_own_memory, row) = (allocator.timeline.has_own_memory(), row_of(like));
        let (usual, reserved) = padding_for(capacity, has_own_memory);
        let padding = span.padding.max(reserved);
        let count = padding + capacity;
        // Devices copy words.
        let memory = match has_own_memory && row.is_multiple_of(4) {
            true => {
                let mut descriptor = like.clone();
                if let Some(rows) = descriptor.shape.first_mut() {
                    *rows = u32::try_from(count).unwrap_or(u32::MAX);
                }
                Memory::Device(allocator.timeline.tensor(&descriptor, allocator.failures)?)
            }
            false => {
                let untouched = (padding - usual) * row;
                let bytes = Bytes::in_own_pages(untouched, count * row)?;
                Memory::Host(HostMemory::counted(bytes, count * row - untouched, allocator.usage)?)
            }
        };
        Ok(Room { memory: Arc::new(memory), padding, capacity, shared: 0 })
    }

    /// Counts for the rows of a step, and some more.
    fn count(&self, span: &Span, row: usize, usage: &Arc<Usage>) -> Result<()> {
        let Memory::Host(memory) = &*self.memory else { return Ok(()) };
        let own = (span.had + span.new - self.shared.min(span.had)).next_multiple_of(LEAST_PADDING);
        memory.count(own * row, usage)
    }

    /// Takes the first rows over from other memory: at once, or by a copy that is still to be made.
    fn take(&self, from: &Room, count: usize, row: usize, copies: &mut Copies) -> Result<()> {
        let (to_first, from_first, length) = (self.padding * row, from.padding * row, count * row);
        match (&*self.memory, &*from.memory) {
            (Memory::Host(to), Memory::Host(from)) => {
                // SAFETY: the new memory is nobody else's yet, and rows that somebody has are never written.
                unsafe { to.part_mut(to_first, length).copy_from_slice(from.part(from_first, length)) };
            }
            (Memory::Device(to), Memory::Device(from)) => copies.add((from, from_first), (to, to_first), length),
            _ => return Err(refused("rows of a cache in two kinds of memory")),
        }
        Ok(())
    }
}

/// Rows of padding: as many as any bucket has of a step alone, and of steps together, where addresses are reserved for these: nobody touches
/// them.
fn padding_for(capacity: usize, has_own_memory: bool) -> (usize, usize) {
    let usual = (capacity / 8).max(LEAST_PADDING);
    (usual, if has_own_memory || !RESERVES { usual } else { Bucket::Doubled.rows(capacity).max(usual) })
}

/// The bytes of a row of a value whose rows come first.
fn row_of(like: &Descriptor) -> usize {
    like.byte_length() / like.shape.first().copied().unwrap_or(1).max(1) as usize
}

impl Store {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Each change is one assignment or leaves what a failure finds.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn new(like: &Descriptor, room: Room, used: usize, usage: &Arc<Usage>) -> Arc<Store> {
        let state = Mutex::new(State { room, used, cloned: 0, as_frozen: 0, spares: Spares::default() });
        Arc::new(Store { row: row_of(like), usage: usage.clone(), frozen: None, state })
    }
}

impl Clone for Rows {
    fn clone(&self) -> Rows {
        let mut state = self.store.lock();
        state.cloned = state.cloned.max(self.count);
        drop(state);
        Rows { store: self.store.clone(), count: self.count }
    }
}

impl Rows {
    /// Rows that `write` fills, with room for those of a step. `like` is a value whose rows come first. Waits for a device that has them.
    ///
    /// # Errors
    /// `UnknownError` when there is no memory for them; those of the device.
    pub fn filled(like: &Descriptor, span: &Span, allocator: Allocator<'_>, write: impl FnOnce(&mut [u8])) -> Result<Rows> {
        let (room, row) = (Room::new(like, span, allocator)?, row_of(like));
        match &*room.memory {
            // SAFETY: the memory is nobody else's yet.
            Memory::Host(memory) => write(unsafe { memory.part_mut(room.padding * row, span.had * row) }),
            Memory::Device(tensor) => {
                let mut bytes = Bytes::zeroed(span.had * row)?;
                write(&mut bytes);
                // Why there is no tensor is worth more than that there is none.
                let written = tensor.write_part(room.padding * row, &bytes);
                allocator.failures.check().and(written)?;
            }
        }
        Ok(Rows { store: Store::new(like, room, span.had, allocator.usage), count: span.had })
    }

    pub fn count(&self) -> usize {
        self.count
    }

    /// The bytes of one.
    pub fn row(&self) -> usize {
        self.store.row
    }

    pub fn usage(&self) -> &Arc<Usage> {
        &self.store.usage
    }

    /// An address of the memory that the rows are in, which no other memory has meanwhile, and its bytes.
    pub fn memory(&self) -> (usize, usize) {
        (Arc::as_ptr(&self.store).addr(), self.store.lock().room.memory.counted())
    }

    /// Where the first rows would be in a template, from that place on; nothing where there are fewer, and on a device.
    fn layout(&self, first: usize, count: usize) -> Option<Layout> {
        let (row, capacity) = (self.store.row, (2 * count).max(LEAST));
        let is_host = matches!(&*self.store.lock().room.memory, Memory::Host(_));
        let (_, padding) = padding_for(capacity, false);
        (is_host && self.count >= count).then_some(Layout { first, row, padding, capacity })
    }

    /// Has only so many rows any more, and gives the others' memory to who appends next, unless somebody has them, too.
    pub fn take_back(&mut self, count: usize) {
        let mut state = self.store.lock();
        // Only clones and who has appended last have the last rows.
        if count < self.count && state.used == self.count && state.cloned <= count {
            state.used = count;
            drop(state);
            self.count = count;
        }
    }

    /// Lends the bytes of the rows from that one on. Of those on a device they are a copy, for which this waits.
    ///
    /// # Errors
    /// Those of the device, and where there is no memory for a copy.
    pub fn read<T>(&self, from: usize, look: impl FnOnce(&[u8]) -> T) -> Result<T> {
        let (memory, padding) = {
            let state = self.store.lock();
            (state.room.memory.clone(), state.room.padding)
        };
        let row = self.store.row;
        let (first, length) = ((padding + from) * row, (self.count - from) * row);
        match &*memory {
            // SAFETY: rows that somebody has are never written.
            Memory::Host(memory) => Ok(look(unsafe { memory.part(first, length) })),
            Memory::Device(tensor) => tensor.read_part(first, length).map(|bytes| look(&bytes)),
        }
    }
}

/// Room after rows that one step may write.
#[derive(Debug)]
pub struct Append {
    store: Arc<Store>,
    room: Room,
    span: Span,
    spares: Spares,
    is_kept: bool,
}

impl Append {
    /// Room for a step after the first rows of `past`, or after nothing. `like` is a value whose rows come first. `copies` are to be made
    /// before the step.
    ///
    /// # Errors
    /// `UnknownError` when there is no memory; `NotSupportedError` for rows of another size.
    pub fn new(
        past: Option<&mut Rows>,
        like: &Descriptor,
        span: Span,
        allocator: Allocator<'_>,
        copies: &mut Copies,
    ) -> Result<Append> {
        let Some(past) = past else {
            let room = Room::new(like, &span, allocator)?;
            let store = Store::new(like, room.clone(), span.had + span.new, allocator.usage);
            return Ok(Append { store, room, span, spares: Spares::default(), is_kept: false });
        };
        let row = row_of(like);
        if past.store.row != row || past.count < span.had {
            return Err(refused(format!("{} rows of {} bytes before rows of {row} bytes", past.count, past.store.row)));
        }
        let is_alone = Arc::get_mut(&mut past.store).is_some();
        let mut state = past.store.lock();
        // Nobody else has rows here; or nobody has appended to these, and nobody is about to.
        if !is_alone && state.used != span.had {
            let frozen = past.store.frozen.clone().filter(|_| span.had <= state.as_frozen);
            let copied = frozen.as_ref().map(|frozen| frozen.room(&span, allocator.usage)).transpose()?.flatten();
            if let Some(room) = copied {
                drop(state);
                let (used, as_frozen) = (span.had + span.new, span.had);
                let state = State { room: room.clone(), used, cloned: 0, as_frozen, spares: Spares::default() };
                let store = Arc::new(Store { row, usage: allocator.usage.clone(), frozen, state: Mutex::new(state) });
                return Ok(Append { store, room, span, spares: Spares::default(), is_kept: false });
            }
            let room = Room::new(like, &span, allocator)?;
            room.take(&state.room, span.had, row, copies)?;
            drop(state);
            let store = Store::new(like, room.clone(), span.had + span.new, allocator.usage);
            return Ok(Append { store, room, span, spares: Spares::default(), is_kept: false });
        }
        let mut room = state.room.clone();
        if room.padding < span.padding || room.capacity < span.had + span.new {
            room = Room::new(like, &span, allocator)?;
            room.take(&state.room, span.had, row, copies)?;
            // A copy on a device may still fail, so the store changes when the step has ended. The host's old memory goes at once.
            if matches!(&*room.memory, Memory::Host(_)) {
                state.room = room.clone();
            }
        }
        room.count(&span, row, allocator.usage)?;
        state.used = span.had + span.new;
        state.as_frozen = state.as_frozen.min(span.had);
        let spares = std::mem::take(&mut state.spares);
        drop(state);
        // Rows after those that count are written over.
        past.count = past.count.min(if is_alone { span.had } else { past.count });
        Ok(Append { store: past.store.clone(), room, span, spares, is_kept: false })
    }

    pub fn memory(&self) -> &Memory {
        &self.room.memory
    }

    /// The bytes that the step works on: where they begin, those that it reads, and all.
    pub fn bytes(&self) -> (usize, usize, usize) {
        let (span, row) = (&self.span, self.store.row);
        ((self.room.padding - span.padding) * row, span.read() * row, span.all() * row)
    }

    /// The part of the tensor where the step's rows begin, where a graph can have it.
    pub fn part(&self) -> Option<Part> {
        let (first, ..) = self.bytes();
        match &*self.room.memory {
            Memory::Device(tensor) if first.is_multiple_of(Part::ALIGNMENT) => Some(Part { tensor: tensor.id, first }),
            _ => None,
        }
    }

    /// A tensor of the device that stands in for the rows that the step reads, or for those that it makes.
    pub fn spare(&mut self, is_output: bool, like: &Descriptor, allocator: Allocator<'_>) -> Result<Arc<OwnedTensor>> {
        let spare = &mut self.spares.0[usize::from(is_output)];
        if let Some(spare) = spare.as_ref().filter(|spare| spare.descriptor == *like) {
            return Ok(spare.clone());
        }
        let tensor = allocator.timeline.tensor(like, allocator.failures)?;
        *spare = Some(tensor.clone());
        Ok(tensor)
    }

    /// The spare for what the step makes, if it is that tensor.
    pub fn is_spare(&self, part: Part) -> Option<&Arc<OwnedTensor>> {
        self.spares.0[1].as_ref().filter(|spare| spare.id == part.tensor)
    }

    /// The rows with the new ones, which were written.
    pub fn keep(mut self) -> Rows {
        self.is_kept = true;
        let mut state = self.store.lock();
        state.room = self.room.clone();
        state.spares = std::mem::take(&mut self.spares);
        drop(state);
        Rows { store: self.store.clone(), count: self.span.had + self.span.new }
    }
}

/// Rows that nobody has may be written again. Spares go: their memory may be what failed.
impl Drop for Append {
    fn drop(&mut self) {
        if self.is_kept {
            return;
        }
        let mut state = self.store.lock();
        if state.used == self.span.had + self.span.new {
            state.used = self.span.had;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::DataType;

    /// Appends numbers after the first rows of `past`.
    fn append(past: Option<&mut Rows>, padding: usize, had: usize, new: &[u8]) -> Append {
        let timeline = Arc::new(TimelineHandle::new(|_| Ok(()), Err, || 0, false, None));
        let (usage, failures) = Default::default();
        let allocator = Allocator { timeline: &timeline, usage: &usage, failures: &failures };
        let span = Span { padding, had, new: new.len() };
        let like = Descriptor::new(DataType::Uint8, [span.all() as u32, 1]);
        let append = Append::new(past, &like, span, allocator, &mut Copies::default()).unwrap();
        let (first, read, all) = append.bytes();
        let Memory::Host(memory) = append.memory() else { unreachable!() };
        // SAFETY: nobody else looks at the new rows.
        unsafe { memory.part_mut(first + read, all - read).copy_from_slice(new) };
        append
    }

    fn numbers(rows: &Rows) -> Vec<u8> {
        rows.read(0, <[u8]>::to_vec).unwrap()
    }

    fn address(rows: &Rows) -> *const u8 {
        rows.read(0, <[u8]>::as_ptr).unwrap()
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn frozen_rows_are_gone_on_from_by_many() {
        let many: Vec<u8> = (0..LEAST_FROZEN as u32 + 9).map(|i| (i % 251) as u8).collect();
        let whole = append(None, 0, 0, &many).keep();
        let count = LEAST_FROZEN;
        assert!(Frozen::freeze(&[&whole], 100).unwrap().is_none(), "few rows");
        let frozen = Frozen::freeze(&[&whole, &whole], count).unwrap().unwrap();
        drop(whole);
        for rows in &frozen {
            assert_eq!(numbers(rows), many[..count]);
        }
        // The first one appends in place, the others have copies; one goes back before its end; one has no room left.
        let mut all = Vec::new();
        for (had, more) in [(count, vec![1, 2]), (count, vec![3]), (count - 7, vec![4; 3]), (count, vec![5; 2 * count])] {
            let mut past = frozen[1].clone();
            let rows = append(Some(&mut past), 0, had, &more).keep();
            assert_eq!(numbers(&rows), [&many[..had], &more].concat());
            all.push((rows, had, more));
        }
        let shared = all[1].0.memory().1;
        assert!(shared < all[3].0.memory().1 / 2, "{shared}");
        drop(frozen);
        // A copy is gone on from as well.
        let (rows, had, _) = &mut all[1];
        let other = append(Some(&mut rows.clone()), 0, *had, &[9]).keep();
        assert_eq!(numbers(&other), [&many[..count], &[9]].concat());
        for (rows, had, more) in &all {
            assert_eq!(numbers(rows), [&many[..*had], more].concat());
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn copies_of_frozen_rows_have_what_was_written_over_them() {
        let many: Vec<u8> = (0..LEAST_FROZEN as u32 + 9).map(|i| (i % 251) as u8).collect();
        let count = LEAST_FROZEN;
        let frozen = Frozen::freeze(&[&append(None, 0, 0, &many).keep()], count).unwrap().unwrap().remove(0);
        // A copy that goes on before the end of what is frozen, and one that goes back in place.
        let early = append(Some(&mut frozen.clone()), 0, count - 7, &[4; 3]).keep();
        let mut back = append(Some(&mut frozen.clone()), 0, count, &[1]).keep();
        back = append(Some(&mut back), 0, count - 9, &[6; 4]).keep();
        for (rows, had, written) in [(&early, count - 5, &[4; 2][..]), (&early, count - 7, &[]), (&back, count - 6, &[6; 3])] {
            let other = append(Some(&mut rows.clone()), 0, had, &[9]).keep();
            assert_eq!(numbers(&other), [&many[..had - written.len()], written, &[9]].concat());
        }
        assert_eq!(numbers(&frozen), many[..count]);
    }

    #[test]
    fn rows_that_nobody_else_has_are_taken_back() {
        let mut first = append(None, 0, 0, &[1, 2, 3]).keep();
        let second = first.clone();
        let place = address(&first);
        first = append(Some(&mut first), 0, 3, &[4, 5, 6]).keep();
        first.take_back(4);
        let third = first.clone();
        first = append(Some(&mut first), 0, 4, &[7]).keep();
        assert_eq!((numbers(&first), numbers(&second), address(&first)), (vec![1, 2, 3, 4, 7], vec![1, 2, 3], place));
        // Somebody has the fourth one.
        first.take_back(3);
        first = append(Some(&mut first), 0, 3, &[8]).keep();
        assert_eq!((numbers(&first), numbers(&third)), (vec![1, 2, 3, 8], vec![1, 2, 3, 4]));
        assert_ne!(address(&first), place);
    }

    #[test]
    fn sequences_share_rows_until_they_diverge() {
        let mut first = append(None, 0, 0, &[1, 2, 3]).keep();
        let mut second = first.clone();
        let place = address(&first);
        first = append(Some(&mut first), 0, 3, &[4]).keep();
        second = append(Some(&mut second), 0, 3, &[5]).keep();
        assert_eq!((numbers(&first), numbers(&second)), (vec![1, 2, 3, 4], vec![1, 2, 3, 5]));
        // Whoever appends first does so in place.
        assert!(address(&first) == place && address(&second) != place);
    }

    #[test]
    fn who_is_alone_goes_back_in_place() {
        let mut rows = append(None, 0, 0, &[1, 2, 3]).keep();
        let place = address(&rows);
        rows = append(Some(&mut rows), 0, 1, &[7]).keep();
        assert_eq!((numbers(&rows), address(&rows)), (vec![1, 7], place));
        let other = rows.clone();
        rows = append(Some(&mut rows), 0, 1, &[8]).keep();
        assert_eq!((numbers(&rows), numbers(&other)), (vec![1, 8], vec![1, 7]));
    }

    #[test]
    fn room_of_a_step_that_failed_is_given_back() {
        let mut rows = append(None, 0, 0, &[1]).keep();
        let (place, other) = (address(&rows), rows.clone());
        drop(append(Some(&mut rows), 0, 1, &[2]));
        rows = append(Some(&mut rows), 0, 1, &[3]).keep();
        assert_eq!((numbers(&rows), address(&rows), numbers(&other)), (vec![1, 3], place, vec![1]));
    }

    #[test]
    fn rows_move_where_there_is_no_room() {
        // For the padding, and for the new rows.
        for (padding, more) in [(3 * LEAST, &[9][..]), (0, &[9; LEAST])] {
            let mut rows = append(None, 0, 0, &[1, 2]).keep();
            let (place, other) = (address(&rows), rows.clone());
            let append = append(Some(&mut rows), padding, 2, more);
            let (first, read, _) = append.bytes();
            let Memory::Host(memory) = append.memory() else { unreachable!() };
            // SAFETY: nobody writes any more.
            let before = unsafe { memory.part(first, read) }.to_vec();
            assert_eq!(before, [&vec![0; padding][..], &[1, 2]].concat());
            let rows = append.keep();
            assert_eq!((numbers(&rows).len(), numbers(&other)), (2 + more.len(), vec![1, 2]));
            assert!(address(&rows) == address(&other) && address(&rows) != place, "a clone is read where the rows are now");
        }
    }
}
