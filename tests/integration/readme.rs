//! The README, executed: each of its `console` blocks is run, and must print what it says there.
//!
//! In the README's outputs `…` stands for whatever differs from run to run. Its addresses become those
//! of the gateway under test, and `make run` starts one.

use std::fs;
use std::net::SocketAddr;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use crate::gateway::Gateway;

const ELLIPSIS: char = '…';
/// Printed between the outputs of two commands.
const NEXT: &str = "--- the next command ---\n";
/// An address that no other test listens on, so that a free port on it stays free.
const ALONE: &str = "127.0.0.2:0";

/// What the README does, in its order.
#[derive(Debug, PartialEq)]
enum Step {
    /// `make run`, with these arguments of `portcullis run`.
    Start(Vec<String>),
    /// Commands of one terminal, each with what it prints.
    Run(Vec<(String, String)>),
}

fn steps(readme: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut lines = readme.lines();
    while let Some(line) = lines.next() {
        let Some(language) = line.strip_prefix("```").filter(|language| !language.is_empty()) else {
            continue;
        };
        let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        match language {
            "console" => steps.push(Step::Run(session(&block))),
            "sh" => steps.extend(block.iter().filter_map(|line| started(line)).map(Step::Start)),
            _ => {}
        }
    }
    steps
}

fn started(line: &str) -> Option<Vec<String>> {
    let rest = line.strip_prefix("make run")?.split('#').next().unwrap_or_default().trim();
    let mut arguments = vec!["--with-sample-provider".to_owned()];
    if let Some(file) = rest.strip_prefix("CONFIG=") {
        arguments.extend(["--config".to_owned(), file.to_owned()]);
    }
    Some(arguments)
}

/// A command begins with `$ ` and goes on while its lines end in `\` or `|`; the rest is output.
fn session(block: &[&str]) -> Vec<(String, String)> {
    let mut commands: Vec<(String, String)> = Vec::new();
    let mut goes_on = false;
    for line in block {
        match (line.strip_prefix("$ "), commands.last_mut()) {
            (Some(command), _) => commands.push((command.to_owned() + "\n", String::new())),
            (None, Some((command, _))) if goes_on => *command += &format!("{line}\n"),
            (None, Some((_, output))) => {
                *output += &format!("{line}\n");
                continue;
            }
            (None, None) => panic!("output before a command: {line}"),
        }
        goes_on = line.ends_with(['\\', '|']);
    }
    commands
}

/// Runs commands in one shell and returns what each printed, errors included.
fn run(commands: &[(String, String)], gateway: &Gateway, demo: SocketAddr) -> Vec<String> {
    let named = |text: &str| {
        text.replace("127.0.0.1:8080", &gateway.proxy.to_string())
            .replace("127.0.0.1:9090", &gateway.admin.to_string())
            .replace("127.0.0.1:9000", &demo.to_string())
    };
    // What a person gives a second to happen has happened when the next command runs.
    let happened = match commands.iter().any(|(command, _)| command.contains("portcullis demo")) {
        true => format!("curl -s -o /dev/null http://{demo}/"),
        false => "grep -q 'rules reloaded' log".to_owned(),
    };
    let mut script = format!(
        "exec 2>&1 < /dev/null\ntrap 'kill $(jobs -p) 2> /dev/null' EXIT\n\
         sleep() {{ for i in {{1..600}}; do {happened} && return; command sleep 0.05; done; }}\n"
    );
    for (command, _) in commands {
        script += &format!("{}printf %s '{NEXT}'\n", named(command));
    }
    let shell = Command::new("bash").arg("-c").arg(script).current_dir(gateway.directory()).output();
    let printed = String::from_utf8(shell.expect("bash runs").stdout).expect("text");
    printed.split_terminator(NEXT).map(str::to_owned).collect()
}

/// Compares line by line; `…` stands for anything within its line.
fn fits(output: &str, wanted: &str) -> bool {
    let (output, wanted): (Vec<_>, Vec<_>) = (output.lines().collect(), wanted.lines().collect());
    output.len() == wanted.len() && output.iter().zip(wanted).all(|(line, wanted)| line_fits(line, wanted))
}

fn line_fits(line: &str, wanted: &str) -> bool {
    let Some((head, tail)) = wanted.split_once(ELLIPSIS) else { return line == wanted };
    let Some(rest) = line.strip_prefix(head) else { return false };
    (0..=rest.len()).filter(|at| rest.is_char_boundary(*at)).any(|at| line_fits(&rest[at..], tail))
}

#[test]
fn the_readme_does_what_it_says() {
    let readme = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md")).expect("a README");
    let demo = TcpListener::bind(ALONE).and_then(|listener| listener.local_addr()).expect("a free port");
    let mut gateway: Option<Gateway> = None;
    let (mut commands, mut differences) = (0, String::new());
    for step in steps(&readme) {
        let block = match (step, &mut gateway) {
            (Step::Start(arguments), Some(running)) => {
                running.restart_with(arguments);
                continue;
            }
            (Step::Start(arguments), None) => {
                gateway = Some(Gateway::launched(checkout(), arguments));
                continue;
            }
            (Step::Run(block), _) => block,
        };
        let printed = run(&block, gateway.as_ref().expect("`make run` comes first"), demo);
        assert_eq!(printed.len(), block.len(), "the shell ended early: {printed:?}");
        for ((command, wanted), output) in block.iter().zip(printed) {
            commands += 1;
            if !fits(&output, wanted) {
                differences += &format!("$ {command}{output}");
            }
        }
    }
    assert!(differences.is_empty(), "these print something else than the README says:\n{differences}");
    assert!(commands > 10, "the README was not understood: {commands} commands");
}

/// Returns a directory in which the program lies where a build puts it.
fn checkout() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let target = directory.path().join("target/release");
    fs::create_dir_all(&target).expect("the directory is writable");
    let program = Path::new(env!("CARGO_BIN_EXE_portcullis"));
    std::os::unix::fs::symlink(program, target.join("portcullis")).expect("links can be made");
    directory
}

#[test]
fn outputs_are_compared_with_their_ellipses() {
    assert!(fits("id 17 of x\nend\n", "id … of x\nend\n"));
    for other in ["id 17 of y\nend\n", "id 17 of x\n", "id 17 of x\nend\nmore\n"] {
        assert!(!fits(other, "id … of x\nend\n"), "{other}");
    }
}
