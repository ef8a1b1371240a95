//! A DNS server for one name, on a separate loopback address.
//!
//! Statically linked programs do not use the resolver of the system library. Their own one must support search domains
//! and `ndots`.

use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Context;

/// The full name; clients query shorter names and add the search domains.
const NAME: &str = "kubernetes.default.svc.cluster.local";

/// It answers until this program ends: a thread that waits for a packet cannot be stopped.
pub(super) struct Names {
    address: Ipv4Addr,
    answered: Arc<AtomicUsize>,
}

impl Names {
    /// Starts it on a free loopback address at port 53.
    pub(super) fn serve() -> anyhow::Result<Self> {
        let addresses = (1..=200).map(|last| Ipv4Addr::new(127, 53, 0, last));
        let bound = addresses.into_iter().find_map(|at| UdpSocket::bind((at, 53)).ok().map(|socket| (at, socket)));
        let (address, socket) = bound.context("failed to open port 53 on loopback. Run as root")?;
        let answered = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&answered);
        std::thread::spawn(move || {
            let mut question = [0; 512];
            while let Ok((length, who)) = socket.recv_from(&mut question) {
                let Some((answer, known)) = question.get(..length).and_then(answer) else { continue };
                if known {
                    count.fetch_add(1, Ordering::Relaxed);
                }
                let _ = socket.send_to(&answer, who);
            }
        });
        Ok(Self { address, answered })
    }

    /// Returns the /etc/resolv.conf that a kubelet writes.
    pub(super) fn resolver(&self, namespace: &str) -> String {
        format!(
            "search {namespace}.svc.cluster.local svc.cluster.local cluster.local\nnameserver {}\noptions ndots:5\n",
            self.address
        )
    }

    /// Returns the number of successful queries.
    pub(super) fn answered(&self) -> usize {
        self.answered.load(Ordering::Relaxed)
    }
}

/// Returns the response to a query, and whether the name and type are known. The response contains the address of the
/// one known name, or NXDOMAIN.
fn answer(question: &[u8]) -> Option<(Vec<u8>, bool)> {
    let (mut labels, mut at) = (Vec::new(), 12);
    loop {
        let length = usize::from(*question.get(at)?);
        at += 1;
        if length == 0 {
            break;
        }
        labels.push(String::from_utf8_lossy(question.get(at..at + length)?).to_lowercase());
        at += length;
    }
    let kind = question.get(at..at + 2)?;
    let (named, is_address) = (labels.join(".") == NAME, kind == [0, 1]);
    let known = named && is_address;
    let code = if named { 0 } else { 3 }; // no such name
    let mut answer = question.get(..2)?.to_vec();
    answer.extend([0x81, 0x80 | code, 0, 1, 0, u8::from(known), 0, 0, 0, 0]);
    answer.extend(question.get(12..at + 4)?);
    if known {
        // Pointer to the name in the question, type A, class IN, TTL of five seconds, four bytes.
        answer.extend([0xc0, 0x0c, 0, 1, 0, 1, 0, 0, 0, 5, 0, 4, 127, 0, 0, 1]);
    }
    Some((answer, known))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(name: &str, kind: u8) -> Vec<u8> {
        let mut question = vec![7, 9, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in name.split('.') {
            question.push(u8::try_from(label.len()).unwrap());
            question.extend(label.as_bytes());
        }
        question.extend([0, 0, kind, 0, 1]);
        question
    }

    /// Shows DEP-6.
    #[test]
    fn the_server_resolves_one_name_and_no_other() {
        let (told, known) = answer(&question(NAME, 1)).unwrap();
        assert!(known && told.ends_with(&[127, 0, 0, 1]) && told.starts_with(&[7, 9, 0x81, 0x80]));
        let (told, known) = answer(&question(NAME, 28)).unwrap();
        assert!(!known && told[3] == 0x80, "the name has no IPv6 address");
        let (told, known) = answer(&question("kubernetes.default.svc", 1)).unwrap();
        assert!(!known && told[3] == 0x83);
        assert_eq!(answer(&[1, 2, 3]), None);
    }
}
