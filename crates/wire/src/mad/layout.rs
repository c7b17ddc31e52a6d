//! The macro that makes both views of a layout from its table of fields, and the parts that all
//! layouts share.

use super::bits::Value;
use core::fmt;
use core::marker::PhantomData;

/// A group of fields at fixed places: a header, an attribute or a message.
///
/// The implementing type is the meaning of the bytes, as a plain struct. [`View`] and [`ViewMut`]
/// read and write single fields of the bytes themselves.
pub trait Layout: Sized + Copy + Default + PartialEq + fmt::Debug {
    /// Length in bytes, up to the last field. An attribute in a datagram may have more room.
    const BYTES: usize;
    /// Name of the layout.
    const NAME: &'static str;
    /// The fields by place, without reserved bits.
    const FIELDS: &'static [Field];

    /// Reads all fields. It ignores reserved bits and bytes after the last field.
    ///
    /// # Errors
    ///
    /// Fails if `bytes` is shorter than [`Self::BYTES`].
    fn parse(bytes: &[u8]) -> Result<Self, Error>;

    /// Writes all fields, and zeros to the reserved bits among them. It writes the low bits of a
    /// value that is wider than its field.
    ///
    /// # Panics
    ///
    /// Panics if `bytes` is shorter than [`Self::BYTES`].
    fn emit(&self, bytes: &mut [u8]);

    /// Returns the view that reads single fields of `bytes`.
    fn view(bytes: &[u8]) -> View<'_, Self> {
        View { bytes, layout: PhantomData }
    }

    /// Returns the view that writes single fields of `bytes`.
    fn view_mut(bytes: &mut [u8]) -> ViewMut<'_, Self> {
        ViewMut { bytes, layout: PhantomData }
    }

    /// Compares the getters with a parsed repr, and the setters with an emitted one.
    #[cfg(test)]
    fn assert_views_agree(bytes: &[u8]);
}

/// Reads fields of any bytes as the layout `L`.
///
/// It has a method for each field of `L`. Fields after the last byte are 0.
#[derive(Clone, Copy, Debug)]
pub struct View<'a, L> {
    pub(crate) bytes: &'a [u8],
    layout: PhantomData<L>,
}

/// Writes fields of any bytes as the layout `L`.
///
/// It has a method for each field of `L`. Each writes the low bits of its value, leaves all other
/// bits, and ignores bits after the last byte.
#[derive(Debug)]
pub struct ViewMut<'a, L> {
    pub(crate) bytes: &'a mut [u8],
    layout: PhantomData<L>,
}

impl<L: Layout> ViewMut<'_, L> {
    /// Returns the view that reads the same bytes.
    pub fn as_view(&self) -> View<'_, L> {
        L::view(self.bytes)
    }
}

/// A row of a layout's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Name of the field in the struct and in both views.
    pub name: &'static str,
    /// Offset in bits. Bit 0 is the most significant bit of the first byte.
    pub bit: usize,
    /// Width in bits.
    pub width: usize,
}

/// The reason why bytes have no meaning as a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The bytes end before the last field. Pass the whole attribute.
    Short {
        /// Bytes that the layout needs.
        needed: usize,
        /// Bytes that were given.
        given: usize,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Short { needed, given } = self;
        write!(f, "{given} bytes are too short: the layout has {needed}")
    }
}

impl core::error::Error for Error {}

/// A layout as data, for tools that treat all layouts alike.
#[derive(Clone, Copy, Debug)]
pub struct Description {
    /// Name of the layout.
    pub name: &'static str,
    /// Length in bytes.
    pub bytes: usize,
    /// The fields by place, without reserved bits.
    pub fields: &'static [Field],
    /// Parses the first bytes and emits the repr to the second. It fails as [`Layout::parse`].
    pub reemit: fn(&[u8], &mut [u8]) -> Result<(), Error>,
    /// Compares the views with the repr, for any bytes.
    #[cfg(test)]
    pub(crate) assert_views_agree: fn(&[u8]),
}

impl Description {
    /// Returns the description of a layout.
    pub const fn of<L: Layout>() -> Self {
        Self {
            name: L::NAME,
            bytes: L::BYTES,
            fields: L::FIELDS,
            reemit: reemit::<L>,
            #[cfg(test)]
            assert_views_agree: L::assert_views_agree,
        }
    }
}

fn reemit<L: Layout>(from: &[u8], to: &mut [u8]) -> Result<(), Error> {
    L::parse(from)?.emit(to);
    Ok(())
}

