//! A real syslog-ng beside rsyslog: what one of them lets pass, the other may not.

use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::process::Stdio;

use super::gateway;
use super::recorded;
use super::send;
use super::status;
use super::syslog::Daemon;
use super::syslog::free_port;
use super::syslog::heard;
use super::syslog::self_signed;
use super::syslog::wait_for_port;

/// Where `tests/setup/syslog-ng.sh` unpacks it, since Debian does not install it beside rsyslog.
const UNPACKED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/target/syslog-ng");

/// Returns the command that runs syslog-ng, wherever it is.
fn program() -> Option<Command> {
    let root = PathBuf::from(UNPACKED);
    let unpacked = root.join("usr/sbin/syslog-ng");
    if !unpacked.exists() {
        let installed = Command::new("syslog-ng").arg("--version").stdout(Stdio::null()).status().is_ok();
        return installed.then(|| Command::new("syslog-ng"));
    }
    let triple = format!("{}-linux-gnu", std::env::consts::ARCH);
    let libraries = ["usr/lib/syslog-ng".to_owned(), format!("usr/lib/{triple}"), format!("lib/{triple}")];
    let libraries = libraries.map(|folder| root.join(folder).display().to_string()).join(":");
    let modules = fs::read_dir(root.join("usr/lib/syslog-ng")).expect("it was unpacked");
    let modules = modules.filter_map(Result::ok).find(|entry| entry.path().is_dir()).expect("its modules");
    let mut command = Command::new(unpacked);
    command.env("LD_LIBRARY_PATH", libraries);
    command.arg(format!("--module-path={}", modules.path().display()));
    Some(command)
}

fn syslog_ng(directory: &Path, source: &str) -> Option<Daemon> {
    let Some(mut command) = program() else {
        #[allow(clippy::print_stderr)]
        {
            eprintln!("SKIPPED: there is no syslog-ng (tests/setup/syslog-ng.sh, which `make test` runs)");
        }
        return None;
    };
    let place = directory.display();
    let config = format!(
        "@version: 3.35\noptions {{ stats-freq(0); }};\nsource heard {{ {source} }};\n\
         destination file {{ file(\"{place}/heard.log\" template(\"${{RAWMSG}}\\n\")); }};\n\
         log {{ source(heard); destination(file); }};\n"
    );
    let file = directory.join("syslog-ng.conf");
    fs::write(&file, config).expect("the directory is writable");
    command.args(["-F", "--no-caps", "-f"]).arg(&file);
    for (option, name) in [("-R", "persist"), ("-p", "pid"), ("-c", "control")] {
        command.arg(option).arg(directory.join(name));
    }
    command.stdout(Stdio::null()).stderr(Stdio::null());
    Some(Daemon(command.spawn().expect("syslog-ng starts")))
}

#[test]
fn syslog_ng_takes_messages_over_tcp_in_both_framings() {
    for (framing, source) in [
        (
            "octet_counting",
            "syslog(ip(\"127.0.0.1\") port(PORT) transport(\"tcp\") flags(store-raw-message));",
        ),
        ("lines", "network(ip(\"127.0.0.1\") port(PORT) flags(syslog-protocol, store-raw-message));"),
    ] {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let port = free_port();
        let source = source.replace("PORT", &port.to_string());
        let Some(_daemon) = syslog_ng(directory.path(), &source) else { return };
        wait_for_port(port);
        let gateway = gateway(&format!(
            "platform = \"syslog\"\nurl = \"tcp://127.0.0.1:{port}\"\nframing = \"{framing}\"\n\
             allow_private = true\nevent_types = [\"exchange\"]\n"
        ));
        send(&gateway, 12);
        let lines = heard(directory.path(), &recorded(&gateway, 12));
        assert_eq!(lines.len(), 12, "{framing}: {lines:?}");
        assert!(lines.iter().all(|line| line.starts_with("<110>1 2")), "{framing}: {lines:?}");
        status(&gateway, |told| told["events_forwarded"] == 12 && told["status"] == "connected");
    }
}

#[test]
fn syslog_ng_takes_messages_over_tls_and_none_is_lost_while_it_is_away() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (cert_file, key_file) = self_signed(directory.path());
    let port = free_port();
    let source = format!(
        "syslog(ip(\"127.0.0.1\") port({port}) transport(\"tls\") flags(store-raw-message)\n\
         tls(cert-file(\"{}\") key-file(\"{}\") peer-verify(optional-untrusted)));",
        cert_file.display(),
        key_file.display()
    );
    let gateway = gateway(&format!(
        "platform = \"syslog\"\nurl = \"tls://127.0.0.1:{port}\"\nallow_private = true\n\
         event_types = [\"exchange\"]\nca_file = \"{}\"\n",
        cert_file.display()
    ));
    send(&gateway, 12);
    status(&gateway, |told| told["errors"].as_u64() > Some(0) && told["status"] == "retrying");
    let Some(first) = syslog_ng(directory.path(), &source) else { return };
    heard(directory.path(), &recorded(&gateway, 12));
    drop(first);
    send(&gateway, 12);
    status(&gateway, |told| told["status"] == "retrying");
    let Some(_second) = syslog_ng(directory.path(), &source) else { return };
    heard(directory.path(), &recorded(&gateway, 24));
}
