//! Values behind small numbers that events can carry.

/// A vector with a free list. The slab reuses numbers, so only the holder of a number may take its
/// value.
pub(crate) struct Slab<T> {
    slots: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    pub(crate) fn insert(&mut self, value: T) -> u32 {
        match self.free.pop() {
            Some(id) => {
                self.slots[id as usize] = Some(value);
                id
            }
            None => {
                self.slots.push(Some(value));
                self.slots.len() as u32 - 1
            }
        }
    }

    /// # Panics
    /// Panics if the value was taken before.
    pub(crate) fn take(&mut self, id: u32) -> T {
        self.free.push(id);
        self.slots[id as usize].take().expect("each number is taken once")
    }

    /// # Panics
    /// Panics if the value was taken before.
    pub(crate) fn get_mut(&mut self, id: u32) -> &mut T {
        self.slots[id as usize].as_mut().expect("a number is looked at before it is taken")
    }

    /// # Panics
    /// Panics if the value was taken before.
    pub(crate) fn get(&self, id: u32) -> &T {
        self.slots[id as usize].as_ref().expect("a number is looked at before it is taken")
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut().flatten()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().flatten()
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}