/// Checks a table when it is compiled: fields ascend, do not overlap, and end with the layout.
pub(crate) const fn check(bytes: usize, fields: &[Field]) {
    let (mut index, mut end) = (0, 0);
    while index < fields.len() {
        assert!(fields[index].bit >= end && fields[index].width > 0, "fields must ascend and not overlap");
        end = fields[index].bit + fields[index].width;
        index += 1;
    }
    assert!(end <= bytes * 8, "a field ends after its layout");
}

/// Checks the width of a field for the type `T`.
pub(crate) const fn fits<T: Value>(width: usize) -> bool {
    width <= T::BITS_MAX && width.is_multiple_of(T::PARTS)
}

/// Makes a layout from a table with rows `name: type @ bit offset, width in bits;`.
///
/// It defines the struct and the methods of both views. A type without spaces or in brackets
/// implements [`Value`]: a number, an array, or another layout.
macro_rules! layout {
    (
        $(#[$meta:meta])*
        pub struct $name:ident: $bytes:literal bytes {
            $($(#[$note:meta])* $field:ident: $type:tt @ $bit:expr, $width:expr;)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name {
            $($(#[$note])* pub $field: $type,)*
        }

        impl $name {
            /// Returns the bytes of all fields, with zeros as reserved bits.
            pub fn to_bytes(&self) -> [u8; $bytes] {
                let mut bytes = [0; $bytes];
                $crate::mad::bits::Value::write(*self, &mut bytes, 0, 8 * $bytes);
                bytes
            }
        }

        impl Default for $name {
            /// Returns the layout with all bits 0.
            fn default() -> Self {
                $crate::mad::bits::Value::read(&[], 0, 8 * $bytes)
            }
        }

        impl $crate::mad::bits::Value for $name {
            const BITS_MAX: usize = 8 * $bytes;
            fn read(bytes: &[u8], at: usize, _: usize) -> Self {
                Self { $($field: $crate::mad::bits::Value::read(bytes, at + $bit, $width),)* }
            }
            fn write(self, bytes: &mut [u8], at: usize, _: usize) {
                $($crate::mad::bits::Value::write(self.$field, bytes, at + $bit, $width);)*
            }
        }

        impl $crate::mad::Layout for $name {
            const BYTES: usize = $bytes;
            const NAME: &'static str = stringify!($name);
            const FIELDS: &'static [$crate::mad::Field] =
                &[$($crate::mad::Field { name: stringify!($field), bit: $bit, width: $width }),*];
            fn parse(bytes: &[u8]) -> Result<Self, $crate::mad::Error> {
                if bytes.len() < $bytes {
                    return Err($crate::mad::Error::Short { needed: $bytes, given: bytes.len() });
                }
                Ok($crate::mad::bits::Value::read(bytes, 0, 8 * $bytes))
            }
            fn emit(&self, bytes: &mut [u8]) {
                bytes[..$bytes].copy_from_slice(&self.to_bytes());
            }
            #[cfg(test)]
            fn assert_views_agree(bytes: &[u8]) {
                let view = Self::view(bytes);
                let repr = Self { $($field: view.$field(),)* };
                if let Ok(parsed) = Self::parse(bytes) {
                    assert_eq!(parsed, repr);
                }
                assert_eq!(Self::parse(&repr.to_bytes()), Ok(repr));
                let mut written = [0; $bytes];
                Self::view_mut(&mut written)$(.$field(repr.$field))*;
                assert_eq!(written, repr.to_bytes());
                let mut short = vec![0; bytes.len().min($bytes)];
                Self::view_mut(&mut short)$(.$field(repr.$field))*;
                assert_eq!(short, written[..short.len()]);
            }
        }

        const _: () = $crate::mad::layout::check($bytes, <$name as $crate::mad::Layout>::FIELDS);
        $(const _: () = assert!($crate::mad::layout::fits::<$type>($width), concat!(stringify!($field), ": the type has another width"));)*

        impl $crate::mad::View<'_, $name> {
            $(#[doc = concat!("Reads `", stringify!($field), "`.\n\n")] $(#[$note])* pub fn $field(&self) -> $type {
                $crate::mad::bits::Value::read(self.bytes, $bit, $width)
            })*
        }

        impl $crate::mad::ViewMut<'_, $name> {
            $(#[doc = concat!("Writes `", stringify!($field), "`.\n\n")] $(#[$note])* pub fn $field(&mut self, value: $type) -> &mut Self {
                $crate::mad::bits::Value::write(value, self.bytes, $bit, $width);
                self
            })*
        }
    };
}
pub(crate) use layout;
