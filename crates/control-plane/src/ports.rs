//! Ports that stay ours.
//!
//! The usual way to a free port, to bind port zero and let go of it, loses the port to whoever asks next; with a dozen control
//! planes starting side by side that happens. All our programs can share a port on request (`SO_REUSEPORT`), so we
//! bind it and keep it, without ever listening: nobody else is given it, the program listens on it, and a program that is
//! started again finds its old port free.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use tokio::net::TcpSocket;

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

    #[tokio::test]
    async fn no_port_is_given_out_twice() {
        let ports: Vec<Port> = (0..200).map(|_| Port::reserve().unwrap()).collect();
        assert_eq!(ports.iter().map(Port::number).collect::<BTreeSet<_>>().len(), 200);
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
