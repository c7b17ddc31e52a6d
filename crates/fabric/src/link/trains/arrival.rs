//! Arrivals of a train's packets at the receiving HCA.

use crate::link::Hop;
use crate::link::port::ENDS_TRAIN;
use softband_sim::SimTime;

impl Hop<'_> {
    /// Returns the packet of a train that arrives at `now`; `None` if the train ended meanwhile.
    pub(crate) fn on_train_arrival(&mut self, (id, train): (u32, u16), now: SimTime) -> Option<u32> {
        let source = self.links.trains.sources.get_mut(id as usize)?;
        let path = source.path.as_deref_mut().filter(|path| path.number == train)?;
        let first = source.launches.front()?.sums.packets;
        let launch = source.launches.get(path.next_arrival.checked_sub(first)? as usize)?;
        let is_due = launch.carried && launch.arrives(path.to_target) == now;
        if !is_due || self.links.ports[path.target as usize].node != self.timeline.node() {
            return None;
        }
        path.next_arrival += 1;
        let (packet, blocks, last) = (launch.packet, launch.blocks, path.hops.last()?);
        let (output, lane) = (last.output, last.lane_out);
        self.take_room(output, lane, blocks, now);
        Some(packet)
    }

    /// Notes when the buffer of a packet that has arrived at an HCA's port is free. Ends the train
    /// if a packet on its way would lack the credits at the last switch.
    #[inline]
    pub(crate) fn note_freed(&mut self, port: u32, packet: u32, freed: SimTime, now: SimTime) {
        if self.links.ports[port as usize].in_train & ENDS_TRAIN != 0 {
            self.note_freed_of_train(port, packet, freed, now);
        }
    }

    fn note_freed_of_train(&mut self, port: u32, packet: u32, freed: SimTime, now: SimTime) {
        let at = &self.links.ports[port as usize];
        let (id, back_at) = (at.train_in, freed + at.credit_return);
        let Some(source) = self.links.trains.sources.get_mut(id as usize) else { return };
        let Some(path) = source.path.as_deref_mut().filter(|path| path.target == port) else { return };
        let Some(first) = source.launches.front().map(|first| first.sums.packets) else { return };
        // A packet ahead of the train arrives without the train.
        let index_of = |number: u64| number.checked_sub(first).map(|index| index as usize);
        let is_it = |number: u64| {
            let launch = source.launches.get(index_of(number)?)?;
            (launch.packet == packet && launch.returned.is_none()).then_some(number)
        };
        let Some(number) = is_it(path.next_arrival - 1).or_else(|| is_it(path.next_arrival)) else { return };
        path.next_arrival = number + 1;
        let index = (number - first) as usize;
        // A packet without payload may leave the buffer before an earlier packet.
        let returned = path.returned.max(back_at + path.last.1);
        path.returned = returned;
        source.launches[index].returned = Some(returned);
        let before = source.launches[index].sums_before();
        let room = u64::from(path.last.0.saturating_sub(path.lost));
        let needs_it = source.launches.range(index..).find(|later| later.sums.blocks - before.blocks > room);
        if needs_it.is_some_and(|later| later.carried && returned > later.at + path.to_last) {
            self.dissolve(id, now);
        }
    }
}
