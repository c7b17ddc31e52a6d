//! Numbers with names: codes and sets of flags. A reserved number is a value without a name, so
//! every bit pattern is representable.

/// Defines a code: a number whose known values have names.
macro_rules! code {
    (
        $(#[$meta:meta])*
        pub struct $name:ident($inner:ident) {
            $($(#[$note:meta])* $value:ident = $number:expr;)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl $name {
            $($(#[$note])* pub const $value: Self = Self($number);)*
        }

        $crate::mad::codes::code!(@value $name, $inner);
    };
    (@value $name:ident, u8) => { $crate::mad::codes::code!(@value $name, u8, 8); };
    (@value $name:ident, u16) => { $crate::mad::codes::code!(@value $name, u16, 16); };
    (@value $name:ident, u32) => { $crate::mad::codes::code!(@value $name, u32, 32); };
    (@value $name:ident, u64) => { $crate::mad::codes::code!(@value $name, u64, 64); };
    (@value $name:ident, $inner:ident, $bits:literal) => {
        impl $crate::mad::bits::Value for $name {
            const BITS_MAX: usize = $bits;
            fn read(bytes: &[u8], at: usize, width: usize) -> Self {
                Self($crate::mad::bits::get(bytes, at, width) as $inner)
            }
            fn write(self, bytes: &mut [u8], at: usize, width: usize) {
                $crate::mad::bits::put(bytes, at, width, u64::from(self.0));
            }
        }
    };
}
pub(crate) use code;

/// Defines a set of flags: a number whose bits have names.
macro_rules! flags {
    (
        $(#[$meta:meta])*
        pub struct $name:ident($inner:ident) {
            $($(#[$note:meta])* $value:ident = $number:expr;)*
        }
    ) => {
        $crate::mad::codes::code! {
            $(#[$meta])*
            pub struct $name($inner) {
                $($(#[$note])* $value = $number;)*
            }
        }

        impl $name {
            /// Checks whether all flags of `other` are set.
            pub const fn contains(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }
        }

        impl core::ops::BitOr for $name {
            type Output = Self;
            fn bitor(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }
        }

        impl core::ops::BitAnd for $name {
            type Output = Self;
            fn bitand(self, other: Self) -> Self {
                Self(self.0 & other.0)
            }
        }
    };
}
pub(crate) use flags;
