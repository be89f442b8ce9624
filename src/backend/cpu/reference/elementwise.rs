//! Element-wise operators.

use crate::backend::cpu::view::Arguments;
use crate::graph::ops::elementwise::Binary;

pub fn binary(_op: &Binary, _arguments: &mut Arguments<'_, '_>) {
    unimplemented!()
}
