//! Reserved ports.
//!
//! A port that is bound as port zero and released can be assigned to another program before it is used, which happens
//! with many control planes that start in parallel. All programs here can share a port on request (`SO_REUSEPORT`), so
//! this process binds it without listening. No other program is assigned the port, and a restarted program finds it
//! free.
//!
//! A program that does not share ports uses [`exclusive`].

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::Mutex;

use tokio::net::TcpSocket;

/// Below the range that Linux assigns to connections and port zero (32768 and up).
const EXCLUSIVE: std::ops::Range<u16> = 20_000..32_000;

/// Ports of [`exclusive`], held until this process ends.
static RESERVED: Mutex<Vec<UdpSocket>> = Mutex::new(Vec::new());

/// Returns a port on loopback for a program that binds it exclusively. No other caller gets it while this process runs.
///
/// Callers in other processes detect the reservation by the UDP port with the same number, which this process holds.
/// The program uses only the TCP port, and the kernel releases the UDP port with this process.
pub fn exclusive() -> io::Result<u16> {
    let mut reserved = RESERVED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    // Each process starts at another port, so that it does not have to skip all ports of another process.
    let (first, count) = (std::process::id().wrapping_mul(127), u32::from(EXCLUSIVE.end - EXCLUSIVE.start));
    for step in 0..count {
        let offset = u16::try_from(first.wrapping_add(step) % count).unwrap_or_default();
        let number = EXCLUSIVE.start + offset;
        let Ok(reservation) = UdpSocket::bind((Ipv4Addr::LOCALHOST, number)) else { continue };
        // A program without a reservation may listen on the port.
        if TcpListener::bind((Ipv4Addr::LOCALHOST, number)).is_ok() {
            reserved.push(reservation);
            return Ok(number);
        }
    }
    Err(io::Error::new(io::ErrorKind::AddrInUse, "all ports from 20000 to 31999 are in use"))
}

/// A port on loopback that is reserved while this value lives.
#[derive(Debug)]
pub struct Port {
    number: u16,
    _held: TcpSocket,
}

impl Port {
    /// Reserves an unused port.
    pub fn reserve() -> io::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        // Not SO_REUSEADDR: with it, any other listener with this option could take the port while no program listens.
        socket.set_reuseport(true)?;
        socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        let number = socket.local_addr()?.port();
        Ok(Self { number, _held: socket })
    }

    /// Returns its number.
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
    async fn reserved_ports_are_unique() {
        let ports: Vec<Port> = (0..200).map(|_| Port::reserve().unwrap()).collect();
        assert_eq!(ports.iter().map(Port::number).collect::<BTreeSet<_>>().len(), 200);
    }

    #[test]
    fn exclusive_ports_are_unique_and_below_the_ephemeral_range() {
        let ports: BTreeSet<u16> = (0..200).map(|_| exclusive().unwrap()).collect();
        assert_eq!(ports.len(), 200);
        assert!(ports.iter().all(|port| EXCLUSIVE.contains(port)));
        // Free for the program, and reserved for every other process that calls `exclusive`.
        let port = *ports.first().unwrap();
        TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        assert_eq!(UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).unwrap_err().kind(), io::ErrorKind::AddrInUse);
    }

    #[test]
    fn a_port_with_a_listener_is_skipped() {
        // The next callers in this process would get the ports after its last one.
        let next = exclusive().unwrap() + 1;
        let Ok(_held) = TcpListener::bind((Ipv4Addr::LOCALHOST, next)) else { return };
        let given: Vec<u16> = (0..5).map(|_| exclusive().unwrap()).collect();
        assert!(!given.contains(&next), "{given:?}");
    }

    #[tokio::test]
    async fn only_a_listener_with_reuseport_can_use_a_reserved_port() {
        let port = Port::reserve().unwrap();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port.number()));
        assert!(std::net::TcpListener::bind(address).is_err(), "a listener without SO_REUSEPORT");
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_reuseport(true).unwrap();
        socket.bind(address).unwrap();
        let listener = socket.listen(8).unwrap();
        let (dialled, accepted) = tokio::join!(tokio::net::TcpStream::connect(address), listener.accept());
        assert!(dialled.is_ok() && accepted.is_ok());
    }
}
