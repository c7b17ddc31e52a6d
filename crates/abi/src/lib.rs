//! `repr(C)` copies of the declarations in the headers of the RDMA libraries.
//!
//! This crate contains only data: structures, tables of function pointers, and numbers, with their
//! C names. Each module has a table of C expressions and their values in this crate. `cargo xtask
//! abi` compiles the same expressions against the installed headers. The unit test compares them
//! with the checked-in numbers from the headers of rdma-core 44.0.

#![allow(non_camel_case_types, non_snake_case, non_upper_case_globals)] // the headers' names

/// Defines structures and records the size of each structure and the offset of each field.
///
/// `LAYOUT` holds C expressions with their values. A field spelled `r#x` is `x` in C.
macro_rules! c_structs {
    ($($(#[$meta:meta])* pub $kind:ident $name:ident { $($(#[$fmeta:meta])* pub $field:ident: $ty:ty,)* })*) => {
        $(
            $(#[$meta])*
            #[repr(C)]
            #[derive(Clone, Copy)]
            pub $kind $name { $($(#[$fmeta])* pub $field: $ty,)* }
        )*

        /// C expressions and their values in this module.
        pub(crate) const LAYOUT: &[(&str, usize)] = &[
            $(
                (concat!("sizeof(", stringify!($kind), " ", stringify!($name), ")"), size_of::<$name>()),
                $((
                    concat!("offsetof(", stringify!($kind), " ", stringify!($name), ", ", stringify!($field), ")"),
                    std::mem::offset_of!($name, $field),
                ),)*
            )*
        ];
    };
}

/// Defines constants and records their names and values.
macro_rules! c_constants {
    ($($(#[$meta:meta])* $name:ident = $value:expr;)*) => {
        $($(#[$meta])* pub const $name: u32 = $value;)*

        /// C names and their values in this module.
        pub(crate) const LAYOUT: &[(&str, usize)] = &[$((stringify!($name), $value as usize),)*];
    };
}

pub mod verbs;

/// Returns every C expression that this crate covers, with its value.
pub fn layout() -> impl Iterator<Item = (String, usize)> {
    verbs::layouts().into_iter().flatten().map(|(expression, value)| (expression.replace("r#", ""), *value))
}

/// Headers required by the expressions of [`layout`].
pub const HEADERS: &[&str] = &["stddef.h", "infiniband/verbs.h", "infiniband/sa.h", "rdma/ib_user_verbs.h", "rdma/ib_user_sa.h"];

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    #[test]
    fn layouts_are_those_of_the_headers_of_rdma_core_44() {
        let expected: BTreeMap<&str, usize> = include_str!("../expected/rdma-core-44.0.txt")
            .lines()
            .filter_map(|line| line.rsplit_once(' '))
            .map(|(expression, value)| (expression, value.parse().expect("a number")))
            .collect();
        let ours: BTreeMap<String, usize> = super::layout().collect();
        let wrong: Vec<_> = ours.iter().filter(|(expression, value)| expected.get(expression.as_str()) != Some(value)).collect();
        assert!(wrong.is_empty(), "differ from the headers (run `cargo xtask abi`): {wrong:?}");
        assert_eq!(ours.len(), expected.len(), "the checked-in list is not of this version: run `cargo xtask abi --write`");
    }
}
