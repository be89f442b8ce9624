//! The kinds of arguments and options that operators have, and their Rust types.
//!
//! The specification knows about a dozen kinds. A Rust type stands for one through [`Attribute`]; the values that `lib/`
//! has converted by WebIDL arrive as [`Value`]s.

use super::data_type::DataType;
use super::number::Number;
use super::operator::camel_case;
use super::{OperandId, OperandList};
use crate::error::{Error, Kind as ErrorKind, Result};

/// What WebIDL type an argument or option has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// `MLOperand`
    Operand,
    /// `sequence<MLOperand>`
    Operands,
    /// `[EnforceRange] unsigned long`
    Unsigned,
    /// `unsigned long`, which wraps modulo 2³²
    UnsignedModulo,
    /// `[EnforceRange] long`
    Signed,
    /// `sequence<[EnforceRange] unsigned long>`
    UnsignedList,
    /// `sequence<unsigned long>`
    UnsignedModuloList,
    /// `([EnforceRange] unsigned long or sequence<[EnforceRange] unsigned long>)`
    UnsignedOrList,
    /// `boolean`
    Boolean,
    /// `double`
    Double,
    /// `sequence<float>`
    FloatList,
    /// `MLNumber`
    Number,
    /// An enumeration
    Enumeration(&'static Enumeration),
    /// A sequence of an enumeration
    EnumerationList(&'static Enumeration),
}

/// An enumeration of the specification.
#[derive(Debug, PartialEq)]
pub struct Enumeration {
    pub name: &'static str,
    pub values: &'static [&'static str],
}

/// A converted value. Operands are ids, enumerations positions in their list of values.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Absent,
    Operand(OperandId),
    Operands(Vec<OperandId>),
    Unsigned(u32),
    Signed(i32),
    UnsignedList(Vec<u32>),
    Boolean(bool),
    Double(f64),
    FloatList(Vec<f32>),
    Number(Number),
    Enumeration(u32),
    EnumerationList(Vec<u32>),
}

/// A Rust type of an argument or option.
pub trait Attribute: Sized {
    const KIND: Kind;

    /// Nothing when the value is of another kind, which `lib/` never sends.
    fn from_value(value: Value) -> Option<Result<Self, Mismatch>>;

    fn into_value(self) -> Value;

    /// Visits the operands in it.
    fn visit(&self, _visit: &mut dyn FnMut(OperandId)) {}

    fn visit_mut(&mut self, _visit: &mut dyn FnMut(&mut OperandId)) {}
}

/// A value of the right kind that does not fit: what was found, and what is allowed.
#[derive(Debug)]
pub struct Mismatch {
    found: String,
    allowed: String,
}

/// Takes the next value as a required argument.
pub fn required<T: Attribute>(field: &str, values: &mut dyn Iterator<Item = Value>) -> Result<T> {
    convert(field, values.next().unwrap_or(Value::Absent))
}

/// Takes the next value as an option.
pub fn optional<T: Attribute>(field: &str, values: &mut dyn Iterator<Item = Value>, default: fn() -> T) -> Result<T> {
    match values.next() {
        None | Some(Value::Absent) => Ok(default()),
        Some(value) => convert(field, value),
    }
}

fn convert<T: Attribute>(field: &str, value: Value) -> Result<T> {
    match T::from_value(value) {
        Some(Ok(converted)) => Ok(converted),
        Some(Err(mismatch)) => Err(Error::argument(&camel_case(field), mismatch.found, mismatch.allowed)),
        None => Err(Error::new(
            ErrorKind::Type,
            format!("{}: a value of another kind than {:?} (internal error)", camel_case(field), T::KIND),
        )),
    }
}

/// Implements [`Attribute`] for a type that one kind of value carries as it is.
macro_rules! plain {
    ($( $Type:ty, $Kind:ident, $Value:ident; )*) => { $(
        impl Attribute for $Type {
            const KIND: Kind = Kind::$Kind;

            fn from_value(value: Value) -> Option<Result<Self, Mismatch>> {
                match value {
                    Value::$Value(value) => Some(Ok(value)),
                    _ => None,
                }
            }

            fn into_value(self) -> Value {
                Value::$Value(self)
            }
        }
    )* };
}

