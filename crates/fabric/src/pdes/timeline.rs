//! The room of time: pending events, windows, and the nodes whose events run here.

use crate::event::Event;
use crate::notice::Notice;
use crate::pdes::partition::{OwnPartition, Partitioning};
use crate::slab::Slab;
use softband_sim::{EventQueue, Moment, SimDuration, SimTime};

/// Pending events, in windows. The windows are adjacent from time zero on, independent of the
/// events.
pub(crate) struct Timeline {
    queue: EventQueue<Event>,
    /// Length of a window; `None` without windows.
    window: Option<SimDuration>,
    /// Last instant whose events may be removed.
    last: SimTime,
    /// Last time at which a caller looked at the fabric.
    seen: SimTime,
    partition: OwnPartition,
    /// Notices of pending `Report` events.
    reports: Slab<Notice>,
}

/// The source of an event at a port: packets of its peer, or its own attempts to send.
#[derive(Clone, Copy)]
pub(crate) enum Source {
    Packets,
    /// Packets of subnet management, and attempts to send them before data.
    Lane15,
    Due,
    /// First bits of frames that the peer sends. On arrival the receiver accepts or drops the
    /// frame.
    Frames,
}

impl Timeline {
    /// Creates a timeline without windows.
    pub(crate) fn for_nodes(nodes: usize) -> Self {
        Self {
            queue: EventQueue::for_nodes(nodes),
            window: None,
            last: SimTime::MAX,
            seen: SimTime::ZERO,
            partition: OwnPartition::default(),
            reports: Slab::default(),
        }
    }

    /// Removes the events of a fabric of `nodes` nodes. Valid only before the first event.
    pub(crate) fn clear(&mut self, nodes: usize) {
        self.queue = EventQueue::for_nodes(nodes);
    }

    /// Executes only the events of partition `own` from now on.
    ///
    /// # Panics
    /// Panics without windows.
    pub(crate) fn take_partition(&mut self, partitioning: &Partitioning, own: u8) {
        assert!(self.has_windows(), "partitions meet between windows");
        self.end_window_of(SimTime::ZERO);
        self.partition = OwnPartition::new(partitioning, own);
    }

    /// Checks whether the events of a node run here.
    #[inline]
    pub(crate) fn has_node(&self, node: u32) -> bool {
        self.partition.has(node)
    }

    /// Returns the partition that executes a node's events.
    pub(crate) fn partition_of(&self, node: u32) -> usize {
        self.partition.of(node)
    }

    /// Schedules a notice to programs, as an event of a node.
    pub(crate) fn report(&mut self, at: SimTime, node: u32, notice: Notice) {
        let notice = self.reports.insert(notice);
        self.push(at, node, Event::Report { notice });
    }

    /// Returns the notice of a `Report` event.
    pub(crate) fn take_report(&mut self, notice: u32) -> Notice {
        self.reports.take(notice)
    }

    /// Uses windows of this length from now on.
    pub(crate) fn divide(&mut self, length: SimDuration) {
        self.window = Some(length);
    }

    /// Adds an event that a node causes itself.
    pub(crate) fn push(&mut self, time: SimTime, node: u32, event: Event) {
        self.queue.push(time, node, event);
    }

    /// Adds an event that reaches a node through the port with this index.
    pub(crate) fn push_arrival(&mut self, time: SimTime, node: u32, (port, source): (u8, Source), event: Event) {
        self.queue.push_from(time, node, u16::from(port) << 2 | source as u16, event);
    }

    /// Adds an event that runs after all others of its instant.
    pub(crate) fn push_last(&mut self, time: SimTime, node: u32, event: Event) {
        self.queue.push_last(time, node, event);
    }

    /// Removes the next event, unless the current window must end first.
    pub(crate) fn pop(&mut self) -> Option<(SimTime, Event)> {
        self.queue.pop_until(self.last)
    }

    /// Returns the time of the next event.
    pub(crate) fn next_time(&self) -> Option<SimTime> {
        self.queue.next_time()
    }

    /// Returns the time of the last removed event, or of a later look of a caller.
    pub(crate) fn now(&self) -> SimTime {
        self.queue.now().max(self.seen)
    }

    /// Returns the place of the last removed event in the order of events, or a place behind all events
    /// of a later look of a caller.
    pub(crate) fn moment(&self) -> Moment {
        let moment = self.queue.moment();
        if self.seen > moment.time { Moment::after(self.seen) } else { moment }
    }

    /// Returns the place of an event that reaches a node through the port with this index.
    pub(crate) fn moment_of(time: SimTime, node: u32, (port, source): (u8, Source)) -> Moment {
        Moment::from(time, node, u16::from(port) << 2 | source as u16)
    }

    /// Returns the node of the last removed event.
    pub(crate) fn node(&self) -> u32 {
        self.queue.node()
    }

    /// Returns the end of the window, if it is set. All earlier events have run when the window
    /// ends.
    fn window_end(&self) -> Option<SimTime> {
        (self.last < SimTime::MAX).then(|| self.last + SimDuration::from_picos(1))
    }

    /// Returns the time up to which all events have run: with windows the window's end, otherwise
    /// the time of the last event.
    pub(crate) fn heard_until(&self) -> SimTime {
        self.window_end().unwrap_or_else(|| self.now())
    }

    /// Returns the last instant whose events have all run, for a look between two events.
    pub(crate) fn happened_until(&self) -> SimTime {
        if self.last < SimTime::MAX { self.last } else { self.now() }
    }

    /// Returns the place behind all events that have run, for a look between two events: the end of a
    /// window that is over, otherwise that of the last event.
    pub(crate) fn happened_moment(&self) -> Moment {
        let is_over = self.last < SimTime::MAX && self.queue.next_time().is_none_or(|next| next > self.last);
        if is_over { Moment::after(self.last) } else { self.moment() }
    }

    /// Notes that a caller looks at the fabric at `time`: all events up to then have run.
    pub(crate) fn look_at(&mut self, time: SimTime) {
        self.seen = self.seen.max(time);
    }

    pub(crate) fn has_windows(&self) -> bool {
        self.window.is_some()
    }

    /// Stops at the end of the window that contains `time`; without windows, at the end of that
    /// instant.
    pub(crate) fn end_window_of(&mut self, time: SimTime) {
        let length = self.window.map_or(1, SimDuration::as_picos);
        self.last = SimTime::from_picos((time.as_picos() / length * length).saturating_add(length - 1));
    }

    /// Ignores window ends from now on.
    pub(crate) fn go_on(&mut self) {
        self.last = SimTime::MAX;
    }
}
