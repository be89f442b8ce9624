//! Names of dimensions that are arithmetic on other names, as exporters write them: `past_length + length`, `2*height`.

/// Longer names are not looked into, so that no file makes this go deep.
const LONGEST: usize = 256;

/// A sum of products of names and numbers; what is divided is rounded down.
#[derive(Debug, PartialEq)]
enum Term {
    Number(i64),
    Name(String),
    Operator(char, Box<(Term, Term)>),
}

/// A name that is arithmetic on others.
pub struct Expression(Term);

impl Expression {
    /// Nothing for what is a name like any other, or no arithmetic.
    pub fn of(name: &str) -> Option<Expression> {
        if name.len() > LONGEST {
            return None;
        }
        let mut rest = name;
        let part = sum(&mut rest)?;
        let is_arithmetic = matches!(part, Term::Operator(..)) && rest.trim_start().is_empty();
        is_arithmetic.then_some(Expression(part))
    }

    /// The names that it is made of, each once, in their order.
    pub fn names(&self) -> Vec<&str> {
        let mut names = Vec::new();
        self.0.names(&mut names);
        names
    }

    /// The value of a name with which the whole has that value, if it depends on the name by a factor and a sum.
    pub fn solved(&self, name: &str, whole: u32, of: &impl Fn(&str) -> Option<u32>) -> Option<u32> {
        let with = |value: u32| self.0.value(&|other: &str| if other == name { Some(value) } else { of(other) });
        let start = with(0)?;
        let slope = with(1)?.checked_sub(start)?;
        let value = i64::from(whole).checked_sub(start)?.checked_div(slope)?;
        u32::try_from(value).ok().filter(|&value| with(value) == Some(whole.into()))
    }

    /// Nothing where a name has no value, or the result is no size.
    pub fn value(&self, of: &impl Fn(&str) -> Option<u32>) -> Option<u32> {
        u32::try_from(self.0.value(of)?).ok()
    }
}

impl Term {
    fn names<'a>(&'a self, names: &mut Vec<&'a str>) {
        match self {
            Term::Number(_) => {}
            Term::Name(name) if names.contains(&name.as_str()) => {}
            Term::Name(name) => names.push(name),
            Term::Operator(_, operands) => {
                operands.0.names(names);
                operands.1.names(names);
            }
        }
    }

    fn value(&self, of: &impl Fn(&str) -> Option<u32>) -> Option<i64> {
        match self {
            Term::Number(number) => Some(*number),
            Term::Name(name) => of(name).map(i64::from),
            Term::Operator(operator, operands) => {
                let (left, right) = (operands.0.value(of)?, operands.1.value(of)?);
                match operator {
                    '+' => left.checked_add(right),
                    '-' => left.checked_sub(right),
                    '*' => left.checked_mul(right),
                    // Sizes are not negative, and neither is what is divided of them in practice.
                    _ if left >= 0 && right > 0 => Some(left / right),
                    _ => None,
                }
            }
        }
    }
}

/// Takes one of these from the beginning.
fn take(rest: &mut &str, operators: &[char]) -> Option<char> {
    let text = rest.trim_start();
    let found = text.chars().next().filter(|first| operators.contains(first))?;
    *rest = &text[found.len_utf8()..];
    Some(found)
}

fn sum(rest: &mut &str) -> Option<Term> {
    chain(rest, &['+', '-'], product)
}

fn product(rest: &mut &str) -> Option<Term> {
    chain(rest, &['*', '/'], single)
}

/// Operands with operators between them, from left to right.
fn chain(rest: &mut &str, operators: &[char], operand: fn(&mut &str) -> Option<Term>) -> Option<Term> {
    let mut left = operand(rest)?;
    while let Some(operator) = take(rest, operators) {
        // Python's division of whole numbers has two strokes.
        if operator == '/' {
            *rest = rest.strip_prefix('/').unwrap_or(rest);
        }
        left = Term::Operator(operator, Box::new((left, operand(rest)?)));
    }
    Some(left)
}

fn single(rest: &mut &str) -> Option<Term> {
    if take(rest, &['(']).is_some() {
        let inner = sum(rest)?;
        return take(rest, &[')']).map(|_| inner);
    }
    let text = rest.trim_start();
    let is_part = |character: char| character.is_alphanumeric() || character == '_' || character == '.';
    let (word, after) = text.split_at(text.find(|character| !is_part(character)).unwrap_or(text.len()));
    let first = word.chars().next()?;
    *rest = after;
    match word.parse::<u32>() {
        Ok(number) => Some(Term::Number(number.into())),
        Err(_) if first.is_alphabetic() || first == '_' => Some(Term::Name(word.to_owned())),
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(name: &str) -> Option<u32> {
        Expression::of(name)?.value(&|name| match name {
            "past" => Some(7),
            "length" => Some(3),
            "most" => Some(u32::MAX),
            _ => None,
        })
    }

    #[test]
    fn arithmetic_on_names() {
        for (name, expected) in [
            ("past + length", Some(10)),
            ("past+length-1", Some(9)),
            ("2*past", Some(14)),
            ("1 + 2*length", Some(7)),
            ("(1 + 2)*length", Some(9)),
            ("past - length - 1", Some(3)),
            ("past//2", Some(3)),
            ("past / length", Some(2)),
            ("past + unknown", None),
            ("length - past", None),
            ("past / (length - 3)", None),
            ("most + 1", None),
            ("most * most * most", None),
        ] {
            assert_eq!(value(name), expected, "{name}");
        }
        assert_eq!(Expression::of("past + length*past").unwrap().names(), ["past", "length"]);
    }

    #[test]
    fn a_name_that_follows_from_the_whole() {
        let solved = |name: &str, whole| {
            let expression = Expression::of(name).unwrap();
            expression.solved("x", whole, &|name| if name == "past" { Some(7) } else { None })
        };
        assert_eq!(solved("past + x", 10), Some(3));
        assert_eq!(solved("2*x - past", 9), Some(8));
        assert_eq!(solved("past - x", 2), Some(5));
        assert_eq!(solved("x - 1", 0), Some(1));
        for (name, whole) in [("past + x", 6), ("2*x", 9), ("x*x", 9), ("x//2", 4), ("0*x", 0), ("x + y", 9), ("past - x", 9)] {
            assert_eq!(solved(name, whole), None, "{name}");
        }
    }

    #[test]
    fn what_is_a_name_like_any_other() {
        for name in [
            "", "batch", "?", "(batch)", "12", "a +", "+ a", "a b + c", "a + b)", "(a + b", "a-", "x:0", "seq len", "-1",
            "3d + 1",
        ] {
            assert!(Expression::of(name).is_none(), "{name}");
        }
        assert!(Expression::of(&"(".repeat(100_000)).is_none());
        assert!(Expression::of(&["a"; 200].join("+")).is_none());
    }
}