plain! {
    u32, Unsigned, Unsigned;
    i32, Signed, Signed;
    Vec<u32>, UnsignedList, UnsignedList;
    bool, Boolean, Boolean;
    f64, Double, Double;
    Vec<f32>, FloatList, FloatList;
    Number, Number, Number;
}

impl Attribute for OperandId {
    const KIND: Kind = Kind::Operand;

    fn from_value(value: Value) -> Option<Result<Self, Mismatch>> {
        match value {
            Value::Operand(id) => Some(Ok(id)),
            _ => None,
        }
    }

    fn into_value(self) -> Value {
        Value::Operand(self)
    }

    fn visit(&self, visit: &mut dyn FnMut(OperandId)) {
        visit(*self);
    }

    fn visit_mut(&mut self, visit: &mut dyn FnMut(&mut OperandId)) {
        visit(self);
    }
}

impl Attribute for OperandList {
    const KIND: Kind = Kind::Operands;

    fn from_value(value: Value) -> Option<Result<Self, Mismatch>> {
        match value {
            Value::Operands(ids) => Some(Ok(ids)),
            _ => None,
        }
    }

    fn into_value(self) -> Value {
        Value::Operands(self)
    }

    fn visit(&self, visit: &mut dyn FnMut(OperandId)) {
        self.iter().copied().for_each(visit);
    }

    fn visit_mut(&mut self, visit: &mut dyn FnMut(&mut OperandId)) {
        self.iter_mut().for_each(visit);
    }
}

/// A list of fixed length.
impl<const LENGTH: usize> Attribute for [u32; LENGTH] {
    const KIND: Kind = Kind::UnsignedList;

    fn from_value(value: Value) -> Option<Result<Self, Mismatch>> {
        let Value::UnsignedList(list) = value else { return None };
        Some(list.try_into().map_err(|list: Vec<u32>| Mismatch {
            found: format!("a list of length {}", list.len()),
            allowed: format!("a list of length {LENGTH}"),
        }))
    }

    fn into_value(self) -> Value {
        Value::UnsignedList(self.to_vec())
    }
}

/// An option whose absence has a meaning of its own.
impl<T: Attribute> Attribute for Option<T> {
    const KIND: Kind = T::KIND;

    fn from_value(value: Value) -> Option<Result<Self, Mismatch>> {
        match value {
            Value::Absent => Some(Ok(None)),
            value => Some(T::from_value(value)?.map(Some)),
        }
    }

    fn into_value(self) -> Value {
        self.map_or(Value::Absent, T::into_value)
    }

    fn visit(&self, visit: &mut dyn FnMut(OperandId)) {
        if let Some(value) = self {
            value.visit(visit);
        }
    }

    fn visit_mut(&mut self, visit: &mut dyn FnMut(&mut OperandId)) {
        if let Some(value) = self {
            value.visit_mut(visit);
        }
    }
}

/// `unsigned long` without `[EnforceRange]`: WebIDL takes the number modulo 2³².
#[derive(Clone, Debug, PartialEq)]
pub struct Modulo<T>(pub T);

impl Attribute for Modulo<u32> {
    const KIND: Kind = Kind::UnsignedModulo;

    fn from_value(value: Value) -> Option<Result<Self, Mismatch>> {
        Some(u32::from_value(value)?.map(Modulo))
    }

    fn into_value(self) -> Value {
        self.0.into_value()
    }
}

impl Attribute for Modulo<Vec<u32>> {
    const KIND: Kind = Kind::UnsignedModuloList;

    fn from_value(value: Value) -> Option<Result<Self, Mismatch>> {
        Some(Vec::from_value(value)?.map(Modulo))
    }

    fn into_value(self) -> Value {
        self.0.into_value()
    }
}

