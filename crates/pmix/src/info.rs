//! Lists of attributes, with the memory that they point to.

use crate::abi;
use std::ffi::{CString, c_void};

/// A value of an attribute.
pub(crate) enum Value {
    Bool(bool),
    Text(String),
    Short(u16),
    Number(u32),
    Rank(u32),
    List(List),
}

/// Attributes as the library reads them. The vectors behind the pointers never change.
#[derive(Default)]
pub(crate) struct List {
    infos: Vec<abi::Info>,
    texts: Vec<CString>,
    arrays: Vec<Box<[abi::DataArray]>>,
    lists: Vec<List>,
}

impl List {
    /// Makes a list. A text with a zero inside ends there.
    pub(crate) fn new(attributes: impl IntoIterator<Item = (&'static str, Value)>) -> Self {
        let mut list = Self::default();
        for (key, value) in attributes {
            let value = list.keep(value);
            list.infos.push(abi::Info { key: abi::padded(key), flags: 0, value });
        }
        list
    }

    fn keep(&mut self, value: Value) -> abi::Value {
        let mut data = abi::Data { all: [0; 3] };
        let kind = match value {
            Value::Bool(flag) => {
                data.flag = flag;
                abi::TYPE_BOOL
            }
            Value::Short(number) => {
                data.uint16 = number;
                abi::TYPE_UINT16
            }
            Value::Number(number) => {
                data.uint32 = number;
                abi::TYPE_UINT32
            }
            Value::Rank(number) => {
                data.uint32 = number;
                abi::TYPE_PROC_RANK
            }
            Value::Text(text) => {
                let until_zero = text.split('\0').next().unwrap_or_default();
                let text = CString::new(until_zero).unwrap_or_default();
                data.string = text.as_ptr();
                self.texts.push(text);
                abi::TYPE_STRING
            }
            Value::List(list) => {
                let (array, size) = list.as_raw();
                let array: Box<[abi::DataArray]> = Box::new([abi::DataArray { kind: abi::TYPE_INFO, size, array: array.cast::<c_void>() }]);
                data.array = array.as_ptr();
                self.arrays.push(array);
                self.lists.push(list);
                abi::TYPE_DATA_ARRAY
            }
        };
        abi::Value { kind, data }
    }

    /// Returns the attributes and their number. The pointer holds as long as the list.
    pub(crate) fn as_raw(&self) -> (*const abi::Info, usize) {
        (self.infos.as_ptr(), self.infos.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    #[test]
    fn values_stay_readable_behind_their_pointers() {
        let inner = List::new([("pmix.rank", Value::Rank(3)), ("pmix.hname", Value::Text("b".repeat(40)))]);
        let list = List::new([("pmix.srvr.remote", Value::Bool(true)), ("pmix.pdata", Value::List(inner))]);
        let (infos, count) = list.as_raw();
        assert_eq!(count, 2);
        // SAFETY: the list holds two attributes, and the second has a list of two attributes.
        let (key, inner) = unsafe {
            let second = &*infos.add(1);
            let array = &*second.value.data.array;
            (second.key, std::slice::from_raw_parts(array.array.cast::<abi::Info>(), array.size))
        };
        assert!(key.starts_with(b"pmix.pdata\0"));
        // SAFETY: the first attribute is a number, the second a text.
        let (rank, host) = unsafe { (inner[0].value.data.uint32, CStr::from_ptr(inner[1].value.data.string)) };
        assert_eq!((rank, host.to_bytes().len()), (3, 40));
    }
}
