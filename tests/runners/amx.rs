//! Carries out the instructions of AMX where the CPU has none, so that what is compiled for them runs with its own registers, addresses
//! and distances: the system tells of an instruction that it does not know (SIGILL), which is decoded from its bytes and done to the
//! thread's eight matrices, as Intel's manual says (SDM, volume 2). What the manual forbids ends the process, and so does a matrix that is
//! used without a configuration.
#![allow(unsafe_code)]
#![cfg_attr(
    not(all(target_os = "linux", target_arch = "x86_64")),
    allow(dead_code, reason = "there is nothing to carry out elsewhere")
)]

use std::sync::atomic::{AtomicUsize, Ordering};

/// Whether this run of a suite is one with these instructions carried out (`WEBNN_AMX=emulated`); it has them from then on.
///
/// # Panics
/// Where they cannot be: only what AVX512_BF16 and AVX512_VNNI compute beside them is there for.
pub fn is_emulated() -> bool {
    let is_wanted = std::env::var("WEBNN_AMX").is_ok_and(|value| value == "emulated");
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    if is_wanted {
        static ONCE: std::sync::Once = std::sync::Once::new();
        ONCE.call_once(emulation::start);
    }
    is_wanted
}

/// How many products of matrices of bfloat16 were carried out.
#[allow(dead_code, reason = "not every suite asks")]
pub fn products() -> usize {
    PRODUCTS.load(Ordering::Relaxed)
}