/// `([EnforceRange] unsigned long or sequence<[EnforceRange] unsigned long>)`, as `split` takes it.
#[derive(Clone, Debug, PartialEq)]
pub enum UnsignedOrList {
    One(u32),
    List(Vec<u32>),
}

impl Attribute for UnsignedOrList {
    const KIND: Kind = Kind::UnsignedOrList;

    fn from_value(value: Value) -> Option<Result<Self, Mismatch>> {
        match value {
            Value::Unsigned(value) => Some(Ok(UnsignedOrList::One(value))),
            Value::UnsignedList(list) => Some(Ok(UnsignedOrList::List(list))),
            _ => None,
        }
    }

    fn into_value(self) -> Value {
        match self {
            UnsignedOrList::One(value) => Value::Unsigned(value),
            UnsignedOrList::List(list) => Value::UnsignedList(list),
        }
    }
}

/// An enumeration that options use.
pub trait Enumerated: Copy + 'static {
    const ENUMERATION: &'static Enumeration;
    const ALL: &'static [Self];
    fn index(self) -> u32;
}

impl<T: Enumerated> Attribute for Vec<T> {
    const KIND: Kind = Kind::EnumerationList(T::ENUMERATION);

    fn from_value(value: Value) -> Option<Result<Self, Mismatch>> {
        let Value::EnumerationList(list) = value else { return None };
        let list: Option<Vec<T>> = list.into_iter().map(|index| T::ALL.get(index as usize).copied()).collect();
        list.map(Ok)
    }

    fn into_value(self) -> Value {
        Value::EnumerationList(self.into_iter().map(T::index).collect())
    }
}

/// Declares an enumeration of the specification: its name there, ours, and the values of both.
macro_rules! enumeration {
    ($(#[$meta:meta])* $name:literal $Enum:ident { $( $(#[$variant:meta])* $Variant:ident $value:literal ),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $Enum { $( $(#[$variant])* $Variant ),+ }

        impl $crate::graph::attribute::Enumerated for $Enum {
            const ENUMERATION: &'static $crate::graph::attribute::Enumeration =
                &$crate::graph::attribute::Enumeration { name: $name, values: &[ $($value),+ ] };
            const ALL: &'static [Self] = &[ $( $Enum::$Variant ),+ ];

            fn index(self) -> u32 {
                self as u32
            }
        }

        $crate::graph::attribute::enumerated_attribute!($Enum);
    };
}
pub(crate) use enumeration;

/// [`Attribute`] for one value of an enumeration. (A blanket implementation would overlap with the plain types.)
macro_rules! enumerated_attribute {
    ($Enum:ty) => {
        impl $crate::graph::attribute::Attribute for $Enum {
            const KIND: $crate::graph::attribute::Kind =
                $crate::graph::attribute::Kind::Enumeration(<$Enum as $crate::graph::attribute::Enumerated>::ENUMERATION);

            fn from_value(
                value: $crate::graph::attribute::Value,
            ) -> Option<std::result::Result<Self, $crate::graph::attribute::Mismatch>> {
                match value {
                    $crate::graph::attribute::Value::Enumeration(index) => {
                        <$Enum as $crate::graph::attribute::Enumerated>::ALL.get(index as usize).copied().map(Ok)
                    }
                    _ => None,
                }
            }

            fn into_value(self) -> $crate::graph::attribute::Value {
                $crate::graph::attribute::Value::Enumeration($crate::graph::attribute::Enumerated::index(self))
            }
        }
    };
}
pub(crate) use enumerated_attribute;

const DATA_TYPE_NAMES: [&str; DataType::ALL.len()] = {
    let mut names = [""; DataType::ALL.len()];
    let mut i = 0;
    while i < names.len() {
        names[i] = DataType::ALL[i].name();
        i += 1;
    }
    names
};

impl Enumerated for DataType {
    const ENUMERATION: &'static Enumeration = &Enumeration { name: "MLOperandDataType", values: &DATA_TYPE_NAMES };
    const ALL: &'static [Self] = &DataType::ALL;

    fn index(self) -> u32 {
        self as u32
    }
}
enumerated_attribute!(DataType);
