use std::io::BufRead;
use std::io::BufReader;
use std::io::Read;
use std::io::Write;
use std::net::SocketAddr;
use std::net::TcpListener;
use std::net::TcpStream;
use std::sync::mpsc;
use std::thread;

use serde_json::Value;

use super::*;
use crate::clock::SystemClock;
use crate::document::secret::SecretPlace;
use crate::govern::audit::AuditEvent;
use crate::govern::audit::Hash;
use crate::govern::siem::config::Peer;
use crate::id::Ulid;

/// What the largest message of these tests is not.
const INFO: &str = "INFO {\"server_id\":\"x\",\"max_payload\":20000,\"connect_urls\":[\"10.0.0.1:1\"]}\r\n";

/// The server's end of a connection.
struct Talk {
    stream: TcpStream,
    reader: BufReader<TcpStream>,
}

/// A message that a server heard.
struct Heard {
    reply: String,
    head: String,
}

impl Talk {
    /// Says something; the other side may be gone.
    fn say(&mut self, text: impl AsRef<[u8]>) {
        let _ = self.stream.write_all(text.as_ref());
    }

    /// Hears a line, nothing at the end.
    fn line(&mut self) -> String {
        let mut line = String::new();
        let _ = self.reader.read_line(&mut line);
        line
    }

    /// Lets whoever comes in, and returns what it says of itself.
    fn welcome(&mut self) -> Value {
        self.say(INFO);
        let hello = self.line();
        assert_eq!(self.line(), "PING\r\n");
        self.say("PONG\r\n");
        assert!(self.line().starts_with("SUB _INBOX."));
        serde_json::from_str(hello.strip_prefix("CONNECT ").unwrap()).unwrap()
    }

    /// Hears a message; `None` at the end.
    fn message(&mut self) -> Option<Heard> {
        let line = self.line();
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let ["HPUB", "audit.log", reply, head, all] = words[..] else { return None };
        let mut body = vec![0; all.parse::<usize>().unwrap() + 2];
        self.reader.read_exact(&mut body).ok()?;
        let head = String::from_utf8(body[..head.parse::<usize>().unwrap()].to_vec()).unwrap();
        Some(Heard { reply: reply.to_owned(), head })
    }

    fn acknowledge(&mut self, heard: &Heard) {
        let said = "{\"stream\":\"AUDIT\",\"seq\":7}";
        self.say(format!("MSG {} 1  {}\r\n{said}\r\n", heard.reply, said.len()));
    }

    /// Acknowledges whatever comes until the other side goes.
    fn acknowledge_all(&mut self) {
        while let Some(heard) = self.message() {
            self.acknowledge(&heard);
        }
    }
}

/// Starts a server; `script` gets each connection, and its number from 0.
fn server(script: impl Fn(usize, &mut Talk) + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for (number, stream) in listener.incoming().map_while(Result::ok).enumerate() {
            let reader = BufReader::new(stream.try_clone().unwrap());
            script(number, &mut Talk { stream, reader });
        }
    });
    address
}

fn target(to: SocketAddr) -> NatsTarget {
    let (host, port) = (to.ip().to_string(), to.port());
    let peer = Peer { host, port, tls: false, ca: None, allow_private: true };
    let secret = Some(SecretPlace::Environment("X".to_owned()));
    NatsTarget { peer, subject: "audit.log".to_owned(), stream: None, user: None, secret }
}

fn sink_to(target: NatsTarget, timeout_ms: u64) -> Nats {
    let teller = Teller { version: "0".into(), node: "node".into() };
    let tls = target.peer.tls.then(|| TlsClient::new(None).unwrap());
    let access =
        Access { tls, read_secret: Arc::new(|_| Some("word\n".to_owned())), clock: Arc::new(SystemClock) };
    Nats::new(target, timeout_ms, teller, access)
}

fn sink(to: SocketAddr) -> Nats {
    sink_to(target(to), 10_000)
}

fn entry(id: u128, message: &str) -> Entry {
    let event = AuditEvent { message: message.to_owned(), ..AuditEvent::default() };
    Entry {
        node: None,
        id: Ulid(id),
        recorded_unix_ms: None,
        event,
        hash: Hash::default(),
        previous_hash: Hash::default(),
    }
}

async fn deliver(sink: &mut Nats, entries: &[Entry]) -> Result<Delivery, Trouble> {
    sink.deliver(&entries.iter().collect::<Vec<_>>()).await
}

fn four() -> Vec<Entry> {
    (1..=4).map(|id| entry(id, "a word")).collect()
}

