//! From the values that `lib/` sends for a row of the operator table to the graph's.

use super::script::{Scope, Type, Value as Script, internal};
use crate::error::Result;
use crate::graph::attribute::{Kind, Value};
use crate::graph::operator::Operator;
use crate::graph::{Number, OperandId};
use smallvec::SmallVec;

/// Arguments, then options, in the order of the row; `undefined` is absent.
pub fn read(scope: Scope<'_>, values: &[Script<'_>], row: &Operator) -> Result<SmallVec<[Value; 10]>> {
    let members = row.arguments.iter().chain(row.options);
    values.iter().zip(members).map(|(&script, member)| value(scope, script, member.kind)).collect()
}

fn value(scope: Scope<'_>, value: Script<'_>, kind: Kind) -> Result<Value> {
    let found = scope.type_of(value)?;
    if found == Type::Undefined {
        return Ok(Value::Absent);
    }
    match kind {
        Kind::Operand => scope.as_unsigned(value).map(|id| Value::Operand(OperandId(id))),
        Kind::Unsigned | Kind::UnsignedModulo => scope.as_unsigned(value).map(Value::Unsigned),
        Kind::Signed => scope.as_signed(value).map(Value::Signed),
        Kind::Enumeration(_) => scope.as_unsigned(value).map(Value::Enumeration),
        Kind::Boolean => scope.as_boolean(value).map(Value::Boolean),
        Kind::Double => scope.as_number(value).map(Value::Double),
        Kind::Number => number(scope, value).map(Value::Number),
        Kind::UnsignedList | Kind::UnsignedModuloList => scope.elements(value, Scope::as_unsigned).map(Value::UnsignedList),
        Kind::UnsignedOrList => match found {
            Type::Number => scope.as_unsigned(value).map(Value::Unsigned),
            _ => scope.elements(value, Scope::as_unsigned).map(Value::UnsignedList),
        },
        Kind::Operands => scope.elements(value, |scope, id| scope.as_unsigned(id).map(OperandId)).map(Value::Operands),
        Kind::FloatList => {
            // `lib/` has rounded them to 32 bits.
            scope.elements(value, |scope, number| scope.as_number(number).map(|number| number as f32)).map(Value::FloatList)
        }
        Kind::EnumerationList(_) => scope.elements(value, Scope::as_unsigned).map(Value::EnumerationList),
    }
}

/// `MLNumber`
pub fn number(scope: Scope<'_>, value: Script<'_>) -> Result<Number> {
    match scope.type_of(value)? {
        Type::Number => scope.as_number(value).map(Number::Double),
        Type::BigInt => scope.as_integer(value).map(Number::Integer),
        _ => Err(internal("a number that is none")),
    }
}

#[cfg(test)]
mod tests {
    use crate::graph::ops;
    use crate::node::call::MOST;

    #[test]
    fn every_operator_fits_into_a_call() {
        for row in ops::operators() {
            assert!(3 + row.arguments.len() + row.options.len() <= MOST, "{}", row.name);
        }
    }
}
