//! A table of objects behind 32-bit handles. It detects stale handles.

/// Table of objects. A handle has 23 bits of index (from 1 on) and 8 bits of generation, like the
/// keys of HCAs. The highest bit stays free, so no handle is 0.
pub struct Table<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
    len: u32,
}

struct Slot<T> {
    generation: u8,
    value: Option<T>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        // Slot 0 stays empty: no handle and no key is ever 0.
        Self { slots: vec![Slot { generation: 0, value: None }], free: Vec::new(), len: 0 }
    }
}

impl<T> Table<T> {
    /// Stores `value` and returns its handle. Returns `None` if 2^23 objects exist.
    pub fn insert(&mut self, value: T) -> Option<u32> {
        let index = match self.free.pop() {
            Some(index) => index,
            None if self.slots.len() < 1 << 23 => {
                self.slots.push(Slot { generation: 0, value: None });
                self.slots.len() as u32 - 1
            }
            None => return None,
        };
        let slot = &mut self.slots[index as usize];
        slot.value = Some(value);
        self.len += 1;
        Some(index << 8 | u32::from(slot.generation))
    }

    /// Returns the object of a handle, or `None` if the handle is stale.
    pub fn get(&self, handle: u32) -> Option<&T> {
        let slot = self.slots.get((handle >> 8) as usize)?;
        if slot.generation == handle as u8 { slot.value.as_ref() } else { None }
    }

    /// Returns the object at an index, of any generation, and its handle.
    pub(crate) fn by_index(&self, index: u32) -> Option<(u32, &T)> {
        let slot = self.slots.get(index as usize)?;
        slot.value.as_ref().map(|value| (index << 8 | u32::from(slot.generation), value))
    }

    /// Returns the object of a handle, or `None` if the handle is stale.
    pub fn get_mut(&mut self, handle: u32) -> Option<&mut T> {
        let slot = self.slots.get_mut((handle >> 8) as usize)?;
        if slot.generation == handle as u8 { slot.value.as_mut() } else { None }
    }

    /// Takes out the object of a handle; the handle is stale from now on. Returns `None` if it was
    /// stale before.
    pub fn remove(&mut self, handle: u32) -> Option<T> {
        self.get(handle)?;
        let slot = &mut self.slots[(handle >> 8) as usize];
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(handle >> 8);
        self.len -= 1;
        slot.value.take()
    }

    /// Returns handles and objects, in the order of their slots.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.slots
            .iter()
            .enumerate()
            .filter_map(|(index, slot)| slot.value.as_ref().map(|value| ((index as u32) << 8 | u32::from(slot.generation), value)))
    }

    /// Returns the number of objects.
    pub fn len(&self) -> usize {
        self.len as usize
    }
    /// Checks whether the table has no object.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_handle_names_nothing_even_when_its_slot_is_used_again() {
        let mut table = Table::default();
        let first = table.insert("first").unwrap();
        assert_eq!(table.remove(first), Some("first"));
        let second = table.insert("second").unwrap();
        assert_eq!(first >> 8, second >> 8);
        assert_eq!(table.get(first), None);
        assert_eq!(table.remove(first), None);
        assert_eq!(table.get(second), Some(&"second"));
    }

    #[test]
    fn no_handle_is_zero() {
        assert!(Table::default().insert(()).unwrap() > 0xFF);
    }
}
