//! The calls that wait in the model. Wall pace refuses them, because no thread waits there.

use softband_ipc::calls::{Op, Paces};

const REFUSED_IN_WALL_PACE: [Op; 35] = [
    Op::Poll,
    Op::Sleep,
    Op::Wait,
    Op::Away,
    Op::ThreadNew,
    Op::ThreadExit,
    Op::Alarm,
    Op::SpinWait,
    Op::MapShared,
    Op::UnmapShared,
    Op::Pause,
    Op::WroteMemory,
    Op::KernelWritten,
    Op::Interrupt,
    Op::AwaitEnd,
    Op::SocketNew,
    Op::SocketBind,
    Op::SocketListen,
    Op::SocketAccept,
    Op::SocketConnect,
    Op::SocketError,
    Op::SocketSend,
    Op::SocketReceive,
    Op::SocketShutdown,
    Op::SocketNames,
    Op::TimerNew,
    Op::TimerSet,
    Op::TimerRead,
    Op::DatagramSend,
    Op::DatagramReceive,
    Op::SocketOption,
    Op::SocketSetting,
    Op::SocketLinger,
    Op::DiskTransfer,
    Op::ReadSocket,
];

#[test]
fn wall_pace_refuses_the_calls_that_wait_in_the_model() {
    let known = (0..=u32::from(u16::MAX)).filter_map(Op::from_number);
    let refused: Vec<Op> = known.filter(|op| op.paces() == Paces::Virtual).collect();
    assert_eq!(refused, REFUSED_IN_WALL_PACE);
}
