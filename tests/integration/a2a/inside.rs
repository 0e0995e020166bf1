//! A gateway inside the process of the test, which gives it the time.

use std::sync::Arc;
use std::time::Duration;

use portcullis::app;
use portcullis::app::Wanted;
use portcullis::clock::Clock;
use portcullis::config::Sources;
use portcullis::config::env::Environment;

use super::*;

/// Starts a gateway on the files of a directory, which becomes the process's own; returns where its planes are. It
/// runs for as long as the process does.
pub fn start(directory: &Path, clock: Arc<dyn Clock>) -> (SocketAddr, SocketAddr) {
    std::env::set_current_dir(directory).expect("it is there");
    let listen = ["PORTCULLIS__PROXY__LISTEN", "PORTCULLIS__ADMIN__LISTEN"];
    let environment = Environment::of(listen.map(|name| (name.to_owned(), "127.0.0.1:0".to_owned())));
    let ready = directory.join("ready.json");
    let wanted = Wanted {
        sources: Sources { file: Some("gateway.toml".into()), environment, ..Sources::default() },
        ready_file: Some(ready.clone()),
        ..Wanted::default()
    };
    let (tell, result) = std::sync::mpsc::channel();
    std::thread::spawn(move || tell.send(app::run_by(wanted, clock).map_err(|error| error.to_string())));
    loop {
        let written: Option<Value> =
            fs::read(&ready).ok().and_then(|text| serde_json::from_slice(&text).ok());
        let address = |plane: &str| written.as_ref()?[plane].as_str()?.parse().ok();
        if let (Some(proxy), Some(admin)) = (address("proxy"), address("admin")) {
            return (proxy, admin);
        }
        if let Ok(ended) = result.recv_timeout(Duration::from_millis(5)) {
            panic!("the gateway did not start: {ended:?}");
        }
    }
}
