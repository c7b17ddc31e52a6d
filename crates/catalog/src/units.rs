//! Units in files, and the integers in which the model counts.

/// The quantity that a parameter measures. It determines the accepted units and the resulting integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dimension {
    /// Converted to bytes.
    Bytes,
    /// Converted to picoseconds.
    Duration,
    /// A time of a run, converted to picoseconds.
    Moment,
    /// Converted to bytes per second.
    Rate,
    /// Converted to operations per second.
    Operations,
    /// Converted to parts per million.
    Share,
    /// Converted to megahertz.
    Frequency,
    /// Converted to bits.
    Bits,
    /// Converted to millimetres.
    Length,
    /// Converted to picoseconds per metre.
    DelayPerLength,
    /// A count.
    Count,
    /// A number that only identifies something.
    Id,
    /// A number that encodes something else, such as VLCap.
    Code,
    /// Free text.
    Name,
    /// The name of another part of the catalogue.
    Part,
    /// `1X` to `12X`.
    LinkWidth,
    /// `SDR` to `XDR`.
    LinkSpeed,
    /// `1GbE` to `800GbE`.
    EthernetRate,
}

impl Dimension {
    /// Returns the accepted units, each with its size in the resulting integer.
    pub fn units(self) -> &'static [(&'static str, u64)] {
        match self {
            Self::Bytes => &[("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20)],
            Self::Duration => &[("ps", 1), ("ns", 1_000), ("us", 1_000_000), ("ms", 1_000_000_000)],
            Self::Moment => &[("ps", 1), ("ns", 1_000), ("us", 1_000_000), ("ms", 1_000_000_000), ("s", 1_000_000_000_000)],
            Self::Rate => &[("B/s", 1), ("MB/s", 1_000_000), ("MiB/s", 1 << 20), ("GB/s", 1_000_000_000), ("Gb/s", 125_000_000)],
            Self::Operations => &[("Gflop/s", 1_000_000_000), ("Gop/s", 1_000_000_000)],
            Self::Share => &[("ppm", 1), ("%", 10_000)],
            Self::Frequency => &[("MHz", 1)],
            Self::Bits => &[("bit", 1)],
            Self::Length => &[("m", 1_000), ("cm", 10), ("mm", 1)],
            Self::DelayPerLength => &[("ns/m", 1_000), ("ps/m", 1)],
            Self::Count => &[("count", 1)],
            Self::Id => &[("id", 1)],
            Self::Code => &[("code", 1)],
            Self::Name => &[("name", 1)],
            Self::Part => &[("part", 1)],
            Self::LinkWidth => &[("link width", 1)],
            Self::LinkSpeed => &[("link speed", 1)],
            Self::EthernetRate => &[("Ethernet rate", 1)],
        }
    }

    /// Returns the size of `unit` in the resulting integer, if `unit` belongs to this dimension.
    pub fn multiplier(self, unit: &str) -> Option<u64> {
        self.units().iter().find(|(name, _)| *name == unit).map(|(_, multiplier)| *multiplier)
    }

    /// Returns the accepted units for a sentence: `ps, ns, us or ms`.
    pub fn accepted(self) -> String {
        let names: Vec<&str> = self.units().iter().map(|(name, _)| *name).collect();
        or_list(&names)
    }
}

/// A number in a file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    Integer(i64),
    Decimal(f64),
}

/// Reason why a number cannot become an integer of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConvertError {
    Negative,
    NotWhole,
    TooLarge,
}

impl ConvertError {
    /// Returns the reason, to follow "is".
    pub fn reason(self) -> &'static str {
        match self {
            Self::Negative => "negative",
            Self::NotWhole => "finer than the model counts",
            Self::TooLarge => "too large",
        }
    }
}

impl Number {
    /// Returns the number times `multiplier`, as a whole number.
    pub fn scaled(self, multiplier: u64) -> Result<u64, ConvertError> {
        match self {
            Self::Integer(value) => {
                let value = u64::try_from(value).map_err(|_| ConvertError::Negative)?;
                value.checked_mul(multiplier).ok_or(ConvertError::TooLarge)
            }
            Self::Decimal(value) => scale_decimal(value, multiplier),
        }
    }
}