#[tokio::test]
async fn one_message_goes_first_and_the_others_are_answered_in_any_order() {
    let to = server(|_, talk| {
        talk.welcome();
        let first = talk.message().unwrap();
        assert!(talk.reader.buffer().is_empty(), "it goes alone");
        assert!(
            first.head.contains("\r\nNats-Msg-Id: 00000000000000000000000001@audit.log\r\n"),
            "{}",
            first.head
        );
        talk.say("MSG _INBOX.somebody.1 1 2\r\n{}\r\n+OK\r\nPING\r\n");
        assert_eq!(talk.line(), "PONG\r\n");
        talk.acknowledge(&first);
        let rest: Vec<Heard> = (0..3).map(|_| talk.message().unwrap()).collect();
        rest.iter().rev().for_each(|heard| talk.acknowledge(heard));
        talk.acknowledge_all();
    });
    let mut sink = sink(to);
    assert_eq!(deliver(&mut sink, &four()).await, Ok(Delivery::Taken));
    assert_eq!(deliver(&mut sink, &four()).await, Ok(Delivery::Taken), "over the same connection");
}

#[tokio::test]
async fn what_was_not_answered_when_the_connection_broke_is_sent_again() {
    let to = server(|number, talk| {
        talk.welcome();
        let first = talk.message().unwrap();
        talk.acknowledge(&first);
        if number == 0 {
            let rest: Vec<Heard> = (0..3).map(|_| talk.message().unwrap()).collect();
            return talk.acknowledge(&rest[1]);
        }
        talk.acknowledge_all();
    });
    let mut sink = sink(to);
    let partly = Delivery::Partly { refused: vec![], again: vec![1, 3], because: Trouble::Broken };
    assert_eq!(deliver(&mut sink, &four()).await, Ok(partly));
    assert_eq!(deliver(&mut sink, &four()).await, Ok(Delivery::Taken));
}

#[tokio::test]
async fn what_makes_no_sense_ends_the_connection_and_nothing_else() {
    let long = "x".repeat(200_000);
    for (said, expected) in [
        (long.as_str(), Trouble::Nonsense),
        ("<html>welcome</html>\r\n", Trouble::Nonsense),
        ("HTTP/1.1 400 Bad Request\r\n", Trouble::Nonsense),
        ("\u{fffd}\r\n\r\n", Trouble::Nonsense),
        ("INFO {\r\n", Trouble::Nonsense),
        ("INFO\r\n", Trouble::Nonsense),
        ("MSG\r\n", Trouble::Nonsense),
        ("MSG x 1 -1\r\n", Trouble::Nonsense),
        ("MSG x 1 18446744073709551615\r\n", Trouble::Nonsense),
        ("MSG x 1 99999999999999999999999\r\n", Trouble::Nonsense),
        ("MSG x 1 70000\r\n", Trouble::Nonsense),
        ("HMSG x 1 9 2\r\n{}\r\n", Trouble::Nonsense),
        ("MSG REPLY 1 2\r\n{}\r\n", Trouble::Nonsense),
        ("MSG REPLY 1 4\r\nfour\r\n", Trouble::Nonsense),
        ("MSG REPLY 1 22\r\n{\"stream\":\"A\",\"seq\":0}\r\n", Trouble::Nonsense),
        ("HMSG REPLY 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\n", Trouble::NoStream),
        ("MSG REPLY 1 28\r\n{\"error\":{\"err_code\":10077}}\r\n", Trouble::Stream(10077)),
        ("MSG REPLY 1 28\r\n{\"error\":{\"err_code\":10060}}\r\n", Trouble::OtherStream),
        ("-ERR\r\n", Trouble::Broken),
        ("-ERR 'Stale Connection'\r\n", Trouble::Broken),
        ("-ERR 'Authorization Violation'\r\n", Trouble::Denied),
        ("-ERR 'Permissions Violation for Publish to \"audit.log\"'\r\n", Trouble::Denied),
        ("MSG REPLY 1 50\r\n{\"str", Trouble::Broken),
    ] {
        let said = said.to_owned();
        let short = said.chars().take(40).collect::<String>();
        let to = server(move |_, talk| {
            talk.welcome();
            let first = talk.message().unwrap();
            talk.say(said.replace("REPLY", &first.reply));
        });
        assert_eq!(deliver(&mut sink(to), &four()).await, Err(expected), "{short}");
    }
}

#[tokio::test]
async fn who_says_nothing_or_leaves_at_once_is_no_server() {
    for said in ["", "+OK\r\n", "SSH-2.0-x\r\n"] {
        let to = server(move |_, talk| talk.say(said));
        let told = deliver(&mut sink(to), &four()).await;
        assert!(matches!(told, Err(Trouble::Broken | Trouble::Nonsense)), "{said}: {told:?}");
    }
    let to = server(|_, talk| {
        talk.welcome();
        talk.message();
        // It hears what it is sent, and answers nothing.
        while !talk.line().is_empty() {}
    });
    assert_eq!(deliver(&mut sink_to(target(to), 50), &four()).await, Err(Trouble::Slow));
}

