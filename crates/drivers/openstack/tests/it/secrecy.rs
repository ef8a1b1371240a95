//! What is secret is told to nobody.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use driver::{Call, Driver, Kept};
use driver_testing::openstack::Settings;
use driver_testing::proxy::{Fault, Instead, Rule};
use tracing_subscriber::fmt::MakeWriter;

use crate::memory::{Memory, known, own_spec, request, secret_with, with_secret};

/// Everything that is logged, as text.
#[derive(Clone, Default)]
struct Captured(Arc<Mutex<Vec<u8>>>);

impl io::Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Captured {
    type Writer = Self;
    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

const PASSWORD: &str = "canary-of-the-password";

#[tokio::test(start_paused = true)]
async fn no_password_token_or_user_data_is_in_any_log_line_error_or_metric() {
    let captured = Captured::default();
    let log = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(captured.clone()).finish();
    let _guard = tracing::subscriber::set_default(log);
    let memory = Memory::new(Settings { password: PASSWORD.into(), ..Settings::default() });
    let secret = secret_with(&[("password", PASSWORD), ("userData", "#!/bin/sh canary-of-the-user-data")]);
    let request = with_secret(&request(own_spec()), secret);
    let (driver, kept) = (memory.driver(), Arc::new(Kept::default()));
    let call = Call::default().metered(kept.clone());
    let made = driver.create(&call, &request).await.unwrap();
    let known = known(&request, made.provider_id.as_str());
    let mut told = vec![format!("{made:?} {request:?}")];
    told.push(format!("{:?}", driver.initialize(&call, &known).await));
    told.push(format!("{:?}", driver.status(&call, &known).await));
    told.push(format!("{:?}", driver.delete(&call, &known).await));
    // A bad day on which OpenStack repeats what it was sent.
    for status in [400, 403, 429, 500] {
        let echo = Instead::openstack(status, &format!("you said {PASSWORD} gAAAA-token-000001"));
        memory.rule(Rule::next(Fault::AnsweredBefore(echo), |asked| !asked.path.ends_with("/tokens")).times(3));
        let error = driver.create(&call, &request).await.unwrap_err();
        told.push(format!("{error} {error:?} {}", error.message()));
        memory.calm();
    }
    told.push(format!("{:?} {:?}", kept.take(), kept.take_pressure()));
    let logged = String::from_utf8_lossy(&captured.0.lock().unwrap_or_else(PoisonError::into_inner)).into_owned();
    for text in [logged, told.join("\n")] {
        for secret in ["canary", "gAAAA-token-000001"] {
            let line = text.lines().find(|line| line.contains(secret));
            assert!(line.is_none(), "{secret} is told: {line:?}");
        }
    }
}