fn scale_decimal(value: f64, multiplier: u64) -> Result<u64, ConvertError> {
    // Above 2^53, a float cannot distinguish neighbouring integers.
    const EXACT_LIMIT: f64 = 9_007_199_254_740_992.0;
    if value < 0.0 {
        return Err(ConvertError::Negative);
    }
    let scaled = value * multiplier as f64;
    if scaled.is_nan() || scaled >= EXACT_LIMIT {
        return Err(ConvertError::TooLarge);
    }
    let whole = scaled.round();
    // `1.78 us` is not exact in binary. The remainder after scaling must be that inexactness alone.
    if (scaled - whole).abs() > whole.max(1.0) * 1e-9 {
        return Err(ConvertError::NotWhole);
    }
    Ok(whole as u64)
}

/// Reason why a text is not a quantity of its dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum QuantityError {
    NoUnit,
    WrongUnit(String),
    NoNumber,
    Convert(ConvertError),
}

impl QuantityError {
    /// Returns the fault of `text`, to follow the name of the expected quantity.
    pub(crate) fn reason(&self, text: &str) -> String {
        match self {
            Self::NoUnit => format!("has no unit: `{text}`"),
            Self::WrongUnit(unit) => format!("cannot be in `{unit}`"),
            Self::NoNumber => format!("cannot be `{text}`"),
            Self::Convert(error) => format!("is {}: `{text}`", error.reason()),
        }
    }
}

/// Parses a number with a unit of `dimension`, such as `8 m`, into the integer of the model.
pub(crate) fn parse_quantity(text: &str, dimension: Dimension) -> Result<u64, QuantityError> {
    let trimmed = text.trim();
    let split = trimmed.find(|c: char| c.is_alphabetic() || c.is_whitespace()).unwrap_or(trimmed.len());
    let (digits, unit) = (&trimmed[..split], trimmed[split..].trim());
    let wrong_unit = || if unit.is_empty() { QuantityError::NoUnit } else { QuantityError::WrongUnit(unit.to_owned()) };
    let multiplier = dimension.multiplier(unit).ok_or_else(wrong_unit)?;
    let number = digits.parse::<i64>().map(Number::Integer).or_else(|_| digits.parse::<f64>().map(Number::Decimal));
    number.map_err(|_| QuantityError::NoNumber)?.scaled(multiplier).map_err(QuantityError::Convert)
}

/// Joins names: `a`, `a or b`, `a, b or c`.
pub(crate) fn or_list<T: AsRef<str>>(names: &[T]) -> String {
    match names {
        [] => String::new(),
        [only] => only.as_ref().to_owned(),
        [first @ .., last] => {
            let first: Vec<&str> = first.iter().map(AsRef::as_ref).collect();
            format!("{} or {}", first.join(", "), last.as_ref())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimal_microseconds_become_whole_picoseconds() {
        let us = Dimension::Duration.multiplier("us").unwrap();
        assert_eq!(Number::Decimal(1.78).scaled(us), Ok(1_780_000));
        assert_eq!(Number::Integer(3).scaled(us), Ok(3_000_000));
        assert_eq!(Number::Decimal(0.000_000_4).scaled(us), Err(ConvertError::NotWhole));
        assert_eq!(Number::Decimal(f64::NAN).scaled(us), Err(ConvertError::TooLarge));
        assert_eq!(Number::Integer(-1).scaled(us), Err(ConvertError::Negative));
        assert_eq!(Number::Integer(i64::MAX).scaled(us), Err(ConvertError::TooLarge));
    }

    #[test]
    fn a_gigabit_is_decimal_and_a_kibibyte_is_not() {
        assert_eq!(Dimension::Rate.multiplier("Gb/s"), Some(125_000_000));
        assert_eq!(Dimension::Bytes.multiplier("KiB"), Some(1_024));
        assert_eq!(Dimension::Bytes.multiplier("KB"), None);
        assert_eq!(Dimension::Bytes.accepted(), "B, KiB or MiB");
    }
}