static PRODUCTS: AtomicUsize = AtomicUsize::new(0);

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod emulation {
    use super::{Ordering, PRODUCTS};
    use std::cell::UnsafeCell;

    const ROWS: usize = 16;
    const BYTES: usize = 64;

    type Matrix = [[u8; BYTES]; ROWS];

    /// What a thread has.
    struct State {
        is_configured: bool,
        /// Bytes of a row, and rows, of each matrix.
        bytes: [usize; 8],
        rows: [usize; 8],
        matrices: [Matrix; 8],
    }

    const RELEASED: State = State { is_configured: false, bytes: [0; 8], rows: [0; 8], matrices: [[[0; BYTES]; ROWS]; 8] };

    thread_local!(static STATE: UnsafeCell<State> = const { UnsafeCell::new(RELEASED) });

    /// From now on.
    pub fn start() {
        let has_others = is_x86_feature_detected!("avx512bf16") && is_x86_feature_detected!("avx512vnni");
        assert!(has_others, "WEBNN_AMX: this CPU has no AVX512_BF16 and AVX512_VNNI, which stand beside AMX");
        // SAFETY: the handler has the type that is said to be handed over, and does nothing that a signal may not do.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = illegal;
            action.sa_sigaction = handler as usize;
            action.sa_flags = libc::SA_SIGINFO;
            assert_eq!(libc::sigaction(libc::SIGILL, &action, std::ptr::null_mut()), 0);
            webnn_kernels::isa::assume_matrix_registers();
        }
    }

    extern "C" fn illegal(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
        // SAFETY: the system hands over the context of the thread that it has stopped.
        let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
        let at = registers[libc::REG_RIP as usize] as usize as *const u8;
        // SAFETY: the thread's own, and only this handler has it; an instruction stands where the thread was stopped.
        let length = STATE.with(|state| unsafe { carry_out(at, registers, &mut *state.get()) });
        registers[libc::REG_RIP as usize] += length as i64;
    }

    /// Ends the process: panics do not leave a handler.
    fn refuse(why: &str) -> ! {
        // SAFETY: the bytes are there.
        unsafe {
            for part in ["emulated AMX: ", why, "\n"] {
                libc::write(2, part.as_ptr().cast(), part.len());
            }
            libc::abort()
        }
    }

    fn require(is_so: bool, why: &str) {
        if !is_so {
            refuse(why);
        }
    }

    /// The general register of a number.
    fn general(registers: &[i64; 23], number: u8) -> u64 {
        use libc::*;
        let first = [REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI];
        let then = [REG_R8, REG_R9, REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15];
        let place = [first, then][usize::from(number / 8)][usize::from(number % 8)];
        registers[place as usize] as u64
    }

    /// An operand in memory: where it begins, the distance that its index register has, and how many bytes say so.
    struct Address {
        start: u64,
        distance: u64,
        length: usize,
    }

    /// # Safety
    /// An instruction must stand there, from the byte on that has the mode of its operand.
    unsafe fn address(at: *const u8, registers: &[i64; 23], [base_high, index_high]: [u8; 2]) -> Address {
        // SAFETY: the caller's promise.
        let byte = |i: usize| unsafe { *at.add(i) };
        let (mode, low) = (byte(0) >> 6, byte(0) & 7);
        let (mut length, mut distance) = (1, 0);
        let base = match low {
            4 => {
                let scaled = byte(1);
                length += 1;
                let index = scaled >> 3 & 7 | index_high;
                distance = if index == 4 { 0 } else { general(registers, index) << (scaled >> 6) };
                scaled & 7
            }
            low => low,
        };
        require(mode > 0 || base != 5, "an address without a base");
        let displacement = match mode {
            0 => 0,
            1 => {
                length += 1;
                i64::from(byte(length - 1) as i8)
            }
            _ => {
                length += 4;
                i64::from(i32::from_le_bytes(std::array::from_fn(|i| byte(length - 4 + i))))
            }
        };
        Address { start: general(registers, base | base_high).wrapping_add_signed(displacement), distance, length }
    }

    /// Does what an instruction says; its length.
    ///
    /// # Safety
    /// An instruction must stand there, whose operands are those of the thread.
    unsafe fn carry_out(at: *const u8, registers: &[i64; 23], state: &mut State) -> usize {
        // SAFETY: the caller's promise.
        let byte = |i: usize| unsafe { *at.add(i) };
        // Three bytes of VEX, whose first bits are inverted: 128 bits, W 0, the map 0F 38.
        let is_known = byte(0) == 0xc4 && byte(1) & 0x1f == 2 && byte(2) & 0x84 == 0;
        require(is_known, "an instruction that is illegal, and none of AMX");
        let high = |bit: u8| if byte(1) & bit == 0 { 8 } else { 0 };
        let (base_high, index_high) = (high(0x20), high(0x40));
        let prefix = [0, 0x66, 0xf3, 0xf2][usize::from(byte(2) & 3)];
        let (operation, operands) = (byte(3), byte(4));
        let is_memory = operands >> 6 != 3;
        let to = usize::from(operands >> 3 & 7);
        // SAFETY: as above.
        let memory = || unsafe { address(at.add(4), registers, [base_high, index_high]) };
        match (operation, prefix, is_memory) {
            (0x49, 0, true) => {
                let memory = memory();
                // SAFETY: 64 bytes are what the instruction reads.
                state.configure(unsafe { &*(memory.start as usize as *const [u8; 64]) });
                return 4 + memory.length;
            }
            (0x49, 0, false) if operands == 0xc0 => *state = RELEASED,
            (0x49, 0xf2, false) => {
                state.require_configured(to);
                state.matrices[to] = [[0; BYTES]; ROWS];
            }
            (0x4b, 0xf2 | 0x66 | 0xf3, true) => {
                state.require_configured(to);
                let memory = memory();
                for row in 0..state.rows[to] {
                    let place = memory.start.wrapping_add(memory.distance.wrapping_mul(row as u64)) as usize;
                    let bytes = state.bytes[to];
                    // SAFETY: the row is what the instruction reads or writes.
                    unsafe {
                        match prefix {
                            0xf3 => std::ptr::copy_nonoverlapping(state.matrices[to][row].as_ptr(), place as *mut u8, bytes),
                            _ => {
                                state.matrices[to][row] = [0; BYTES];
                                std::ptr::copy_nonoverlapping(place as *const u8, state.matrices[to][row].as_mut_ptr(), bytes);
                            }
                        }
                    }
                }
                if prefix != 0xf3 {
                    (state.rows[to]..ROWS).for_each(|row| state.matrices[to][row] = [0; BYTES]);
                }
                return 4 + memory.length;
            }
            (0x5c, 0xf3, false) | (0x5e, 0x66, false) => {
                let (left, right) = (usize::from(operands & 7), usize::from(!byte(2) >> 3 & 7));
                state.require_product(to, left, right);
                match operation {
                    0x5c => state.multiply_bf16(to, left, right),
                    _ => state.multiply_bytes(to, left, right),
                }
            }
            _ => refuse("an instruction that nothing is known of"),
        }
        5
    }

    impl State {
        fn configure(&mut self, bytes: &[u8; 64]) {
            require(bytes[0] == 1, "another palette than 1");
            require(bytes[1] == 0, "a first row");
            require(bytes[2..16].iter().all(|byte| *byte == 0), "reserved bytes of a configuration");
            require(bytes[32..48].iter().chain(&bytes[56..]).all(|byte| *byte == 0), "more than eight matrices");
            *self = RELEASED;
            self.is_configured = true;
            for i in 0..8 {
                self.bytes[i] = usize::from(u16::from_le_bytes([bytes[16 + 2 * i], bytes[17 + 2 * i]]));
                self.rows[i] = usize::from(bytes[48 + i]);
                require(self.bytes[i] <= BYTES && self.rows[i] <= ROWS, "a matrix that is too large");
                require((self.bytes[i] == 0) == (self.rows[i] == 0), "a matrix of no rows, or of rows without bytes");
            }
        }

        fn require_configured(&self, matrix: usize) {
            require(self.is_configured, "no configuration");
            require(self.rows[matrix] > 0, "a matrix that the configuration leaves out");
        }

        fn require_product(&self, to: usize, left: usize, right: usize) {
            [to, left, right].into_iter().for_each(|matrix| self.require_configured(matrix));
            require(to != left && to != right && left != right, "a matrix twice in a product");
            let are_whole = [to, left, right].iter().all(|matrix| self.bytes[*matrix].is_multiple_of(4));
            require(are_whole, "rows that are no whole numbers");
            let fit = self.rows[to] == self.rows[left]
                && self.bytes[to] == self.bytes[right]
                && self.bytes[left] / 4 == self.rows[right];
            require(fit, "sizes that do not fit together");
        }

        /// TDPBF16PS: sums of the first and of the second numbers of pairs, each from zero on, and the sum of both to what was there.
        /// Subnormal operands and results are zero.
        fn multiply_bf16(&mut self, to: usize, left: usize, right: usize) {
            PRODUCTS.fetch_add(1, Ordering::Relaxed);
            let flush = |x: f32| if x.is_subnormal() { 0f32.copysign(x) } else { x };
            let number = |bytes: &[u8]| flush(f32::from_bits(u32::from(u16::from_le_bytes([bytes[0], bytes[1]])) << 16));
            let columns = self.bytes[to] / 4;
            for row in 0..self.rows[to] {
                let mut sums = [[0f32; 2]; ROWS];
                for (k, pair) in self.matrices[left][row][..self.bytes[left]].as_chunks::<4>().0.iter().enumerate() {
                    let of_left = [number(&pair[..2]), number(&pair[2..])];
                    let others = self.matrices[right][k].as_chunks::<4>().0;
                    for (sums, other) in sums.iter_mut().zip(&others[..columns]) {
                        let of_right = [number(&other[..2]), number(&other[2..])];
                        for half in 0..2 {
                            sums[half] = flush(of_left[half].mul_add(of_right[half], sums[half]));
                        }
                    }
                }
                for (bytes, sums) in self.matrices[to][row].as_chunks_mut::<4>().0.iter_mut().zip(&sums[..columns]) {
                    let sum = flush(flush(f32::from_le_bytes(*bytes)) + flush(sums[0] + sums[1]));
                    *bytes = sum.to_le_bytes();
                }
            }
        }

        /// TDPBUSD: bytes without sign times bytes with one.
        fn multiply_bytes(&mut self, to: usize, left: usize, right: usize) {
            let columns = self.bytes[to] / 4;
            for row in 0..self.rows[to] {
                for column in 0..columns {
                    let mut sum = 0i32;
                    for (k, four) in self.matrices[left][row][..self.bytes[left]].as_chunks::<4>().0.iter().enumerate() {
                        let others = &self.matrices[right][k].as_chunks::<4>().0[column];
                        let products = four.iter().zip(others).map(|(a, b)| i32::from(*a) * i32::from(*b as i8));
                        sum = sum.wrapping_add(products.sum());
                    }
                    let bytes = &mut self.matrices[to][row].as_chunks_mut::<4>().0[column];
                    *bytes = i32::from_le_bytes(*bytes).wrapping_add(sum).to_le_bytes();
                }
            }
        }
    }
}
