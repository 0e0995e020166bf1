//! What packages install beside the program: completions of shells, and the manual page. Both come from the arguments.

use std::io;
use std::io::Write;
use std::process::ExitCode;

use clap::Command;
use clap::CommandFactory;
use clap_complete::Shell;
use clap_mangen::Man;

use super::Arguments;

const NAME: &str = "portcullis";

/// Prints the completions of a shell.
pub fn completions(shell: Shell) -> ExitCode {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), NAME, &mut text);
    printed(&text)
}

/// Prints the manual page: the program's, and each of its commands'.
pub fn page() -> ExitCode {
    let mut text = Vec::new();
    match write(&Arguments::command(), &mut text) {
        Ok(()) => printed(&text),
        // Memory takes every byte.
        Err(_) => ExitCode::FAILURE,
    }
}

fn write(program: &Command, text: &mut Vec<u8>) -> io::Result<()> {
    Man::new(program.clone()).render(text)?;
    write_under(program, NAME, text)
}

/// Writes the commands under one, each with those under it.
fn write_under(command: &Command, called: &str, text: &mut Vec<u8>) -> io::Result<()> {
    for under in command.get_subcommands().filter(|under| !under.is_hide_set() && under.get_name() != "help")
    {
        let name = format!("{called} {}", under.get_name());
        writeln!(text, ".SH \"{}\"", name.to_uppercase())?;
        let page = Man::new(under.clone().bin_name(&name).disable_help_flag(true).disable_version_flag(true));
        page.render_synopsis_section(&mut *text)?;
        page.render_description_section(&mut *text)?;
        page.render_options_section(&mut *text)?;
        write_under(under, &name, text)?;
    }
    Ok(())
}

fn printed(text: &[u8]) -> ExitCode {
    // A reader that went away has seen enough.
    let _ = io::stdout().lock().write_all(text);
    ExitCode::SUCCESS
}