#[tokio::test]
async fn secrets_are_sent_as_they_are_meant_and_never_in_the_clear_to_who_wants_tls() {
    let (tell, told) = mpsc::channel();
    let to = server(move |_, talk| {
        tell.send(talk.welcome()).unwrap();
        talk.acknowledge_all();
    });
    assert_eq!(deliver(&mut sink(to), &four()).await, Ok(Delivery::Taken));
    let hello = told.recv().unwrap();
    assert_eq!((&hello["auth_token"], &hello["user"]), (&Value::from("word"), &Value::Null));
    let with_user = NatsTarget { user: Some("gate".to_owned()), ..target(to) };
    assert_eq!(deliver(&mut sink_to(with_user, 10_000), &four()).await, Ok(Delivery::Taken));
    let hello = told.recv().unwrap();
    assert_eq!((&hello["user"], &hello["pass"]), (&Value::from("gate"), &Value::from("word")));
    assert!(hello["auth_token"].is_null());

    let (tell, told) = mpsc::channel();
    let to = server(move |_, talk| {
        talk.say("INFO {\"tls_required\":true}\r\n");
        tell.send(talk.line()).unwrap();
    });
    assert_eq!(deliver(&mut sink(to), &four()).await, Err(Trouble::Unsecured));
    assert_eq!(told.recv().unwrap(), "");
}

/// What somebody on the way puts behind the first line must not be read as if it had come over TLS.
#[tokio::test]
async fn nothing_that_was_said_before_tls_counts_after_it() {
    let (tell, told) = mpsc::channel();
    let to = server(move |_, talk| {
        talk.say("INFO {\"tls_required\":true}\r\nPONG\r\n");
        tell.send(talk.line()).unwrap();
    });
    let mut secured = target(to);
    secured.peer.tls = true;
    assert_eq!(deliver(&mut sink_to(secured, 10_000), &four()).await, Err(Trouble::Nonsense));
    assert_eq!(told.recv().unwrap(), "", "it does not even begin");
}

#[tokio::test]
async fn a_server_that_asks_is_answered_while_there_is_nothing_to_send() {
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let to = server(move |number, talk| {
        talk.welcome();
        let first = talk.message().unwrap();
        talk.acknowledge(&first);
        if number == 0 {
            talk.say("PING\r\nPING\r\n");
            tell.send([talk.line(), talk.line()]).unwrap();
            return;
        }
        talk.acknowledge_all();
    });
    let mut sink = sink(to);
    assert_eq!(deliver(&mut sink, &four()[..1]).await, Ok(Delivery::Taken));
    tokio::select! {
        never = sink.idle() => match never {},
        told = told.recv() => assert_eq!(told.unwrap(), ["PONG\r\n", "PONG\r\n"]),
    }
    // The server goes: that is no trouble of the next batch.
    let gone = async {
        while sink.open.is_some() {
            let _ = timeout(Duration::from_millis(1), sink.idle()).await;
        }
    };
    timeout(Duration::from_secs(30), gone).await.expect("it hears of it");
    assert_eq!(deliver(&mut sink, &four()).await, Ok(Delivery::Taken));
}

/// By its own word on the connection, not by what it told of itself at first.
#[tokio::test]
async fn only_the_server_says_that_a_message_is_too_large() {
    for refuses in [true, false] {
        let to = server(move |_, talk| {
            talk.welcome();
            loop {
                let line = talk.line();
                let mut words = line.split_ascii_whitespace();
                let Some(reply) = words.nth(2).map(str::to_owned) else { return };
                let bytes: usize = words.nth(1).unwrap().parse().unwrap();
                if bytes > 20_000 && refuses {
                    return talk.say("-ERR 'Maximum Payload Violation'\r\n");
                }
                talk.reader.read_exact(&mut vec![0; bytes + 2]).unwrap();
                talk.acknowledge(&Heard { reply, head: String::new() });
            }
        });
        let mut entries = four();
        entries[1] = entry(2, &"x".repeat(20_000));
        // Half of the time is waited for a refusal, at most.
        let (timeout_ms, expected) = match refuses {
            true => (60_000, Delivery::Partly { refused: vec![1], again: vec![], because: Trouble::Broken }),
            false => (3_000, Delivery::Taken),
        };
        assert_eq!(deliver(&mut sink_to(target(to), timeout_ms), &entries).await, Ok(expected));
    }
}
