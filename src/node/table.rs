//! The operator table, handed to `lib/`, which makes the methods of `MLGraphBuilder` from it.

use super::call::Call;
use super::script::{Scope, Value};
use crate::error::Result;
use crate::graph::attribute::Kind;
use crate::graph::operator::{Member, Operator, Returns};
use crate::graph::{DataType, ops};

/// `operators()`
pub fn operators<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let scope = call.scope;
    scope.array_of(ops::operators().iter().map(|row| operator(scope, row))).map(Some)
}

/// `dataTypes()`
pub fn data_types<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    call.scope.strings(DataType::ALL.iter().map(|data_type| data_type.name())).map(Some)
}

fn operator<'s>(scope: Scope<'s>, row: &Operator) -> Result<Value<'s>> {
    let object = scope.object()?;
    scope.set(object, "name", scope.string(row.name)?)?;
    scope.set(object, "doc", scope.string(row.doc)?)?;
    scope.set(object, "section", scope.string(row.section)?)?;
    scope.set(object, "dictionary", scope.string(row.dictionary)?)?;
    scope.set(object, "arguments", members(scope, row.arguments)?)?;
    scope.set(object, "options", members(scope, row.options)?)?;
    let outputs = match row.returns {
        Returns::One => "one",
        Returns::Sequence => "sequence",
    };
    scope.set(object, "outputs", scope.string(outputs)?)?;
    Ok(object)
}

fn members<'s>(scope: Scope<'s>, members: &[Member]) -> Result<Value<'s>> {
    scope.array_of(members.iter().map(|member| {
        let object = scope.object()?;
        scope.set(object, "name", scope.string(&member.name())?)?;
        scope.set(object, "kind", kind(scope, member.kind)?)?;
        Ok(object)
    }))
}

/// `{type, enforceRange?, enumeration?, values?}`
fn kind<'s>(scope: Scope<'s>, kind: Kind) -> Result<Value<'s>> {
    let name = match kind {
        Kind::Operand => "operand",
        Kind::Operands => "operands",
        Kind::Unsigned | Kind::UnsignedModulo => "unsigned",
        Kind::Signed => "signed",
        Kind::UnsignedList | Kind::UnsignedModuloList => "unsignedList",
        Kind::UnsignedOrList => "unsignedOrList",
        Kind::Boolean => "boolean",
        Kind::Double => "double",
        Kind::FloatList => "floatList",
        Kind::Number => "number",
        Kind::Enumeration(_) => "enumeration",
        Kind::EnumerationList(_) => "enumerationList",
    };
    let object = scope.object()?;
    scope.set(object, "type", scope.string(name)?)?;
    if let Kind::Unsigned | Kind::Signed | Kind::UnsignedList | Kind::UnsignedOrList = kind {
        scope.set(object, "enforceRange", scope.boolean(true)?)?;
    }
    if let Kind::Enumeration(enumeration) | Kind::EnumerationList(enumeration) = kind {
        scope.set(object, "enumeration", scope.string(enumeration.name)?)?;
        scope.set(object, "values", scope.strings(enumeration.values.iter().copied())?)?;
    }
    Ok(object)
}
