//! Ports that stay ours.
//!
//! The usual way to a free port, to bind port zero and let go of it, loses the port to whoever asks next; with a dozen control
//! planes starting side by side that happens. All our programs can share a port on request (`SO_REUSEPORT`), so we
//! bind it and keep it, without ever listening: nobody else is given it, the program listens on it, and a program that is
//! started again finds its old port free.
//!
//! A program that does not share ports gets one from [`exclusive`] instead.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::Mutex;

use tokio::net::TcpSocket;

/// Below those that Linux gives to whoever connects or binds port zero (32768 and up): no connection takes one of them in between.
const EXCLUSIVE: std::ops::Range<u16> = 20_000..32_000;

/// What [`exclusive`] has given out, held until this process ends.
static RESERVED: Mutex<Vec<UdpSocket>> = Mutex::new(Vec::new());

/// A port of the loopback address for a program that binds it itself and alone. No other caller is given it while this process lives.
///
/// Callers in other processes see that it is taken by its UDP port, which is held: the program needs only the TCP port, and the kernel frees the other with us.
pub fn exclusive() -> io::Result<u16> {
    let mut reserved = RESERVED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    // Each process begins elsewhere, so that none has to step over all the ports of another.
    let (first, count) = (std::process::id().wrapping_mul(127), u32::from(EXCLUSIVE.end - EXCLUSIVE.start));
    for step in 0..count {
        let offset = u16::try_from(first.wrapping_add(step) % count).unwrap_or_default();
        let number = EXCLUSIVE.start + offset;
        let Ok(reservation) = UdpSocket::bind((Ipv4Addr::LOCALHOST, number)) else { continue };
        // Somebody who knows nothing of reservations may listen there.
        if TcpListener::bind((Ipv4Addr::LOCALHOST, number)).is_ok() {
            reserved.push(reservation);
            return Ok(number);
        }
    }
    Err(io::Error::new(io::ErrorKind::AddrInUse, "all ports from 20000 to 31999 are taken"))
}

/// A port of the loopback address that is ours while this value lives.
#[derive(Debug)]
pub struct Port {
    number: u16,
    _held: TcpSocket,
}

impl Port {
    /// A port that nobody uses.
    pub fn reserve() -> io::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        // Not SO_REUSEADDR: with it, any listener that sets it too (most do) could take the port while nobody listens there.
        socket.set_reuseport(true)?;
        socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        let number = socket.local_addr()?.port();
        Ok(Self { number, _held: socket })
    }

    /// Its number.
    pub fn number(&self) -> u16 {
        self.number
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Shows PLN-4.
    #[tokio::test]
    async fn no_port_is_given_out_twice() {
        let ports: Vec<Port> = (0..200).map(|_| Port::reserve().unwrap()).collect();
        assert_eq!(ports.iter().map(Port::number).collect::<BTreeSet<_>>().len(), 200);
    }

    #[test]
    fn an_exclusive_port_is_given_out_once_and_is_none_that_a_connection_could_take() {
        let ports: BTreeSet<u16> = (0..200).map(|_| exclusive().unwrap()).collect();
        assert_eq!(ports.len(), 200);
        assert!(ports.iter().all(|port| EXCLUSIVE.contains(port)));
        // Free for the program that it is meant for, and taken in the eyes of every other process that asks.
        let port = *ports.first().unwrap();
        TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        assert_eq!(UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).unwrap_err().kind(), io::ErrorKind::AddrInUse);
    }

    #[test]
    fn a_port_on_which_somebody_listens_is_not_given_out() {
        // Those who come next in this process would be given the ports that follow its last one.
        let next = exclusive().unwrap() + 1;
        let Ok(_held) = TcpListener::bind((Ipv4Addr::LOCALHOST, next)) else { return };
        let given: Vec<u16> = (0..5).map(|_| exclusive().unwrap()).collect();
        assert!(!given.contains(&next), "{given:?}");
    }

    #[tokio::test]
    async fn only_a_program_that_shares_ports_can_listen_on_a_reserved_one() {
        let port = Port::reserve().unwrap();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port.number()));
        assert!(std::net::TcpListener::bind(address).is_err(), "a stranger");
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_reuseport(true).unwrap();
        socket.bind(address).unwrap();
        let listener = socket.listen(8).unwrap();
        let (dialled, accepted) = tokio::join!(tokio::net::TcpStream::connect(address), listener.accept());
        assert!(dialled.is_ok() && accepted.is_ok());
    }
}
